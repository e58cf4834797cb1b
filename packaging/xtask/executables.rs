//! Test executables: how cargo starts each of them, and running some at a time.
//!
//! Cargo is called with a runner that runs nothing and records how it would be started (`record-test`), so nothing has to
//! be known here of the folders and variables that cargo gives.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
const RECORDS: &str = "SAFELIGHT_RECORDS";

/// Those that take long, the longest first; the others come after them.
const LONG: [&str; 6] = [
    "tests/all",
    "tests/safelight_engine",
    "tests/safelight_core",
    "tests/bench",
    "tests/safelight",
    "tests/hostile",
];

pub struct TestExecutable {
    /// Part and target, such as `tests/all`.
    pub name: String,
    pub command: Command,
}

/// The executables that a `cargo test` would start, with the runner of `.cargo/config.toml`.
pub fn record(
    workspace: &Workspace,
    part: &str,
    mut cargo_test: Command,
) -> Result<Vec<TestExecutable>> {
    let records = workspace.target().join("test-records").join(part);
    empty(&records)?;
    let recorder = workspace.tool().join("record-test");
    cargo_test.env(RUNNER, recorder).env(RECORDS, &records);
    let output = cargo_test.output();
    let output = output.doing(|| "cargo cannot be started".to_owned())?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::new("The tests do not build; cargo says why above"));
    }
    let read = || -> std::io::Result<Vec<Vec<u8>>> {
        let entries = fs::read_dir(&records)?;
        entries.map(|entry| fs::read(entry?.path())).collect()
    };
    let found = read().doing(|| records.display().to_string())?;
    let runner = workspace.tool().join("with-libtorch");
    let found: Option<Vec<_>> = found.iter().map(|it| recorded(part, it, &runner)).collect();
    let found = found.filter(|found| !found.is_empty());
    found.ok_or_else(|| {
        let records = records.display();
        Failure::new(format!(
            "{records} does not hold what packaging/xtask/record-test writes"
        ))
    })
}

/// The executable of a record: its folder, the number of words, the words and the variables, each with a zero after it.
fn recorded(part: &str, record: &[u8], runner: &Path) -> Option<TestExecutable> {
    let texts = record.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let mut texts = texts.map(OsStr::from_bytes);
    let folder = texts.next()?;
    let count: usize = texts.next()?.to_str()?.parse().ok()?;
    let words: Vec<_> = texts.by_ref().take(count).collect();
    let file = Path::new(words.first()?).file_name()?.to_str()?;
    // After the last dash comes the hash by which cargo tells builds apart.
    let target = file.rsplit_once('-').map_or(file, |(target, _)| target);
    let mut command = Command::new(runner);
    command.args(&words).current_dir(folder).env_clear();
    for variable in texts {
        let bytes = variable.as_bytes();
        let equals = bytes.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&bytes[..equals], &bytes[equals + 1..]);
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command.env_remove(RUNNER).env_remove(RECORDS);
    let name = format!("{part}/{target}");
    Some(TestExecutable { name, command })
}

/// Runs all, some at a time; Ctrl-C reaches them as it does this program. `tell` gets name, seconds, success and output of
/// each that ends.
pub fn run_all(
    folder: &Path,
    mut tests: Vec<TestExecutable>,
    mut tell: impl FnMut(&str, f64, bool, &[u8]) -> Result<()>,
) -> Result<()> {
    let place = |test: &TestExecutable| LONG.iter().position(|name| *name == test.name);
    // The last one is the next.
    tests.sort_by_key(|test| std::cmp::Reverse(place(test).unwrap_or(LONG.len())));
    // Each has threads enough for all processors but does not use them all the time, least at its end.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let at_once = (processors / 4).clamp(2, 4).min(tests.len());
    let queue = Mutex::new(tests);
    let (sender, ended) = mpsc::sync_channel(at_once);
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(mut test) = next() {
                    let start = Instant::now();
                    let outcome = run(folder, &mut test);
                    let secs = start.elapsed().as_secs_f64();
                    sender.send((test.name, secs, outcome)).ok(); // The receiver is gone after an error.
                }
            });
        }
        drop(sender);
        for (name, secs, outcome) in ended {
            let (is_passed, output) = outcome?;
            tell(&name, secs, is_passed, &output)?;
        }
        Ok(())
    })
}

/// Success and output, which also stays in a file below `folder`.
fn run(folder: &Path, test: &mut TestExecutable) -> Result<(bool, Vec<u8>)> {
    let path = folder.join(&test.name).with_extension("txt");
    let mut ran = || -> std::io::Result<_> {
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let file = File::create(&path)?;
        let command = test.command.stdout(file.try_clone()?).stderr(file);
        let status = command.status()?;
        Ok((status.success(), fs::read(&path)?))
    };
    ran().doing(|| path.display().to_string())
}

/// Makes a folder with nothing in it.
pub fn empty(folder: &Path) -> Result<()> {
    let emptied = || {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)
    };
    emptied().doing(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> TestExecutable {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = name.to_owned();
        TestExecutable { name, command }
    }

    #[test]
    fn recorded_test_command_keeps_arguments_folder_and_environment() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("record-test");
        let records = tempfile::tempdir().expect("a folder");
        let status = Command::new(script)
            .args(["/w/target/debug/deps/app_window-0a1", "two words\n", ""])
            .current_dir("/usr")
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("TEXT", "a=b\nc")])
            .env(RECORDS, records.path())
            .status()
            .expect("it starts");
        assert!(status.success());
        let record = fs::read(records.path().join("app_window-0a1")).expect("it wrote");
        let found = recorded("tests", &record, Path::new("runner")).expect("of the form");
        assert_eq!(found.name, "tests/app_window");
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/usr")));
        let words: Vec<_> = found.command.get_args().collect();
        assert_eq!(
            words,
            ["/w/target/debug/deps/app_window-0a1", "two words\n", ""]
        );
        let variables: Vec<_> = found.command.get_envs().collect();
        assert!(variables.contains(&("TEXT".as_ref(), Some("a=b\nc".as_ref()))));
        assert!(
            variables
                .iter()
                .all(|(name, value)| *name != RECORDS || value.is_none())
        );
    }

    #[test]
    fn a_record_of_another_form_is_refused() {
        for record in ["", "/usr", "/usr\0", "/usr\0many\0", "/usr\x000\0"] {
            let found = recorded("tests", record.as_bytes(), Path::new("runner"));
            assert!(found.is_none(), "{record:?}");
        }
    }

    #[test]
    fn each_test_reports_its_output_and_a_failure_does_not_stop_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tests = vec![
            shell("tests/fails", "echo out; echo err >&2; exit 3"),
            shell("tests/killed", "kill -9 $$"),
        ];
        tests.extend((0..5).map(|i| shell(&format!("tests/{i}"), &format!("echo {i}"))));
        let mut ended = Vec::new();
        run_all(folder.path(), tests, |name, _, is_passed, output| {
            let output = String::from_utf8_lossy(output).into_owned();
            ended.push((name.to_owned(), is_passed, output));
            Ok(())
        })
        .expect("all run");
        ended.sort();
        let ended: Vec<_> = ended.iter().map(|it| (&*it.0, it.1, &*it.2)).collect();
        let expected = [
            ("tests/0", true, "0\n"),
            ("tests/1", true, "1\n"),
            ("tests/2", true, "2\n"),
            ("tests/3", true, "3\n"),
            ("tests/4", true, "4\n"),
            ("tests/fails", false, "out\nerr\n"),
            ("tests/killed", false, ""),
        ];
        assert_eq!(ended, expected);
    }
}
