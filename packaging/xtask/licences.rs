//! The licences of the Rust packages inside a release, as one text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::failure::{Doing as _, Failure, Result};
use crate::second::SecondEngine;
use crate::workspace::Workspace;

/// After the name of a package of the repository, which shares its licence: its folder.
const OURS: &str = " (/";
const TREE: [&str; 8] = [
    "tree",
    "--locked",
    "--target=x86_64-unknown-linux-gnu",
    "--prefix=none",
    "--format={p}|{l}",
    "--package=safelight",
    "--package=safelight-engine",
    "--edges=normal,build",
];
/// Beginnings of the names of files with licences, in any case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// Folders of a package with licences: its own, and those of OpenH264 and FDK AAC.
const BUNDLED: [&str; 3] = ["", "upstream", "aac"];

/// `name v1.2.3` with its licence.
pub type Licences = BTreeMap<String, String>;

/// The packages inside a release of both engines with these features, given as arguments for cargo.
pub fn packages(
    workspace: &Workspace,
    second: &SecondEngine<'_>,
    features: &[&str],
) -> Result<Licences> {
    let mut packages = Licences::new();
    for manifest in [workspace.root().join("Cargo.toml"), second.manifest()] {
        let mut command = cargo::cargo(workspace);
        command
            .args(TREE)
            .args(features)
            .arg("--manifest-path")
            .arg(manifest);
        let output = command.output();
        let output = output.doing(|| "cargo cannot be started".to_owned())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("cargo tree fails: {}", text.trim())));
        }
        let tree = String::from_utf8_lossy(&output.stdout);
        let pairs = tree.lines().filter_map(|line| line.split_once('|'));
        // A package that was listed before has a star.
        let text = |text: &str| text.trim_end_matches("(*)").trim().to_owned();
        packages.extend(pairs.map(|(package, licence)| (text(package), text(licence))));
    }
    Ok(packages)
}

/// Writes every package with its licence, and every text of a licence once.
pub fn write(packages: &Licences, path: &Path) -> Result<()> {
    let sources = sources();
    let mut all = "The Rust packages inside Safelight, and their licences.\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (package, licence) in packages {
        if package.contains(OURS) {
            continue;
        }
        let (name, version) = name_and_version(package);
        writeln!(all, "{name} {version}: {licence}").ok(); // Writing to a string cannot fail.
        for text in texts_in(&sources, &format!("{name}-{version}")) {
            texts.entry(text).or_default().push(name);
        }
    }
    if texts.is_empty() {
        return Err(Failure::new(
            "The sources of the Rust packages are not in cargo's folder, so their licences cannot be packed",
        ));
    }
    let line = "-".repeat(80);
    for (text, names) in &texts {
        let names = names.join(", ");
        write!(all, "\n{line}\n{names}\n{line}\n\n{text}\n").ok();
    }
    fs::write(path, all).doing(|| path.display().to_string())
}

/// Splits `name v1.2.3 (proc-macro)`.
fn name_and_version(package: &str) -> (&str, &str) {
    let mut words = package.split(' ');
    let name = words.next().unwrap_or_default();
    let version = words.next().unwrap_or_default();
    (name, version.trim_start_matches('v'))
}

/// Folders into which cargo unpacks packages.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.unwrap_or_else(|| Path::new(&home).join(".cargo"));
    let entries = fs::read_dir(cargo.join("registry/src"))
        .into_iter()
        .flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// The texts of a package and of the library whose sources it may hold in a folder, by the names of their files.
fn texts_in(sources: &[PathBuf], folder: &str) -> Vec<String> {
    let folders = sources.iter().map(|source| source.join(folder));
    let entries = folders
        .flat_map(|folder| BUNDLED.map(|bundled| folder.join(bundled)))
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            NAMES.iter().any(|known| name.starts_with(known))
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.map(|text| text.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_of_bundled_libraries_are_found_in_their_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let package = folder.path().join("fdk-aac-sys-1.0.0/aac");
        fs::create_dir_all(&package).expect("a folder");
        fs::write(package.join("NOTICE"), "FDK\n").expect("a file");
        let texts = texts_in(&[folder.path().to_owned()], "fdk-aac-sys-1.0.0");
        assert_eq!(texts, ["FDK"]);
    }

    #[test]
    fn package_name_and_version_are_parsed_from_a_line() {
        assert_eq!(name_and_version("egui v0.37.0"), ("egui", "0.37.0"));
        let package = "serde_derive v1.0.1 (proc-macro)";
        assert_eq!(name_and_version(package), ("serde_derive", "1.0.1"));
    }
}
