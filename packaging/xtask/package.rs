//! `cargo xtask package`: one release as an archive with its installer, a Debian package and an RPM.
//!
//! `packaging/linux/package.sh` lays out the files and packs them.

use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::executables::empty;
use crate::failure::{Doing as _, Failure, Result};
use crate::licences;
use crate::packages::of_the_window;
use crate::second::{EXECUTABLE, SecondEngine};
use crate::workspace::Workspace;

/// The codec that needs a licence where many copies are given away; docs/packages.md says more.
const H264_CODEC: &str = "openh264";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageOptions {
    /// With the benchmarks.
    pub developer: bool,
    /// Neither writes nor reads MP4.
    pub without_h264: bool,
}

/// Builds a release with both engines and packs it with libtorch for the CPU.
pub fn make(workspace: &Workspace, libtorch: &Path, options: PackageOptions) -> Result<()> {
    let PackageOptions {
        developer,
        without_h264,
    } = options;
    let (features, folder): (&[&str], _) = if without_h264 {
        (&["--no-default-features"], "package-without-h264")
    } else {
        (&[], "package")
    };
    let second = SecondEngine::prepare(workspace)?;
    let packages = licences::packages(workspace, &second, features)?;
    let has_codec = packages.keys().any(|name| name.starts_with(H264_CODEC));
    if has_codec == without_h264 {
        let word = if without_h264 { "without" } else { "with" };
        let sentence = format!("expected a release {word} H.264, and cargo tree says the contrary");
        return Err(Failure::new(sentence));
    }
    let mut executables = vec!["safelight", "safelight-engine", EXECUTABLE];
    cargo::build(workspace, true, features)?;
    second.build(true, features)?;
    if developer {
        cargo::build_bench(workspace, features)?;
        executables.push("safelight-bench");
    }
    let out = workspace.target().join(folder);
    empty(&out)?;
    licences::write(&packages, &out.join("THIRD-PARTY.txt"))?;
    let built = workspace.target().join("release");
    pack(workspace, &built, libtorch, &out, &executables)
}

fn pack(
    workspace: &Workspace,
    built: &Path,
    libtorch: &Path,
    out: &Path,
    executables: &[&str],
) -> Result<()> {
    let status = Command::new("sh")
        .arg(workspace.root().join("packaging/linux/package.sh"))
        .args([built, libtorch, out])
        .args(executables)
        .env("VERSION", env!("CARGO_PKG_VERSION"))
        .env("RECOMMENDS", of_the_window())
        .stdout(std::io::stderr())
        .status()
        .doing(|| "sh cannot be started".to_owned())?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(
        "The packages could not be made; the script says why above",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::process::Output;

    use super::*;

    /// Runs the script with these programs in front of the system's, on one executable.
    fn packed(executable: &[u8], objdump: &str) -> Output {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| -> PathBuf { folder.path().join(name) };
        fs::write(place("safelight"), executable).expect("a file");
        fs::write(place("objdump"), format!("#!/bin/sh\n{objdump}\n")).expect("a file");
        fs::set_permissions(place("objdump"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = std::env::var("PATH").expect("there is a path");
        Command::new("sh")
            .arg(repository.join("packaging/linux/package.sh"))
            .args([folder.path(), folder.path(), folder.path()])
            .arg("safelight")
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .output()
            .expect("sh starts")
    }

    #[test]
    fn an_executable_with_fault_injection_is_no_release() {
        let output = packed(b"... SAFELIGHT_ENGINE_FAULT ...", "echo GLIBC_2.34");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(text.contains("without fault injection"), "{text}");
    }

    #[test]
    fn an_executable_that_needs_a_newer_glibc_is_no_release() {
        let symbols = "echo '0 DF *UND* 0 (GLIBC_2.4) a'; echo '0 DF *UND* 0 (GLIBC_2.36) b'; \
                       echo '0 DF *UND* 0 (GLIBC_PRIVATE) c'; echo '0 DF *UND* 0 (GLIBCXX_3.4.30) d'";
        let output = packed(b"an engine", symbols);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(text.contains("needs glibc 2.36"), "{text}");
        let output = packed(b"an engine", "echo nothing");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("names no glibc"), "{text}");
    }
}
