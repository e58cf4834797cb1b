//! The RPM: made by `rpmbuild`, from the tree as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DESCRIPTION, SUMMARY, VERSION, run, write};
use crate::failure::{Doing as _, Result};
use crate::package::portable::Glibc;

/// The libraries that the window opens, by what they provide: names of packages differ between distributions.
const WINDOW: [&str; 4] = [
    "vulkan-loader",
    "mesa-vulkan-drivers",
    "libxkbcommon-x11",
    "fontconfig",
];

/// Packs the tree below `/usr` -> the package.
pub(super) fn pack(tree: &Path, glibc: Glibc, out: &Path) -> Result<PathBuf> {
    let top = out.join("rpm");
    let root = top.join("root");
    fs::create_dir_all(&root).doing(|| root.display().to_string())?;
    let spec = top.join("safelight.spec");
    write(&spec, spec_text(tree, glibc))?;
    let name = format!("safelight-{VERSION}-1.x86_64.rpm");
    run(Command::new("rpmbuild")
        .args(["-bb", "--quiet", "--target", "x86_64"])
        .arg("--define")
        .arg(format!("_topdir {}", top.display()))
        .arg("--define")
        .arg(format!("_rpmdir {}", out.display()))
        .args([
            "--define",
            "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        ])
        .args(["--define", "_build_id_links none"])
        .args(["--define", "_binary_payload w6T2.xzdio"])
        .arg("--buildroot")
        .arg(&root)
        .arg(&spec)
        .stdout(std::io::stderr()))?;
    Ok(out.join(name))
}

/// The files are there already: nothing is prepared, built, stripped or compressed.
fn spec_text(tree: &Path, glibc: Glibc) -> String {
    let recommends = WINDOW.join(", ");
    format!(
        "Name: safelight\n\
         Version: {VERSION}\n\
         Release: 1\n\
         Summary: {SUMMARY}\n\
         License: MIT OR Apache-2.0\n\
         AutoReqProv: no\n\
         Requires: glibc >= {glibc}\n\
         Requires: libgcc\n\
         Requires: libstdc++\n\
         Recommends: {recommends}\n\
         %description\n\
         {DESCRIPTION}\n\
         %global __os_install_post %{{nil}}\n\
         %global debug_package %{{nil}}\n\
         %install\n\
         cp -al '{tree}' %{{buildroot}}/usr\n\
         %clean\n\
         true\n\
         %files\n\
         /usr/bin/*\n\
         /usr/lib/safelight\n\
         /usr/share/applications/*\n\
         /usr/share/bash-completion/completions/*\n\
         /usr/share/doc/safelight\n\
         /usr/share/fish/vendor_completions.d/*\n\
         /usr/share/icons/hicolor/*/apps/*\n\
         /usr/share/man/man1/*\n\
         /usr/share/metainfo/*\n\
         /usr/share/zsh/site-functions/*\n",
        tree = tree.display(),
    )
}
