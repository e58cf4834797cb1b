//! The licences of the Rust packages inside a release, as one text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::write as write_file;
use crate::failure::{Failure, Result};
use crate::policy;
use crate::second::SecondEngine;
use crate::workspace::Workspace;

/// Our own packages, whose licence stands beside.
const OURS: &str = "safelight";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What is built into the programs.
const INSIDE: [&str; 6] = [
    "--package",
    "safelight",
    "--package",
    "safelight-engine",
    "--edges",
    "normal,build",
];
/// How the files begin, in any case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// `name v1.2.3` with its licence.
pub(super) type Licences = BTreeMap<String, String>;

/// The packages inside a release of both engines with these features, given as arguments for cargo.
pub(super) fn packages(
    workspace: &Workspace,
    second: &SecondEngine<'_>,
    features: &[&str],
) -> Result<Licences> {
    let inside = [&INSIDE, features].concat();
    let mut packages = policy::licences(workspace, TARGET, &inside)?;
    let manifest = second.manifest().display().to_string();
    let of_second = [&inside[..], &["--manifest-path", &manifest]].concat();
    packages.extend(policy::licences(workspace, TARGET, &of_second)?);
    Ok(packages)
}

/// Writes `THIRD-PARTY.txt`: every package with its licence, and every text of a licence once.
pub(super) fn write(packages: &Licences, folder: &Path) -> Result<()> {
    let sources = sources();
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (package, licence) in packages {
        let (name, version) = name_and_version(package);
        if name.starts_with(OURS) {
            continue;
        }
        // Writing to a string cannot fail.
        writeln!(list, "{name} {version}: {licence}").ok();
        for text in texts_in(&sources, &format!("{name}-{version}")) {
            texts.entry(text).or_default().push(name.to_owned());
        }
    }
    if texts.is_empty() {
        return Err(Failure::new(
            "The sources of the Rust packages are not in cargo's folder, so their licences cannot be packed",
        ));
    }
    let mut all = format!("The Rust packages inside Safelight, and their licences.\n\n{list}");
    for (text, names) in &texts {
        let line = "-".repeat(80);
        // The same.
        write!(all, "\n{line}\n{}\n{line}\n\n{text}\n", names.join(", ")).ok();
    }
    write_file(&folder.join("THIRD-PARTY.txt"), all)
}

/// Of `name v1.2.3` and what may follow.
fn name_and_version(package: &str) -> (&str, &str) {
    let mut words = package.split(' ');
    let name = words.next().unwrap_or_default();
    let version = words.next().unwrap_or_default();
    (name, version.trim_start_matches('v'))
}

/// Where cargo unpacks what it brings.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    let entries = fs::read_dir(home.join("registry/src"))
        .into_iter()
        .flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Texts that are not there are named by the list at least.
fn texts_in(sources: &[PathBuf], folder: &str) -> Vec<String> {
    let entries = sources
        .iter()
        .filter_map(|source| fs::read_dir(source.join(folder)).ok())
        .flatten()
        .flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            NAMES.iter().any(|known| name.starts_with(known))
        })
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|text| text.trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_told_by_name_and_version() {
        assert_eq!(name_and_version("egui v0.37.0"), ("egui", "0.37.0"));
        assert_eq!(
            name_and_version("serde_derive v1.0.1 (proc-macro)"),
            ("serde_derive", "1.0.1")
        );
    }
}
