//! `cargo xtask test`: the parts that must pass, in the order in which a mistake is cheapest to find.
//!
//! The last line is always `N passed, N failed`, summed over all tests; a part that fails by itself (format,
//! dependencies, build, docs) counts as one failure. Tests get no display, a software Vulkan driver and scratch folders
//! instead of the user's own. It does not choose tests: `cargo test --workspace` runs all there are.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::cargo;
use crate::dependencies;
use crate::failure::{Doing as _, Failure, Result};
use crate::packages;
use crate::policy;
use crate::second::SecondEngine;
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
            Self::Tests => &[
                "test",
                "--workspace",
                "--no-fail-fast",
                "--lib",
                "--bins",
                "--tests",
            ],
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

/// What the `test result` lines of cargo add up to.
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

pub fn run(workspace: &Workspace, libtorch: &Path, only: Option<PartName>) -> Result<ExitCode> {
    let parts = only.map_or_else(|| PartName::ALL.to_vec(), PartName::with_what_it_needs);
    let mut tally = Tally::default();
    let mut ended = Vec::new();
    for part in parts {
        eprintln!("== {} ==", part.text());
        let start = Instant::now();
        let is_passed = run_part(workspace, libtorch, part, &mut tally)?;
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
    report(&ended, tally);
    Ok(if is_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(ended: &[Ended], tally: Tally) {
    println!();
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

fn run_part(
    workspace: &Workspace,
    libtorch: &Path,
    part: PartName,
    tally: &mut Tally,
) -> Result<bool> {
    let mut command = match part {
        PartName::Build | PartName::Tests | PartName::Docs => cargo::linting_cargo(workspace),
        PartName::Format | PartName::Dependencies | PartName::SecondEngine => {
            cargo::cargo(workspace)
        }
    };
    command.args(part.arguments());
    match part {
        PartName::Tests => run_tests(workspace, libtorch, command, tally),
        PartName::SecondEngine => is_second_engine_good(workspace, libtorch, tally),
        PartName::Docs => {
            command
                .env("RUSTDOC", workspace.root().join("packaging/xtask/rustdoc"))
                .env("SAFELIGHT_DOCS", workspace.target().join("doc"));
            run_tests(workspace, libtorch, command, tally)
        }
        PartName::Dependencies => are_dependencies_good(workspace),
        PartName::Format => succeeds(&mut command),
        PartName::Build => Ok(succeeds(&mut command)? && has_no_warnings(workspace)?),
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

/// The engine's own tests, those of its numbers among them, on the second libtorch.
fn is_second_engine_good(
    workspace: &Workspace,
    libtorch: &Path,
    tally: &mut Tally,
) -> Result<bool> {
    let second = SecondEngine::prepare(workspace)?;
    let mut is_passed = true;
    for command in second.build_tests()? {
        is_passed &= run_tests(workspace, libtorch, command, tally)?;
    }
    Ok(is_passed)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    command
        .status()
        .map(|status| status.success())
        .doing(|| "cargo cannot be started".to_owned())
}

/// Passes every line on and adds up the results.
fn run_tests(
    workspace: &Workspace,
    libtorch: &Path,
    mut command: Command,
    tally: &mut Tally,
) -> Result<bool> {
    isolate(&mut command, workspace, libtorch)?;
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .doing(|| "cargo cannot be started".to_owned())?;
    if let Some(stdout) = child.stdout.take() {
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.doing(|| "The output of cargo test".to_owned())?;
            if let Some(results) = results_of(&String::from_utf8_lossy(&line)) {
                tally.add(results);
            }
            out.write_all(&line)
                .and_then(|()| out.write_all(b"\n"))
                .doing(|| "Standard output".to_owned())?;
        }
    }
    let status = child.wait().doing(|| "cargo test".to_owned())?;
    Ok(status.success() && tally.ignored == 0)
}

/// No display, always the same driver, and nothing of the user's that a test could read or write.
fn isolate(command: &mut Command, workspace: &Workspace, libtorch: &Path) -> Result<()> {
    let scratch = workspace.target().join("test-home");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch).doing(|| scratch.display().to_string())?;
    }
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
