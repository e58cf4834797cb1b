//! What is installed, laid out as below `/usr` or `~/.local`: `bin`, `lib/safelight` and `share`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{copy, empty, licences, run, write};
use crate::failure::{Doing as _, Failure, Result};
use crate::package::licences::Licences;
use crate::second;
use crate::workspace::Workspace;

/// The desktop's name for the program.
pub(super) const APP_ID: &str = "org.safelight.Safelight";

const EXECUTABLES: [&str; 3] = ["safelight", "safelight-engine", second::EXECUTABLE];
/// What measures; for developers.
const BENCH: [&str; 2] = ["safelight-bench", "safelight-bench-engine"];
/// Beside the executables, where they are looked for.
const DATA: [&str; 2] = ["models.toml", "assets"];
const TEXTS: [&str; 5] = [
    "README.md",
    "docs",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
const ICON_SIZES: [u32; 8] = [16, 24, 32, 48, 64, 128, 256, 512];
/// Shells, and where each looks for completions below `share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/safelight"),
    ("zsh", "zsh/site-functions/_safelight"),
    ("fish", "fish/vendor_completions.d/safelight.fish"),
];

/// The executables of a release, by name.
pub(super) fn executables(for_developers: bool) -> Vec<&'static str> {
    let bench: &[&str] = if for_developers { &BENCH } else { &[] };
    [&EXECUTABLES, bench].concat()
}

/// Lays everything out in `root`, which is emptied first; `packages` are those in the executables, with their licences.
pub(super) fn grow(
    workspace: &Workspace,
    libtorch: &Path,
    executables: &[&str],
    packages: &Licences,
    root: &Path,
) -> Result<PathBuf> {
    empty(root)?;
    let program = folder(root, "lib/safelight")?;
    for executable in executables {
        copy(
            &workspace.target().join("release").join(executable),
            &program,
        )?;
    }
    for data in DATA {
        copy(&workspace.root().join(data), &program)?;
    }
    let runtime = folder(&program, "runtime")?;
    for part in ["lib", "licenses", "build-version"] {
        copy(&libtorch.join(part), &runtime)?;
    }
    let bin = folder(root, "bin")?;
    for executable in executables.iter().filter(|name| !name.contains("-engine")) {
        symlink(
            format!("../lib/safelight/{executable}"),
            bin.join(executable),
        )
        .doing(|| format!("a link to {executable}"))?;
    }
    let share = folder(root, "share")?;
    let texts = folder(&share, "doc/safelight")?;
    for text in TEXTS {
        copy(&workspace.root().join(text), &texts)?;
    }
    licences::write(packages, &texts)?;
    describe_to_the_desktop(workspace, &share)?;
    describe_to_the_shell(&program.join("safelight"), &share)?;
    // Whatever umask it was built under, everybody may read and nobody else may write.
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    Ok(root.to_owned())
}

fn describe_to_the_desktop(workspace: &Workspace, share: &Path) -> Result<()> {
    let linux = workspace.root().join("packaging/linux");
    let applications = folder(share, "applications")?;
    copy(&linux.join(format!("{APP_ID}.desktop")), &applications)?;
    let metainfo = folder(share, "metainfo")?;
    copy(&linux.join(format!("{APP_ID}.metainfo.xml")), &metainfo)?;
    let icons = workspace.root().join("assets/icons");
    let place = |icon: PathBuf, size: &str, ending: &str| {
        let apps = folder(share, &format!("icons/hicolor/{size}/apps"))?;
        let target = apps.join(format!("{APP_ID}.{ending}"));
        fs::copy(&icon, target).doing(|| icon.display().to_string())
    };
    for size in ICON_SIZES {
        let icon = icons.join(format!("safelight-{size}.png"));
        place(icon, &format!("{size}x{size}"), "png")?;
    }
    place(icons.join("safelight.svg"), "scalable", "svg")?;
    Ok(())
}

/// The manual and the completions, which the program makes from its own arguments.
fn describe_to_the_shell(program: &Path, share: &Path) -> Result<()> {
    let manual = folder(share, "man/man1")?;
    run(Command::new(program).arg("manual").arg(&manual))?;
    // As packages have them: without the moment of packing.
    let pages = fs::read_dir(&manual).doing(|| manual.display().to_string())?;
    for page in pages.flatten() {
        run(Command::new("gzip").args(["-9n"]).arg(page.path()))?;
    }
    for (shell, place) in SHELLS {
        let script = Command::new(program)
            .args(["completions", shell])
            .output()
            .doing(|| program.display().to_string())?;
        if !script.status.success() {
            return Err(Failure::new(format!(
                "Safelight has no completions for {shell}"
            )));
        }
        let path = share.join(place);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).doing(|| parent.display().to_string())?;
        }
        write(&path, script.stdout)?;
    }
    Ok(())
}

fn folder(parent: &Path, name: &str) -> Result<PathBuf> {
    let path = parent.join(name);
    fs::create_dir_all(&path).doing(|| path.display().to_string())?;
    Ok(path)
}
