//! Faults on demand, so that tests see the app outlive every death of its engine.
//!
//! Without the variable `SAFELIGHT_ENGINE_FAULT` it does nothing.
//! `STAGE:KIND` strikes each time the stage begins, `STAGE:KIND:FILE` once: the file remembers.
//! `STAGE+N:…` strikes at the stage's N-th look at its cancel flag instead, in the middle of its work.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use safelight_core::job::Stage;

/// What the variable asks of one stage.
pub struct Fault {
    kind: String,
    marker: Option<PathBuf>,
    /// The look at the cancel flag at which it strikes, counted from 1; `None` for the beginning.
    at_look: Option<u64>,
    looks: Cell<u64>,
}

impl Fault {
    /// What the variable says about `stage`.
    pub fn of(stage: Stage) -> Option<Self> {
        Self::parse(&std::env::var("SAFELIGHT_ENGINE_FAULT").ok()?, stage)
    }

    fn parse(text: &str, stage: Stage) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let rest = parts.next()?.strip_prefix(stage.name())?;
        let at_look = match rest.strip_prefix('+') {
            Some(number) => Some(number.parse().ok()?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self {
            kind: parts.next()?.to_owned(),
            marker: parts.next().map(PathBuf::from),
            at_look,
            looks: Cell::default(),
        })
    }

    /// The stage begins.
    pub fn at_start(&self) {
        if self.at_look.is_none() {
            self.strike();
        }
    }

    /// The stage looks at its cancel flag.
    pub fn at_look(&self) {
        self.looks.set(self.looks.get() + 1);
        if self.at_look == Some(self.looks.get()) {
            self.strike();
        }
    }

    fn strike(&self) {
        if let Some(marker) = &self.marker {
            if marker.exists() {
                return;
            }
            File::create(marker).ok();
        }
        tracing::warn!("a fault on demand: {}", self.kind);
        match self.kind.as_str() {
            "abort" => std::process::abort(),
            "kill" => kill_this_process(),
            "hang" => thread::sleep(Duration::from_hours(1)),
            "panic" => panic!("a panic on demand"),
            "oom" => panic!("CUDA out of memory. Tried to allocate 1.00 GiB (a fault on demand)"),
            _ => {}
        }
    }
}

/// Ends this process at once: no destructor runs and nothing can hold it back.
pub fn kill_this_process() {
    let _gone =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Whether the call struck, with a fault whose kind is a panic.
    fn strikes(call: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(call)).is_err()
    }

    #[test]
    fn a_fault_without_a_number_strikes_at_the_beginning_of_its_stage_only() {
        assert!(Fault::parse("decode:panic", Stage::Denoise).is_none());
        assert!(Fault::parse("decode", Stage::Decode).is_none());
        let fault = Fault::parse("decode:panic", Stage::Decode).unwrap();
        assert!(!strikes(|| fault.at_look()));
        assert!(strikes(|| fault.at_start()));
    }

    #[test]
    fn a_fault_with_a_number_strikes_at_that_look_and_once_where_a_file_remembers() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("struck: once");
        let text = format!("denoise+3:panic:{}", marker.display());
        let fault = Fault::parse(&text, Stage::Denoise).unwrap();
        let struck: Vec<_> = (0..5).map(|_| strikes(|| fault.at_look())).collect();
        assert_eq!(struck, [false, false, true, false, false]);
        assert!(marker.exists() && !strikes(|| fault.at_start()));
        let again = Fault::parse(&text, Stage::Denoise).unwrap();
        assert!(!(0..5).any(|_| strikes(|| again.at_look())));
        assert!(Fault::parse("denoise+x:panic", Stage::Denoise).is_none());
    }
}
