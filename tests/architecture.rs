//! Holds the walls between the crates and folders, and the rules that the compiler does not know.
//!
//! It reads manifests and sources as text. It does not judge style: formatting and lints do.

mod crates;
mod dependencies;
mod imports;
mod kernels;
mod pages;
mod source;
mod window;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use source::{code, code_with_whole_paths, names};

/// A folder and the names that its code must not contain.
struct Wall {
    folder: &'static str,
    except: &'static [&'static str],
    forbidden: &'static [&'static str],
    because: &'static str,
}

/// What serves the window and the command line knows neither, and computes nothing.
const BELOW_BOTH_FRONTS: &[&str] = &[
    "tch",
    "egui",
    "eframe",
    "crate::ui",
    "crate::app",
    "crate::cli",
];

const fn serves_both(folder: &'static str) -> Wall {
    Wall {
        folder,
        except: &[],
        forbidden: BELOW_BOTH_FRONTS,
        because: "it serves the window and the command line alike",
    }
}

const WALLS: &[Wall] = &[
    Wall {
        folder: "src/core",
        except: &[],
        forbidden: &[
            "tch",
            "egui",
            "eframe",
            "wgpu",
            "crossbeam_channel",
            "std::thread",
        ],
        because: "core is plain data and files",
    },
    Wall {
        folder: "src/loops",
        except: &[],
        forbidden: &["tch", "safelight_core", "std::fs", "std::thread"],
        because: "loops take slices and give slices",
    },
    Wall {
        folder: "src/core/model",
        except: &[],
        forbidden: &[
            "crate::catalog",
            "crate::job",
            "crate::library",
            "crate::lora",
        ],
        because: "what one model is lies below all that speaks of models",
    },
    Wall {
        folder: "src/core/formats",
        except: &[],
        forbidden: &[
            "crate::catalog",
            "crate::families",
            "crate::job",
            "crate::library",
        ],
        because: "a reader of a format knows no model",
    },
    Wall {
        folder: "src/core/library",
        except: &["src/core/library/tests"],
        forbidden: &["crate::catalog", "crate::job"],
        because: "what lies on the disk is found before anything is asked of it",
    },
    Wall {
        folder: "src/core/job",
        except: &[],
        forbidden: &["crate::catalog"],
        because: "a job has its model already; the catalogue checks its entries as jobs",
    },
    Wall {
        folder: "src/engine",
        except: &[],
        forbidden: &["egui", "eframe", "wgpu", "winit", "rfd"],
        because: "the engine has no window",
    },
    Wall {
        folder: "src/engine/sampling",
        except: &[],
        forbidden: &[
            "std::fs",
            "std::thread",
            "std::process",
            "crossbeam_channel",
        ],
        because: "samplers are pure",
    },
    Wall {
        folder: "src/worker",
        except: &[],
        forbidden: BELOW_BOTH_FRONTS,
        because: "the worker serves the window and the command line alike, and computes nothing",
    },
    Wall {
        folder: "src/ui",
        except: &[],
        forbidden: &[
            "tch",
            "crossbeam_channel",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "crate::worker",
            "crate::cli",
        ],
        because: "panels read state and push commands",
    },
    Wall {
        folder: "src/app",
        except: &[],
        forbidden: &["tch", "crate::cli", "crate::ui", "crate::window"],
        because: "what the window does knows neither tensors nor how it looks",
    },
    Wall {
        folder: "src/cli",
        except: &[],
        forbidden: &["tch", "egui", "eframe"],
        because: "the command line has no window",
    },
    Wall {
        folder: "src/cli",
        // Without a subcommand the window opens: this file puts it and the worker together.
        except: &["src/cli/window.rs"],
        forbidden: &["crate::ui", "crate::app"],
        because: "the command line works without the window",
    },
    serves_both("src/doctor"),
    serves_both("src/report"),
    serves_both("src/runtimes"),
    serves_both("src/telemetry"),
    Wall {
        folder: "src/telemetry",
        except: &[],
        forbidden: &["crate::worker"],
        because: "telemetry only samples",
    },
    Wall {
        folder: "src",
        except: &["src/ui/theme.rs"],
        forbidden: &["Color32::from_"],
        because: "colours live in the theme",
    },
    Wall {
        folder: "src",
        except: &["src/download", "src/wheels/fetch", "src/wheels/trust.rs"],
        forbidden: &["ureq", "TcpStream", "TcpListener", "UdpSocket"],
        because: "the network is reached by downloads alone",
    },
];

const MAX_LINES: usize = 500;
const MAX_LINES_NETWORK: usize = 700;
/// A network stays in one file, as its reference does.
const NETWORKS: &[&str] = &[
    "transformer.rs",
    "encoder.rs",
    "decoder.rs",
    "autoencoder.rs",
];

#[test]
fn folders_name_only_what_their_walls_allow() {
    let mut found = Vec::new();
    for wall in WALLS {
        for path in rust_files(wall.folder) {
            if wall.except.iter().any(|start| path.starts_with(start)) {
                continue;
            }
            let code = code_with_whole_paths(&read(&path));
            for name in wall.forbidden.iter().filter(|name| names(&code, name)) {
                found.push(format!("{path} names {name}, but {}", wall.because));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Where families' names are those of other programs and of their folders.
const OTHER_PROGRAMS: [&str; 3] = [
    "src/core/library/places/installs.rs",
    "src/core/library/scan.rs",
    "src/core/restore/others.rs",
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
        let is_test = path.contains("/tests/")
            || path.ends_with("tests.rs")
            || path.starts_with("src/core/testing/");
        if is_test || path.contains("/families/") || OTHER_PROGRAMS.contains(&path.as_str()) {
            continue;
        }
        let source = read(&path);
        let product = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code_with_whole_paths(product);
        let literals = product
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
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
fn the_walls_stand_around_folders_that_exist() {
    for wall in WALLS {
        assert!(
            !rust_files(wall.folder).is_empty(),
            "{} holds no Rust file",
            wall.folder
        );
    }
}

#[test]
fn every_file_opens_with_what_it_does() {
    let silent: Vec<_> = all_rust_files()
        .into_iter()
        .filter(|path| !read(path).starts_with("//! "))
        .collect();
    assert!(
        silent.is_empty(),
        "these do not open with `//! …`: {silent:?}"
    );
}

#[test]
fn no_file_is_too_long_to_read_at_once() {
    let long: Vec<_> = all_rust_files()
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, path)| *lines > longest(path))
        .map(|(lines, path)| format!("{path} has {lines} lines of at most {}", longest(&path)))
        .collect();
    assert!(long.is_empty(), "\n{}", long.join("\n"));
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
    assert!(
        models.is_some_and(|models| !models.is_empty()),
        "models.toml lists no [[model]]"
    );
}

#[test]
fn the_readme_and_the_checks_give_the_same_test_command() {
    let command = "cargo xtask test";
    assert!(
        read("README.md").lines().any(|line| line.trim() == command),
        "README.md has no line `{command}`"
    );
    let script = read(".ci/run");
    let last = script.lines().map(str::trim).rfind(|line| !line.is_empty());
    assert_eq!(
        last,
        Some(command),
        ".ci/run ends with the README's command"
    );
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
    read(path)
        .parse()
        .unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn all_rust_files() -> Vec<String> {
    ["src", "tests", "benches", "packaging"]
        .into_iter()
        .flat_map(rust_files)
        .collect()
}

/// The Rust files below a folder, as paths from the repository's root.
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
    path.strip_prefix(root())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

#[test]
fn one_form_holds_what_a_job_is_asked_for() {
    let mut of_second_guidance = Vec::new();
    for file in rust_files("src") {
        let text = read(&file);
        assert!(!text.contains("FormState"), "{file}");
        if text.contains("guidance_scale_2") {
            of_second_guidance.push(file);
        }
    }
    // A field of the form is named where it is defined, chosen, checked and told, and nowhere else.
    assert!(of_second_guidance.len() <= 7, "{of_second_guidance:#?}");
}
