//! `cargo xtask package`: a folder that runs where it is unpacked, and its archive.
//!
//! It makes no installer and no package of a distribution.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

/// What a release consists of beside its executables; what does not exist is left out.
const EXTRAS: [&str; 7] = [
    "README.md",
    "docs",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "models.toml",
    "assets",
];

const EXECUTABLES: [&str; 2] = ["safelight", "safelight-engine"];
/// What measures; for developers.
const BENCH: [&str; 2] = ["safelight-bench", "safelight-bench-engine"];

/// The variable of the engine's feature `fault-injection`, which no release has.
const FAULT_VARIABLE: &str = "SAFELIGHT_ENGINE_FAULT";

const ABOUT_RUNTIME: &str = "\
Safelight computes with libtorch 2.11.0, which is not in this archive.
Give it any one of these, first found first used:
- the environment variable SAFELIGHT_LIBTORCH, naming a folder that has lib/libtorch_cpu.so;
- the setting runtime.libtorch, naming such a folder;
- such a folder named runtime, beside the executables.
A Python environment with torch 2.11.0 has one: it is the folder site-packages/torch.
";

/// Packs a release; with `libtorch` also that, as its `runtime` folder, and for developers what measures.
pub fn make(workspace: &Workspace, libtorch: Option<&Path>, for_developers: bool) -> Result<()> {
    cargo::build_release(workspace)?;
    if for_developers {
        cargo::build_bench(workspace)?;
    }
    let built = workspace.target().join("release");
    for executable in EXECUTABLES {
        refuse_faults(&built.join(executable))?;
    }
    let name = format!("safelight-{}-linux-x86_64", env!("CARGO_PKG_VERSION"));
    let parent = workspace.target().join("package");
    let folder = parent.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).doing(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).doing(|| folder.display().to_string())?;
    let bench: &[&str] = if for_developers { &BENCH } else { &[] };
    for executable in EXECUTABLES.iter().chain(bench) {
        copy(&built.join(executable), &folder)?;
    }
    for extra in EXTRAS
        .iter()
        .map(|extra| workspace.root().join(extra))
        .filter(|extra| extra.exists())
    {
        copy(&extra, &folder)?;
    }
    match libtorch {
        Some(libtorch) => {
            let runtime = folder.join("runtime");
            fs::create_dir(&runtime).doing(|| runtime.display().to_string())?;
            for part in ["lib", "licenses", "build-version"] {
                copy(&libtorch.join(part), &runtime)?;
            }
        }
        None => fs::write(folder.join("RUNTIME.txt"), ABOUT_RUNTIME)
            .doing(|| "RUNTIME.txt".to_owned())?,
    }
    let archive = format!("{name}.tar.gz");
    run(Command::new("tar")
        .current_dir(&parent)
        .args(["-czf", &archive, &name]))?;
    eprintln!("Packed {}", parent.join(archive).display());
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

fn copy(source: &Path, folder: &Path) -> Result<()> {
    run(Command::new("cp").arg("-RL").arg(source).arg(folder))
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
