//! Disks that fail at every write of a job, one after the other: each job must finish, or be kept and go on to the same
//! bytes, or end before it made anything, and say why in a sentence.
//!
//! What fails is a library that is loaded before the C library, which `cc` builds from `disk_faults.c`; it counts over the
//! program and its engine. Where root runs this, jobs also get disks of their own that are too small.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use safelight::cli::out;
use serde_json::{Value, json};

use super::user::{Ended, Result, User, broken, disk};

pub(super) const NAME: &str = "disk";

const SOURCE: &str = include_str!("../../../tests/common/disk_faults.c");
/// What fails, and what that is to people.
pub(super) const KINDS: [(&str, &str); 7] = [
    ("full", "no space from this write on"),
    ("short", "half of this write, then no space"),
    ("once", "no space for this write alone"),
    ("rename", "this rename fails"),
    ("sync", "this flush fails"),
    ("readonly", "read-only from this new file on"),
    ("nolock", "a share that gives no locks"),
];

/// What a disk of its own has at first.
const SMALLEST_KIB: f64 = 64.0;
/// How many times more the next one has.
const GROWTH: f64 = 1.15;

/// The library, and what it counts in.
pub(super) struct Faults {
    library: PathBuf,
    counter: PathBuf,
}

impl Faults {
    pub(super) fn build(folder: &Path) -> Result<Self> {
        let (source, library) = (folder.join("disk_faults.c"), folder.join("disk_faults.so"));
        fs::write(&source, SOURCE).map_err(|err| disk(&err, &source))?;
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err(broken("`cc` does not build the library of faults"));
        }
        let counter = folder.join("counter");
        Ok(Self { library, counter })
    }

    /// Has the next program fail at its `at`-th call of this kind below the home; at none where that is 0.
    pub(super) fn arm(&self, user: &mut User, kind: &str, at: u64) -> Result<()> {
        fs::write(&self.counter, [0; 8]).map_err(|err| disk(&err, &self.counter))?;
        let home = user.home.display();
        let fault = format!("{kind}:{at}:{}:{home}/", self.counter.display());
        user.variables = vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("SAFELIGHT_DISK_FAULT", fault.into()),
        ];
        Ok(())
    }

    pub(super) fn count(&self) -> u64 {
        let bytes = fs::read(&self.counter).unwrap_or_default();
        bytes.try_into().map_or(0, u64::from_le_bytes)
    }
}

/// What came of one kind.
#[derive(Default)]
struct Tally {
    tried: u32,
    finished: u32,
    /// Kept, and gone on to the same bytes.
    resumed: u32,
    /// Ended with a sentence before anything was made.
    refused: u32,
    faults: Vec<String>,
}

pub(super) fn run(user: &mut User, limit: Option<Duration>, is_json: bool) -> Result<ExitCode> {
    let folder = tempfile::tempdir().map_err(|err| disk(&err, Path::new("a temporary folder")))?;
    let faults = Faults::build(folder.path())?;
    let begin = Instant::now();
    let mut tallies = Vec::new();
    let mut is_cut = false;
    if rustix::process::geteuid().is_root() {
        let (tally, most) = on_small_disks(user, limit.map(|limit| begin + limit))?;
        tell("a disk of its own that is too small", most, &tally, is_json);
        tallies.push(("small", most, tally));
    }
    for (kind, what) in KINDS {
        // How often a job that nobody disturbs does it, and what it leaves.
        user.clean()?;
        faults.arm(user, kind, 0)?;
        let alone = user.run(&arguments())?;
        if alone.code != Some(0) {
            let text = format!("a job fails undisturbed: {}", alone.errors.trim());
            return Err(broken(text));
        }
        let (files, most) = (user.files(), faults.count());
        let mut tally = Tally::default();
        for at in 1..=most {
            // A share without locks has none from the first on.
            is_cut |= limit.is_some_and(|limit| begin.elapsed() >= limit);
            if is_cut || (kind == "nolock" && at > 1) {
                break;
            }
            let wrong = Wrong::Calls(&faults, kind, at);
            let files = &files;
            Trial { user, files, wrong }.play(&mut tally)?;
        }
        tell(what, most, &tally, is_json);
        tallies.push((kind, most, tally));
    }
    let is_well = tallies.iter().all(|(_, _, tally)| tally.faults.is_empty());
    let code = u8::from(!is_well);
    if is_json {
        let rows = tallies.iter().map(|(kind, most, tally)| {
            json!({
                "kind": kind, "calls": most, "tried": tally.tried, "finished": tally.finished,
                "resumed": tally.resumed, "refused": tally.refused, "faults": tally.faults,
            })
        });
        let rows: Vec<Value> = rows.collect();
        let object = json!({"kinds": rows, "secs": begin.elapsed().as_secs(), "is_well": is_well, "is_cut": is_cut});
        return Ok(out::print_json(&object, code));
    }
    let end = if is_well {
        "nothing was lost"
    } else {
        "NOT well"
    };
    let secs = begin.elapsed().as_secs();
    let head = "columns: tried, finished, kept and resumed, refused, faults";
    Ok(out::print(&format!("{head}; {secs} s: {end}\n"), code))
}

/// One line, and what should not be.
fn tell(what: &str, most: u64, tally: &Tally, is_json: bool) {
    if is_json {
        return;
    }
    let Tally {
        tried,
        finished,
        resumed,
        refused,
        ..
    } = tally;
    let rest = format!("{tried:>4} of {most:>4} {finished:>9} {resumed:>8} {refused:>8}");
    out::print(&format!("{what:<36} {rest} {:>7}\n", tally.faults.len()), 0);
    for fault in &tally.faults {
        out::print(&format!("  {fault}\n"), 0);
    }
}

/// Jobs in a home that is a file system of its own (tmpfs, which root alone can make), larger each time, until three
/// found room -> what came of them, and how many that were.
fn on_small_disks(user: &mut User, until: Option<Instant>) -> Result<(Tally, u64)> {
    user.clean()?;
    user.run(&arguments())?;
    let files = user.files();
    let mut tally = Tally::default();
    while tally.finished < 3 && until.is_none_or(|until| Instant::now() < until) {
        let kib = (SMALLEST_KIB * GROWTH.powf(tally.tried.into())) as u64;
        let (files, wrong) = (&files, Wrong::Small(kib));
        Trial { user, files, wrong }.play(&mut tally)?;
    }
    let most = tally.tried.into();
    Ok((tally, most))
}

fn arguments() -> Vec<&'static str> {
    let line = "generate --json --device cpu --model little-world --prompt fox --seed 3 --width 64 --height 64 \
        --frames 5 --steps 6 --out clip.webp";
    line.split_whitespace().collect()
}

/// What is wrong with the disk.
enum Wrong<'a> {
    /// Its calls of a kind fail from, or at, this one on.
    Calls(&'a Faults, &'a str, u64),
    /// It has so many KiB in all.
    Small(u64),
}

impl Wrong<'_> {
    /// In a home that is as it was at first.
    fn begin(&self, user: &mut User) -> Result<()> {
        user.clean()?;
        match self {
            Self::Calls(faults, kind, at) => faults.arm(user, kind, *at),
            Self::Small(kib) => {
                mount(
                    user,
                    &["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"],
                )?;
                user.settle()
            }
        }
    }

    /// Somebody made room; a share without locks stays as it is.
    fn mend(&self, user: &mut User) -> Result<()> {
        match self {
            Self::Calls(_, "nolock", _) => Ok(()),
            Self::Calls(..) => {
                user.variables.clear();
                Ok(())
            }
            Self::Small(_) => mount(user, &["-o", "remount,size=1g"]),
        }
    }

    fn end(&self, user: &mut User) -> Result<()> {
        user.variables.clear();
        match self {
            Self::Calls(..) => Ok(()),
            Self::Small(_) => unmount(user),
        }
    }
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(_, kind, at) => write!(f, "{kind} {at}"),
            Self::Small(kib) => write!(f, "{kib} KiB"),
        }
    }
}

fn mount(user: &User, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("mount");
    succeeds(command.args(arguments).arg(&user.home))
}

fn unmount(user: &User) -> Result<()> {
    succeeds(Command::new("umount").arg(&user.home))
}

fn succeeds(command: &mut Command) -> Result<()> {
    let status = command.stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err(broken(format!("{command:?} fails")))
    }
}

/// One job on one disk that fails.
struct Trial<'a> {
    user: &'a mut User,
    files: &'a BTreeMap<PathBuf, Vec<u8>>,
    wrong: Wrong<'a>,
}

impl Trial<'_> {
    fn play(self, tally: &mut Tally) -> Result<()> {
        self.wrong.begin(self.user)?;
        let ended = self.user.run(&arguments())?;
        tally.tried += 1;
        let mut found = Self::judge_words(&ended);
        self.wrong.mend(self.user)?;
        if ended.code == Some(0) {
            tally.finished += 1;
        } else if let Some(job) = self.kept()? {
            let resumed = self.user.run(&["resume", &job, "--json"])?;
            if resumed.code == Some(0) {
                tally.resumed += 1;
            } else {
                let why = resumed.errors.trim();
                found.push(format!("what was kept does not go on: {why}"));
            }
        } else {
            tally.refused += 1;
            let has_made = ended.events.iter().any(|event| event["state"] == "ended");
            if has_made {
                found.push(format!(
                    "it made something and kept nothing: {}",
                    ended.errors.trim()
                ));
            }
            let again = self.user.run(&arguments())?;
            if again.code != Some(0) {
                found.push(format!("the next job fails: {}", again.errors.trim()));
            }
        }
        found.extend(self.compare());
        self.wrong.end(self.user)?;
        let found = found.into_iter();
        tally
            .faults
            .extend(found.map(|what| format!("{}: {what}", self.wrong)));
        Ok(())
    }

    /// A failure says why, and is the disk's.
    fn judge_words(ended: &Ended) -> Vec<String> {
        let mut found = Vec::new();
        let failed = ended.events.iter().find(|event| event["event"] == "failed");
        if ended.errors.contains("panicked") {
            found.push(format!("a panic: {}", ended.errors.trim()));
        }
        match (ended.code, failed) {
            (Some(0), _) => {}
            (_, Some(failed))
                if failed["kind"] == "disk" || failed["kind"] == "invalid_request" => {}
            (code, failed) => found.push(format!("it ended with {code:?} and said {failed:?}")),
        }
        found
    }

    /// The number of the job that can go on, if any.
    fn kept(&self) -> Result<Option<String>> {
        let listed = self.user.run(&["resume", "--json"])?;
        let first = listed
            .events
            .first()
            .map(|list| list["jobs"][0]["job"].clone());
        Ok(first.and_then(|job| job.as_str().map(str::to_owned)))
    }

    fn compare(&self) -> Vec<String> {
        let files = self.user.files();
        let mut found = Vec::new();
        for (name, bytes) in &files {
            match self.files.get(name) {
                None if name.ends_with("ladder.json") => {}
                None => found.push(format!("left behind: {}", name.display())),
                Some(wanted) if name.starts_with("out") && bytes != wanted => {
                    found.push(format!("not the same bytes: {}", name.display()));
                }
                Some(_) => {}
            }
        }
        let results = self.files.keys().filter(|name| name.starts_with("out"));
        let lost = results.filter(|name| !files.contains_key(*name));
        found.extend(lost.map(|name| format!("lost: {}", name.display())));
        found
    }
}
