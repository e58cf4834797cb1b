//! Starting cargo and the app with the environment that a user's own shell would give them.
//!
//! `cargo xtask` is itself started by cargo, which adds variables; left in place they would make the inner
//! cargo see other values than a plain `cargo build` and build everything twice.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Doing as _, Failure, Result};
use crate::libtorch;
use crate::workspace::Workspace;

/// Variables of torch-sys that would lead it away from the prepared libtorch.
const LIBTORCH_VARIABLES: [&str; 7] = [
    "LIBTORCH",
    "LIBTORCH_BYPASS_VERSION_CHECK",
    "LIBTORCH_CXX11_ABI",
    "LIBTORCH_INCLUDE",
    "LIBTORCH_LIB",
    "LIBTORCH_STATIC",
    "LIBTORCH_USE_PYTORCH",
];
/// The whole workspace: the features of its packages are then those of the tests.
const FOR_DEVELOPMENT: &[&str] = &["--workspace"];
/// The app and its engine as users get them.
const RELEASE: &[&str] = &[
    "--release",
    "--package=safelight",
    "--package=safelight-engine",
];
const LOW_DISK_KB: u64 = 300 * 1024;

/// A program that starts in the repository with the user's environment.
fn program(workspace: &Workspace, name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        let of_cargo = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME"];
        if of_cargo.iter().any(|start| name.starts_with(start)) {
            command.env_remove(&variable);
        }
    }
    match library_path_of_the_user(std::env::var_os("LD_LIBRARY_PATH"), workspace.target()) {
        Some(path) => command.env("LD_LIBRARY_PATH", path),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    for variable in LIBTORCH_VARIABLES {
        command.env_remove(variable);
    }
    // With a build folder outside the repository, an executable cannot find them by looking around itself.
    if std::env::var_os("SAFELIGHT_ASSETS").is_none()
        && !workspace.target().starts_with(workspace.root())
    {
        command.env("SAFELIGHT_ASSETS", workspace.root().join("assets"));
    }
    command
}

pub fn cargo(workspace: &Workspace) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = program(workspace, cargo);
    command.current_dir(workspace.root());
    command
}

/// Cargo with clippy as the compiler of our packages' development builds (`packaging/xtask/lint`). `run` and `test`
/// both use it, so that they share their builds.
pub fn linting_cargo(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    let mut clippy = program(workspace, "clippy-driver");
    let clippy = clippy.arg("--version").stdout(Stdio::null());
    // A cargo without it runs the app all the same; the tests need it.
    if clippy
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
    {
        command.env("RUSTC_WORKSPACE_WRAPPER", workspace.tool().join("lint"));
    }
    command
}

/// Downloads the Rust packages, so that a missing network is not mistaken for a broken build.
pub fn fetch(workspace: &Workspace) -> Result<()> {
    if let Some(path) = std::env::var_os("LIBTORCH")
        .filter(|path| !libtorch::is_our_link(workspace, Path::new(path)))
    {
        let path = Path::new(&path).display();
        eprintln!("LIBTORCH={path} is not used here: Safelight builds with its own");
    }
    let mut command = cargo(workspace);
    command.args(["fetch", "--target", "x86_64-unknown-linux-gnu"]);
    let advice = "The Rust packages could not be fetched: check the network and cargo's proxy settings, then run this again";
    succeed(workspace, &mut command, advice)
}

/// Becomes a program; returns only when that fails. Ctrl-C and the exit code are then the program's alone.
pub fn become_program(workspace: &Workspace, path: &Path, args: &[String]) -> Failure {
    let err = program(workspace, path).args(args).exec();
    Failure::new(format!("{} cannot be started: {err}", path.display()))
}

/// Builds the app and its engine, and no test: a release as users get it, or for development. `features` are more
/// arguments for cargo.
pub fn build(workspace: &Workspace, release: bool, features: &[&str]) -> Result<()> {
    let mut command = if release {
        cargo(workspace)
    } else {
        linting_cargo(workspace)
    };
    command.arg("build").args(packages(release)).args(features);
    command.args(["--bin=safelight", "--bin=safelight-engine"]);
    succeed_building(workspace, &mut command)
}

/// The packages whose features count, as arguments for cargo.
pub fn packages(release: bool) -> &'static [&'static str] {
    if release { RELEASE } else { FOR_DEVELOPMENT }
}

/// Builds the program that downloads libtorch -> its path. The app has most of what it is made of.
pub fn build_fetch(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = linting_cargo(workspace);
    command
        .args(["build", "--bin=fetch-libtorch"])
        .args(packages(false));
    succeed_building(workspace, &mut command)?;
    Ok(workspace.target().join("debug/fetch-libtorch"))
}

/// Builds the benchmarks. Alone: an engine that is built along would get their features.
pub fn build_bench(workspace: &Workspace, features: &[&str]) -> Result<()> {
    let mut command = cargo(workspace);
    command.args(["build", "--package", "safelight-bench", "--release"]);
    succeed_building(workspace, command.args(features))
}

pub fn succeed_building(workspace: &Workspace, command: &mut Command) -> Result<()> {
    let sentence = "Safelight does not build; cargo says why above";
    succeed(workspace, command, sentence)
}

fn succeed(workspace: &Workspace, command: &mut Command, sentence: &str) -> Result<()> {
    // Standard output belongs to the program that is started.
    let status = command.stdout(std::io::stderr()).status();
    if status
        .doing(|| "cargo cannot be started".to_owned())?
        .success()
    {
        return Ok(());
    }
    Err(explain_full_disk(workspace).unwrap_or_else(|| Failure::new(sentence)))
}

/// A sentence where the disk of the build folder is (nearly) full.
pub fn explain_full_disk(workspace: &Workspace) -> Option<Failure> {
    let free_kb = free_kb(workspace.target())?;
    (free_kb < LOW_DISK_KB).then(|| {
        Failure::new(format!(
            "The disk of {} has {} MiB left: make room (a build takes about 6 GB), or set CARGO_TARGET_DIR to a \
             folder on another disk",
            workspace.target().display(),
            free_kb / 1024
        ))
    })
}

/// Free space on the disk of a folder, in KiB.
pub fn free_kb(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    free_kb_in(&String::from_utf8_lossy(&output.stdout))
}

/// The fourth column of the second line of `df -Pk`.
fn free_kb_in(listing: &str) -> Option<u64> {
    let line = listing.lines().nth(1)?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The library path without the folders that the outer cargo put in it: the build folder's, the compiler's and
/// (by its runner) libtorch's.
fn library_path_of_the_user(path: Option<OsString>, target: &Path) -> Option<OsString> {
    let path = path?;
    let own = std::env::split_paths(&path).filter(|folder| {
        !folder.starts_with(target)
            && !folder
                .components()
                .any(|part| part.as_os_str() == "rustlib")
            && !folder.join("rustlib").is_dir()
            && !folder.ends_with(".libtorch/lib")
    });
    let joined = std::env::join_paths(own).ok();
    joined.filter(|joined| !joined.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_folders_stay_in_the_library_path() {
        let path = OsString::from(
            "/w/target/debug/deps:/t/lib/rustlib/x/lib:/opt/rocm/lib:/w/.libtorch/lib",
        );
        let kept = library_path_of_the_user(Some(path), Path::new("/w/target"));
        assert_eq!(kept, Some("/opt/rocm/lib".into()));
        let path = OsString::from("/w/target/debug/deps");
        assert_eq!(
            library_path_of_the_user(Some(path), Path::new("/w/target")),
            None
        );
        assert_eq!(library_path_of_the_user(None, Path::new("/w/target")), None);
    }

    #[test]
    fn the_free_space_is_read_from_df() {
        let listing = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 1000 400 600 40% /\n";
        assert_eq!(free_kb_in(listing), Some(600));
        assert_eq!(free_kb_in(""), None);
    }
}
