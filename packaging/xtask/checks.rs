//! `cargo xtask test`: the parts that must pass, in the order in which a mistake is cheapest to find.
//!
//! The last line is always `N passed, N failed`, summed over all tests; a part that fails by itself (format,
//! dependencies, build, docs) counts as one failure. Tests get no display, a software Vulkan driver and scratch folders
//! instead of the user's own. All tests of `cargo test --workspace` run, some executables at a time; those of the engine
//! for libtorch 2.13.0 only with `--only second-engine`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::cargo;
use crate::dependencies;
use crate::executables::{self, TestExecutable};
use crate::failure::{Doing as _, Failure, Result};
use crate::packages;
use crate::policy;
use crate::second::SecondEngine;
use crate::side_by_side::{self, Done, Job};
use crate::workspace::Workspace;

/// What a user may have set and no test may see.
const USERS_OWN: [&str; 7] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "SAFELIGHT_ENGINE",
    "SAFELIGHT_LIBTORCH",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartName {
    Format,
    Dependencies,
    Build,
    Tests,
    SecondEngine,
    Docs,
}

impl PartName {
    const ALL: [Self; 6] = [
        Self::Format,
        Self::Dependencies,
        Self::Build,
        Self::Tests,
        Self::SecondEngine,
        Self::Docs,
    ];
    /// Parts of a plain `cargo xtask test`.
    const DEFAULT: [Self; 5] = [
        Self::Format,
        Self::Dependencies,
        Self::Build,
        Self::Tests,
        Self::Docs,
    ];

    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.text() == text)
    }

    pub fn all() -> String {
        Self::ALL.map(Self::text).join(", ")
    }

    fn text(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Dependencies => "dependencies",
            Self::Build => "build",
            Self::Tests => "tests",
            Self::SecondEngine => "second-engine",
            Self::Docs => "docs",
        }
    }

    pub fn runs_tests(self) -> bool {
        matches!(self, Self::Tests | Self::SecondEngine)
    }

    /// Build, tests and docs take the same targets, so that nothing is built for one and again for the other. The build
    /// is clippy's too: by itself, it would go over the whole workspace once more.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Format => &["fmt", "--all", "--check"],
            // Cargo has no command for the one, and the other has a workspace of its own.
            Self::Dependencies | Self::SecondEngine => &[],
            Self::Build => &["build", "--workspace", "--all-targets"],
            // Of all targets those that hold tests: not `--bins`, which would link each executable as a test.
            Self::Tests => &["test", "--workspace", "--tests"],
            Self::Docs => &["test", "--workspace", "--no-fail-fast", "--doc"],
        }
    }

    /// What has to be there before this part runs alone.
    fn with_what_it_needs(self) -> Vec<Self> {
        if matches!(self, Self::Tests | Self::Docs) {
            vec![Self::Build, self]
        } else {
            vec![self]
        }
    }
}

/// The one part that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Only {
    pub part: PartName,
    /// The one test executable of it that is, such as `tests/plan`.
    pub executable: Option<String>,
}

impl Only {
    pub fn from_text(text: &str) -> Option<Self> {
        let (part, executable) = match text.split_once('/') {
            Some((part, _)) => (PartName::from_text(part)?, Some(text.to_owned())),
            None => (PartName::from_text(text)?, None),
        };
        (part.runs_tests() || executable.is_none()).then_some(Self { part, executable })
    }
}

/// What the `test result` lines of tests add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

struct Ended {
    part: PartName,
    took: Duration,
    is_passed: bool,
}

struct Checks<'a> {
    workspace: &'a Workspace,
    libtorch: &'a Path,
    only: Option<&'a Only>,
    tally: Tally,
    /// Test executables.
    failed: Vec<String>,
}

pub fn run(workspace: &Workspace, libtorch: &Path, only: Option<&Only>) -> Result<ExitCode> {
    let mut checks = Checks {
        workspace,
        libtorch,
        only,
        tally: Tally::default(),
        failed: Vec::new(),
    };
    let parts = only.map_or_else(
        || PartName::DEFAULT.to_vec(),
        |only| only.part.with_what_it_needs(),
    );
    let mut ended = Vec::new();
    for part in parts {
        eprintln!("== {} ==", part.text());
        let start = Instant::now();
        let is_passed = checks.run_part(part)?;
        ended.push(Ended {
            part,
            took: start.elapsed(),
            is_passed,
        });
        if !is_passed {
            break;
        }
    }
    let is_passed = ended.iter().all(|part| part.is_passed);
    let Checks {
        mut tally, failed, ..
    } = checks;
    if !is_passed {
        // A part that fails without a failed test is a failure all the same.
        tally.failed = tally.failed.max(1);
        if let Some(sentence) = cargo::explain_full_disk(workspace)
            .as_ref()
            .and_then(Failure::sentence)
        {
            eprintln!("error: {sentence}");
        }
    }
    report(&ended, &failed, tally);
    Ok(if is_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(ended: &[Ended], failed: &[String], tally: Tally) {
    println!();
    for name in failed {
        println!("{name} failed; it alone: cargo xtask test --only {name}");
    }
    for Ended {
        part,
        took,
        is_passed,
    } in ended
    {
        let word = if *is_passed { "ok" } else { "FAILED" };
        println!(
            "{:<12} {word:<6} {:>6.1} s",
            part.text(),
            took.as_secs_f64()
        );
    }
    if tally.ignored > 0 {
        println!(
            "{} ignored, and this project ignores no test",
            tally.ignored
        );
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
}

impl Checks<'_> {
    fn run_part(&mut self, part: PartName) -> Result<bool> {
        let cargo = match part {
            PartName::Build | PartName::Tests | PartName::Docs => cargo::linting_cargo,
            PartName::Format | PartName::Dependencies | PartName::SecondEngine => cargo::cargo,
        };
        let mut command = cargo(self.workspace);
        command.args(part.arguments());
        match part {
            PartName::Format => succeeds(&mut command),
            PartName::Dependencies => are_dependencies_good(self.workspace),
            PartName::Build => Ok(succeeds(&mut command)? && has_no_warnings(self.workspace)?),
            PartName::Tests => {
                self.run_side_by_side(executables::ask(self.workspace, part.text(), command)?)
            }
            PartName::SecondEngine => {
                let second = SecondEngine::prepare(self.workspace)?;
                second.build_tests()?;
                self.run_side_by_side(second.tests(part.text())?)
            }
            PartName::Docs => {
                let page_maker = self.workspace.root().join("packaging/xtask/rustdoc");
                command
                    .env("RUSTDOC", page_maker)
                    .env("SAFELIGHT_DOCS", self.workspace.target().join("doc"));
                self.run_examples(command)
            }
        }
    }

    fn run_side_by_side(&mut self, mut tests: Vec<TestExecutable>) -> Result<bool> {
        if let Some(name) = self.only.and_then(|only| only.executable.as_deref()) {
            let known: Vec<_> = tests.iter().map(|test| test.name.clone()).collect();
            tests.retain(|test| test.name == name);
            if tests.is_empty() {
                return Err(Failure::usage(format!(
                    "There is no {name}: there are {}",
                    known.join(", ")
                )));
            }
        }
        let mut jobs = Vec::new();
        for test in tests {
            let mut command = test.command(self.workspace);
            isolate(&mut command, self.workspace, self.libtorch, &test.name)?;
            let name = test.name;
            jobs.push(Job { name, command });
        }
        eprintln!("{} test executables, some at a time", jobs.len());
        let folder = self.workspace.target().join("test-output");
        side_by_side::run_all(&folder, jobs, |done| self.tell(done))?;
        Ok(self.failed.is_empty() && self.tally.ignored == 0)
    }

    fn tell(&mut self, done: &Done) -> Result<()> {
        let text = String::from_utf8_lossy(&done.output);
        let results: Vec<_> = text.lines().filter_map(results_of).collect();
        let has_failed_test = results.iter().any(|it| it.failed > 0);
        for result in results {
            self.tally.add(result);
        }
        if !done.is_passed {
            self.failed.push(done.name.clone());
            // One that is killed says nothing of the test that it was at.
            self.tally.failed += u64::from(!has_failed_test);
        }
        let word = if done.is_passed { "ok" } else { "FAILED" };
        let secs = done.took.as_secs_f64();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n-- {}, {secs:.1} s, {word} --", done.name)
            .and_then(|()| out.write_all(&done.output))
            .doing(|| "Standard output".to_owned())
    }

    /// Passes every line on and adds up the results.
    fn run_examples(&mut self, mut command: Command) -> Result<bool> {
        isolate(&mut command, self.workspace, self.libtorch, "docs")?;
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .doing(|| "cargo cannot be started".to_owned())?;
        if let Some(stdout) = child.stdout.take() {
            let mut out = std::io::stdout().lock();
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line.doing(|| "The output of cargo test".to_owned())?;
                if let Some(results) = results_of(&String::from_utf8_lossy(&line)) {
                    self.tally.add(results);
                }
                out.write_all(&line)
                    .and_then(|()| out.write_all(b"\n"))
                    .doing(|| "Standard output".to_owned())?;
            }
        }
        let status = child.wait().doing(|| "cargo test".to_owned())?;
        Ok(status.success() && self.tally.ignored == 0)
    }
}

/// Behind a build, which has said them: cargo keeps what the compiler and clippy said, and says it again.
fn has_no_warnings(workspace: &Workspace) -> Result<bool> {
    let output = cargo::linting_cargo(workspace)
        .args(PartName::Build.arguments())
        .arg("--message-format=json")
        .stderr(Stdio::null())
        .output()
        .doing(|| "cargo cannot be started".to_owned())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let num = said.lines().filter(|line| is_diagnostic(line)).count();
    if num > 0 {
        eprintln!(
            "error: the build has warnings ({num} lines of them above): mend them, or `#[expect]` them with a reason"
        );
    }
    Ok(num == 0)
}

/// Whether a line of cargo's JSON is what the compiler said of the code.
fn is_diagnostic(line: &str) -> bool {
    line.starts_with(r#"{"reason":"compiler-message""#)
}

/// Names every dependency that nothing uses or that `deny.toml` does not allow.
fn are_dependencies_good(workspace: &Workspace) -> Result<bool> {
    let mut objections = dependencies::unused(workspace.root())?;
    objections.extend(policy::objections(workspace)?);
    for sentence in &objections {
        eprintln!("error: {sentence}");
    }
    Ok(objections.is_empty())
}

fn succeeds(command: &mut Command) -> Result<bool> {
    command
        .status()
        .map(|status| status.success())
        .doing(|| "cargo cannot be started".to_owned())
}

/// No display, always the same driver, and nothing that a test could read or write of the user's or of other tests.
fn isolate(
    command: &mut Command,
    workspace: &Workspace,
    libtorch: &Path,
    name: &str,
) -> Result<()> {
    let scratch = workspace.target().join("test-home").join(name);
    executables::empty(&scratch)?;
    for (variable, folder) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_PICTURES_DIR", "pictures"),
        ("XDG_VIDEOS_DIR", "videos"),
        ("HF_HOME", "huggingface"),
    ] {
        let folder = scratch.join(folder);
        std::fs::create_dir_all(&folder).doing(|| folder.display().to_string())?;
        command.env(variable, folder);
    }
    for variable in USERS_OWN {
        command.env_remove(variable);
    }
    if let Some(driver) = packages::software_vulkan_driver() {
        command.env("VK_DRIVER_FILES", driver);
    }
    // The engine finds the prepared libtorch as it does on a user's machine, though the cache above is a scratch one.
    if let Some(cache) = libtorch.parent() {
        command.env("SAFELIGHT_CACHE", cache);
    }
    Ok(())
}

/// The numbers of `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; …`.
fn results_of(line: &str) -> Option<Tally> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        numbers.split("; ").find_map(|pair| {
            let (number, name) = pair.trim().split_once(' ')?;
            (name == word).then(|| number.parse().ok())?
        })
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
    fn the_results_of_cargo_test_are_added_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 11 passed; 2 failed; 1 ignored; 0 measured; 5 filtered out; finished in 1.20s",
            "test result: nonsense",
        ] {
            if let Some(results) = results_of(line) {
                tally.add(results);
            }
        }
        assert_eq!(
            tally,
            Tally {
                passed: 14,
                failed: 2,
                ignored: 1
            }
        );
    }

    #[test]
    fn what_the_compiler_said_is_told_from_what_cargo_built() {
        assert!(is_diagnostic(
            r#"{"reason":"compiler-message","package_id":"path+file:///w#0.1.0"}"#
        ));
        assert!(!is_diagnostic(
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w#0.1.0"}"#
        ));
    }

    #[test]
    fn every_part_is_found_by_its_name() {
        for part in PartName::ALL {
            assert_eq!(PartName::from_text(part.text()), Some(part));
        }
        assert_eq!(PartName::from_text("everything"), None);
    }
}
