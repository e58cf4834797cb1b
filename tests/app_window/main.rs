//! The window as a person uses it, without a display: found by name, pressed, typed into.

mod form;
mod harness;
mod jobs;
mod look;
mod playback;
mod problems;
