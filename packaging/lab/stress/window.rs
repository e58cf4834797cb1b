//! The window, killed while somebody clicks and types all over it, moves and edits the waiting jobs, or throws results
//! away and brings them back, while its jobs run and nobody touches the queue, or on a disk that fails under it.
//!
//! One home for the whole run: gallery, trash and settings grow as those of a person who never tidies up, and so does
//! the queue but where the jobs in it are the point. What hands do is in `hands`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use safelight_core::job::QueuedJob;
use safelight_core::media::{ClipOptions, Picture, write_clip};
use serde_json::{Value, json};
use x11rb::protocol::xproto::Window;

use super::desk::{
    Changes, QUEUE, Results, SETTINGS, Watch, is_partial, jobs_in, waiting, without_note,
};
use super::disk_faults::{Faults, KINDS};
use super::display::{CONTROL, Display, ENTER};
use super::hands;
use super::models::{LORA, write_lora};
use super::user::{Result, User, broken, disk};
use crate::random::Random;

/// What somebody does while the window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// Clicks and types all over it.
    Anything,
    /// Asks for jobs, and takes none out: all that ever stood in the queue's file must be there, or be made.
    Queue,
    /// Moves, doubles and edits jobs that wait, and takes some out and back.
    WaitingJobs,
    /// Throws results away and brings them back.
    Gallery,
    /// Clicks and types all over it, and no kill comes.
    FailingDisk,
}

impl Visit {
    pub(super) const ALL: [Self; 5] = [
        Self::Anything,
        Self::Queue,
        Self::WaitingJobs,
        Self::Gallery,
        Self::FailingDisk,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anything => "the window",
            Self::Queue => "the window's queue",
            Self::WaitingJobs => "the window's waiting jobs",
            Self::Gallery => "the window's gallery",
            Self::FailingDisk => "the window on a disk that fails",
        }
    }
}

const STATE: &str = "data/safelight/state.json";
/// So many LoRAs lie there that a search for them lasts longer than a moment.
const NUM_LORAS: usize = 40;
/// So many jobs wait, and so many results lie there, before somebody changes them.
const NUM_JOBS: usize = 7;
const NUM_RESULTS: usize = 6;
/// Nobody kills a window whose jobs run later than this.
const MAX_CALM_MS: usize = 10_000;
/// The window tells that it is there within this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A display and a home that last for the whole run.
pub(super) struct Sitting {
    display: Display,
    user: User,
    num_visits: usize,
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
            num_visits: 0,
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
            self.deed(Visit::FailingDisk, random);
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

    /// Opens the window, does what this visit is for, kills it, opens it again and closes it -> what should not be.
    pub(super) fn strike(&mut self, visit: Visit, random: &mut Random) -> Result<Vec<String>> {
        let laid = self.lay(visit, random)?;
        let at_first = Results::of(&self.user.home);
        let mut faults = Vec::new();
        let mut app = self.open(&mut faults)?;
        let mut watch = Watch::begin(&self.user.home);
        let taken_out = self.act(visit, random, &mut watch);
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
        if let Some(jobs) = &between {
            let lost = match visit {
                Visit::Queue => watch.lost(jobs),
                Visit::WaitingJobs => watch.lost_of(&laid, jobs, taken_out),
                _ => Vec::new(),
            };
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
            let ids = |jobs| waiting(jobs).map(|job| job.id);
            if ids(&between).ne(ids(&after)) {
                faults.push("waiting jobs stand in another order".to_owned());
            }
            // A job without a name gets one with the next start.
            let named = |job: &&QueuedJob| job.has_output;
            let is_same = |job: &QueuedJob| after.contains(job);
            if let Some(other) = waiting(&between).filter(named).find(|job| !is_same(job)) {
                faults.push(format!("a waiting job is another one: {}", other.id));
            }
        }
        // Only now: the next start tidies up among the results.
        faults.extend(at_first.lost(&self.user.home));
        faults.extend(finished.lost(&self.user.home));
        faults.extend(self.leftovers());
        Ok(faults)
    }

    /// Lays the files that a visit begins with -> the jobs that wait in them.
    fn lay(&mut self, visit: Visit, random: &mut Random) -> Result<Vec<QueuedJob>> {
        self.num_visits += 1;
        match visit {
            Visit::Anything | Visit::FailingDisk => {}
            Visit::Queue => self.lay_form("Watch", random)?,
            Visit::WaitingJobs => {
                self.lay_form("Watch", random)?;
                return self.lay_jobs();
            }
            Visit::Gallery => {
                self.lay_form("Gallery", random)?;
                self.lay_results(random)?;
            }
        }
        Ok(Vec::new())
    }

    /// What hands do until the kill -> how many jobs they may have taken out of the queue.
    fn act(&mut self, visit: Visit, random: &mut Random, watch: &mut Watch) -> usize {
        let mut taken_out = 0;
        if visit == Visit::Queue {
            self.ask_for_jobs(random, watch);
            return taken_out;
        }
        if visit != Visit::Anything {
            // Rows and pictures are there a moment after the window.
            thread::sleep(Duration::from_millis(200 + random.below(800) as u64));
        }
        for _ in 0..random.below(12) {
            taken_out += self.deed(visit, random);
            watch.look(&mut self.changes);
        }
        if visit == Visit::Anything {
            let rest = if random.below(6) == 0 {
                // The search is at work when the kill comes.
                hands::open_loras(&self.display);
                random.below(100)
            } else {
                random.below(1500)
            };
            thread::sleep(Duration::from_millis(rest as u64));
        }
        taken_out
    }

    /// One thing that a hand does -> how many jobs it may have taken out of the queue.
    fn deed(&self, visit: Visit, random: &mut Random) -> usize {
        let Some(window) = self.window() else {
            return 0;
        };
        self.display.focus(window);
        match visit {
            Visit::WaitingJobs => return hands::with_jobs(&self.display, window, random),
            Visit::Gallery => hands::with_results(&self.display, random),
            _ => hands::at_random(&self.display, window, random),
        }
        0
    }

    /// Has the window begin in its first size on this page, with a form whose jobs are made quickly, with a LoRA or
    /// without, whatever was clicked before.
    fn lay_form(&self, page: &str, random: &mut Random) -> Result<()> {
        let loras = if random.below(2) == 0 {
            json!([])
        } else {
            json!([{"path": self.user.home.join(LORA), "is_on": true, "strength": 0.8}])
        };
        let form = json!({
            "model": "little-world", "prompt": "a red boat", "loras": loras, "num_steps": 6,
            "size": "Custom", "width": 64, "height": 64, "num_frames": 5,
        });
        let state = json!({"form": form, "page": page, "queue": {"is_open": true}}).to_string();
        self.user.write(STATE, state.as_bytes())?;
        let size = self.user.home.join("data/safelight/window.ron");
        match fs::remove_file(&size) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(disk(&err, &size)),
            _ => {}
        }
        let settings = b"[runtime]\ndevice = 'cpu'\n";
        self.user.write(SETTINGS, settings)
    }

    /// Some jobs that wait, each with a prompt and a number of its own, and no stopped ones above them.
    fn lay_jobs(&self) -> Result<Vec<QueuedJob>> {
        let jobs = (0..NUM_JOBS).map(|index| {
            let number = self.num_visits * NUM_JOBS + index;
            json!({"id": number, "state": "waiting", "device": "auto", "has_output": false, "request": {
                "model": "little-world", "family": "wan", "prompt": format!("boat number {number}"),
                "negative_prompt": "", "width": 64, "height": 64, "num_frames": 5, "fps": 8.0, "num_steps": 6,
                "guidance_scale": 1.0, "sampler": "euler", "seed": number, "out": "boat.mp4",
            }})
        });
        let jobs: Vec<Value> = jobs.collect();
        let entries = fs::read_dir(self.user.home.join("data/safelight/jobs"));
        let names = entries.into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let stopped: Vec<u64> = ids.collect();
        let file = json!({"version": 1, "jobs": jobs, "forgotten": stopped}).to_string();
        self.user.write(QUEUE, file.as_bytes())?;
        jobs_in(&self.user.home).ok_or_else(|| broken("the queue that was laid cannot be read"))
    }

    /// Some more results: clips as numbered pictures, with their settings beside them.
    fn lay_results(&self, random: &mut Random) -> Result<()> {
        for index in 0..NUM_RESULTS {
            let [red, green, ..] = random.number().to_le_bytes();
            let frame = |blue: u8| Picture {
                width: 48,
                height: 32,
                rgb: [red, green, blue].repeat(48 * 32),
            };
            let settings = json!({"app": "Safelight", "request": {
                "prompt": "laid", "num_frames": 3, "seed": random.number(),
            }});
            let options = ClipOptions {
                settings: Some(settings.to_string()),
                ..ClipOptions::default()
            };
            let name = format!("videos/Safelight/laid {} {index}", self.num_visits);
            self.user
                .write(&format!("{name}.json"), settings.to_string().as_bytes())?;
            let path = self.user.home.join(format!("{name}.png"));
            write_clip(&path, &[frame(0), frame(100), frame(200)], options)
                .map_err(|err| broken(err.to_string()))?;
        }
        Ok(())
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

    /// Half-written files by their names.
    fn leftovers(&self) -> Vec<String> {
        let names = self.user.files().into_keys();
        let odd = names.filter(|name| is_partial(name));
        let odd = odd.map(|name| format!("left behind: {}", name.display()));
        odd.chain(without_note(&self.user.home)).collect()
    }
}
