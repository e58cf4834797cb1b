//! The faults that the variable `SAFELIGHT_ENGINE_FAULT` asks for, and when each strikes.
//!
//! Without the variable nothing happens. It holds faults, with a semicolon between them, or `@FILE`: then the file holds
//! them, and is read again for every stage.
//!
//! A fault is `STAGE[@SITE][+N][<RUNG]:KIND[*TIMES][:FILE]`. It strikes when the stage begins; with a `SITE` where the
//! stage comes to it for the `N`-th time, `N` being 1 when absent; with `+N` alone at the stage's `N`-th look at its
//! cancel flag. `<RUNG`: only as long as the stage has not climbed so far. `TIMES`: not more often than that in this
//! process, or ever, where a `FILE` counts it by its length; a file alone means once. `STAGE` may be `any`.
//!
//! `as_gpu` alone makes the engine claim that its device is a GPU: what only a GPU's jobs can do then happens here.

mod kind;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use safelight_core::job::Stage;
use safelight_core::memory::FallbackLevel;

use super::FaultSite;

const VARIABLE: &str = "SAFELIGHT_ENGINE_FAULT";

fn site_named(name: &str) -> Option<FaultSite> {
    serde_json::from_value(name.into()).ok()
}

/// One fault of the variable, in one stage.
#[derive(Debug)]
struct Fault {
    /// Its own text, under which it is counted.
    text: String,
    site: FaultSite,
    /// At which visit of the site it strikes, counted from 1.
    at: u64,
    visits: Cell<u64>,
    /// Strikes only on rungs below.
    below: Option<FallbackLevel>,
    kind: String,
    times: Option<u64>,
    marker: Option<PathBuf>,
}

thread_local! {
    /// The faults of the stage that runs on this thread.
    static ARMED: RefCell<Vec<Fault>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a stage's faults armed.
pub struct ArmedFault(());

impl Drop for ArmedFault {
    fn drop(&mut self) {
        ARMED.with_borrow_mut(Vec::clear);
    }
}

/// Arms what the variable says about a stage on a rung, until what is returned is dropped.
pub fn arm(stage: Stage, rung: FallbackLevel) -> ArmedFault {
    let armed = ArmedFault(());
    if let Some(text) = variable() {
        let faults = parse_all(&text, stage, rung);
        ARMED.with_borrow_mut(|armed| *armed = faults);
        kind::fail_if_poisoned();
    }
    armed
}

/// Called where a stage comes to a place of this class.
pub fn at(site: FaultSite) {
    // A strike may unwind, and must not do so while the list is borrowed.
    let struck = ARMED.with_borrow(|faults| {
        let mut struck = faults.iter().filter(|fault| fault.visit(site));
        struck.next().map(|fault| fault.kind.clone())
    });
    if let Some(kind) = struck {
        kind::strike(&kind);
    }
}

/// Whether the engine is to claim that it has a GPU.
pub fn claims_gpu() -> bool {
    variable().is_some_and(|text| text.split(';').any(|part| part == "as_gpu"))
}

fn variable() -> Option<String> {
    let text = std::env::var(VARIABLE).ok()?;
    match text.strip_prefix('@') {
        Some(file) => Some(fs::read_to_string(file).unwrap_or_default()),
        None => Some(text),
    }
}

fn parse_all(text: &str, stage: Stage, rung: FallbackLevel) -> Vec<Fault> {
    let faults = text.trim().split(';');
    let faults = faults.filter_map(|part| Fault::parse(part, stage));
    faults
        .filter(|fault| fault.below.is_none_or(|below| rung < below))
        .collect()
}

impl Fault {
    /// What one part of the variable says about `stage`.
    fn parse(text: &str, stage: Stage) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (head, kind) = (parts.next()?, parts.next()?);
        let marker = parts.next().map(PathBuf::from);
        let (head, below) = match head.split_once('<') {
            Some((head, name)) => {
                let rung = FallbackLevel::ALL
                    .into_iter()
                    .find(|rung| rung.name() == name);
                (head, Some(rung?))
            }
            None => (head, None),
        };
        let (head, number) = match head.split_once('+') {
            Some((head, number)) => (head, Some(number.parse().ok()?)),
            None => (head, None),
        };
        let (name, site) = match head.split_once('@') {
            Some((name, site)) => (name, Some(site_named(site)?)),
            None => (head, None),
        };
        if name != stage.name() && name != "any" {
            return None;
        }
        let (kind, times) = match kind.split_once('*') {
            Some((kind, times)) => (kind, Some(times.parse().ok()?)),
            None => (kind, marker.as_ref().map(|_| 1)),
        };
        let without_number = number.map_or(FaultSite::Start, |_| FaultSite::Look);
        Some(Self {
            text: text.to_owned(),
            site: site.unwrap_or(without_number),
            at: number.unwrap_or(1),
            visits: Cell::default(),
            below,
            kind: kind.to_owned(),
            times,
            marker,
        })
    }

    /// Whether it strikes now, which it then counts.
    fn visit(&self, site: FaultSite) -> bool {
        if site != self.site {
            return false;
        }
        self.visits.set(self.visits.get() + 1);
        self.visits.get() == self.at && self.count()
    }

    /// Counts a strike; `false` where there were enough.
    fn count(&self) -> bool {
        let Some(times) = self.times else {
            return true;
        };
        if let Some(marker) = &self.marker {
            let before = fs::metadata(marker).map(|found| found.len().max(1));
            if before.is_ok_and(|before| before >= times) {
                return false;
            }
            let file = File::options().create(true).append(true).open(marker);
            // A file that cannot be written strikes for ever, which the test that names it will see.
            file.and_then(|mut file| file.write_all(b".")).ok();
            return true;
        }
        static STRUCK: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
        let mut struck = STRUCK.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = struck.get_or_insert_default();
        let count = counted.entry(self.text.clone()).or_default();
        *count += 1;
        *count <= times
    }
}
