//! Finishing: what is made of a picture or clip that is there already.
//!
//! Which frames a clip of another rate is made of.

mod retiming;

pub use retiming::{FramePlace, MAX_FPS, Retiming, TIMES};
