//! Pictures and clips, in and out.
mod pixels;
pub use pixels::Picture;
