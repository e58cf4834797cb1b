//! Holds the walls between the crates and folders, and the rules that the compiler does not know.
//!
//! It reads manifests and sources as text. It does not judge style: formatting and lints do.

mod crates;
mod dependencies;
mod imports;
mod kernels;
mod layers;
mod pages;
mod source;
mod window;
mod wording;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use source::{code, code_with_whole_paths, names};

/// A wall a line: the folder (and exceptions, or only its panels, or only the other files), the names that its code must
/// not contain, and why.
const WALLS: &str = "\
src/core: tch egui eframe wgpu crossbeam_channel std::thread; core is plain data and files
src/loops: tch safelight_core std::fs std::thread; loops take slices and give slices
src/engine: egui eframe wgpu winit rfd; the engine has no window
src/engine/sampling: std::fs std::thread std::process crossbeam_channel; samplers are pure
src/window: tch crate::cli; the window computes nothing and does not know the command line
src/window panels: crossbeam_channel std::fs std::net std::process std::thread crate::worker; panels read state and push commands
src/window state: crate::window::layout crate::window::widgets; what the window does does not know how it looks
src/cli: tch egui eframe; the command line has no window
src/cli except src/cli/window.rs src/cli/serve.rs: crate::window; the command line works without the window, which those files start
src/worker: tch egui eframe crate::window crate::cli; it serves the window and the command line, and computes nothing
src/doctor: tch egui eframe crate::window crate::cli; it serves the window and the command line alike
src/report: tch egui eframe crate::window crate::cli; it serves the window and the command line alike
src/computers: tch egui eframe crate::window crate::cli; it serves the window and the command line alike
src/runtimes: tch egui eframe crate::window crate::cli; it serves the window and the command line alike
src/telemetry: tch egui eframe crate::window crate::cli; it serves the window and the command line alike
src/telemetry: crate::worker; telemetry only samples
src except src/window/widgets/theme.rs: Color32::from_; colours live in the theme
src except src/download src/server src/wheels/fetch src/wheels/trust.rs: ureq TcpStream TcpListener UdpSocket; downloads and the server alone use the network
src/server: ureq tch egui eframe crate::window crate::cli; the server answers, and leaves the rest to the app";

/// Folder, exceptions, forbidden names and reason of each wall.
fn walls() -> impl Iterator<
    Item = (
        &'static str,
        Vec<&'static str>,
        Vec<&'static str>,
        &'static str,
    ),
> {
    WALLS.lines().map(|line| {
        let (place, rest) = line.split_once(": ").expect("a folder");
        let (names, because) = rest.split_once("; ").expect("names and a reason");
        let (folder, except) = place.split_once(" except ").unwrap_or((place, ""));
        let words = |text: &'static str| text.split_whitespace().collect();
        (folder, words(except), words(names), because)
    })
}

const MAX_LINES: usize = 500;
const MAX_LINES_NETWORK: usize = 700;
/// A network stays in one file, as its reference does.
const NETWORKS: [&str; 4] = [
    "transformer.rs",
    "encoder.rs",
    "decoder.rs",
    "autoencoder.rs",
];

#[test]
fn folders_contain_rust_files_and_use_no_forbidden_names() {
    let mut found = Vec::new();
    for (folder, except, forbidden, because) in walls() {
        let mut files = match folder.split_once(' ') {
            Some((folder, kind)) => window_files(folder, kind == "panels"),
            None => rust_files(folder),
        };
        assert!(!files.is_empty(), "{folder} holds no Rust file");
        files.retain(|path| !except.iter().any(|start| path.starts_with(start)));
        for path in files {
            let code = code_with_whole_paths(&read(&path));
            for name in forbidden.iter().filter(|name| names(&code, name)) {
                found.push(format!("{path} names {name}, but {because}"));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Where families' names are those of other programs and of their folders.
const OTHER_PROGRAMS: [&str; 3] = [
    "src/core/library/places/installs.rs",
    "src/core/library/scan.rs",
    "src/core/restore/programs.rs",
];

#[test]
fn nothing_outside_of_its_folders_names_a_family() {
    let folders = |root: &str| -> BTreeSet<String> {
        let folders = fs::read_dir(self::root().join(root)).unwrap().flatten();
        let folders = folders.filter(|entry| entry.path().is_dir());
        folders
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "tests")
            .collect()
    };
    let (core, engine) = (folders("src/core/families"), folders("src/engine/families"));
    assert_eq!(core, engine, "each family has a folder in both crates");
    assert!(core.len() > 2, "{core:?}");
    let mut found = Vec::new();
    for path in rust_files("src") {
        let is_test =
            path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/testing");
        let is_own = path.contains("/families/") || path.starts_with("src/core/model/family/");
        if is_test || is_own || OTHER_PROGRAMS.contains(&path.as_str()) {
            continue;
        }
        let source = read(&path);
        let product = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code_with_whole_paths(product);
        let lines = product.lines();
        let literals = lines.filter(|line| !line.trim_start().starts_with("//"));
        let literals = literals.collect::<Vec<_>>().join("\n");
        for family in &core {
            let is_named = names(&code, &format!("families::{family}"))
                || literals.contains(&format!("\"{family}\""));
            if is_named {
                found.push(format!("{path} names {family}"));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_rust_file_starts_with_a_module_comment() {
    let mut silent = all_rust_files();
    silent.retain(|path| !read(path).starts_with("//! "));
    assert_eq!(silent, [""; 0], "these do not open with `//! …`");
}

#[test]
fn no_file_is_too_long_to_read_at_once() {
    for path in all_rust_files() {
        let (lines, most) = (read(&path).lines().count(), longest(&path));
        assert!(lines <= most, "{path} has {lines} lines of at most {most}");
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    // Put together here so that this file does not find itself.
    let allow = ["#[", "allow("].concat();
    let allow_all = ["#![", "allow("].concat();
    let ignore = ["#[", "ignore"].concat();
    for path in all_rust_files() {
        let code = code(&read(&path));
        for attribute in [&allow, &allow_all, &ignore] {
            assert!(!code.contains(attribute.as_str()), "{path} has {attribute}");
        }
    }
}

#[test]
fn the_catalogue_of_models_is_a_table_of_models() {
    let catalogue = parse("models.toml");
    let models = catalogue.get("model").and_then(toml::Value::as_array);
    let has_models = models.is_some_and(|models| !models.is_empty());
    assert!(has_models, "models.toml lists no [[model]]");
}

#[test]
fn the_readme_and_the_checks_give_the_same_test_command() {
    let command = "cargo xtask test";
    let readme = read("README.md");
    let has_command = readme.lines().any(|line| line.trim() == command);
    assert!(has_command, "README.md has no line `{command}`");
    let script = read(".ci/run");
    let is_called = script.lines().any(|line| line.trim() == command);
    assert!(is_called, ".ci/run does not call `{command}`");
}

fn longest(path: &str) -> usize {
    let is_named = |name: &&str| path.ends_with(&format!("/{name}"));
    if path.starts_with("src/engine/") && NETWORKS.iter().any(is_named) {
        MAX_LINES_NETWORK
    } else {
        MAX_LINES
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn parse(path: &str) -> toml::Table {
    let parsed = read(path).parse();
    parsed.unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn all_rust_files() -> Vec<String> {
    let folders = ["src", "tests", "benches", "packaging"].into_iter();
    folders.flat_map(rust_files).collect()
}

/// Panels of the window, by their file or folder, or its other files but the window itself.
fn window_files(folder: &str, are_panels: bool) -> Vec<String> {
    let mut files = rust_files(folder);
    files.retain(|path| {
        let in_folder = ["/panel/", "/layout/", "/widgets/"].map(|name| path.contains(name));
        let is_panel = path.ends_with("/panel.rs") || in_folder.contains(&true);
        is_panel == are_panels && (is_panel || path != "src/window/mod.rs")
    });
    files
}

fn rust_files(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut waiting = vec![root().join(folder)];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                // What a build wrote there is nobody's source.
                if path.file_name().is_some_and(|name| name != "target") {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(from_root(&path));
            }
        }
    }
    files.sort();
    files
}

fn from_root(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

#[test]
fn no_second_form_type_exists_and_form_fields_are_named_in_few_files() {
    let mut of_second_guidance = Vec::new();
    for file in rust_files("src") {
        let text = read(&file);
        assert!(!text.contains("FormState"), "{file}");
        if text.contains("guidance_scale_2") {
            of_second_guidance.push(file);
        }
    }
    // A field of the form is named where it is defined, chosen, checked and told, and nowhere else.
    assert!(of_second_guidance.len() <= 8, "{of_second_guidance:#?}");
}
