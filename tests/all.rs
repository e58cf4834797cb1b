//! Tests of whole programs, of the window and of the sources, in one executable: each more would link the whole app.
//!
//! `hostile` has one of its own, whose allocator counts.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod app_window;
mod architecture;
mod common;
mod computers;
mod devices;
mod doctor;
mod download;
mod generate;
mod listing;
mod plan;
mod real_window;
mod report;
mod runtime;
mod server;
#[path = "toy_family/journey.rs"]
mod toy_family;
mod worker_promises;
