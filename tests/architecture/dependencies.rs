//! Rules for packages of other makers: used, under known licences, from crates.io.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::crates::{dependencies, manifests};
use super::source::code;
use super::{all_rust_files, parse, read};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const LICENCES: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // The certificates in webpki-root-certs.
    "CDLA-Permissive-2.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    // The fonts in epaint_default_fonts.
    "OFL-1.1",
    "Ubuntu-font-1.0",
    // The tables of ICU and of unicode-ident.
    "Unicode-3.0",
    "Zlib",
];
/// Only in tests: egui_kittest's comparison of images.
const EXCEPTIONS: [(&str, &str); 1] = [("colored", "MPL-2.0")];

/// Evaluates an expression such as `(MIT OR Apache-2.0) AND ISC`.
fn is_allowed(package: &str, expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    let mut parts = expression.split(" AND ");
    parts.all(|part| {
        let mut choices = part.split(" OR ").map(str::trim);
        choices.any(|it| LICENCES.contains(&it) || EXCEPTIONS.contains(&(package, it)))
    })
}

#[test]
fn dependencies_have_known_licences_and_come_from_the_registry() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .arg("--filter-platform=x86_64-unknown-linux-gnu")
        .current_dir(super::root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let nodes = metadata["resolve"]["nodes"].as_array().expect("a list");
    let ids: BTreeSet<_> = nodes.iter().filter_map(|it| it["id"].as_str()).collect();
    assert!(ids.len() > 100, "{}", ids.len());
    let packages = metadata["packages"].as_array().expect("a list");
    let mut found = Vec::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, source, licence) = (text("name"), text("source"), text("license"));
        if !source.is_empty() && source != CRATES_IO {
            found.push(format!("{name} is from {source}"));
        }
        if ids.contains(text("id")) && !is_allowed(name, licence) {
            found.push(format!("the licence of {name} is unknown here: {licence}"));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_dependency_is_used_and_has_a_version() {
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    let manifests = manifests();
    let folder = |manifest: &str| manifest.trim_end_matches("Cargo.toml").to_owned();
    for manifest in &manifests {
        let text = read(manifest);
        assert!(!text.contains("= \"*\""), "{manifest} takes any version");
        // Files of the package with the longest path that they begin with.
        let is_own = |path: &&String| {
            let mut folders: Vec<String> = manifests.iter().map(|it| folder(it)).collect();
            folders.retain(|folder| path.starts_with(folder.as_str()));
            folders.iter().max_by_key(|it| it.len()) == Some(&folder(manifest))
        };
        let files = all_rust_files();
        let own = files.iter().filter(is_own);
        let own: String = own.map(|path| code(&read(path))).collect();
        for name in dependencies(manifest) {
            if !starts_a_path(&own, &name.replace('-', "_")) {
                found.push(format!("{manifest} names {name}, which nothing uses"));
            }
            named.insert(name);
        }
    }
    let workspace = parse("Cargo.toml");
    let all = workspace["workspace"]["dependencies"].as_table();
    let unused = all
        .expect("a table")
        .keys()
        .filter(|name| !named.contains(*name));
    found.extend(unused.map(|name| format!("no package names {name} of [workspace.dependencies]")));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Finds `name::` or `use name`; `other::name::` is another crate's module.
fn starts_a_path(code: &str, name: &str) -> bool {
    let goes_on = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let path = format!("{name}::");
    code.match_indices(&path)
        .any(|(at, _)| !code[..at].ends_with(goes_on))
        || [";", " as "]
            .iter()
            .any(|end| code.contains(&format!("use {name}{end}")))
}
