//! `cargo xtask package`: one release as an archive with its installer, a Debian package and an RPM.
//!
//! All three hold the same tree, so that what was tried of one holds for all.

mod archive;
mod deb;
mod licences;
mod portable;
mod rpm;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::PackageOptions;
use crate::cargo;
use crate::failure::{Doing as _, Failure, Result};
use crate::second::SecondEngine;
use crate::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMMARY: &str = "Makes images and videos on your own GPU";
const DESCRIPTION: &str = "\
Type a prompt or drop a picture, and watch it develop: Wan, FLUX.1 and FramePack, natively, without Python.
It finds the models that ComfyUI and other programs keep, and fits them into the memory that there is.";

/// The variable of the engine's feature `fault-injection`, which no release has.
const FAULT_VARIABLE: &str = "SAFELIGHT_ENGINE_FAULT";

/// The codec that needs a licence where many copies are given away; docs/packages.md says more.
const H264_CODEC: &str = "openh264";

/// Builds a release with both engines and packs it with libtorch for the CPU, for developers also with what measures.
pub fn make(
    workspace: &Workspace,
    libtorch: &Path,
    second: &SecondEngine<'_>,
    options: PackageOptions,
) -> Result<()> {
    let PackageOptions {
        developer: for_developers,
        without_h264,
    } = options;
    let (features, folder): (&[&str], _) = if without_h264 {
        (&["--no-default-features"], "package-without-h264")
    } else {
        (&[], "package")
    };
    let packages = licences::packages(workspace, second, features)?;
    let has_codec = packages.keys().any(|name| name.starts_with(H264_CODEC));
    if has_codec == without_h264 {
        return Err(Failure::new(format!(
            "expected a release {} H.264, and cargo tree says the contrary",
            if without_h264 { "without" } else { "with" }
        )));
    }
    second.build_release(features)?;
    if for_developers {
        cargo::build_bench(workspace, features)?;
    }
    let built = workspace.target().join("release");
    let executables = tree::executables(for_developers);
    for executable in &executables {
        refuse_faults(&built.join(executable))?;
    }
    let glibc = portable::needed_glibc(executables.iter().map(|name| built.join(name)))?;
    let out = workspace.target().join(folder);
    empty(&out)?;
    let tree = tree::grow(
        workspace,
        libtorch,
        &executables,
        &packages,
        &out.join("tree"),
    )?;
    let packages = [
        archive::pack(workspace, &tree, &out)?,
        deb::pack(&tree, glibc, &out)?,
        rpm::pack(&tree, glibc, &out)?,
    ];
    for package in packages {
        let bytes = fs::metadata(&package).doing(|| package.display().to_string())?;
        let mib = bytes.len() as f64 / f64::from(1 << 20);
        eprintln!("{:>7.1} MiB  {}", mib, package.display());
    }
    eprintln!("They run where glibc is {glibc} or newer.");
    Ok(())
}

/// Fails where an executable could be made to fail by a variable of its environment.
fn refuse_faults(executable: &Path) -> Result<()> {
    let bytes = fs::read(executable).doing(|| executable.display().to_string())?;
    if contains(&bytes, FAULT_VARIABLE) {
        return Err(Failure::new(format!(
            "expected a release without fault injection, found {FAULT_VARIABLE} in {}",
            executable.display()
        )));
    }
    Ok(())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Makes a folder that has nothing in it.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).doing(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).doing(|| folder.display().to_string())
}

/// Copies a file or a folder with all that links in it lead to, into an existing folder.
fn copy(source: &Path, folder: &Path) -> Result<()> {
    run(Command::new("cp").arg("-RL").arg(source).arg(folder))
}

/// The same tree once more, in `folder` under a new name; the files are not copied where the disk can share them.
fn share(tree: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let place = folder.join(name);
    run(Command::new("cp").arg("-al").arg(tree).arg(&place))?;
    Ok(place)
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, text).doing(|| path.display().to_string())
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .doing(|| format!("{program} cannot be started"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("{program} failed and says why above")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_with_fault_injection_is_no_release() {
        // Code holds this text, so this test's own executable is one that is refused.
        let own = std::env::current_exe().expect("a test has an executable");
        let refusal = refuse_faults(&own).expect_err("it holds the variable");
        assert!(
            refusal
                .sentence()
                .is_some_and(|text| text.contains(FAULT_VARIABLE))
        );
        assert!(!contains(b"an engine of a release", FAULT_VARIABLE));
    }
}
