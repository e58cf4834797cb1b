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
const EXTRAS: [&str; 6] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "models.toml",
    "assets",
];

const ABOUT_RUNTIME: &str = "\
Safelight computes with libtorch 2.11.0, which is not in this archive.
Give it any one of these, first found first used:
- the environment variable SAFELIGHT_LIBTORCH, naming a folder that has lib/libtorch_cpu.so;
- the setting runtime.libtorch, naming such a folder;
- such a folder named runtime, beside the executables.
A Python environment with torch 2.11.0 has one: it is the folder site-packages/torch.
";

/// Packs a release; with `libtorch` also that, as its `runtime` folder.
pub fn make(workspace: &Workspace, libtorch: Option<&Path>) -> Result<()> {
    cargo::build(workspace, true)?;
    let name = format!("safelight-{}-linux-x86_64", env!("CARGO_PKG_VERSION"));
    let parent = workspace.target().join("package");
    let folder = parent.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).doing(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).doing(|| folder.display().to_string())?;
    for executable in ["safelight", "safelight-engine"] {
        copy(
            &workspace.target().join("release").join(executable),
            &folder,
        )?;
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
