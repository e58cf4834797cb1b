//! The engine for the second libtorch: the same sources with another release of `tch`.
//!
//! It is built in a workspace of links in the build folder. The manifests and the lock file there are the repository's
//! with the packages of `libtorch-2.13.lock`, so everything that does not depend on libtorch is built once for both
//! engines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, packages};
use crate::executables::{TestExecutable, record};
use crate::failure::{Doing as _, Failure, Result};
use crate::libtorch::{self, SECOND};
use crate::workspace::Workspace;

/// File name of the second engine.
pub const EXECUTABLE: &str = "safelight-engine-2.13";
/// The first engine, and the second in its own workspace.
const ENGINE: &str = "safelight-engine";
const SOURCES: &str = "src/engine";
/// Behind the engine's version: cargo builds both into one folder and tells them apart by it.
const SUFFIX: &str = "+second";
/// With all packages, so that none has other features than in the first workspace.
const TESTS: [&str; 4] = ["--workspace", "--lib", "--test", "process"];
/// The engine's own of these.
const ENGINES_OWN: [&str; 2] = ["second-engine/safelight_engine", "second-engine/process"];

pub struct SecondEngine<'a> {
    workspace: &'a Workspace,
    libtorch: PathBuf,
    root: PathBuf,
}

impl<'a> SecondEngine<'a> {
    /// Prepares its libtorch and its workspace. Quick when both are there.
    pub fn prepare(workspace: &'a Workspace) -> Result<Self> {
        let libtorch = libtorch::prepare(workspace, &SECOND)?;
        let root = workspace.target().join("second-engine");
        lay(workspace.root(), &root)?;
        Ok(Self {
            workspace,
            libtorch,
            root,
        })
    }

    pub fn manifest(&self) -> PathBuf {
        self.root.join("Cargo.toml")
    }

    /// Builds it into the folder of the first engine, which is built already: paths that the compiler writes into what
    /// both share are then the repository's. `features` are more arguments for cargo.
    pub fn build(&self, release: bool, features: &[&str]) -> Result<()> {
        let mut command = self.cargo("build", release);
        command
            .args(packages(release))
            .args(features)
            .args(["--bin", ENGINE]);
        cargo::succeed_building(self.workspace, &mut command)?;
        let folder = if release { "release" } else { "debug" };
        let built = self.root.join("out").join(folder).join(ENGINE);
        let place = self.workspace.target().join(folder).join(EXECUTABLE);
        // In one step, for one may be running.
        let new = place.with_extension(format!("new-{}", std::process::id()));
        let copied = fs::copy(&built, &new).and_then(|_| fs::rename(&new, &place));
        copied.doing(|| place.display().to_string())
    }

    /// Builds the engine's tests, for both libtorchs.
    pub fn tests(&self) -> Result<Vec<TestExecutable>> {
        let mut first = cargo::linting_cargo(self.workspace);
        let mut second = self.cargo("test", false);
        for command in [first.arg("test"), &mut second] {
            cargo::succeed_building(self.workspace, command.args(TESTS).arg("--no-run"))?;
        }
        let mut command = self.cargo("test", false);
        command.args(TESTS);
        let mut tests = record(self.workspace, "second-engine", command)?;
        tests.retain(|test| ENGINES_OWN.contains(&&*test.name));
        for test in &mut tests {
            // The first engine's run on all processors: what holds must hold for either.
            test.command.env("OMP_NUM_THREADS", "1");
        }
        Ok(tests)
    }

    /// Cargo in its workspace, with the first one's build at hand.
    fn cargo(&self, subcommand: &str, release: bool) -> Command {
        let of = if release {
            cargo::cargo
        } else {
            cargo::linting_cargo
        };
        let mut command = of(self.workspace);
        command
            .args([subcommand, "--locked", "--manifest-path"])
            .arg(self.manifest())
            .env("LIBTORCH", &self.libtorch)
            .env("CARGO_BUILD_BUILD_DIR", self.workspace.target())
            .env("CARGO_TARGET_DIR", self.root.join("out"));
        command
    }
}

/// Makes the workspace: all of the repository by links but for the manifests and the lock file.
fn lay(repository: &Path, root: &Path) -> Result<()> {
    for (folder, own) in [
        ("", &["Cargo.toml", "Cargo.lock", "src"][..]),
        ("src", &["engine"]),
        (SOURCES, &["Cargo.toml"]),
    ] {
        let to = root.join(folder);
        link_all(&repository.join(folder), &to, own).doing(|| to.display().to_string())?;
    }
    let lock = repository.join(SECOND.lock);
    let lock = fs::read_to_string(&lock).doing(|| lock.display().to_string())?;
    let pins = pins_of(&lock);
    for (name, change) in CHANGES {
        let (from, to) = (repository.join(name), root.join(name));
        let text = fs::read_to_string(&from).doing(|| from.display().to_string())?;
        let text = change(&text, &pins).ok_or_else(|| {
            let from = from.display();
            Failure::new(format!(
                "{from} has another form than packaging/xtask/second.rs expects"
            ))
        })?;
        // Cargo looks at when a manifest was written.
        if fs::read_to_string(&to).ok().as_ref() != Some(&text) {
            fs::write(&to, text).doing(|| to.display().to_string())?;
        }
    }
    Ok(())
}

fn version() -> String {
    format!("version = \"{}{SUFFIX}\"", env!("CARGO_PKG_VERSION"))
}

/// Name, version and checksum of a Rust package.
type Pin<'a> = [&'a str; 3];

/// The other packages, from lines such as `crate tch 0.26.0 975b…`.
fn pins_of(lock: &str) -> Vec<Pin<'_>> {
    let lines = lock.lines().filter_map(|line| line.strip_prefix("crate "));
    let pins = lines.map(|line| line.split(' ').collect::<Vec<_>>().try_into());
    pins.flatten().collect()
}

type Change = fn(&str, &[Pin<'_>]) -> Option<String>;

/// The files that differ from the repository's.
const CHANGES: [(&str, Change); 3] = [
    ("Cargo.toml", with_tch),
    ("Cargo.lock", with_packages),
    ("src/engine/Cargo.toml", with_version),
];

/// The repository's manifest with the other release of `tch`.
fn with_tch(manifest: &str, pins: &[Pin<'_>]) -> Option<String> {
    let [_, version, _] = pins.iter().find(|[name, ..]| *name == "tch")?;
    with_line(manifest, "tch = ", &format!("tch = \"={version}\""))
}

/// Engine manifest with another version.
fn with_version(manifest: &str, _pins: &[Pin<'_>]) -> Option<String> {
    with_line(manifest, "version.workspace = ", &version())
}

/// The lock file with the other packages and the engine's other version.
fn with_packages(lock: &str, pins: &[Pin<'_>]) -> Option<String> {
    let mut entries: Vec<String> = lock.split("\n\n").map(str::to_owned).collect();
    let mut change = |name: &str, start: &str, new: &str| {
        let title = format!("[[package]]\nname = \"{name}\"\n");
        let entry = entries.iter_mut().find(|entry| entry.starts_with(&title))?;
        *entry = with_line(entry, start, new)?;
        Some(())
    };
    for [name, version, checksum] in pins {
        change(name, "version = ", &format!("version = \"{version}\""))?;
        change(name, "checksum = ", &format!("checksum = \"{checksum}\""))?;
    }
    change(ENGINE, "version = ", &version())?;
    Some(entries.join("\n\n"))
}

/// A text with another line in place of the one that begins with `start`; `None` where that is not one.
fn with_line(text: &str, start: &str, new: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let mut found = lines.iter_mut().filter(|line| line.starts_with(start));
    *found.next()? = new;
    found.next().is_none().then(|| lines.join("\n"))
}

/// Links in `to` for everything in `from` that is neither hidden, nor built, nor left out.
fn link_all(from: &Path, to: &Path, except: &[&str]) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)?.flatten() {
        if entry.path().is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(from)?.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if !text.starts_with(['.']) && !text.starts_with("target") && !except.contains(&&*text) {
            symlink(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> String {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::read_to_string(repository.join(name)).expect("it is there")
    }

    #[test]
    fn the_second_workspace_differs_in_its_libtorch_and_the_engines_version_alone() {
        let lock = read(SECOND.lock);
        let pins = pins_of(&lock);
        let [["tch", _, tch], ["torch-sys", _, torch_sys]] = pins[..] else {
            panic!("two crates: {pins:?}");
        };
        let own = format!("version = \"{}+second\"", env!("CARGO_PKG_VERSION"));
        let release = "version = \"0.26.0\"";
        let sums = [tch, torch_sys].map(|sum| format!("checksum = \"{sum}\""));
        let packages: [&str; 5] = [&own, release, &sums[0], release, &sums[1]];
        let expected: [&[&str]; 3] = [&["tch = \"=0.26.0\""], &packages, &[&own]];
        for ((name, change), expected) in CHANGES.into_iter().zip(expected) {
            let old = read(name);
            let new = change(&old, &pins).expect("it has the known form");
            assert_eq!(old.lines().count(), new.lines().count(), "{name}");
            let pairs = old.lines().zip(new.lines());
            let differing = pairs.filter(|(old, new)| old != new);
            let differing: Vec<_> = differing.map(|(_, new)| new).collect();
            assert_eq!(differing, expected, "{name}");
        }
    }

    #[test]
    fn settings_list_the_version_and_executable_of_both_engines() {
        let known = read("src/core/settings/engines.rs");
        for (version, executable) in [(libtorch::FIRST, ENGINE), (SECOND, EXECUTABLE)] {
            let lock = read(version.lock);
            let mut lines = lock.lines();
            let number = lines.find_map(|line| line.strip_prefix("text build-version "));
            let number = number.expect("it has a version");
            assert_eq!(version.folder, format!("libtorch-{number}-cpu"));
            let entry = format!("libtorch: \"{number}\",\n        executable: \"{executable}\",\n");
            assert!(known.contains(&entry), "{entry}");
        }
    }

    #[test]
    fn a_text_of_another_form_is_refused() {
        let pins = [["tch", "0.26.0", "aa"]];
        for manifest in ["", "tch = \"1\"\ntch = \"2\"\n", "# tch = \"1\""] {
            assert_eq!(with_tch(manifest, &pins), None, "{manifest:?}");
        }
        assert_eq!(with_packages("[[package]]\nname = \"tch\"\n", &pins), None);
    }

    #[test]
    fn links_follow_files_that_come_and_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("target")).expect("a folder");
        for name in ["a", "b", ".hidden", "own"] {
            fs::write(from.join(name), name).expect("a file");
        }
        let linked = || {
            link_all(&from, &to, &["own"]).expect("links");
            let names = fs::read_dir(&to).expect("a folder").flatten();
            let mut names: Vec<_> = names.map(|it| it.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(linked(), ["a", "b"]);
        fs::rename(from.join("b"), from.join("c")).expect("another name");
        assert_eq!(linked(), ["a", "c"]);
        assert_eq!(fs::read(to.join("c")).expect("it leads there"), b"b");
    }
}
