//! The window, killed while somebody clicks and types all over it.
//!
//! One home for the whole run: queue, gallery, trash and settings grow as those of a person who never tidies up.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use x11rb::protocol::xproto::Window;

use super::display::{CONTROL, Display, ENTER};
use super::user::{Result, User, disk};
use crate::random::Random;

pub(super) const NAME: &str = "the window";

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
