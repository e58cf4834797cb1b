//! What the packages of the workspace may depend on, from their manifests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::parse;

/// Which crates alone may depend on these packages. What measures the engine is no part of the program.
const OWNERS: &[(&str, &[&str])] = &[
    ("tch", &["src/engine/Cargo.toml", "benches/Cargo.toml"]),
    ("torch-sys", &["src/engine/Cargo.toml"]),
    ("egui", &["Cargo.toml"]),
    ("eframe", &["Cargo.toml"]),
    ("egui_plot", &["Cargo.toml"]),
    ("egui_kittest", &["Cargo.toml"]),
    // The engine's tests switch its own feature on.
    (
        "safelight-engine",
        &["src/engine/Cargo.toml", "benches/Cargo.toml"],
    ),
    ("safelight-bench", &[]),
];

#[test]
fn each_big_library_belongs_to_one_crate() {
    let mut found = Vec::new();
    for manifest in manifests() {
        for dependency in dependencies(&manifest) {
            if let Some((_, owners)) = OWNERS
                .iter()
                .find(|(name, owners)| *name == dependency && !owners.contains(&manifest.as_str()))
            {
                found.push(format!(
                    "{manifest} depends on {dependency}, which belongs to {owners:?} alone"
                ));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_set_up_tool_and_the_downloader_compile_in_seconds() {
    let names = |manifest: &str| dependencies(manifest).into_iter();
    let tool: Vec<_> = names("packaging/xtask/Cargo.toml").collect();
    assert_eq!(tool, ["tempfile"], "for its tests alone");
    let ours: Vec<_> = names("src/wheels/Cargo.toml")
        .filter(|name| name.starts_with("safelight"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn every_crate_follows_the_lints_of_the_workspace() {
    for manifest in manifests() {
        let lints = parse(&manifest)
            .get("lints")
            .and_then(|lints| lints.get("workspace").cloned());
        assert_eq!(
            lints,
            Some(toml::Value::Boolean(true)),
            "[lints] workspace = true is missing in {manifest}"
        );
    }
}

pub fn manifests() -> Vec<String> {
    let members = parse("Cargo.toml");
    let members = members["workspace"]["members"]
        .as_array()
        .expect("members are a list");
    let folders = members
        .iter()
        .map(|member| PathBuf::from(member.as_str().expect("a member is a path")));
    std::iter::once(PathBuf::new())
        .chain(folders)
        .map(|folder| folder.join("Cargo.toml").to_string_lossy().into_owned())
        .collect()
}

/// Every package that a manifest depends on, under its own name, for any target and purpose.
pub fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest = parse(manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = targets
        .into_iter()
        .flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    std::iter::once(&manifest)
        .chain(tables)
        .flat_map(|table| {
            ["dependencies", "dev-dependencies", "build-dependencies"]
                .map(|section| table.get(section))
        })
        .flatten()
        .filter_map(toml::Value::as_table)
        .flatten()
        .map(|(key, value)| {
            value
                .get("package")
                .and_then(toml::Value::as_str)
                .unwrap_or(key)
                .to_owned()
        })
        .collect()
}
