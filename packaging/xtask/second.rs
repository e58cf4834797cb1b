//! The engine for the second libtorch: the same sources with another release of `tch`.
//!
//! It is built in a workspace of links that is made in the build folder. The manifest and the lock file there are the
//! repository's own with the packages that `libtorch-2.13.lock` names, so that nothing has to be kept equal by hand, and
//! whatever does not depend on libtorch is built once for both engines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, AS_TESTED};
use crate::executables::{self, TestExecutable};
use crate::failure::{Doing as _, Failure, Result};
use crate::libtorch::{self, Libtorch};
use crate::packages::{self, Goal};
use crate::workspace::Workspace;

/// What it is called beside the first, which looks for it by this name.
pub const EXECUTABLE: &str = "safelight-engine-2.13";
/// As the first engine is called, and in its own workspace the second.
const ENGINE: &str = "safelight-engine";
/// Where the engine is in the repository.
const SOURCES: &str = "src/engine";
/// In the build folder.
const FOLDER: &str = "second-engine";
/// Behind the engine's version: cargo builds both into one folder and tells them apart by it.
const SUFFIX: &str = "+second";

/// The tests of the engine. Those of the other packages are built for the first engine and for both alike: with all
/// packages, so that nothing has other features than there.
const TESTS: [&str; 4] = ["--workspace", "--lib", "--test", "process"];

pub struct SecondEngine<'a> {
    workspace: &'a Workspace,
    libtorch: PathBuf,
    root: PathBuf,
}

impl<'a> SecondEngine<'a> {
    /// Brings its libtorch and lays its workspace. Quick when all is there.
    pub fn prepare(workspace: &'a Workspace) -> Result<Self> {
        let libtorch = Libtorch::locate(workspace, &libtorch::SECOND)?;
        packages::prepare(Goal::CommandLine, !libtorch.is_complete())?;
        libtorch.prepare()?;
        let root = workspace.target().join(FOLDER);
        lay(workspace.root(), &root, libtorch.lock())?;
        Ok(Self {
            workspace,
            libtorch: libtorch.into_folder(),
            root,
        })
    }

    /// The manifest of its workspace.
    pub fn manifest(&self) -> PathBuf {
        self.root.join("Cargo.toml")
    }

    /// Builds it as the tests have it and puts it beside the first engine. What both are made of is built before with
    /// the first: paths that the compiler writes down are then the repository's.
    pub fn build_app(&self) -> Result<()> {
        cargo::build_app(self.workspace)?;
        let mut command = self.cargo("build", cargo::linting_cargo(self.workspace));
        command.args(AS_TESTED);
        self.build(command, "debug")
    }

    /// The same as users get it; `features` are more arguments for cargo.
    pub fn build_release(&self, features: &[&str]) -> Result<()> {
        cargo::build_release(self.workspace, features)?;
        let mut command = self.cargo("build", cargo::cargo(self.workspace));
        // Released engines have no faults to inject, which tests would ask for.
        command.args(["--package", "safelight", "--package", ENGINE, "--release"]);
        command.args(features);
        self.build(command, "release")
    }

    fn build(&self, mut command: Command, folder: &str) -> Result<()> {
        command.args(["--bin", ENGINE]);
        cargo::succeed(self.workspace, &mut command)?;
        let built = self.out().join(folder).join(ENGINE);
        let place = self.workspace.target().join(folder).join(EXECUTABLE);
        put(&built, &place).doing(|| place.display().to_string())
    }

    /// Builds the engine's tests.
    pub fn build_tests(&self) -> Result<()> {
        // Whatever both share: the paths that the compiler writes down are then the repository's.
        let mut first = cargo::linting_cargo(self.workspace);
        let mut second = self.cargo("test", cargo::linting_cargo(self.workspace));
        for command in [first.arg("test"), &mut second] {
            cargo::succeed(self.workspace, command.args(TESTS).arg("--no-run"))?;
        }
        Ok(())
    }

    /// The engine's tests, which are built, on its libtorch.
    pub fn tests(&self, part: &str) -> Result<Vec<TestExecutable>> {
        let mut command = self.cargo("test", cargo::linting_cargo(self.workspace));
        command.args(TESTS);
        let mut tests = executables::ask(self.workspace, part, command)?;
        let sources = self.root.join(SOURCES);
        tests.retain(|test| test.folder == sources);
        if tests.is_empty() {
            return Err(Failure::new(format!(
                "Cargo runs no test in {}",
                sources.display()
            )));
        }
        for test in &mut tests {
            let of_cargo = test.variable("LD_LIBRARY_PATH");
            let mut folders = vec![self.libtorch.join("lib")];
            folders.extend(of_cargo.iter().flat_map(std::env::split_paths));
            let path = std::env::join_paths(folders);
            // A path that cannot be joined was none before.
            test.set("LD_LIBRARY_PATH", path.unwrap_or_default());
            // The first engine's run on all processors: what holds must hold for either.
            test.set("OMP_NUM_THREADS", "1".into());
        }
        Ok(tests)
    }

    /// Cargo in its workspace, with what is built for the first at hand.
    fn cargo(&self, subcommand: &str, mut command: Command) -> Command {
        command
            .args([subcommand, "--locked", "--manifest-path"])
            .arg(self.manifest())
            .env("LIBTORCH", &self.libtorch)
            .env("CARGO_BUILD_BUILD_DIR", self.workspace.target())
            .env("CARGO_TARGET_DIR", self.out());
        command
    }

    /// For what is built in the end, under the names of the first engine's.
    fn out(&self) -> PathBuf {
        self.root.join("out")
    }
}

/// Makes the workspace: all of the repository by links but for the manifests and the lock file.
fn lay(repository: &Path, root: &Path, lock: &str) -> Result<()> {
    link_all(repository, root, &["Cargo.toml", "Cargo.lock", "src"])?;
    link_all(&repository.join("src"), &root.join("src"), &["engine"])?;
    let (sources, links) = (repository.join(SOURCES), root.join(SOURCES));
    link_all(&sources, &links, &["Cargo.toml"])?;
    let pins: Vec<Pin<'_>> = lock.lines().filter_map(Pin::parse).collect();
    let changed = |name: &str, change: &dyn Fn(&str) -> Option<String>| {
        let (from, to) = (repository.join(name), root.join(name));
        let text = fs::read_to_string(&from).doing(|| from.display().to_string())?;
        let text = change(&text).ok_or_else(|| {
            Failure::new(format!(
                "{} is not of the form that packaging/xtask/second.rs knows",
                from.display()
            ))
        })?;
        // Cargo looks at when a manifest was written.
        if fs::read_to_string(&to).is_ok_and(|before| before == text) {
            return Ok(());
        }
        fs::write(&to, text).doing(|| to.display().to_string())
    };
    changed("Cargo.toml", &|text| with_tch(text, &pins))?;
    changed("Cargo.lock", &|text| with_packages(text, &pins))?;
    changed(&format!("{SOURCES}/Cargo.toml"), &with_version)
}

/// A package of the lock file that is another one for the second libtorch.
#[derive(Debug, PartialEq, Eq)]
struct Pin<'a> {
    name: &'a str,
    version: &'a str,
    checksum: &'a str,
}

impl<'a> Pin<'a> {
    /// Of a line such as `crate tch 0.26.0 975b…`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.strip_prefix("crate ")?.split(' ');
        Some(Self {
            name: words.next()?,
            version: words.next()?,
            checksum: words.next()?,
        })
    }
}

/// The repository's manifest with the other release of `tch`.
fn with_tch(manifest: &str, pins: &[Pin<'_>]) -> Option<String> {
    let pin = pins.iter().find(|pin| pin.name == "tch")?;
    let new = format!("tch = \"={}\"", pin.version);
    with_lines(manifest, &[("tch = ", &new)])
}

/// The engine's manifest with a version of its own.
fn with_version(manifest: &str) -> Option<String> {
    let new = format!("version = \"{}{SUFFIX}\"", env!("CARGO_PKG_VERSION"));
    with_lines(manifest, &[("version.workspace = ", &new)])
}

/// The lock file with the pinned packages and the engine's other version.
fn with_packages(lock: &str, pins: &[Pin<'_>]) -> Option<String> {
    let mut entries: Vec<String> = lock.split("\n\n").map(str::to_owned).collect();
    let mut change = |name: &str, lines: &[(&str, &str)]| {
        let title = format!("name = \"{name}\"");
        let is_it = |entry: &&mut String| entry.lines().any(|line| line == title);
        let entry = entries.iter_mut().find(is_it)?;
        *entry = with_lines(entry, lines)?;
        Some(())
    };
    for pin in pins {
        let version = format!("version = \"{}\"", pin.version);
        let checksum = format!("checksum = \"{}\"", pin.checksum);
        let lines = [("version = ", &*version), ("checksum = ", &*checksum)];
        change(pin.name, &lines)?;
    }
    let version = format!("version = \"{}{SUFFIX}\"", env!("CARGO_PKG_VERSION"));
    change(ENGINE, &[("version = ", &version)])?;
    Some(entries.join("\n\n"))
}

/// A text in which the one line that begins so is another one; nothing where it is not one.
fn with_lines(text: &str, changes: &[(&str, &str)]) -> Option<String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    for (start, new) in changes {
        let mut found = lines.iter_mut().filter(|line| line.starts_with(start));
        *found.next()? = new;
        if found.next().is_some() {
            return None;
        }
    }
    Some(lines.join("\n"))
}

/// A link in `to` for everything in `from` that is neither hidden, nor built, nor left out.
fn link_all(from: &Path, to: &Path, except: &[&str]) -> Result<()> {
    fs::create_dir_all(to).doing(|| to.display().to_string())?;
    let linked = || -> std::io::Result<()> {
        for entry in fs::read_dir(to)? {
            let link = entry?.path();
            // Of what is gone from the repository.
            if link.is_symlink() && !link.exists() {
                fs::remove_file(link)?;
            }
        }
        for entry in fs::read_dir(from)? {
            let (name, source) = entry.map(|it| (it.file_name(), it.path()))?;
            let text = name.to_string_lossy();
            if text.starts_with('.') || text.starts_with("target") || except.contains(&&*text) {
                continue;
            }
            let link = to.join(&name);
            if fs::read_link(&link).is_ok_and(|to| to == source) {
                continue;
            }
            if link.is_symlink() {
                fs::remove_file(&link)?;
            }
            symlink(&source, &link)?;
        }
        Ok(())
    };
    linked().doing(|| format!("Links to {} in {}", from.display(), to.display()))
}

/// A second name for a file where the disk has such, else a copy; in one step, for one may be running.
fn put(file: &Path, place: &Path) -> std::io::Result<()> {
    let new = place.with_extension(format!("new-{}", std::process::id()));
    if fs::hard_link(file, &new).is_err() {
        fs::copy(file, &new)?;
    }
    fs::rename(&new, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINS: &str =
        "# why\ncrate tch 0.26.0 aa\ncrate torch-sys 0.26.0 bb\nwheel torch===2.13.0 cc\n";

    fn pins() -> Vec<Pin<'static>> {
        PINS.lines().filter_map(Pin::parse).collect()
    }

    #[test]
    fn the_second_workspace_differs_in_its_libtorch_and_the_engines_version_alone() {
        let names: Vec<&str> = pins().iter().map(|pin| pin.name).collect();
        assert_eq!(names, ["tch", "torch-sys"]);
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |name: &str| fs::read_to_string(repository.join(name)).expect("it is there");
        let differing = |name: &str, new: Option<String>| -> Vec<String> {
            let (old, new) = (read(name), new.expect("it has the known form"));
            assert_eq!(old.lines().count(), new.lines().count(), "{name}");
            let pairs = old.lines().zip(new.lines());
            let differing = pairs.filter(|(old, new)| old != new);
            differing.map(|(_, new)| new.to_owned()).collect()
        };
        let manifest = with_tch(&read("Cargo.toml"), &pins());
        assert_eq!(differing("Cargo.toml", manifest), ["tch = \"=0.26.0\""]);
        let own = format!("version = \"{}+second\"", env!("CARGO_PKG_VERSION"));
        let manifest = with_version(&read("src/engine/Cargo.toml"));
        assert_eq!(differing("src/engine/Cargo.toml", manifest), [&*own]);
        let lock = with_packages(&read("Cargo.lock"), &pins());
        assert_eq!(
            differing("Cargo.lock", lock),
            [
                &*own,
                "version = \"0.26.0\"",
                "checksum = \"aa\"",
                "version = \"0.26.0\"",
                "checksum = \"bb\""
            ]
        );
    }

    #[test]
    fn the_program_knows_both_engines_by_the_same_names() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |name: &str| fs::read_to_string(repository.join(name)).expect("it is there");
        let known = read("src/core/settings/engines.rs");
        let engines = [(libtorch::FIRST, ENGINE), (libtorch::SECOND, EXECUTABLE)];
        for (version, executable) in engines {
            let lock = read(&format!("packaging/xtask/{}", version.lock));
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
        for manifest in ["", "tch = \"1\"\ntch = \"2\"\n", "# tch = \"1\""] {
            assert_eq!(with_tch(manifest, &pins()), None, "{manifest:?}");
        }
        assert_eq!(with_packages("name = \"tch\"\n", &pins()), None);
    }

    #[test]
    fn links_follow_what_comes_and_goes() {
        let here = std::env::current_exe().expect("a test has an executable");
        let folder = here.with_file_name("xtask-links");
        fs::remove_dir_all(&folder).ok();
        let (from, to) = (folder.join("from"), folder.join("to"));
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
