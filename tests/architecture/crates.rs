//! What the packages of the workspace may depend on, from their manifests.

use std::collections::BTreeSet;

use super::parse;

const ENGINE: &str = "safelight-engine";

/// Which crates alone may depend on these packages. What measures the engine is no part of the program.
const OWNERS: &[(&str, &[&str])] = &[
    ("tch", &["src/engine/Cargo.toml", "benches/Cargo.toml"]),
    ("torch-sys", &["src/engine/Cargo.toml"]),
    ("egui", &["Cargo.toml"]),
    ("eframe", &["Cargo.toml"]),
    ("egui_plot", &["Cargo.toml"]),
    ("egui_kittest", &["Cargo.toml"]),
    // The engine's tests switch its own feature on.
    (ENGINE, &["src/engine/Cargo.toml", "benches/Cargo.toml"]),
    ("safelight-bench", &[]),
];

#[test]
fn each_big_library_belongs_to_one_crate() {
    let mut found = Vec::new();
    for manifest in manifests() {
        let dependencies = dependencies(&manifest);
        for (name, owners) in OWNERS {
            if dependencies.contains(*name) && !owners.contains(&manifest.as_str()) {
                found.push(format!(
                    "{manifest} depends on {name}, which belongs to {owners:?}"
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
    let mut downloader = names("src/wheels/Cargo.toml");
    assert!(!downloader.any(|name| name.starts_with("safelight")));
}

#[test]
fn every_crate_follows_the_lints_of_the_workspace() {
    for manifest in manifests() {
        let lints = parse(&manifest).get("lints").cloned();
        let workspace = lints.and_then(|lints| lints.get("workspace")?.as_bool());
        assert_eq!(workspace, Some(true), "[lints] in {manifest}");
    }
}

pub fn manifests() -> Vec<String> {
    let members = parse("Cargo.toml");
    let members = members["workspace"]["members"].as_array();
    let members = members.expect("members are a list").iter();
    let folders = members.map(|member| member.as_str().expect("a member is a path"));
    let own = std::iter::once("Cargo.toml".to_owned());
    own.chain(folders.map(|folder| format!("{folder}/Cargo.toml")))
        .collect()
}

/// Every package that a manifest depends on, under its own name, for any target and purpose.
pub fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest = parse(manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = std::iter::once(&manifest).chain(targets.filter_map(toml::Value::as_table));
    let sections = tables.flat_map(|table| {
        ["dependencies", "dev-dependencies", "build-dependencies"].map(|name| table.get(name))
    });
    let entries = sections
        .flatten()
        .filter_map(toml::Value::as_table)
        .flatten();
    let name = |(key, value): (&String, &toml::Value)| {
        let renamed = value.get("package").and_then(toml::Value::as_str);
        renamed.unwrap_or(key).to_owned()
    };
    entries.map(name).collect()
}
