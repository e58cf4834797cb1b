//! Starting cargo and the app with the environment that a user's own shell would give them.
//!
//! `cargo xtask` is itself started by cargo, which adds variables; left in place they would make the inner
//! cargo see other values than a plain `cargo build` and build everything twice.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
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
/// Before the names of executables: with the features that the tests have, so that nothing is built again behind them.
/// Cargo joins the features of all packages that it is asked for, and what tests ask for where one test, a small one, is
/// among them.
pub const AS_TESTED: &[&str] = &["--workspace", "--test", "process"];
const CLIPPY: &str = "clippy-driver";
const APP_BINS: &[&str] = &["--bin", "safelight", "--bin", "safelight-engine"];
const APP: &[&str] = &["--package", "safelight", "--package", "safelight-engine"];
const LOW_DISK_KB: u64 = 300 * 1024;

/// A program that starts in the repository with the user's environment.
pub fn program(workspace: &Workspace, name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || name == "CARGO_BIN_NAME"
        {
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
    let mut command = program(
        workspace,
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
    );
    command.current_dir(workspace.root());
    command
}

/// A cargo whose development builds of our own packages are clippy's (`packaging/xtask/lint`). `run` and `test` both take
/// it, so that neither builds again what the other has.
pub fn linting_cargo(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    let has_clippy = program(workspace, CLIPPY)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    // A cargo without it runs the app all the same; the tests need it.
    if has_clippy {
        command.env("RUSTC_WORKSPACE_WRAPPER", workspace.tool().join("lint"));
    }
    command
}

/// Brings the Rust packages, so that a missing network is not mistaken for a broken build.
pub fn fetch(workspace: &Workspace) -> Result<()> {
    if let Some(path) = std::env::var_os("LIBTORCH")
        .filter(|path| !libtorch::is_our_link(workspace, Path::new(path)))
    {
        eprintln!(
            "LIBTORCH={} is not used here: Safelight builds with its own",
            Path::new(&path).display()
        );
    }
    let status = cargo(workspace)
        .args(["fetch", "--target", "x86_64-unknown-linux-gnu"])
        .status()
        .doing(|| "cargo cannot be started".to_owned())?;
    if status.success() {
        return Ok(());
    }
    Err(explain_full_disk(workspace).unwrap_or_else(|| {
        Failure::new(
            "The Rust packages could not be fetched: check the network and cargo's proxy settings, then run this again",
        )
    }))
}

/// Builds both executables side by side and becomes the first. Returns only when that fails.
///
/// Becoming it, rather than waiting for it, lets Ctrl-C and the exit code be the app's alone.
pub fn build_and_become_the_app(workspace: &Workspace, release: bool, args: &[String]) -> Failure {
    let app = workspace.target().join(if release {
        "release/safelight"
    } else {
        "debug/safelight"
    });
    let built = if release {
        build_release(workspace, &[])
    } else {
        build_app(workspace)
    };
    match built {
        Ok(()) => become_program(workspace, &app, args),
        Err(failure) => failure,
    }
}

/// Builds what measures and becomes it. Returns only when that fails.
pub fn build_and_become_the_bench(workspace: &Workspace, args: &[String]) -> Failure {
    match build_bench(workspace, &[]) {
        Ok(()) => become_program(
            workspace,
            &workspace.target().join("release/safelight-bench"),
            args,
        ),
        Err(failure) => failure,
    }
}

fn become_program(workspace: &Workspace, path: &Path, args: &[String]) -> Failure {
    let err = program(workspace, path).args(args).exec();
    Failure::new(format!("{} cannot be started: {err}", path.display()))
}

/// The app and its engine, as the tests have them.
pub fn build_app(workspace: &Workspace) -> Result<()> {
    build(workspace, &[AS_TESTED, APP_BINS].concat())
}

/// The app and its engine, as users get them; `features` are more arguments for cargo.
pub fn build_release(workspace: &Workspace, features: &[&str]) -> Result<()> {
    build(workspace, &[APP, &["--release"], features].concat())
}

/// What measures. By itself: an engine that is built along would get its features.
pub fn build_bench(workspace: &Workspace, features: &[&str]) -> Result<()> {
    let bench = &["--package", "safelight-bench", "--release"];
    build(workspace, &[bench, features].concat())
}

fn build(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let mut command = if options.contains(&"--release") {
        cargo(workspace)
    } else {
        linting_cargo(workspace)
    };
    command.arg("build").args(options);
    succeed(workspace, &mut command)
}

/// Runs a build. An error has a sentence.
pub fn succeed(workspace: &Workspace, command: &mut Command) -> Result<()> {
    // Standard output belongs to the program that is started.
    let status = command
        .stdout(std::io::stderr())
        .status()
        .doing(|| "cargo cannot be started".to_owned())?;
    if status.success() {
        return Ok(());
    }
    Err(explain_full_disk(workspace)
        .unwrap_or_else(|| Failure::new("Safelight does not build; cargo says why above")))
}

/// A sentence when the disk of the build folder is (nearly) full, whatever the failed program said.
pub fn explain_full_disk(workspace: &Workspace) -> Option<Failure> {
    let output = Command::new("df")
        .arg("-Pk")
        .arg(workspace.target())
        .output()
        .ok()?;
    let free_kb = free_kb(&String::from_utf8_lossy(&output.stdout))?;
    (free_kb < LOW_DISK_KB).then(|| {
        Failure::new(format!(
            "The disk of {} has {} MiB left: make room (a build takes about 6 GB), or set CARGO_TARGET_DIR to a \
             folder on another disk",
            workspace.target().display(),
            free_kb / 1024
        ))
    })
}

/// The fourth column of the second line of `df -Pk`.
fn free_kb(listing: &str) -> Option<u64> {
    listing
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()
}

/// The library path without the folders that the outer cargo put in it: the build folder's, the compiler's and
/// (by its runner) libtorch's.
fn library_path_of_the_user(path: Option<OsString>, target: &Path) -> Option<OsString> {
    let path = path?;
    let own: Vec<_> = std::env::split_paths(&path)
        .filter(|folder| {
            !folder.starts_with(target)
                && !folder
                    .components()
                    .any(|part| part.as_os_str() == "rustlib")
        })
        .filter(|folder| !folder.join("rustlib").is_dir() && !folder.ends_with(".libtorch/lib"))
        .collect();
    std::env::join_paths(own)
        .ok()
        .filter(|joined| !joined.is_empty())
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
        assert_eq!(free_kb(listing), Some(600));
        assert_eq!(free_kb(""), None);
    }
}
