//! The archive: the tree, which runs where it is unpacked, and a script that installs it for one user.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{VERSION, copy, run, share};
use crate::failure::Result;
use crate::workspace::Workspace;

/// Packs the tree -> the archive.
pub(super) fn pack(workspace: &Workspace, tree: &Path, out: &Path) -> Result<PathBuf> {
    let name = format!("safelight-{VERSION}-linux-x86_64");
    let folder = share(tree, out, &name)?;
    let script = workspace.root().join("packaging/linux/install.sh");
    copy(&script, &folder)?;
    let archive = out.join(format!("{name}.tar.gz"));
    run(Command::new("tar")
        .arg("-C")
        .arg(out)
        .args(["--owner=0", "--group=0", "--sort=name", "-czf"])
        .arg(&archive)
        .arg(&name))?;
    Ok(archive)
}
