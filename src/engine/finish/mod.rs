//! Post-processing of finished images and videos: upscaling and frame interpolation.
//!
//! `run` is the stage: it reads frames and sends frames. A network takes and gives pixels, `(1, 3, H, W)` from 0 to 1,
//! in its compute dtype.

mod conv;
mod cuts;
pub mod depth;
mod enlarge;
mod interpolate;
pub mod rife;
mod run;
mod tiles;
pub mod upscaler;

pub use cuts::{is_cut, likeness};
pub use rife::{IfnetNetwork, SeenFrame};
pub use run::{FinishContext, run};
pub use tiles::{TakePiece, UpscaleCanvas, upscale};

#[cfg(test)]
mod tests;
