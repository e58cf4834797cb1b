//! The window, killed or closed on a failing disk while its user submits, cancels, pauses, moves, edits and deletes.
//!
//! One home for the whole run, so queue, gallery, trash and settings grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::commands::{FailingDisk, LORA, START_IMAGE, first_offered, write_lora};
use super::display::Display;
use super::home::{Home, Running};
use super::{Random, Result};

const ANYTHING: &str = "the window";
const QUEUE: &str = "the window's queue";
const WAITING: &str = "the window's waiting jobs";
const GALLERY: &str = "the window's gallery";
const DISK: &str = "the window on a failing disk";
pub(crate) const VISITS: [&str; 5] = [ANYTHING, QUEUE, WAITING, GALLERY, DISK];

const QUEUE_FILE: &str = "data/safelight/queue.json";
const TRASH: &str = "data/Trash/files";
const RESULTS: [&str; 3] = ["out", "videos", "images"];
/// In the names of files that are being written.
const PARTIAL: [&str; 4] = [".tmp", ".part", ".partial", ".new"];
const PATIENCE: Duration = Duration::from_mins(1);

/// Actions of each visit: keys of xdotool, `type:` text, a `click` anywhere or on a `row` of the queue.
const ACTIONS: [(&str, &str); 4] = [
    (
        QUEUE,
        "ctrl+Return, ctrl+Return, ctrl+Return, ctrl+k type:pause~the~queue Return, ctrl+k type:resume~the~queue Return",
    ),
    (
        WAITING,
        "row alt+Up, row alt+Down, row alt+Home, row ctrl+d, row Return ctrl+r ctrl+Return, row Delete ctrl+z",
    ),
    (
        GALLERY,
        "Left, Right shift+Right, Down, f, ctrl+z, Delete, shift+Right Delete, Delete ctrl+z",
    ),
    (
        ANYTHING,
        "ctrl+Return, ctrl+Return, ctrl+period, click, click, click, Escape, Delete, Return, Tab, space, Up, Down, \
         ctrl+z, ctrl+a, ctrl+c, ctrl+n, ctrl+k type:lora Return, ctrl+shift+l, a, ctrl+2, ctrl+1",
    ),
];

pub(crate) struct WindowSession {
    display: Display,
    home: Home,
    disk: FailingDisk,
    num_rounds: usize,
    /// Changes of the queue's file that were seen.
    pub(crate) num_changes: usize,
}

/// Observations of the disk while the window was open.
struct Seen {
    /// Every job that was ever in the queue.
    jobs: BTreeMap<u64, Value>,
    last: Option<Vec<Value>>,
    is_torn: bool,
    num_changes: usize,
}

/// Jobs in the queue's file; `None` where it is missing or damaged.
fn queue(home: &Path) -> Option<Vec<Value>> {
    let file: Value = serde_json::from_slice(&fs::read(home.join(QUEUE_FILE)).ok()?).ok()?;
    file["jobs"].as_array().cloned()
}

fn waiting(jobs: &[Value]) -> impl Iterator<Item = &Value> {
    jobs.iter()
        .filter(|job| job["state"] == "waiting" || job["state"].is_null())
}

fn ids(jobs: &[Value]) -> Vec<u64> {
    jobs.iter().filter_map(|job| job["id"].as_u64()).collect()
}

fn is_partial(name: &Path) -> bool {
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    // Saved latents of a running job.
    PARTIAL.iter().any(|sign| name.contains(sign)) && !name.ends_with(".partial.safetensors")
}

/// Whole files among the results and in the trash.
fn results(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = home.files();
    files.retain(|name, _| {
        !is_partial(name)
            && (name.starts_with(TRASH) || RESULTS.iter().any(|it| name.starts_with(it)))
    });
    files
}

impl Seen {
    fn look(&mut self, home: &Path) {
        match queue(home) {
            Some(jobs) => {
                self.num_changes +=
                    usize::from(self.last.as_ref().is_some_and(|last| *last != jobs));
                let known = jobs
                    .iter()
                    .filter_map(|job| Some((job["id"].as_u64()?, job.clone())));
                self.jobs.extend(known);
                self.last = Some(jobs);
            }
            None => self.is_torn |= self.last.is_some(),
        }
    }
}

impl WindowSession {
    pub(crate) fn begin(home: Home) -> Result<Self> {
        write_lora(&home)?;
        // A search for them takes a moment in which it can be killed.
        let first = home.path.join(LORA);
        for number in 1..40 {
            fs::copy(
                &first,
                first.with_file_name(format!("style {number}.safetensors")),
            )?;
        }
        let disk = FailingDisk::build(&home)?;
        Ok(Self {
            display: Display::start()?,
            home,
            disk,
            num_rounds: 0,
            num_changes: 0,
        })
    }

    /// Opens the window, acts, kills it, opens it again and closes it -> how, and what was wrong.
    pub(crate) fn round(
        &mut self,
        visit: &str,
        random: &mut Random,
    ) -> Result<(String, Vec<String>)> {
        let mut faults = Vec::new();
        self.num_rounds += 1;
        let laid = self.lay(visit, random)?;
        let at_first = results(&self.home);
        let mut how = "killed".to_owned();
        if visit == DISK {
            how = self.disk.arm(&mut self.home, random)?;
        }
        let opened = self.open(&mut faults);
        self.home.variables.clear();
        let app = opened?;
        let mut seen = Seen {
            jobs: BTreeMap::new(),
            last: None,
            is_torn: false,
            num_changes: 0,
        };
        seen.look(&self.home.path);
        thread::sleep(random.millis(1000));
        let mut num_deleted = 0;
        for _ in 0..random.below(14) {
            num_deleted += usize::from(self.act(visit, random)?);
            seen.look(&self.home.path);
        }
        thread::sleep(random.millis(3000));
        seen.look(&self.home.path);
        let finished = results(&self.home);
        self.num_changes += seen.num_changes;
        if visit == DISK {
            self.close(app, &mut faults)?;
        } else {
            if let Some(engine) = self.home.engine().filter(|_| random.below(3) == 0) {
                how = "engine and window killed".to_owned();
                kill_process(engine, Signal::KILL).ok();
            }
            kill_process(app.pid(), Signal::KILL).ok();
            app.end()?;
        }
        self.home.orphans(&mut faults);
        let between = queue(&self.home.path);
        if seen.is_torn || (seen.last.is_some() && between.is_none()) {
            faults.push("the queue's file cannot be read".to_owned());
        }
        if let Some(jobs) = &between {
            let gone = self.missing(visit, &seen, &laid, jobs, &at_first);
            if gone.len() > num_deleted {
                faults.push(format!("jobs are lost: {gone:?}"));
            }
        }
        let app = self.open(&mut faults)?;
        self.close(app, &mut faults)?;
        self.home.orphans(&mut faults);
        match (between, queue(&self.home.path)) {
            (Some(between), Some(after)) => after_restart(&between, &after, &mut faults),
            (Some(_), None) => faults.push("the next start leaves no queue".to_owned()),
            (None, _) => {}
        }
        let now = results(&self.home);
        let kept: BTreeSet<&Vec<u8>> = now.values().collect();
        for (name, bytes) in at_first.iter().chain(&finished) {
            if !kept.contains(bytes) {
                faults.push(format!("a result is gone or changed: {}", name.display()));
            }
        }
        self.damaged_files(&mut faults);
        if visit == QUEUE || visit == WAITING {
            self.resume(&mut faults)?;
        }
        Ok((how, faults))
    }

    /// Jobs that are neither in the queue nor finished, where the visit deletes none or few.
    fn missing(
        &self,
        visit: &str,
        seen: &Seen,
        laid: &[Value],
        jobs: &[Value],
        at_first: &BTreeMap<PathBuf, Vec<u8>>,
    ) -> Vec<String> {
        let now = results(&self.home);
        let num_new = now
            .keys()
            .filter(|name| !at_first.contains_key(*name))
            .count();
        let prompt = |job: &Value| job["request"]["prompt"].to_string();
        match visit {
            QUEUE => {
                let there = ids(jobs);
                // The worker names results when their jobs begin.
                let lost = seen
                    .jobs
                    .iter()
                    .filter(|(id, _)| !there.contains(id) && num_new == 0);
                lost.map(|(id, _)| id.to_string()).collect()
            }
            // An edited job is a new one with the same prompt.
            WAITING => {
                let prompts: Vec<String> = jobs.iter().map(prompt).collect();
                let lost = laid
                    .iter()
                    .map(prompt)
                    .filter(|prompt| !prompts.contains(prompt));
                lost.skip(num_new).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Writes a form whose jobs are quick, and what the visit begins with -> the jobs that wait.
    fn lay(&self, visit: &str, random: &mut Random) -> Result<Vec<Value>> {
        if visit == ANYTHING || visit == DISK {
            return Ok(Vec::new());
        }
        let lora = json!({"path": self.home.path.join(LORA), "is_on": true, "strength": 0.8});
        let loras = if random.below(2) == 0 {
            vec![]
        } else {
            vec![lora]
        };
        let form = json!({
            "model": "little-world", "prompt": "a red boat", "loras": loras, "num_steps": 6,
            "size": "Custom", "width": 64, "height": 64, "num_frames": 5,
        });
        let page = if visit == GALLERY { "Gallery" } else { "Watch" };
        let state = json!({"form": form, "page": page, "queue": {"is_open": true}});
        self.home
            .write("data/safelight/state.json", state.to_string().as_bytes())?;
        self.home.write(
            "config/safelight/settings.toml",
            b"[runtime]\ndevice = 'cpu'\n",
        )?;
        // The window's size, which places the rows of the queue.
        fs::remove_file(self.home.path.join("data/safelight/window.ron")).ok();
        if visit == GALLERY {
            for index in 0..6 {
                // Readers of PNG skip what follows the image.
                let image = [START_IMAGE, &random.number().to_le_bytes()].concat();
                let name = format!("videos/Safelight/laid {} {index}.png", self.num_rounds);
                self.home.write(&name, &image)?;
            }
        }
        if visit != WAITING {
            return Ok(Vec::new());
        }
        let job = |index| {
            let number = self.num_rounds * 7 + index;
            json!({"id": number, "state": "waiting", "device": "auto", "request": {
                "model": "little-world", "family": "wan", "prompt": format!("boat number {number}"),
                "negative_prompt": "", "width": 64, "height": 64, "num_frames": 5, "fps": 8.0, "num_steps": 6,
                "guidance_scale": 1.0, "sampler": "euler", "seed": number, "out": "boat.mp4",
            }})
        };
        let jobs: Vec<Value> = (0..7).map(job).collect();
        let folders = fs::read_dir(self.home.path.join("data/safelight/jobs"))
            .into_iter()
            .flatten()
            .flatten();
        let stopped: Vec<u64> = folders
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        let file = json!({"version": 1, "jobs": jobs, "forgotten": stopped});
        self.home.write(QUEUE_FILE, file.to_string().as_bytes())?;
        Ok(jobs)
    }

    /// Does one thing as a user; `true` when it may delete a job.
    fn act(&self, visit: &str, random: &mut Random) -> Result<bool> {
        let visit = if visit == DISK { ANYTHING } else { visit };
        let actions = ACTIONS
            .iter()
            .find(|it| it.0 == visit)
            .map_or("", |it| it.1);
        let actions: Vec<&str> = actions.split(", ").collect();
        let action = random.one_of(&actions);
        for word in action.split_ascii_whitespace() {
            let Some(window) = self.display.window()? else {
                break;
            };
            self.display.run(&["windowfocus", &window])?;
            // The rows are there in a window of its first size.
            let [left, top, width, height] = if word == "row" {
                [950, 200, 190, 540]
            } else {
                [0, 0, 1240, 820]
            };
            let [x, y] =
                [left + random.below(width), top + random.below(height)].map(|it| it.to_string());
            match word.strip_prefix("type:") {
                Some(text) => self.display.run(&["type", &text.replace('~', " ")])?,
                None if word == "click" || word == "row" => {
                    self.display
                        .run(&["mousemove", "--window", &window, &x, &y, "click", "1"])?
                }
                None => self.display.run(&["key", word])?,
            };
            thread::sleep(Duration::from_millis(50) + random.millis(300));
        }
        Ok(action.contains("Delete"))
    }

    fn open(&self, faults: &mut Vec<String>) -> Result<Running> {
        let none: [&str; 0] = [];
        let mut command = self.home.command(&none);
        command.env("DISPLAY", &self.display.name);
        let mut app = self.home.start(command)?;
        let begin = Instant::now();
        while self.display.window()?.is_none() {
            let ended = app.child.try_wait()?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                faults.push(format!("the window does not open: {ended:?}"));
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(app)
    }

    fn close(&self, mut app: Running, faults: &mut Vec<String>) -> Result<()> {
        let begin = Instant::now();
        let mut asked: Option<Instant> = None;
        while app.child.try_wait()?.is_none() && begin.elapsed() < PATIENCE {
            let is_due = asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(5));
            if let Some(window) = self.display.window()?.filter(|_| is_due) {
                self.display
                    .run(&["windowfocus", &window, "key", "ctrl+q"])?;
                asked = Some(Instant::now());
            }
            thread::sleep(Duration::from_millis(50));
        }
        if app.child.try_wait()?.is_none() {
            faults.push("the window does not close".to_owned());
            app.child.kill()?;
        }
        let ended = app.end()?;
        if ended.code.is_some_and(|code| code != 0) || ended.errors.contains("panicked") {
            faults.push(format!(
                "the window ends with {:?}: {}",
                ended.code, ended.errors
            ));
        }
        Ok(())
    }

    /// Half-written files, damaged files of the program, and files in the trash that no desktop can restore.
    fn damaged_files(&self, faults: &mut Vec<String>) {
        for (name, bytes) in self.home.files() {
            let text = String::from_utf8_lossy(&bytes);
            let is_own = ["config/safelight", "data/safelight"]
                .map(Path::new)
                .contains(&name.parent().unwrap_or(&name));
            let is_whole = match name.extension().and_then(|end| end.to_str()) {
                Some("json") if is_own => serde_json::from_str::<Value>(&text).is_ok(),
                Some("toml") if is_own => text.parse::<toml::Table>().is_ok(),
                _ => true,
            };
            if !is_whole {
                faults.push(format!("damaged: {}", name.display()));
            }
            if is_partial(&name) {
                faults.push(format!("left behind: {}", name.display()));
            }
            if name.starts_with(TRASH) {
                let file = name.file_name().unwrap_or_default().to_string_lossy();
                let info = self
                    .home
                    .path
                    .join(format!("data/Trash/info/{file}.trashinfo"));
                let info = fs::read_to_string(info).unwrap_or_default();
                if !(info.contains("\nPath=/")
                    && info.contains("\nDeletionDate=")
                    && info.ends_with('\n'))
                {
                    faults.push(format!("in the trash without its path: {file}"));
                }
            }
        }
    }

    /// The saved latents of the first stopped job must be usable.
    fn resume(&self, faults: &mut Vec<String>) -> Result<()> {
        let listed = self.home.run(&["resume", "--json"])?;
        let Some(job) = first_offered(&listed) else {
            return Ok(());
        };
        let resumed = self.home.run(&["resume", job, "--json"])?;
        if resumed.code != Some(0) {
            faults.push(format!(
                "a stopped job cannot be resumed: {}",
                resumed.errors
            ));
        }
        Ok(())
    }
}

/// Nothing starts by itself after a kill: every job is there once, and the waiting ones are unchanged in their order.
fn after_restart(between: &[Value], after: &[Value], faults: &mut Vec<String>) {
    let there = ids(after);
    if there.iter().collect::<BTreeSet<_>>().len() < there.len() {
        faults.push(format!("a job is twice in the queue: {there:?}"));
    }
    let gone: Vec<u64> = ids(between)
        .into_iter()
        .filter(|id| !there.contains(id))
        .collect();
    if !gone.is_empty() {
        faults.push(format!("jobs are gone from the queue: {gone:?}"));
    }
    let order = |jobs| -> Vec<Value> { waiting(jobs).map(|job| job["id"].clone()).collect() };
    if order(between) != order(after) {
        faults.push("waiting jobs are in another order".to_owned());
    }
    if let Some(job) = waiting(between).find(|job| !after.contains(job)) {
        faults.push(format!("a waiting job changed: {}", job["id"]));
    }
}
