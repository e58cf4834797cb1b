//! The window, killed while somebody clicks and types all over it, while its jobs run and nobody touches the queue, or
//! on a disk that fails under it.
//!
//! One home for the whole run: queue, gallery, trash and settings grow as those of a person who never tidies up.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use safelight_core::job::QueuedJob;
use serde_json::{Value, json};
use x11rb::protocol::xproto::Window;

use super::desk::{Changes, Results, Watch, is_partial, jobs_in};
use super::disk_faults::{Faults, KINDS};
use super::display::{CONTROL, Display, ENTER, KEY_A, KEY_L};
use super::models::{LORA, write_lora};
use super::user::{Result, User, disk};
use crate::random::Random;

pub(super) const NAME: &str = "the window";
/// Jobs are asked for, and nobody takes one out: all that ever stood in the queue's file must be there, or be made.
pub(super) const ITS_QUEUE: &str = "the window's queue";
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
/// More keys by their place: those of Ctrl+K, and of `lora`.
const KEY_K: u8 = 45;
const KEY_O: u8 = 32;
const KEY_R: u8 = 27;
/// So many LoRAs lie there that a search for them lasts longer than a moment.
const NUM_LORAS: usize = 40;
/// Nobody kills a window whose jobs run later than this.
const MAX_CALM_MS: usize = 10_000;
/// The window tells that it is there within this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A display and a home that last for the whole run.
pub(super) struct Sitting {
    display: Display,
    user: User,
    /// What was seen on disk while the window was open, of all times.
    pub(super) changes: Changes,
}

impl Sitting {
    pub(super) fn begin(home: PathBuf, server: &str) -> Result<Self> {
        let user = User::at(home, server)?;
        let first = user.home.join(LORA);
        write_lora(&first)?;
        for number in 1..NUM_LORAS {
            let more = first.with_file_name(format!("style {number}.safetensors"));
            fs::copy(&first, &more).map_err(|err| disk(&err, &more))?;
        }
        Ok(Self {
            display: Display::start(),
            user,
            changes: Changes::default(),
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
        let mut watch = Watch::begin(&self.user.home);
        for _ in 0..4 + random.below(12) {
            self.deed(random);
            watch.look(&mut self.changes);
        }
        self.close(&mut app, &mut faults);
        let has_failed = disk.count() >= at;
        self.user.variables.clear();
        if self.said().contains("panicked") {
            faults.push(format!("a panic: {}", self.said().trim()));
        }
        faults.extend(self.halves());
        let finished = Results::of(&self.user.home);
        let mut app = self.open(&mut faults)?;
        self.close(&mut app, &mut faults);
        faults.extend(finished.lost(&self.user.home));
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
    /// `is_calm`: asks for jobs and does nothing else.
    pub(super) fn strike(&mut self, random: &mut Random, is_calm: bool) -> Result<Vec<String>> {
        if is_calm {
            self.lay_form(random)?;
        } else if random.below(4) == 0 {
            for (name, bytes) in OLD {
                self.user.write(name, bytes)?;
            }
        }
        let mut faults = Vec::new();
        let mut app = self.open(&mut faults)?;
        let mut watch = Watch::begin(&self.user.home);
        if is_calm {
            self.ask_for_jobs(random, &mut watch);
        } else {
            self.click_around(random, &mut watch);
        }
        let finished = Results::of(&self.user.home);
        watch.look(&mut self.changes);
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
        if let Some(names) = self.user.staying() {
            faults.push(format!("a process stays: {names}"));
        }
        let between = jobs_in(&self.user.home);
        if watch.is_torn || (watch.has_queue() && between.is_none()) {
            faults.push("the queue's file cannot be read".to_owned());
        }
        if let Some(jobs) = between.as_ref().filter(|_| is_calm) {
            let lost = watch.lost(jobs);
            if !lost.is_empty() {
                faults.push(format!("jobs are lost by the kill: {lost:?}"));
            }
        }
        let mut app = self.open(&mut faults)?;
        self.close(&mut app, &mut faults);
        let after = jobs_in(&self.user.home);
        if between.is_some() && after.is_none() {
            faults.push("the next start leaves no whole file of the queue".to_owned());
        }
        // What waited, waits: nothing is started by itself behind a kill.
        if let (Some(between), Some(after)) = (between, after) {
            let is_there = |job: &QueuedJob| after.iter().any(|other| other.id == job.id);
            let gone = between.iter().filter(|job| !is_there(job));
            let gone: Vec<_> = gone.map(|job| job.id).collect();
            if !gone.is_empty() {
                faults.push(format!("jobs are gone from the queue: {gone:?}"));
            }
        }
        // Only now: the next start tidies up among the results.
        faults.extend(finished.lost(&self.user.home));
        faults.extend(self.leftovers());
        Ok(faults)
    }

    /// Some deeds, and a rest of some length.
    fn click_around(&mut self, random: &mut Random, watch: &mut Watch) {
        for _ in 0..random.below(12) {
            self.deed(random);
            watch.look(&mut self.changes);
        }
        let rest = if random.below(6) == 0 {
            // The search is at work when the kill comes.
            self.open_loras();
            random.below(100)
        } else {
            random.below(1500)
        };
        thread::sleep(Duration::from_millis(rest as u64));
    }

    /// Has the window begin with a form whose jobs are made quickly, with a LoRA or without, whatever was clicked
    /// before.
    fn lay_form(&self, random: &mut Random) -> Result<()> {
        let loras = if random.below(2) == 0 {
            json!([])
        } else {
            json!([{"path": self.user.home.join(LORA), "is_on": true, "strength": 0.8}])
        };
        let form = json!({
            "model": "little-world", "prompt": "a red boat", "loras": loras, "num_steps": 6,
            "size": "Custom", "width": 64, "height": 64, "num_frames": 5,
        });
        let state = json!({"form": form}).to_string();
        self.user
            .write("data/safelight/state.json", state.as_bytes())?;
        let settings = b"[runtime]\ndevice = 'cpu'\n";
        self.user.write("config/safelight/settings.toml", settings)
    }

    /// Asks for jobs again and again for a while, and does nothing that takes one out of the queue.
    fn ask_for_jobs(&mut self, random: &mut Random, watch: &mut Watch) {
        if let Some(window) = self.window() {
            self.display.focus(window);
        }
        let lasts = Duration::from_millis(random.below(MAX_CALM_MS) as u64);
        let begin = Instant::now();
        while begin.elapsed() < lasts {
            if random.below(20) == 0 {
                self.display.press(&[CONTROL, ENTER]);
            }
            watch.look(&mut self.changes);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens the list of LoRAs by its name among all commands.
    fn open_loras(&self) {
        self.display.press(&[CONTROL, KEY_K]);
        for key in [KEY_L, KEY_O, KEY_R, KEY_A, ENTER] {
            self.display.press(&[key]);
        }
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
        match random.below(8) {
            0 => self.display.press(&[CONTROL, ENTER]),
            1 => self.display.press(&[CONTROL, random.one_of(&KEYS)]),
            2 => self.display.press(&[random.one_of(&KEYS)]),
            3 => self.display.press(&[ESCAPE]),
            4 => self.open_loras(),
            _ => {
                let (x, y) = (random.below(1240) as i16, random.below(820) as i16);
                self.display
                    .click(window, (x, y), if random.below(6) == 0 { 3 } else { 1 });
            }
        }
        thread::sleep(Duration::from_millis(random.below(300) as u64));
    }

    /// Half-written files by their names.
    fn leftovers(&self) -> Vec<String> {
        let names = self.user.files().into_keys();
        let odd = names.filter(|name| is_partial(name));
        odd.map(|name| format!("left behind: {}", name.display()))
            .collect()
    }
}
