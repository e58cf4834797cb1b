//! The window, killed while somebody clicks and types all over it, or on a disk that fails under it.
//!
//! One home for the whole run: queue, gallery, trash and settings grow as those of a person who never tidies up.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use x11rb::protocol::xproto::Window;

use super::disk_faults::{Faults, KINDS};
use super::display::{CONTROL, Display, ENTER};
use super::user::{Result, User, disk};
use crate::random::Random;

pub(super) const NAME: &str = "the window";
pub(super) const ON_A_DISK: &str = "the window on a disk that fails";

/// Files that an earlier program wrote, and where they lie.
const OLD: [(&str, &[u8]); 4] = [
    (
        "data/safelight/queue.json",
        include_bytes!("../../../tests/fixtures/old/queue.json"),
    ),
    (
        "data/safelight/state.json",
        include_bytes!("../../../tests/fixtures/old/state.json"),
    ),
    (
        "config/safelight/presets.toml",
        include_bytes!("../../../tests/fixtures/old/presets.toml"),
    ),
    (
        "config/safelight/settings.toml",
        include_bytes!("../../../tests/fixtures/old/settings.toml"),
    ),
];
const ESCAPE: u8 = 9;
/// Delete, Z, Tab, space, the arrows, page up and down, comma, and letters: keys by their place on a keyboard.
const KEYS: [u8; 16] = [
    119, 52, 23, 65, 111, 113, 114, 116, 112, 117, 59, 38, 42, 46, 54, 36,
];
/// The window tells that it is there within this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A display and a home that last for the whole run.
pub(super) struct Sitting {
    display: Display,
    user: User,
}

impl Sitting {
    pub(super) fn begin(home: PathBuf, server: &str) -> Result<Self> {
        let user = User::at(home, server)?;
        Ok(Self {
            display: Display::start(),
            user,
        })
    }

    /// Opens the window on a disk that fails at some call, clicks and types, closes it, and opens it once more on a good
    /// one -> whether that call came, and what should not be.
    pub(super) fn bear(&mut self, random: &mut Random) -> Result<(bool, Vec<String>)> {
        let mut faults = Vec::new();
        let (kind, _) = random.one_of(&KINDS);
        let at = 1 + random.below(60) as u64;
        let disk = Faults::build(self.user.home.parent().unwrap_or(&self.user.home))?;
        disk.arm(&mut self.user, kind, at)?;
        let mut app = self.open(&mut faults)?;
        for _ in 0..4 + random.below(12) {
            self.deed(random);
        }
        self.close(&mut app, &mut faults);
        let has_failed = disk.count() >= at;
        self.user.variables.clear();
        if self.said().contains("panicked") {
            faults.push(format!("a panic: {}", self.said().trim()));
        }
        faults.extend(self.halves());
        let finished = self.results();
        let mut app = self.open(&mut faults)?;
        self.close(&mut app, &mut faults);
        let gone: Vec<_> = finished.difference(&self.results()).cloned().collect();
        if !gone.is_empty() {
            faults.push(format!("results are gone: {gone:?}"));
        }
        faults.extend(self.leftovers());
        let faults = faults.into_iter();
        let faults = faults.map(|fault| format!("{kind} {at}: {fault}"));
        Ok((has_failed, faults.collect()))
    }

    /// What the last window said where errors go.
    fn said(&self) -> String {
        let said = fs::read(self.user.home.with_extension("errors")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Files of the window's own that cannot be read: written by half.
    fn halves(&self) -> Vec<String> {
        let own = ["config/safelight", "data/safelight"];
        let files = self.user.files().into_iter();
        let halves = files.filter(|(name, bytes)| {
            let is_own = own
                .iter()
                .any(|folder| name.parent() == Some(folder.as_ref()));
            let text = std::str::from_utf8(bytes);
            let is_whole = match name.extension().and_then(|end| end.to_str()) {
                Some("json") => serde_json::from_slice::<Value>(bytes).is_ok(),
                Some("toml") => text.is_ok_and(|text| text.parse::<toml::Table>().is_ok()),
                _ => true,
            };
            is_own && !is_whole
        });
        halves
            .map(|(name, _)| format!("not whole: {}", name.display()))
            .collect()
    }

    /// Opens the window, clicks and types, kills it, opens it again and closes it -> what should not be.
    pub(super) fn strike(&self, random: &mut Random) -> Result<Vec<String>> {
        if random.below(4) == 0 {
            for (name, bytes) in OLD {
                self.user.write(name, bytes)?;
            }
        }
        let mut faults = Vec::new();
        let mut app = self.open(&mut faults)?;
        let num_deeds = random.below(12);
        for _ in 0..num_deeds {
            self.deed(random);
        }
        thread::sleep(Duration::from_millis(random.below(1500) as u64));
        let before = self.queued();
        let finished = self.results();
        let pid = Pid::from_child(&app);
        if random.below(3) == 0
            && let Some(engine) = self.user.engine()
        {
            // Ended already: as well.
            kill_process(engine, Signal::KILL).ok();
        }
        // The same.
        kill_process(pid, Signal::KILL).ok();
        app.wait().map_err(|err| disk(&err, &self.user.home))?;
        if !self.user.is_alone() {
            faults.push("a process stays".to_owned());
        }
        let between = self.queued();
        let gone: Vec<_> = finished.difference(&self.results()).cloned().collect();
        if !gone.is_empty() {
            faults.push(format!("results are gone: {gone:?}"));
        }
        if before.is_some() && between.is_none() {
            faults.push("the queue's file cannot be read".to_owned());
        }
        let mut app = self.open(&mut faults)?;
        self.close(&mut app, &mut faults);
        // What waited, waits: nothing is started by itself behind a kill.
        if let (Some(between), Some(after)) = (between, self.queued()) {
            let lost: Vec<_> = between.difference(&after).cloned().collect();
            if !lost.is_empty() {
                faults.push(format!("jobs are gone from the queue: {lost:?}"));
            }
        }
        faults.extend(self.leftovers());
        Ok(faults)
    }

    fn window(&self) -> Option<Window> {
        self.display.find_window("Safelight")
    }

    fn open(&self, faults: &mut Vec<String>) -> Result<Child> {
        let none: [&str; 0] = [];
        let mut command = self.user.command(&none);
        command.env("DISPLAY", &self.display.name);
        let said = self.user.home.with_extension("errors");
        command.stderr(File::create(&said).map_err(|err| disk(&err, &said))?);
        let mut app = command.spawn().map_err(|err| disk(&err, &self.user.home))?;
        let begin = Instant::now();
        while self.window().is_none() {
            let ended = app.try_wait().ok().flatten();
            if ended.is_some() || begin.elapsed() > PATIENCE {
                faults.push(format!("the window does not open: {ended:?}"));
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(app)
    }

    fn close(&self, app: &mut Child, faults: &mut Vec<String>) {
        let begin = Instant::now();
        let mut asked = false;
        loop {
            match app.try_wait() {
                Ok(Some(status)) => {
                    if !status.success() {
                        faults.push(format!("the window ends with {status}"));
                    }
                    return;
                }
                _ if begin.elapsed() > PATIENCE => {
                    faults.push("the window does not close".to_owned());
                    // It is not wanted any more.
                    app.kill().ok();
                    app.wait().ok();
                    return;
                }
                _ => {}
            }
            match self.window() {
                Some(window) if !asked || begin.elapsed().as_secs() % 5 == 4 => {
                    asked = true;
                    self.display.close(window);
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// One thing that a hand does.
    fn deed(&self, random: &mut Random) {
        let Some(window) = self.window() else {
            return;
        };
        self.display.focus(window);
        match random.below(6) {
            0 => self.display.press(&[CONTROL, ENTER]),
            1 => self.display.press(&[CONTROL, random.one_of(&KEYS)]),
            2 => self.display.press(&[random.one_of(&KEYS)]),
            3 => self.display.press(&[ESCAPE]),
            _ => {
                let (x, y) = (random.below(1240) as i16, random.below(820) as i16);
                self.display
                    .click(window, (x, y), if random.below(6) == 0 { 3 } else { 1 });
            }
        }
        thread::sleep(Duration::from_millis(random.below(300) as u64));
    }

    /// The numbers of the jobs in the queue's file; none where it is not there or not whole.
    fn queued(&self) -> Option<BTreeSet<String>> {
        let text = fs::read(self.user.home.join("data/safelight/queue.json")).ok()?;
        let file: Value = serde_json::from_slice(&text).ok()?;
        let jobs = file["jobs"].as_array()?.iter();
        Some(jobs.map(|job| job["id"].to_string()).collect())
    }

    fn results(&self) -> BTreeSet<PathBuf> {
        let files = self.user.files().into_iter();
        let results = files.filter(|(name, _)| {
            name.starts_with("out") || name.starts_with("videos") || name.starts_with("pictures")
        });
        results.map(|(name, _)| name).collect()
    }

    /// Half-written files by their names.
    fn leftovers(&self) -> Vec<String> {
        let names = self.user.files().into_keys();
        let odd = names.filter(|name| {
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            [".tmp", ".part", ".partial", ".new"]
                .iter()
                .any(|end| name.contains(end))
                && !name.contains(".partial.safetensors")
        });
        odd.map(|name| format!("left behind: {}", name.display()))
            .collect()
    }
}
