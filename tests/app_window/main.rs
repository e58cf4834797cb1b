//! The window as a person uses it, without a display: found by name, pressed, typed into.

mod form;
mod harness;
mod inputs;
mod jobs;
mod look;
mod models;
mod pictures;
mod playback;
mod problems;
mod variants;
