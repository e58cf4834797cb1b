//! Faults on demand, so that tests see the app outlive every death of its engine.
//!
//! Without the variable `SAFELIGHT_ENGINE_FAULT` it does nothing.
//! `STAGE:KIND` strikes each time the stage begins, `STAGE:KIND:FILE` once: the file remembers.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use safelight_core::job::Stage;

/// Does what the variable says, if it names this stage.
pub fn strike(stage: Stage) {
    let Ok(fault) = std::env::var("SAFELIGHT_ENGINE_FAULT") else {
        return;
    };
    let mut parts = fault.splitn(3, ':');
    if parts.next() != Some(stage.name()) {
        return;
    }
    let kind = parts.next().unwrap_or_default();
    if let Some(marker) = parts.next() {
        if Path::new(marker).exists() {
            return;
        }
        File::create(marker).ok();
    }
    tracing::warn!("a fault on demand: {fault}");
    match kind {
        "abort" => std::process::abort(),
        "kill" => {
            let _gone = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
        "hang" => thread::sleep(Duration::from_hours(1)),
        "panic" => panic!("a panic on demand"),
        "oom" => panic!("CUDA out of memory. Tried to allocate 1.00 GiB (a fault on demand)"),
        _ => {}
    }
}
