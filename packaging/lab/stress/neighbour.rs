//! Another program that takes the memory of a job: the job must wait for it, and go on to the same bytes.
//!
//! Both run in a group of the kernel (cgroup) of their own with a limit, so that nobody else on the machine notices.
//! That needs root.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use safelight::cli::out;
use serde_json::json;

use super::user::{Ended, Result, Running, User, broken, disk};
use crate::random::Random;

pub(super) const NAME: &str = "neighbour";

const MIB: u64 = 1 << 20;
/// What the job and the other program have together.
const LIMIT: u64 = 1024 * MIB;
/// What the program has while its engine is away, with air: the other program takes no more than the rest.
const KEPT: u64 = 96 * MIB;
/// The other program takes this, and then rests: some 600 MiB a second.
const BITE: u64 = 32 * MIB;
const REST: Duration = Duration::from_millis(50);
/// A job waits within this time when memory is scarce.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs as the other program: takes memory slowly and keeps it until standard input ends.
pub(super) fn hog(mib: u64) -> ExitCode {
    let mut held = Vec::new();
    while (held.len() as u64) * BITE < mib * MIB {
        held.push(vec![1_u8; BITE as usize]);
        thread::sleep(REST);
    }
    out::print("full\n", 0);
    // An error ends it as well.
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    drop(held);
    ExitCode::SUCCESS
}

/// A group of processes with a limit, gone when this is dropped.
struct Group {
    folder: PathBuf,
    is_first: bool,
}

impl Group {
    fn make(limit: u64) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("safelight-stress-{}", std::process::id());
        let controllers = fs::read_to_string(root.join("cgroup.controllers"));
        let is_first = !controllers.is_ok_and(|names| names.contains("memory"));
        let (folder, limits) = if is_first {
            (root.join("memory").join(name), "memory.limit_in_bytes")
        } else {
            // Where it is not allowed, the limit below cannot be written.
            fs::write(root.join("cgroup.subtree_control"), "+memory").ok();
            (root.join(name), "memory.max")
        };
        let made = fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join(limits), limit.to_string()));
        made.map_err(|err| {
            broken(format!(
                "a group with a limit of memory cannot be made, which needs root ({err}): {}",
                folder.display()
            ))
        })?;
        Ok(Self { folder, is_first })
    }

    fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// How often the system ended one of its processes for want of memory.
    fn num_killed(&self) -> u64 {
        let name = if self.is_first {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        text.lines().find_map(count).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may be on its way out.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What came of all cycles.
#[derive(Default)]
struct Tally {
    cycles: u32,
    /// Jobs that waited, and waits; a job may wait twice.
    waited: u32,
    waits: usize,
    /// From the moment at which the other program had all until the job said that it waits; less than 0 is 0.
    delays: Vec<Duration>,
    faults: Vec<String>,
}

pub(super) fn run(
    user: &mut User,
    seed: u64,
    cycles: u32,
    limit: Option<Duration>,
    is_json: bool,
) -> Result<ExitCode> {
    let group = Group::make(LIMIT)?;
    user.group = Some(group.processes());
    let line = "generate --json --device cpu --model little-world --prompt fox --seed 3 --width 96 --height 96 \
        --frames 9 --steps 60 --out clip.webp";
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let begin = Instant::now();
    user.clean()?;
    let alone = user.run(&arguments)?;
    let took = begin.elapsed();
    if alone.code != Some(0) || alone.count("waiting") > 0 {
        let what = "a job does not run undisturbed in its group";
        return Err(broken(format!("{what}: {}", alone.errors)));
    }
    let result = user.home.join("out/clip.webp");
    let expected = fs::read(&result).map_err(|err| disk(&err, &result))?;
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    while tally.cycles < cycles && limit.is_none_or(|limit| begin.elapsed() < limit) {
        user.clean()?;
        let killed = group.num_killed();
        let running = user.start(&arguments)?;
        thread::sleep(took.mul_f64(random.below(600) as f64 / 1000.0));
        let most = (LIMIT - KEPT) / MIB;
        let mib = most - random.below((most / 5) as usize) as u64;
        let mut hog = start_hog(&group, mib)?;
        let (full, waits) = until_it_waits(&running, &mut hog);
        if let Some(waits) = waits {
            let full = full.unwrap_or(waits);
            tally.delays.push(waits.saturating_duration_since(full));
        }
        thread::sleep(Duration::from_millis(random.below(1500) as u64));
        // It may have been ended already.
        hog.kill().ok();
        let hog_ended = hog.wait().map_err(|err| disk(&err, &group.folder))?;
        let ended = running.end()?;
        tally.cycles += 1;
        let waits = num_waits(&ended);
        tally.waits += waits;
        tally.waited += u32::from(waits > 0);
        let mut fault = |what: String| {
            let number = tally.cycles;
            let text = format!("cycle {number}, {mib} MiB: {what}");
            if !is_json {
                out::print(&format!("{text}\n"), 0);
            }
            tally.faults.push(text);
        };
        if group.num_killed() != killed {
            fault(format!(
                "the system ended a process for memory (the other ended with {hog_ended})"
            ));
        }
        if ended.code != Some(0) {
            fault(format!(
                "the job ends with {:?}: {}",
                ended.code,
                ended.errors.trim()
            ));
        } else if fs::read(&result).ok().as_ref() != Some(&expected) {
            fault("not the same bytes".to_owned());
        }
        if ended.count("warning") > 0 {
            fault(format!(
                "{:?}",
                ended
                    .events
                    .iter()
                    .find(|event| event["event"] == "warning")
            ));
        }
        if let Some(names) = user.staying() {
            fault(format!("a process stays: {names}"));
        }
    }
    Ok(tally.report(seed, took, begin.elapsed(), is_json))
}

/// How often the job waited: a wait is told again and again, and ends with the next stage.
fn num_waits(ended: &Ended) -> usize {
    let kinds = ended
        .events
        .iter()
        .filter_map(|event| event["event"].as_str());
    let kinds: Vec<&str> = kinds
        .filter(|kind| ["waiting", "stage"].contains(kind))
        .collect();
    let begins = |pair: &&[&str]| pair[0] != "waiting" && pair[1] == "waiting";
    kinds.windows(2).filter(begins).count()
}

fn start_hog(group: &Group, mib: u64) -> Result<Child> {
    let own = std::env::current_exe().map_err(|err| disk(&err, Path::new("/proc/self/exe")))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", super::user::INTO_GROUP])
        .arg(group.processes())
        .arg(own)
        .args(["hog", &mib.to_string()]);
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    child.map_err(|err| disk(&err, Path::new("sh")))
}

/// When the other program had all that it wants, and when the job waited; none where it did not.
fn until_it_waits(running: &Running, hog: &mut Child) -> (Option<Instant>, Option<Instant>) {
    let said = hog.stdout.take().and_then(|mut said| {
        let listen = move || said.read_exact(&mut [0; 4]).is_ok().then(Instant::now);
        let thread = thread::Builder::new().name("listens to the hog".to_owned());
        // Without it the time that it took is not known, and the wait ends all the same.
        thread.spawn(listen).ok()
    });
    let begin = Instant::now();
    let mut waits = None;
    let most = REST * (LIMIT / BITE) as u32 + PATIENCE;
    while begin.elapsed() < most {
        let events = running.events();
        if events.iter().any(|event| event["event"] == "waiting") {
            waits = Some(Instant::now());
            break;
        }
        if events.iter().any(|event| event["event"] == "finished") {
            break;
        }
        let is_full = said.as_ref().is_none_or(|said| said.is_finished());
        if is_full && begin.elapsed() > PATIENCE {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    // Without an end of its own it is not waited for.
    let full = said.filter(|said| said.is_finished());
    (full.and_then(|said| said.join().ok().flatten()), waits)
}

impl Tally {
    /// Prints what came of it: 1 where anything was lost.
    fn report(mut self, seed: u64, took: Duration, all: Duration, is_json: bool) -> ExitCode {
        let is_well = self.faults.is_empty();
        self.delays.sort();
        let longest = self.delays.last().copied().unwrap_or_default();
        let code = u8::from(!is_well);
        if is_json {
            let object = json!({
                "seed": seed, "secs": all.as_secs(), "cycles": self.cycles, "waited": self.waited,
                "waits": self.waits, "alone_secs": took.as_secs_f64(),
                "longest_delay_secs": longest.as_secs_f64(), "faults": self.faults, "is_well": is_well,
            });
            return out::print_json(&object, code);
        }
        let end = if is_well {
            "every job made the same bytes"
        } else {
            "NOT well"
        };
        let rows = [
            ("cycles", self.cycles as usize),
            ("jobs that waited", self.waited as usize),
            ("waits", self.waits),
            (
                "jobs that had room or were done before",
                (self.cycles - self.waited) as usize,
            ),
            ("faults", self.faults.len()),
        ];
        let rows = rows.map(|(name, count)| format!("{name:<40} {count:>6}\n"));
        let text = format!(
            "{}in {} s, seed {seed}; alone a job takes {:.1} s; it waited at most {:.1} s after the other program had all: {end}\n",
            rows.concat(),
            all.as_secs(),
            took.as_secs_f64(),
            longest.as_secs_f64(),
        );
        out::print(&text, code)
    }
}
