//! `cargo xtask test`: the parts that must pass, in the order in which a mistake is cheapest to find.
//!
//! The last line is always `N passed, N failed`, summed over all tests; a part that fails without a failed test counts as
//! one failure. Tests get no display, a software Vulkan driver and scratch folders instead of the user's own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::cargo;
use crate::executables::{TestExecutable, record, run_all};
use crate::failure::{Doing as _, Failure, Result};
use crate::packages;
use crate::second::SecondEngine;
use crate::workspace::Workspace;

/// Variables of the user that no test may see.
const USERS_OWN: [&str; 7] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "SAFELIGHT_ENGINE",
    "SAFELIGHT_LIBTORCH",
];
const SCRATCH: [(&str, &str); 7] = [
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "data"),
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
    ("XDG_PICTURES_DIR", "images"),
    ("XDG_VIDEOS_DIR", "videos"),
    ("HF_HOME", "huggingface"),
];
/// Build, tests and docs take the same targets, so that nothing is built for one and again for the other.
const BUILD: [&str; 3] = ["build", "--workspace", "--all-targets"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckPart {
    Format,
    Build,
    Tests,
    /// Not part of a plain `cargo xtask test`.
    SecondEngine,
    Docs,
}

impl CheckPart {
    pub const ALL: [Self; 5] = [
        Self::Format,
        Self::Build,
        Self::Tests,
        Self::SecondEngine,
        Self::Docs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Build => "build",
            Self::Tests => "tests",
            Self::SecondEngine => "second-engine",
            Self::Docs => "docs",
        }
    }

    pub fn runs_tests(self) -> bool {
        matches!(self, Self::Tests | Self::SecondEngine)
    }
}

/// The one part that is requested.
#[derive(Debug, PartialEq, Eq)]
pub struct Only {
    pub part: CheckPart,
    /// One test executable of it, such as `tests/all`.
    pub executable: Option<String>,
}

impl Only {
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.split('/').next().unwrap_or_default();
        let part = CheckPart::ALL
            .into_iter()
            .find(|part| part.name() == name)?;
        let executable = (name != text).then(|| text.to_owned());
        (part.runs_tests() || executable.is_none()).then_some(Self { part, executable })
    }
}

/// Sums of the `test result` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

struct Checks<'a> {
    workspace: &'a Workspace,
    libtorch: &'a Path,
    only: Option<&'a Only>,
    tally: Tally,
    /// Names of test executables, each with what it printed of its failures.
    failed: Vec<(String, String)>,
}

pub fn run(workspace: &Workspace, libtorch: &Path, only: Option<&Only>) -> Result<ExitCode> {
    let mut checks = Checks {
        workspace,
        libtorch,
        only,
        tally: Tally::default(),
        failed: Vec::new(),
    };
    let parts = match only.map(|only| only.part) {
        None => vec![
            CheckPart::Format,
            CheckPart::Build,
            CheckPart::Tests,
            CheckPart::Docs,
        ],
        Some(part @ (CheckPart::Tests | CheckPart::Docs)) => vec![CheckPart::Build, part],
        Some(part) => vec![part],
    };
    let (mut report, mut is_passed) = (Vec::new(), true);
    for part in parts {
        let name = part.name();
        eprintln!("== {name} ==");
        let start = Instant::now();
        is_passed = checks.run_part(part)?;
        let word = if is_passed { "ok" } else { "FAILED" };
        let secs = start.elapsed().as_secs_f64();
        report.push(format!("{name:<13} {word:<6} {secs:>6.1} s"));
        if !is_passed {
            break;
        }
    }
    println!();
    for (name, failures) in checks.failed {
        println!("{failures}{name} failed; it alone: cargo xtask test --only {name}");
    }
    println!("{}", report.join("\n"));
    let mut tally = checks.tally;
    if tally.ignored > 0 {
        println!(
            "{} ignored, and this project ignores no test",
            tally.ignored
        );
    }
    if !is_passed {
        tally.failed = tally.failed.max(1);
        if let Some(failure) = cargo::explain_full_disk(workspace) {
            eprintln!("error: {}", failure.sentence());
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(!is_passed)))
}

impl Checks<'_> {
    fn run_part(&mut self, part: CheckPart) -> Result<bool> {
        let workspace = self.workspace;
        match part {
            CheckPart::Format => {
                succeeds(cargo::cargo(workspace).args(["fmt", "--all", "--check"]))
            }
            CheckPart::Build => {
                let is_built = succeeds(cargo::linting_cargo(workspace).args(BUILD))?;
                Ok(is_built && has_no_warnings(workspace)?)
            }
            CheckPart::Tests => {
                let mut command = cargo::linting_cargo(workspace);
                // Not `--bins`, which would link each executable as a test.
                command.args(["test", "--workspace", "--tests"]);
                self.run_tests(record(workspace, "tests", command)?)
            }
            CheckPart::SecondEngine => self.run_tests(SecondEngine::prepare(workspace)?.tests()?),
            CheckPart::Docs => {
                let mut command = cargo::linting_cargo(workspace);
                command
                    .args(["test", "--workspace", "--no-fail-fast", "--doc"])
                    .env("RUSTDOC", workspace.tool().join("rustdoc"))
                    .env("SAFELIGHT_DOCS", workspace.target().join("doc"));
                let name = part.name().to_owned();
                self.run_tests(vec![TestExecutable { name, command }])
            }
        }
    }

    fn run_tests(&mut self, mut tests: Vec<TestExecutable>) -> Result<bool> {
        if let Some(name) = self.only.and_then(|only| only.executable.as_deref()) {
            let known: Vec<_> = tests.iter().map(|test| test.name.clone()).collect();
            tests.retain(|test| test.name == name);
            if tests.is_empty() {
                let known = known.join(", ");
                return Err(Failure::usage(format!(
                    "There is no {name}: there are {known}"
                )));
            }
        }
        for test in &mut tests {
            self.isolate(test)?;
        }
        let folder = self.workspace.target().join("test-output");
        run_all(&folder, tests, |name, secs, is_passed, output| {
            let text = String::from_utf8_lossy(output);
            let before = self.tally.failed;
            for result in text.lines().filter_map(results_of) {
                self.tally.passed += result.passed;
                self.tally.failed += result.failed;
                self.tally.ignored += result.ignored;
            }
            if !is_passed {
                // Again at the end, where a log of thousands of tests is read first.
                let failures = text.find("\nfailures:\n").map_or("", |at| &text[at..]);
                self.failed.push((name.to_owned(), failures.to_owned()));
                // One that is killed prints no result.
                self.tally.failed = self.tally.failed.max(before + 1);
            }
            let word = if is_passed { "ok" } else { "FAILED" };
            let mut out = std::io::stdout().lock();
            writeln!(out, "\n-- {name}, {secs:.1} s, {word} --")
                .and_then(|()| out.write_all(output))
                .doing(|| "Standard output".to_owned())
        })?;
        Ok(self.failed.is_empty() && self.tally.ignored == 0)
    }

    /// No display, always the same driver, and nothing that a test could read or write of the user's or of other tests.
    fn isolate(&self, test: &mut TestExecutable) -> Result<()> {
        let scratch = self.workspace.target().join("test-home").join(&test.name);
        crate::executables::empty(&scratch)?;
        for (variable, folder) in SCRATCH {
            let folder = scratch.join(folder);
            std::fs::create_dir(&folder).doing(|| folder.display().to_string())?;
            test.command.env(variable, folder);
        }
        for variable in USERS_OWN {
            test.command.env_remove(variable);
        }
        if let Some(driver) = packages::software_vulkan_driver() {
            test.command.env("VK_DRIVER_FILES", driver);
        }
        // The engine finds the prepared libtorch as it does on a user's machine, though the cache above is a scratch one.
        if let Some(cache) = self.libtorch.parent() {
            test.command.env("SAFELIGHT_CACHE", cache);
        }
        Ok(())
    }
}

/// After a build, which has printed them: cargo keeps the warnings of the compiler and of clippy, and repeats them.
fn has_no_warnings(workspace: &Workspace) -> Result<bool> {
    let mut command = cargo::linting_cargo(workspace);
    command.args(BUILD).arg("--message-format=json");
    let output = command.stderr(Stdio::null()).output();
    let output = output.doing(|| "cargo cannot be started".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.lines().filter(|line| is_diagnostic(line)).count();
    if count > 0 {
        eprintln!(
            "error: the build has {count} warnings: fix them, or `#[expect]` them with a reason"
        );
    }
    Ok(count == 0)
}

fn is_diagnostic(line: &str) -> bool {
    line.starts_with(r#"{"reason":"compiler-message""#)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .status()
        .doing(|| "cargo cannot be started".to_owned())?;
    Ok(status.success())
}

/// The numbers of `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; …`.
fn results_of(line: &str) -> Option<Tally> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let mut pairs = numbers
            .split("; ")
            .filter_map(|pair| pair.trim().split_once(' '));
        pairs.find(|(_, name)| *name == word)?.0.parse().ok()
    };
    Some(Tally {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_cargo_test_are_read() {
        for (line, expected) in [
            ("running 3 tests", None),
            (
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some((3, 0, 0)),
            ),
            (
                "test result: FAILED. 11 passed; 2 failed; 1 ignored; 0 measured; 5 filtered out; finished in 1.20s",
                Some((11, 2, 1)),
            ),
            ("test result: nonsense", None),
        ] {
            let found = results_of(line).map(|it| (it.passed, it.failed, it.ignored));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn only_compiler_messages_count_as_diagnostics() {
        let line =
            |reason: &str| format!(r#"{{"reason":"{reason}","package_id":"path+file:///w"}}"#);
        assert!(is_diagnostic(&line("compiler-message")));
        assert!(!is_diagnostic(&line("compiler-artifact")));
    }
}
