//! The window as a person uses it, without a display: found by name, pressed, typed into.

mod changing;
mod controls;
mod create;
mod desktop;
mod details;
mod doctor;
mod dropping;
mod fetching;
mod finishing;
mod form;
mod gallery;
mod given;
mod grids;
mod harness;
mod inputs;
mod jobs;
mod late;
mod library;
mod look;
mod loras;
mod mask;
mod models;
#[path = "../common/modes.rs"]
mod modes;
mod neighbour;
#[path = "../common/networks.rs"]
mod networks;
mod notices;
mod outpaint;
mod pictures;
mod planning;
mod playback;
mod presets;
mod private;
mod problems;
mod prompt;
mod queue;
mod queue_again;
mod queue_kept;
mod reach;
mod references;
mod remembering;
mod restoring;
mod runtimes;
mod sections;
#[path = "../common/server.rs"]
#[expect(dead_code, reason = "other tests use all of it")]
mod server;
mod settings;
mod strip;
mod undo;
mod variants;
mod viewer;
mod watching;
mod welcome;
