//! Installations of a libtorch that are killed at random bytes and moments: behind every kill the old one is used and
//! unchanged, and the next installation finishes with the same files.
//!
//! The index has AMD's layout with nothing real in its wheels; an engine that is a shell script finds them good. The old
//! libtorch is the real one, which the real engine tries again and again. What goes wrong without kills is in
//! `runtime_faults`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use safelight::cli::out;
use safelight_core::settings::{Paths, default_runtime};
use safelight_core::units::size_text;
use serde_json::{Value, json};

use super::runtime_faults;
use super::server::{Answer, Request, Server};
use super::user::{Ended, Result, User, broken, disk};
use super::wheels::{VERSION, Wheels, index, wheels_of};
use crate::random::Random;

pub(super) const NAME: &str = "runtime";

/// Wheels of 50 MB, of which 12 are wanted: more than a piece of each.
const SCALE: usize = 100;
/// How long a server is silent that stopped.
const SILENT: Duration = Duration::from_secs(3);
/// The real engine tries the old libtorch behind each so manyth kill.
const TRY_EVERY: u32 = 10;
/// As a GPU of AMD's newest kind would be seen.
const PROPERTIES: &str = "gfx_target_version 110501\nlocation_id 50176\nsimd_count 80\n";
/// What an engine says that finds everything good.
const ENGINE: &str = r#"#!/bin/sh
echo '{"line":"device","text":"AMD gfx1151, false","is_gpu":true,"gpu_problem":null}'
echo '{"line":"done","trial":"matrix_product","error":0.0,"limit":0.1}'
"#;

/// How the server answers.
type Spoil = Box<dyn Fn(&Request, Answer) -> Answer + Send + Sync>;

/// The index, and what it was asked for.
pub(super) struct Index {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    wheels: Arc<Wheels>,
    spoil: Spoil,
    /// Bytes until it falls silent, where it does.
    left: Option<u64>,
    is_silent: bool,
    /// Of all bodies.
    given: u64,
}

impl Index {
    fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            wheels: Arc::new(wheels_of(SCALE)),
            spoil: Box::new(|_, answer| answer),
            left: None,
            is_silent: false,
            given: 0,
        }));
        let of_server = Arc::clone(&state);
        let server = Server::start(move |request| answer(&of_server, request));
        Self {
            url: format!("{}/whl/", server.url),
            state,
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Falls silent after so many bytes, or never.
    pub(super) fn stop_after(&self, left: Option<u64>) {
        self.with(|state| {
            (state.left, state.is_silent) = (left, false);
        });
    }

    pub(super) fn is_silent(&self) -> bool {
        self.with(|state| state.is_silent)
    }

    /// Gives something else than a good server from now on.
    pub(super) fn spoil(&self, spoil: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static) {
        self.with(|state| state.spoil = Box::new(spoil));
    }

    pub(super) fn set_wheels(&self, wheels: Wheels) {
        self.with(|state| state.wheels = Arc::new(wheels));
    }

    /// Good again, with its own wheels.
    pub(super) fn mend(&self, wheels: &Arc<Wheels>) {
        self.with(|state| {
            state.spoil = Box::new(|_, answer| answer);
            state.wheels = Arc::clone(wheels);
            (state.left, state.is_silent) = (None, false);
        });
    }

    pub(super) fn wheels(&self) -> Arc<Wheels> {
        self.with(|state| Arc::clone(&state.wheels))
    }

    /// The bytes that it has given since it was last asked.
    pub(super) fn given(&self) -> u64 {
        self.with(|state| std::mem::take(&mut state.given))
    }
}

fn answer(state: &Mutex<State>, request: &Request) -> Answer {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let wheels = Arc::clone(&lock().wheels);
    let plain = index(&wheels, request);
    let mut state = lock();
    let mut answer = (state.spoil)(request, plain);
    let bytes = match request.method.as_str() {
        "HEAD" => 0,
        _ => answer.body.len() as u64,
    };
    let given = state.left.map_or(bytes, |left| left.min(bytes));
    if given < bytes {
        answer.stalls_after = Some((given as usize, SILENT));
        state.is_silent = true;
    }
    state.left = state.left.map(|left| left - given);
    state.given += given;
    answer
}

/// Somebody with a GPU of AMD's, an old libtorch and a table with one build.
pub(super) struct Home<'a> {
    pub(super) user: &'a mut User,
    pub(super) index: Index,
    engine: PathBuf,
    /// What the old libtorch is made of: names, and where they lead.
    old: BTreeMap<PathBuf, PathBuf>,
    /// The files of a whole installation.
    whole: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Home<'a> {
    fn begin(user: &'a mut User) -> Result<Self> {
        let cache = Paths::of_this_user().map(|paths| paths.cache);
        let real = default_runtime(&cache.unwrap_or_default())
            .map_err(|err| broken(format!("no libtorch to begin with: {err}")))?;
        user.clean()?;
        let home = user.home.clone();
        let table = format!(
            "[[runtime]]\nid = 'trial'\nname = 'a trial'\nkind = 'rocm'\nversion = '{VERSION}'\nindex = 'amd'\npackages = ['torch=={VERSION}', 'amd-torch-device-gfx1151', 'rocm-sdk-core==7.14.1', 'rocm-sdk-libraries==7.14.1']\ndownload_mb = 1\n"
        );
        for (name, text) in [
            ("config/safelight/runtimes.toml", table.as_str()),
            ("machine/sys/devices/card0/vendor", "0x1002\n"),
            ("machine/sys/devices/card0/device", "0x1586\n"),
            (
                "machine/sys/devices/card0/uevent",
                "PCI_SLOT_NAME=0000:c4:00.0\n",
            ),
            (
                "machine/sys/class/kfd/kfd/topology/nodes/1/properties",
                PROPERTIES,
            ),
            ("machine/proc/sys/kernel/osrelease", "6.18.4\n"),
            ("machine/dev/kfd", ""),
            ("machine/engine", ENGINE),
        ] {
            user.write(name, text.as_bytes())?;
        }
        let machine = home.join("machine");
        let engine = machine.join("engine");
        let link = machine.join("sys/class/drm/card0");
        let old = home.join("data/safelight/runtimes/old/lib");
        let lay = || -> std::io::Result<BTreeMap<PathBuf, PathBuf>> {
            fs::set_permissions(&engine, fs::Permissions::from_mode(0o755))?;
            fs::create_dir_all(&link)?;
            symlink(machine.join("sys/devices/card0"), link.join("device"))?;
            fs::create_dir_all(&old)?;
            let mut links = BTreeMap::new();
            for entry in fs::read_dir(&real.lib)? {
                let entry = entry?;
                let name = old.join(entry.file_name());
                symlink(entry.path(), &name)?;
                links.insert(name, entry.path());
            }
            Ok(links)
        };
        let old = lay().map_err(|err| disk(&err, &home))?;
        user.variables = ["sys", "proc", "dev"]
            .into_iter()
            .zip([
                "SAFELIGHT_SYSFS_ROOT",
                "SAFELIGHT_PROC_ROOT",
                "SAFELIGHT_DEV_ROOT",
            ])
            .map(|(folder, name)| (name, machine.join(folder).into_os_string()))
            .collect();
        Ok(Self {
            user,
            index: Index::start(),
            engine,
            old,
            whole: BTreeMap::new(),
        })
    }

    pub(super) fn runtimes(&self) -> PathBuf {
        self.user.home.join("data/safelight/runtimes")
    }

    /// As before anything was installed: the old one is used.
    pub(super) fn clean(&self) -> Result<()> {
        let runtimes = self.runtimes();
        for name in ["trial", ".trial.part"] {
            match fs::remove_dir_all(runtimes.join(name)) {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                    return Err(disk(&err, &runtimes));
                }
                _ => {}
            }
        }
        let old = runtimes.join("old");
        let text = format!("[runtime]\nlibtorch = '{}'\n", old.display());
        self.user
            .write("config/safelight/settings.toml", text.as_bytes())
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let line = ["runtime", "install", "trial", "--yes", "--json", "--from"];
        let mut words: Vec<String> = line.map(str::to_owned).to_vec();
        words.push(self.index.url.clone());
        words
    }

    /// With the engine that finds everything good, or with the real one.
    fn choose_engine(&mut self, is_real: bool) {
        let variables = &mut self.user.variables;
        variables.retain(|(name, _)| *name != "SAFELIGHT_ENGINE");
        if !is_real {
            variables.push(("SAFELIGHT_ENGINE", self.engine.clone().into()));
        }
    }

    pub(super) fn install(&mut self) -> Result<Ended> {
        self.choose_engine(false);
        self.user.run(&self.arguments())
    }

    /// What is wrong behind a kill or a failure, before anything is tried again.
    pub(super) fn judge(&mut self, tries_old: bool) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let is_there = self.runtimes().join("trial").exists();
        if is_there && self.files() != self.whole {
            faults.push("half a runtime is in place".to_owned());
        }
        let same = |(name, to): (&PathBuf, &PathBuf)| fs::read_link(name).is_ok_and(|it| it == *to);
        if !self.old.iter().all(same) {
            faults.push("the old runtime is changed".to_owned());
        }
        self.choose_engine(false);
        let listed = self.user.run(&["runtime", "list", "--json"])?;
        let used = listed.events.first().and_then(|list| {
            let rows = list["runtimes"].as_array()?;
            let used = rows.iter().find(|row| row["is_used"] == true)?;
            Some(used["id"].as_str()?.to_owned())
        });
        match used.as_deref() {
            Some("old") => {}
            Some("trial") if is_there => {}
            used => faults.push(format!("jobs use {used:?}")),
        }
        if tries_old {
            self.choose_engine(true);
            let tried = self.user.run(&["runtime", "check", "old", "--json"])?;
            if tried.code != Some(0) {
                faults.push(format!("the old runtime fails: {:?}", tried.events));
            }
        }
        Ok(faults)
    }

    /// The installation that comes next must finish.
    pub(super) fn finish(&mut self) -> Result<(Ended, Vec<String>)> {
        let ended = self.install()?;
        let mut faults = Vec::new();
        if ended.code != Some(0) {
            faults.push(format!(
                "the next installation ends with {:?}: {:?}",
                ended.code,
                ended.events.last()
            ));
        }
        if self.files() != self.whole {
            faults.push("the files are not the same".to_owned());
        }
        let names = fs::read_dir(self.runtimes())
            .into_iter()
            .flatten()
            .flatten();
        for entry in names {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !["old", "trial", ".trial.lock"].contains(&name.as_str()) {
                faults.push(format!("left behind: {name}"));
            }
        }
        Ok((ended, faults))
    }

    /// What lies in the new runtime; of the note only that it is there, as it names the server's port.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let trial = self.runtimes().join("trial");
        let mut files = BTreeMap::new();
        let mut folders = vec![trial.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(&trial).unwrap_or(&path).to_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if name == Path::new("installed.json") {
                    files.insert(name, Vec::new());
                } else {
                    files.insert(name, fs::read(&path).unwrap_or_default());
                }
            }
        }
        files
    }
}

/// What came of the kills.
#[derive(Default)]
struct Tally {
    kills: u32,
    /// By bytes of the server; the others by moments.
    at_bytes: u32,
    /// It had ended before.
    too_late: u32,
    /// The new one was in place.
    in_place: u32,
    old_tried: u32,
    /// That the killed one and the next one fetched.
    bytes: u64,
    most_bytes: u64,
    faults: Vec<String>,
}

pub(super) fn run(
    user: &mut User,
    seed: u64,
    kills: u32,
    limit: Option<Duration>,
    is_json: bool,
) -> Result<ExitCode> {
    let mut home = Home::begin(user)?;
    let mut random = Random::new(seed);
    let begin = Instant::now();
    home.clean()?;
    home.index.given();
    let alone = Instant::now();
    let ended = home.install()?;
    let took = alone.elapsed();
    if ended.code != Some(0) {
        let text = format!("it fails undisturbed: {} {:?}", ended.errors, ended.events);
        return Err(broken(text));
    }
    home.whole = home.files();
    let undisturbed = home.index.given();
    let wheel_bytes: u64 = home.index.wheels().values().map(|it| it.len() as u64).sum();
    let mut tally = Tally::default();
    let is_over =
        |tally: &Tally| tally.kills >= kills || limit.is_some_and(|limit| begin.elapsed() >= limit);
    while !is_over(&tally) {
        let before = tally.faults.len();
        strike(&mut home, &mut random, (undisturbed, took), &mut tally)?;
        for fault in &mut tally.faults[before..] {
            *fault = format!("kill {}: {fault}", tally.kills);
            if !is_json {
                out::print(&format!("{fault}\n"), 0);
            }
        }
    }
    let cases = runtime_faults::all(&mut home)?;
    let bad = cases.iter().filter(|case| !case.faults.is_empty());
    let is_well = tally.faults.is_empty() && bad.count() == 0;
    let code = u8::from(!is_well);
    let mean = tally.bytes / u64::from(tally.kills.max(1));
    if is_json {
        let rows: Vec<Value> = cases.iter().map(runtime_faults::Case::as_json).collect();
        let object = json!({
            "seed": seed, "secs": begin.elapsed().as_secs(), "kills": tally.kills,
            "kills_at_bytes": tally.at_bytes, "too_late": tally.too_late, "in_place": tally.in_place,
            "old_tried": tally.old_tried, "wheel_bytes": wheel_bytes, "undisturbed_bytes": undisturbed,
            "mean_bytes": mean, "most_bytes": tally.most_bytes, "faults": tally.faults,
            "cases": rows, "is_well": is_well,
        });
        return Ok(out::print_json(&object, code));
    }
    let Tally {
        kills,
        at_bytes,
        too_late,
        in_place,
        old_tried,
        most_bytes,
        ..
    } = tally;
    let [whole, alone, mean, most] = [wheel_bytes, undisturbed, mean, most_bytes].map(size_text);
    let mut text = format!(
        "{kills} kills, seed {seed}: {at_bytes} at a byte of the server, {} at a moment ({too_late} too late, {in_place} with the new runtime in place)\n\
         the old runtime was tried by the real engine {old_tried} times\n\
         wheels {whole}, fetched undisturbed {alone}, killed and finished {mean} on average and at most {most}\n\n",
        kills - at_bytes
    );
    for case in &cases {
        text.push_str(&case.as_text());
    }
    let end = if is_well {
        "nothing was lost"
    } else {
        "NOT well"
    };
    let secs = begin.elapsed().as_secs();
    // Writing to a string cannot fail.
    writeln!(text, "\n{secs} s: {end}").ok();
    Ok(out::print(&text, code))
}

/// One installation that is killed, and the next.
fn strike(
    home: &mut Home<'_>,
    random: &mut Random,
    (bytes, took): (u64, Duration),
    tally: &mut Tally,
) -> Result<()> {
    home.clean()?;
    home.index.given();
    let is_at_byte = random.below(10) < 7;
    let share = random.below(1100) as f64 / 1000.0;
    let at = random.below(bytes as usize) as u64;
    home.index.stop_after(is_at_byte.then_some(at));
    home.choose_engine(false);
    let mut running = home.user.start(&home.arguments())?;
    let begin = Instant::now();
    let has_ended = loop {
        // One that cannot be asked is seen to end below.
        if running
            .child
            .try_wait()
            .is_ok_and(|status| status.is_some())
        {
            break true;
        }
        let is_due = if is_at_byte {
            home.index.is_silent()
        } else {
            begin.elapsed() >= took.mul_f64(share)
        };
        if is_due {
            break false;
        }
        thread::sleep(Duration::from_millis(1));
    };
    // What the server gave before it fell silent comes in meanwhile, or does not.
    thread::sleep(Duration::from_millis(random.below(20) as u64));
    kill_process(running.pid(), Signal::KILL).ok();
    running.end()?;
    tally.kills += 1;
    tally.at_bytes += u32::from(is_at_byte);
    tally.too_late += u32::from(has_ended);
    tally.in_place += u32::from(home.runtimes().join("trial").exists());
    if let Some(names) = home.user.staying() {
        tally.faults.push(format!("a process stays: {names}"));
    }
    home.index.stop_after(None);
    let tries_old = tally.kills.is_multiple_of(TRY_EVERY);
    tally.old_tried += u32::from(tries_old);
    tally.faults.extend(home.judge(tries_old)?);
    let (_, faults) = home.finish()?;
    tally.faults.extend(faults);
    let given = home.index.given();
    tally.bytes += given;
    tally.most_bytes = tally.most_bytes.max(given);
    Ok(())
}
