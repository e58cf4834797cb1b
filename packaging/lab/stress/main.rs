//! Kills Safelight at random moments of everything it does, and reports whether anything was lost.
//!
//! After every kill the next start must be clean, finished results unchanged, no file half-written, a started job must
//! resume to the same bytes, and no process or temporary file may be left. Actions of the command line: [`actions`]; of
//! the window: [`window`], with the files it writes in [`desk`].

mod actions;
mod desk;
mod differ;
mod disk_faults;
#[path = "../../../tests/real_window/display.rs"]
#[expect(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "shared with the tests of the real window, which use all of it"
)]
mod display;
mod hands;
mod models;
mod neighbour;
#[path = "../../../tests/common/networks.rs"]
#[expect(clippy::expect_used, reason = "shared with the tests of finishing")]
mod networks;
#[path = "../random.rs"]
mod random;
mod runtime;
mod runtime_faults;
#[path = "../../../tests/common/server.rs"]
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with the tests of downloads"
)]
mod server;
mod user;
#[path = "../../../tests/common/wheels.rs"]
#[expect(dead_code, reason = "shared with the tests of runtimes")]
mod wheels;
mod window;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use actions::{Action, Kind};
use clap::Parser;
use desk::Changes;
use random::Random;
use rustix::process::{Pid, Signal, kill_process};
use safelight::cli::out;
use serde_json::{Value, json};
use server::{Answer, Server, good};
use user::{Ended, Result, User, disk};
use window::Visit;

/// Of the file that downloads bring: long enough to be killed in.
const DOWNLOAD_BYTES: usize = 64 << 20;
/// A job that goes on is killed again no more often than this.
const MAX_AGAIN: u32 = 3;

/// Kill Safelight at random moments of everything it does, and tell whether anything was lost
#[derive(Parser, Debug)]
#[command(name = "stress")]
struct StressArgs {
    /// How many kills
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    kills: u32,
    /// End after so many minutes, however many kills that were
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Which moments and actions; printed, so that a run can be had again [default: another each time]
    #[arg(long)]
    seed: Option<u64>,
    /// A model's folder beside the model that ships with Safelight; may be given several times
    #[arg(long, value_name = "PATH")]
    model: Vec<PathBuf>,
    /// What jobs compute on, as `safelight generate --device` takes it
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Only actions whose name has this in it, such as `window`, `window on a disk`, `window's queue`, `waiting jobs`,
    /// `gallery`, `LoRA`, `larger`, `more frames` or `batch`; `neighbour`: no kills but another program that takes the
    /// memory, so many times; `disk`: no kills but disks that fail at every write of a job; `runtime`: only
    /// installations of a libtorch from an index on this machine, killed so many times, and its servers and disks at
    /// fault
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl StressArgs {
    fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|text| name.contains(text.as_str()))
    }
}

/// What came of killing one action.
#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    /// Jobs that went on to their end behind a kill.
    resumed: u32,
    /// What should not be, in sentences.
    faults: Vec<String>,
}

/// Exit code 1 when anything was lost or left over.
fn main() -> ExitCode {
    if let [_, command, mib] = &std::env::args().collect::<Vec<_>>()[..]
        && command == "hog"
    {
        return neighbour::hog(mib.parse().unwrap_or(0));
    }
    let args = StressArgs::parse();
    run(&args).unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn run(args: &StressArgs) -> Result<ExitCode> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = args
        .seed
        .unwrap_or_else(|| clock.map_or(1, |time| time.as_secs()));
    let file = download();
    let server = Server::start(move |request| good_or_none(request, &file));
    let folder = tempfile::tempdir().map_err(|err| disk(&err, Path::new("a temporary folder")))?;
    let limit = args
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    let mut user = User::at(folder.path().join("home"), &server.url)?;
    match args.only.as_deref() {
        Some(neighbour::NAME) => {
            return neighbour::run(&mut user, seed, args.kills, limit, args.json);
        }
        Some(runtime::NAME) => return runtime::run(&mut user, seed, args.kills, limit, args.json),
        Some(disk_faults::NAME) => return disk_faults::run(&mut user, limit, args.json),
        _ => {}
    }
    let (actions, refused) =
        actions::all(&user, &args.device, &args.model, |name| args.wants(name))?;
    let mut stress = Stress {
        random: Random::new(seed),
        actions,
        user,
        tallies: BTreeMap::new(),
        changes: None,
        is_quiet: args.json,
    };
    stress.tell(&format!("seed {seed}, {} actions", stress.actions.len()));
    for name in refused {
        stress.tell(&format!("left out, the model does not do it: {name}"));
    }
    let visits: Vec<_> = Visit::ALL
        .into_iter()
        .filter(|visit| args.wants(visit.name()))
        .collect();
    let mut window = if visits.is_empty() {
        None
    } else {
        let desk = folder.path().join("desk");
        Some(window::Sitting::begin(desk, &server.url)?)
    };
    let begin = Instant::now();
    while stress.num_kills() < args.kills && limit.is_none_or(|limit| begin.elapsed() < limit) {
        // Every fourth time the window, where there is one.
        match &mut window {
            Some(window) if stress.actions.is_empty() || stress.random.below(4) == 0 => {
                let visit = stress.random.one_of(&visits);
                let (is_struck, faults) = if visit == Visit::FailingDisk {
                    window.bear(&mut stress.random)?
                } else {
                    (true, window.strike(visit, &mut stress.random)?)
                };
                stress.count(visit.name(), is_struck.into(), 0, faults);
                stress.changes = Some(window.changes);
            }
            _ => stress.strike()?,
        }
    }
    if !stress.is_well() {
        let kept = folder.keep();
        stress.tell(&format!("the scratch homes stay: {}", kept.display()));
    }
    Ok(stress.report(seed, begin.elapsed(), args.json))
}

/// A weight file with one long tensor.
fn download() -> Vec<u8> {
    let header = json!({"x": {"dtype": "U8", "shape": [DOWNLOAD_BYTES], "data_offsets": [0, DOWNLOAD_BYTES]}});
    let header = header.to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.resize(file.len() + DOWNLOAD_BYTES, 7);
    file
}

fn good_or_none(request: &server::Request, file: &[u8]) -> Answer {
    if request.path.ends_with(".safetensors") {
        good(request, file)
    } else {
        Answer::of(404)
    }
}

/// Who is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Program(Signal),
    Engine,
    Both,
}

struct Stress {
    random: Random,
    user: User,
    actions: Vec<Action>,
    tallies: BTreeMap<String, Tally>,
    /// What changed on disk under the window, where it was opened.
    changes: Option<Changes>,
    is_quiet: bool,
}

impl Stress {
    fn tell(&self, text: &str) {
        if !self.is_quiet {
            // Nobody is left to tell when standard output is closed.
            out::print(&format!("{text}\n"), 0);
        }
    }

    fn num_kills(&self) -> u32 {
        self.tallies.values().map(|tally| tally.kills).sum()
    }

    fn count(&mut self, name: &str, kills: u32, resumed: u32, faults: Vec<String>) {
        for fault in &faults {
            self.tell(&format!("kill {}, {name}: {fault}", self.num_kills() + 1));
        }
        let tally = self.tallies.entry(name.to_owned()).or_default();
        tally.kills += kills;
        tally.resumed += resumed;
        tally.faults.extend(faults);
    }

    /// Does one action in a clean home, kills it once or some times, and sees what is left.
    fn strike(&mut self) -> Result<()> {
        let index = self.random.below(self.actions.len());
        actions::prepare(&self.user)?;
        let mut round = Round {
            random: &mut self.random,
            user: &self.user,
            action: &self.actions[index],
            kills: 0,
            resumed: 0,
            faults: Vec::new(),
        };
        round.play()?;
        let Round {
            kills,
            resumed,
            faults,
            ..
        } = round;
        let name = self.actions[index].name.clone();
        self.count(&name, kills, resumed, faults);
        Ok(())
    }

    /// Prints what came of it: 1 where anything was lost or left behind.
    fn report(&self, seed: u64, took: Duration, is_json: bool) -> ExitCode {
        let is_well = self.is_well();
        let code = u8::from(!is_well);
        if is_json {
            let rows = self.tallies.iter().map(|(name, tally)| {
                json!({
                    "action": name, "kills": tally.kills, "resumed": tally.resumed,
                    "faults": tally.faults,
                })
            });
            let rows: Vec<Value> = rows.collect();
            let changes: Option<BTreeMap<_, _>> = self.changes.map(|it| it.rows().into());
            let object = json!({
                "seed": seed, "secs": took.as_secs(), "kills": self.num_kills(),
                "actions": rows, "changes": changes, "is_well": is_well,
            });
            return out::print_json(&object, code);
        }
        out::print(&self.table(seed, took), code)
    }

    fn table(&self, seed: u64, took: Duration) -> String {
        let head = ["action", "kills", "resumed", "faults"].map(str::to_owned);
        let rows = self.tallies.iter().map(|(name, tally)| {
            let Tally {
                kills,
                resumed,
                faults,
            } = tally;
            [
                name.clone(),
                kills.to_string(),
                resumed.to_string(),
                faults.len().to_string(),
            ]
        });
        let mut text = String::new();
        for [name, kills, resumed, faults] in std::iter::once(head).chain(rows) {
            // Writing to a string cannot fail.
            writeln!(text, "{name:<44} {kills:>6} {resumed:>8} {faults:>7}").ok();
        }
        if let Some(changes) = self.changes {
            writeln!(text, "seen on disk under the window").ok();
            for (what, count) in changes.rows() {
                writeln!(text, "  {what:<42} {count:>6}").ok();
            }
        }
        let end = if self.is_well() {
            "nothing was lost"
        } else {
            "NOT well"
        };
        let (kills, secs) = (self.num_kills(), took.as_secs());
        writeln!(text, "{kills} kills in {secs} s, seed {seed}: {end}").ok();
        text
    }

    fn is_well(&self) -> bool {
        self.tallies.values().all(|tally| tally.faults.is_empty())
    }
}

/// One action, killed.
struct Round<'a> {
    random: &'a mut Random,
    user: &'a User,
    action: &'a Action,
    kills: u32,
    resumed: u32,
    faults: Vec<String>,
}

impl Round<'_> {
    fn fault(&mut self, text: impl Into<String>) {
        self.faults.push(text.into());
    }

    fn play(&mut self) -> Result<()> {
        let (victim, ended) = self.kill(&self.action.arguments.clone())?;
        if let Some(names) = self.user.staying() {
            self.fault(format!(
                "{victim:?} was struck, and a process stays: {names}"
            ));
        }
        match (victim, ended.code) {
            (Victim::Both | Victim::Program(_), _) => {}
            (Victim::Engine, code) if code == self.action.code => {}
            // The doctor fails, and tells of it.
            (Victim::Engine, Some(1)) if self.action.kind == Kind::Again => {}
            (Victim::Engine, code) => {
                let text = format!("the engine was killed and the program ends with {code:?}");
                self.fault(format!("{text}: {}", ended.errors.trim()));
            }
        }
        match self.action.kind {
            Kind::Jobs(jobs) => self.go_on(&ended, jobs)?,
            Kind::Again => {
                let again = self.user.run(&self.action.arguments)?;
                if again.code != self.action.code {
                    self.fault(format!("it fails behind the kill: {}", again.errors.trim()));
                }
                self.compare(usize::MAX);
            }
        }
        Ok(())
    }

    /// Starts the program and strikes at some moment of the time that it takes.
    fn kill(&mut self, arguments: &[std::ffi::OsString]) -> Result<(Victim, Ended)> {
        let victim = match self.random.below(10) {
            0 => Victim::Program(Signal::TERM),
            1 => Victim::Program(Signal::HUP),
            2 => Victim::Program(Signal::INT),
            3 | 4 => Victim::Engine,
            5 => Victim::Both,
            _ => Victim::Program(Signal::KILL),
        };
        let share = self.random.below(1100) as f64 / 1000.0;
        let running = self.user.start(arguments)?;
        thread::sleep(self.action.took.mul_f64(share));
        let engine = self.user.engine();
        let program = running.pid();
        // Who has ended already cannot be struck.
        let strike = |pid: Pid, signal| kill_process(pid, signal).ok();
        match (victim, engine) {
            (Victim::Program(signal), _) => strike(program, signal),
            (Victim::Engine, Some(engine)) => strike(engine, Signal::KILL),
            (Victim::Engine, None) => None,
            (Victim::Both, engine) => {
                strike(program, Signal::KILL);
                engine.and_then(|engine| strike(engine, Signal::KILL))
            }
        };
        self.kills += 1;
        Ok((victim, running.end()?))
    }

    /// Lets every job go on that was begun, perhaps killing it again, and compares what comes of them.
    fn go_on(&mut self, ended: &Ended, jobs: usize) -> Result<()> {
        let mut again = 0;
        // Each comes to its end, unless it is killed.
        for _ in 0..=MAX_AGAIN as usize + jobs {
            let listed = self.user.run(&["resume", "--json"])?;
            if listed.code != Some(0) {
                self.fault(format!("jobs cannot be listed: {}", listed.errors.trim()));
            }
            let first = listed
                .events
                .first()
                .map(|list| list["jobs"][0]["job"].clone());
            let Some(Value::String(job)) = first else {
                break;
            };
            let arguments = ["resume", &job, "--json"].map(std::ffi::OsString::from);
            if again < MAX_AGAIN && self.random.below(3) == 0 {
                again += 1;
                self.kill(&arguments)?;
                if let Some(names) = self.user.staying() {
                    self.fault(format!("a process stays behind a resumed job: {names}"));
                }
                continue;
            }
            let resumed = self.user.run(&arguments)?;
            if resumed.code == Some(0) {
                self.resumed += 1;
            } else {
                self.fault(format!("a job does not go on: {}", resumed.errors.trim()));
                break;
            }
        }
        // A job is begun with its first stage; what finished must be there whatever came after it.
        let begun = match jobs {
            1 => usize::from(ended.count("stage") > 0),
            _ => ended.count("job").max(ended.count("finished")),
        };
        self.compare(begun * self.num_results() / jobs);
        Ok(())
    }

    fn num_results(&self) -> usize {
        let names = self.action.files.keys();
        // One was finished long ago.
        names.filter(|name| name.starts_with("out")).count() - 1
    }

    /// Every file that lies there must be as it is when nobody disturbs; `expected` results, or all with the maximum.
    fn compare(&mut self, expected: usize) {
        let files = self.user.files();
        let mut results = 0;
        for (name, bytes) in &files {
            match self.action.files.get(name) {
                // Counters of engine restarts and of checks of GPU kernels.
                None if name.ends_with("ladder.json")
                    || name.extension().is_some_and(|end| end == "tries") => {}
                None => self.fault(format!("left behind: {}", name.display())),
                Some(wanted)
                    if name.starts_with("out") || name.starts_with("data/safelight/models") =>
                {
                    // Models stay as they are too, and are no results.
                    results += usize::from(name.starts_with("out"));
                    if bytes != wanted {
                        let scratch = self.user.home.with_extension("compared");
                        let how = differ::words(name, wanted, bytes, &scratch);
                        self.fault(format!("not the same bytes: {} ({how})", name.display()));
                    }
                }
                Some(_) => {}
            }
        }
        let is_whole = match expected {
            usize::MAX => self
                .action
                .files
                .keys()
                .all(|name| files.contains_key(name)),
            expected => results > expected,
        };
        if !is_whole {
            self.fault(format!(
                "lost: {} of {expected} results are there",
                results.saturating_sub(1)
            ));
        }
    }
}
