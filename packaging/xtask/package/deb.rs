//! The Debian package: made by `dpkg-deb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DESCRIPTION, SUMMARY, VERSION, run, share, write};
use crate::failure::{Doing as _, Failure, Result};
use crate::package::portable::Glibc;
use crate::packages;

/// Packs the tree below `/usr` -> the package.
pub(super) fn pack(tree: &Path, glibc: Glibc, out: &Path) -> Result<PathBuf> {
    let root = out.join("deb");
    fs::create_dir_all(root.join("DEBIAN")).doing(|| root.display().to_string())?;
    let usr = share(tree, &root, "usr")?;
    let texts = usr.join("share/doc/safelight");
    // Where Debian looks for it.
    let copyright = texts.join("copyright");
    write(&copyright, copyright_text())?;
    write(
        &root.join("DEBIAN/control"),
        control(glibc, installed_kib(&usr)?),
    )?;
    let package = out.join(format!("safelight_{VERSION}_amd64.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&root)
        .arg(&package)
        .stdout(std::io::stderr()))?;
    Ok(package)
}

fn control(glibc: Glibc, installed_kib: u64) -> String {
    let description = DESCRIPTION.replace('\n', "\n ");
    format!(
        "Package: safelight\n\
         Version: {VERSION}\n\
         Architecture: amd64\n\
         Maintainer: The Safelight developers <safelight@localhost>\n\
         Installed-Size: {installed_kib}\n\
         Section: graphics\n\
         Priority: optional\n\
         Depends: libc6 (>= {glibc}), libgcc-s1, libstdc++6\n\
         Recommends: {window}\n\
         Description: {SUMMARY}\n {description}\n",
        window = packages::of_the_window().join(", "),
    )
}

fn copyright_text() -> &'static str {
    "Safelight is under the MIT licence or the Apache licence 2.0, at your choice: LICENSE-MIT and LICENSE-APACHE.\n\
     The licences of all that it contains are in THIRD-PARTY.txt, those of libtorch in\n\
     /usr/lib/safelight/runtime/licenses.\n"
}

fn installed_kib(usr: &Path) -> Result<u64> {
    let output = Command::new("du")
        .args(["-sk", "--apparent-size"])
        .arg(usr)
        .output()
        .doing(|| "du cannot be started".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Failure::new(format!("du does not say how large {} is", usr.display())))
}
