//! The test executables that cargo would run, and how.
//!
//! Cargo is asked with a runner that runs nothing and writes down how cargo starts it (`record-test`). So nothing has to
//! be known here of folders and variables that cargo gives. Builds nothing by itself: cargo does where something is not
//! fresh.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
const RECORDS: &str = "SAFELIGHT_RECORDS";

/// One executable and how cargo starts it.
#[derive(Debug, PartialEq, Eq)]
pub struct TestExecutable {
    /// Of its part and its target, such as `tests/plan`.
    pub name: String,
    pub folder: PathBuf,
    words: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl TestExecutable {
    /// What cargo starts, with the runner of `.cargo/config.toml`.
    pub fn command(&self, workspace: &Workspace) -> Command {
        let mut command = Command::new(workspace.tool().join("with-libtorch"));
        command
            .args(&self.words)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn variable(&self, name: &str) -> Option<&OsString> {
        let mut all = self.variables.iter();
        all.find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub fn set(&mut self, name: &str, value: OsString) {
        self.variables.retain(|(own, _)| own != name);
        self.variables.push((name.into(), value));
    }

    /// What `record-test` wrote; nothing where it is of another form.
    fn parse(part: &str, record: &[u8]) -> Option<Self> {
        let mut all = record
            .strip_suffix(b"\0")?
            .split(|byte| *byte == 0)
            .map(|text| OsString::from_vec(text.to_vec()));
        let folder = all.next()?.into();
        let num: usize = all.next()?.to_str()?.parse().ok()?;
        let words: Vec<_> = all.by_ref().take(num).collect();
        let variables = all
            .filter_map(|pair| {
                let pair = pair.into_vec();
                let equals = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = pair.split_at(equals);
                let [name, value] =
                    [name, &value[1..]].map(|text| OsString::from_vec(text.to_vec()));
                (name != RECORDS && name != RUNNER).then_some((name, value))
            })
            .collect();
        let file = Path::new(words.first()?).file_name()?.to_str()?;
        // Behind the last dash stands the number that cargo tells builds apart by.
        let target = file.rsplit_once('-').map_or(file, |(target, _)| target);
        Some(Self {
            name: format!("{part}/{target}"),
            folder,
            words,
            variables,
        })
    }
}

/// The executables that a `cargo test` would run, in no order that counts.
pub fn ask(
    workspace: &Workspace,
    part: &str,
    mut cargo_test: Command,
) -> Result<Vec<TestExecutable>> {
    let records = workspace.target().join("test-records").join(part);
    empty(&records)?;
    let output = cargo_test
        .env(RUNNER, workspace.tool().join("record-test"))
        .env(RECORDS, &records)
        .output()
        .doing(|| "cargo cannot be started".to_owned())?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::new(
            "Cargo does not tell which tests there are; it says why above",
        ));
    }
    let read = || -> std::io::Result<Vec<Vec<u8>>> {
        let entries = fs::read_dir(&records)?;
        entries.map(|entry| fs::read(entry?.path())).collect()
    };
    let found = read().doing(|| records.display().to_string())?;
    let found: Option<Vec<_>> = found
        .iter()
        .map(|record| TestExecutable::parse(part, record))
        .collect();
    found.filter(|found| !found.is_empty()).ok_or_else(|| {
        Failure::new(format!(
            "{} does not hold what packaging/xtask/record-test writes",
            records.display()
        ))
    })
}

/// A folder with nothing in it.
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

    #[test]
    fn what_cargo_starts_is_read_from_its_record() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("record-test");
        let here = std::env::current_exe().expect("a test has an executable");
        let records = here.with_file_name("xtask-records");
        empty(&records).expect("a folder");
        let status = Command::new(script)
            .args(["/w/target/debug/deps/app_window-0a1", "two words\n", ""])
            .current_dir("/usr")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TEXT", "a=b\nc")
            .env(RECORDS, &records)
            .status()
            .expect("it starts");
        assert!(status.success());
        let record = fs::read(records.join("app_window-0a1")).expect("it wrote");
        let found = TestExecutable::parse("tests", &record).expect("of the form");
        assert_eq!(found.name, "tests/app_window");
        assert_eq!(found.folder, Path::new("/usr"));
        let words = ["/w/target/debug/deps/app_window-0a1", "two words\n", ""];
        assert_eq!(found.words, words);
        assert_eq!(found.variable("TEXT"), Some(&"a=b\nc".into()));
        assert_eq!(found.variable(RECORDS), None);
    }

    #[test]
    fn a_record_of_another_form_is_refused() {
        for record in [
            &b""[..],
            b"/usr",
            b"/usr\0",
            b"/usr\0many\0",
            b"/usr\x000\0",
        ] {
            assert_eq!(TestExecutable::parse("tests", record), None);
        }
    }
}
