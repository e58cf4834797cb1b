//! Runs test executables side by side, those that take longest first.
//!
//! What each says goes to a file in the build folder and is shown whole when it ends. How long each took is remembered
//! there for the next time. Does not choose tests, nor judge what they say.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::failure::{Doing as _, Result};

/// Those that take long, the longest first, for the first run in a build folder. One that is not here is taken for short.
const LONG: [&str; 8] = [
    "tests/safelight_engine",
    "tests/generate",
    "tests/app_window",
    "tests/safelight_core",
    "tests/real_window",
    "tests/bench",
    "tests/safelight",
    "tests/hostile",
];
/// How long each took, a line each.
const TIMES: &str = "seconds";
/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(20);

/// One that is to be run.
pub struct Job {
    pub name: String,
    pub command: Command,
}

/// One that has ended.
pub struct Done {
    pub name: String,
    pub took: Duration,
    pub is_passed: bool,
    /// All that it wrote, in the order in which it did.
    pub output: Vec<u8>,
}

struct Running {
    name: String,
    child: Child,
    start: Instant,
    output: PathBuf,
}

/// Each has threads enough for all processors but does not use them all the time, least at its end.
fn most_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 4).clamp(2, 4)
}

/// Runs all and tells of each that ends; Ctrl-C reaches them as it does this program.
pub fn run_all(
    folder: &Path,
    jobs: Vec<Job>,
    mut tell: impl FnMut(&Done) -> Result<()>,
) -> Result<()> {
    let mut times = Times::load(&folder.join(TIMES));
    let mut jobs = times.in_order(jobs);
    let mut running: Vec<Running> = Vec::new();
    loop {
        while running.len() < most_at_once()
            && let Some(job) = jobs.pop()
        {
            running.push(start(folder, job)?);
        }
        if running.is_empty() {
            break;
        }
        std::thread::sleep(LOOK);
        let mut still = Vec::new();
        for mut ended in running {
            let status = ended.child.try_wait();
            let Some(status) = status.doing(|| ended.name.clone())? else {
                still.push(ended);
                continue;
            };
            let done = Done {
                took: ended.start.elapsed(),
                is_passed: status.success(),
                output: fs::read(&ended.output).doing(|| ended.output.display().to_string())?,
                name: ended.name,
            };
            times.remember(&done);
            tell(&done)?;
        }
        running = still;
    }
    times.store();
    Ok(())
}

fn start(folder: &Path, job: Job) -> Result<Running> {
    let Job { name, mut command } = job;
    let output = folder.join(&name).with_extension("txt");
    let open = || -> std::io::Result<[File; 2]> {
        fs::create_dir_all(output.parent().unwrap_or(folder))?;
        let file = File::create(&output)?;
        Ok([file.try_clone()?, file])
    };
    let [out, err] = open().doing(|| output.display().to_string())?;
    let child = command.stdout(out).stderr(err).spawn();
    Ok(Running {
        child: child.doing(|| format!("{name} cannot be started"))?,
        name,
        start: Instant::now(),
        output,
    })
}

/// How long each took when it ran last.
struct Times {
    path: PathBuf,
    known: Vec<(String, f64)>,
}

impl Times {
    /// One that is missing or damaged costs nothing but a worse order.
    fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let pair = |line: &str| {
            let (name, secs) = line.split_once(' ')?;
            Some((name.to_owned(), secs.parse().ok()?))
        };
        let known = text.lines().filter_map(pair).collect();
        let path = path.to_owned();
        Self { path, known }
    }

    fn secs(&self, name: &str) -> f64 {
        let known = self.known.iter().find(|it| it.0 == name);
        known.map_or_else(|| guess(name), |it| it.1)
    }

    /// The one at the end is the next.
    fn in_order(&self, mut jobs: Vec<Job>) -> Vec<Job> {
        jobs.sort_by(|a, b| self.secs(&a.name).total_cmp(&self.secs(&b.name)));
        jobs
    }

    fn remember(&mut self, done: &Done) {
        self.known.retain(|it| it.0 != done.name);
        let secs = done.took.as_secs_f64();
        self.known.push((done.name.clone(), secs));
    }

    fn store(&self) {
        let lines: Vec<_> = self
            .known
            .iter()
            .map(|(name, secs)| format!("{name} {secs:.1}"))
            .collect();
        // The next run has a worse order without it, no more.
        fs::write(&self.path, lines.join("\n")).ok();
    }
}

/// No seconds, but those that take long come before the others.
fn guess(name: &str) -> f64 {
    let place = LONG.iter().rev().position(|long| *long == name);
    place.map_or(0.0, |place| 1000.0 + place as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let here = std::env::current_exe().expect("a test has an executable");
        let folder = here.with_file_name(name);
        fs::remove_dir_all(&folder).ok();
        folder
    }

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = name.to_owned();
        Job { name, command }
    }

    #[test]
    fn each_is_told_of_whole_and_one_that_fails_stops_no_other() {
        let folder = folder("xtask-side-by-side");
        let mut jobs = vec![
            job("tests/fails", "echo out; echo err >&2; exit 3"),
            job("tests/killed", "kill -9 $$"),
        ];
        jobs.extend((0..5).map(|i| job(&format!("tests/{i}"), &format!("echo {i}"))));
        let mut told = Vec::new();
        run_all(&folder, jobs, |done| {
            let output = String::from_utf8_lossy(&done.output).into_owned();
            told.push((done.name.clone(), done.is_passed, output));
            Ok(())
        })
        .expect("all run");
        told.sort();
        let told: Vec<_> = told.iter().map(|it| (&*it.0, it.1, &*it.2)).collect();
        let expected = [
            ("tests/0", true, "0\n"),
            ("tests/1", true, "1\n"),
            ("tests/2", true, "2\n"),
            ("tests/3", true, "3\n"),
            ("tests/4", true, "4\n"),
            ("tests/fails", false, "out\nerr\n"),
            ("tests/killed", false, ""),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_one_that_took_longest_last_time_is_the_next() {
        let folder = folder("xtask-longest-first");
        let jobs = || vec![job("tests/a", "sleep 0.4"), job("tests/b", "true")];
        run_all(&folder, jobs(), |_| Ok(())).expect("all run");
        let mut times = Times::load(&folder.join(TIMES));
        assert!(times.secs("tests/a") >= 0.4, "it was remembered");
        assert_eq!(times.secs("tests/unheard-of"), 0.0);
        assert!(times.secs(LONG[0]) > times.secs(LONG[1]));
        let next = |times: &Times| times.in_order(jobs()).pop().map(|job| job.name);
        times.known = vec![("tests/a".to_owned(), 1.0), ("tests/b".to_owned(), 0.5)];
        assert_eq!(next(&times).as_deref(), Some("tests/a"));
        times.known[1].1 = 2.0;
        assert_eq!(next(&times).as_deref(), Some("tests/b"));
    }
}
