//! What is done with finished pictures and clips: networks that enlarge them, and that make frames between frames.
//!
//! `run` is the stage: it reads frames and sends frames. A network takes and gives pixels, `(1, 3, H, W)` from 0 to 1, in whatever numbers it computes with.

mod conv;
mod cuts;
mod enlarge;
mod interpolate;
pub mod rife;
mod run;
mod tiles;
pub mod upscaler;

pub use cuts::{is_cut, likeness};
pub use rife::{Ifnet, SeenFrame};
pub use run::{FinishContext, run};
pub use tiles::{Canvas, TakePiece, upscale};

#[cfg(test)]
mod tests;
