//! Finds dependencies that nothing uses: names in a `Cargo.toml` that no source of its package has at the start of a path.
//!
//! Reads manifests and sources as text and resolves nothing. It knows the forms that this repository has: one dependency
//! a line, members on one line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Doing as _, Result};

/// One sentence for each dependency that can go.
pub fn unused(root: &Path) -> Result<Vec<String>> {
    let workspace = read(&root.join("Cargo.toml"))?;
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for path in manifests(root)? {
        let manifest = read(&path)?;
        let code = code_below(path.parent().unwrap_or(root))?;
        for name in dependencies(&manifest, |section| section != "workspace.dependencies") {
            // Tests may name their own package, to switch its features on.
            let is_own = manifest.contains(&format!("name = \"{name}\""));
            if !is_own && !starts_a_path(&code, &name.replace('-', "_")) {
                found.push(format!(
                    "{} names {name}, which no source there uses",
                    path.display()
                ));
            }
            named.insert(name);
        }
    }
    for name in dependencies(&workspace, |section| section == "workspace.dependencies") {
        if !named.contains(&name) {
            found.push(format!(
                "[workspace.dependencies] has {name}, which no member names"
            ));
        }
    }
    Ok(found)
}

/// The manifests of all packages.
pub fn manifests(root: &Path) -> Result<Vec<PathBuf>> {
    let workspace = read(&root.join("Cargo.toml"))?;
    let folders = std::iter::once(String::new()).chain(members(&workspace));
    Ok(folders
        .map(|folder| root.join(folder).join("Cargo.toml"))
        .collect())
}

pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).doing(|| path.display().to_string())
}

/// The folders of the workspace's members.
fn members(manifest: &str) -> Vec<String> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = "));
    let quoted = line.unwrap_or_default().split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// The names in those tables of dependencies that are wanted.
fn dependencies(manifest: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_inside = section.ends_with("dependencies") && is_wanted(section);
        } else if is_inside && line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            names.push(name.to_owned());
        }
    }
    names
}

/// All Rust code below a folder, without its comments and without other packages, and the modules from elsewhere that it
/// names by their paths.
fn code_below(folder: &Path) -> Result<String> {
    let mut code = String::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for path in entries(&folder)? {
            let is_hidden = name_of(&path).starts_with('.');
            if path.is_dir() {
                let is_built = name_of(&path).starts_with("target");
                if !is_hidden && !is_built && !path.join("Cargo.toml").exists() {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let own = read(&path)?;
                add_code(&own, &mut code);
                for module in modules_by_path(&own) {
                    add_code(&read(&folder.join(module))?, &mut code);
                }
            }
        }
    }
    Ok(code)
}

fn add_code(source: &str, code: &mut String) {
    for line in source.lines() {
        let is_comment = line.trim_start().starts_with("//");
        code.push_str(if is_comment { "" } else { line });
        code.push('\n');
    }
}

/// What stands in `#[path = "…"]`.
fn modules_by_path(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("#[path = \"")?;
        path.strip_suffix("\"]")
    })
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).doing(|| folder.display().to_string())?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether `name::`, `use name;` or `use name as` stands there; `other::name::` is another crate's module.
fn starts_a_path(code: &str, name: &str) -> bool {
    let goes_on = |character: char| character.is_alphanumeric() || "_:".contains(character);
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_use =
            before.ends_with("use ") && [";", " as "].iter().any(|end| after.starts_with(end));
        !before.ends_with(goes_on) && (is_use || after.starts_with("::"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_at_the_start_of_a_path_only() {
        for code in [
            "use half::f16;",
            "let a: half::f16 = b;",
            "use half as h;",
            "half::init!()",
        ] {
            assert!(starts_a_path(code, "half"), "{code}");
        }
        for code in [
            "let half = 2;",
            "crate::half::f16",
            "behalf::of",
            "half_life::f16",
        ] {
            assert!(!starts_a_path(code, "half"), "{code}");
        }
    }

    #[test]
    fn modules_from_elsewhere_are_known_by_their_paths() {
        let source = "mod own;\n#[path = \"../shared/digest.rs\"]\nmod digest;\n";
        let modules: Vec<&str> = modules_by_path(source).collect();
        assert_eq!(modules, ["../shared/digest.rs"]);
    }

    #[test]
    fn names_are_those_of_all_tables_that_are_wanted() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nsha2.workspace = true\n# none\n\
            half = { version = \"2\" }\n[target.x.dev-dependencies]\nwebp = \"1\"\n[workspace.dependencies]\nnotify = \"8\"\n";
        let all = |is_wanted: fn(&str) -> bool| dependencies(manifest, is_wanted);
        assert_eq!(
            all(|section| !section.starts_with("workspace")),
            ["sha2", "half", "webp"]
        );
        assert_eq!(all(|section| section.starts_with("workspace")), ["notify"]);
        assert_eq!(
            members("members = [\"src/core\", \"benches\"]\n"),
            ["src/core", "benches"]
        );
    }
}
