//! What is done with finished pictures and clips: networks that make frames between frames.
//!
//! A network takes and gives pixels, `(1, 3, H, W)` from 0 to 1, in whatever numbers it computes with.

mod cuts;
pub mod rife;

pub use cuts::{is_cut, likeness};
pub use rife::{Ifnet, SeenFrame};
