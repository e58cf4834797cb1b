//! Holds the dependencies against `deny.toml`: licences, sources, several versions, versions without a number.
//!
//! The file is that of `cargo deny`, which is not needed for this: what this does not know of the file is an objection,
//! so no rule there is for show. Advisories are not looked at: they change without the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cargo;
use crate::dependencies::{manifests, read};
use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// All that the workspace builds and tests with.
const EVERYTHING: [&str; 3] = ["--workspace", "--edges", "normal,build,dev"];

/// What `deny.toml` says, by section and key; a list is in one line.
type Rules = BTreeMap<(String, String), String>;

/// One sentence for each dependency that must not be, and for each rule that nobody holds.
pub fn objections(workspace: &Workspace) -> Result<Vec<String>> {
    let rules = rules_of(&read(&workspace.root().join("deny.toml"))?);
    let mut found = unknown_rules(&rules);
    let target = quoted(rule(&rules, "graph", "targets"));
    let mut all = BTreeMap::new();
    for target in &target {
        all.extend(licences(workspace, target, &EVERYTHING)?);
    }
    found.extend(wrong_licences(&rules, &all));
    let lock = packages_of(&read(&workspace.root().join("Cargo.lock"))?);
    found.extend(wrong_sources(&rules, &lock));
    if rule(&rules, "bans", "multiple-versions") == "\"deny\"" {
        found.extend(doubles(&lock));
    }
    if rule(&rules, "bans", "wildcards") == "\"deny\"" {
        found.extend(wildcards(workspace.root())?);
    }
    Ok(found)
}

/// The rules that are held here, with the values that they may have; others would be for show.
fn unknown_rules(rules: &Rules) -> Vec<String> {
    let is_known = |section: &str, key: &str, value: &str| match (section, key) {
        ("graph", "targets") | ("licenses", "allow" | "exceptions") => value.starts_with('['),
        ("licenses", "private") => value == "{ ignore = true }",
        ("bans", "multiple-versions" | "wildcards") => ["\"allow\"", "\"deny\""].contains(&value),
        ("bans", "allow-wildcard-paths") => value == "true",
        ("sources", "unknown-registry" | "unknown-git") => value == "\"deny\"",
        _ => false,
    };
    rules
        .iter()
        .filter(|((section, key), value)| !is_known(section, key, value))
        .map(|((section, key), value)| {
            format!("deny.toml: cargo xtask test does not hold [{section}] {key} = {value}")
        })
        .collect()
}

fn rule<'a>(rules: &'a Rules, section: &str, key: &str) -> &'a str {
    let found = rules.get(&(section.to_owned(), key.to_owned()));
    found.map_or("", String::as_str)
}

/// Keys with their values, each on one line, or a list that ends with a line of its own.
fn rules_of(text: &str) -> Rules {
    let mut rules = Rules::new();
    let mut section = String::new();
    let mut open: Option<(String, String)> = None;
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((key, mut value)) = open.take() {
            value.push_str(line);
            if line.starts_with(']') {
                rules.insert((section.clone(), key), value);
            } else {
                open = Some((key, value));
            }
        } else if let Some((key, value)) = line.split_once(" = ") {
            if value == "[" {
                open = Some((key.to_owned(), value.to_owned()));
            } else {
                rules.insert((section.clone(), key.to_owned()), value.to_owned());
            }
        } else {
            line.trim_matches(['[', ']']).clone_into(&mut section);
        }
    }
    rules
}

/// The texts within quotation marks.
fn quoted(value: &str) -> Vec<String> {
    let inside = value.split('"').skip(1).step_by(2);
    inside.map(str::to_owned).collect()
}

/// `name v1.2.3` and the licence of every package that is built for the target; `which` chooses, as `cargo tree` does.
pub fn licences(
    workspace: &Workspace,
    target: &str,
    which: &[&str],
) -> Result<BTreeMap<String, String>> {
    let output = cargo::cargo(workspace)
        .args(["tree", "--locked", "--target", target, "--prefix", "none"])
        .args(["--format", "{p}|{l}"])
        .args(which)
        .output()
        .doing(|| "cargo cannot be started".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("cargo tree fails: {}", said.trim())));
    }
    Ok(licences_of(&String::from_utf8_lossy(&output.stdout)))
}

fn licences_of(tree: &str) -> BTreeMap<String, String> {
    let lines = tree.lines().filter_map(|line| line.split_once('|'));
    // A package that was listed before has a star behind it.
    let pairs = lines.map(|(package, licence)| (package, licence.trim_end_matches("(*)").trim()));
    pairs
        .map(|(package, licence)| (package.to_owned(), licence.to_owned()))
        .collect()
}

fn wrong_licences(rules: &Rules, licences: &BTreeMap<String, String>) -> Vec<String> {
    let allowed: BTreeSet<String> = quoted(rule(rules, "licenses", "allow"))
        .into_iter()
        .collect();
    let mut exceptions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for exception in rule(rules, "licenses", "exceptions").split('{').skip(1) {
        let mut texts = quoted(exception).into_iter();
        if let Some(name) = texts.next() {
            exceptions.entry(name).or_default().extend(texts);
        }
    }
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for (package, licence) in licences {
        let name = package.split(' ').next().unwrap_or_default();
        let mut is_allowed = |one: &str| {
            let is_exception = exceptions
                .get(name)
                .is_some_and(|more| more.iter().any(|it| it == one));
            let is_listed = allowed.contains(one);
            if is_listed {
                used.insert(one.to_owned());
            }
            is_listed || is_exception
        };
        if !permits(licence, &mut is_allowed) {
            let licence = if licence.is_empty() { "none" } else { licence };
            found.push(format!(
                "deny.toml allows no licence of {package}: {licence}"
            ));
        }
    }
    let names: BTreeSet<&str> = licences
        .keys()
        .filter_map(|package| package.split(' ').next())
        .collect();
    let spare = allowed.difference(&used).map(String::as_str);
    let gone = exceptions.keys().map(String::as_str);
    let spare = spare.chain(gone.filter(|name| !names.contains(name)));
    found.extend(spare.map(|it| format!("deny.toml allows {it}, which no dependency has")));
    found
}

/// Whether a licence expression can be met with what is allowed. All of it is looked at, so that what is allowed and used
/// is known.
fn permits(expression: &str, is_allowed: &mut impl FnMut(&str) -> bool) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let permitted = any(&mut rest, is_allowed);
    permitted && rest.is_empty()
}

fn any(rest: &mut &[&str], is_allowed: &mut impl FnMut(&str) -> bool) -> bool {
    let mut permitted = all(rest, is_allowed);
    while let ["OR", behind @ ..] = *rest {
        *rest = behind;
        permitted |= all(rest, is_allowed);
    }
    permitted
}

fn all(rest: &mut &[&str], is_allowed: &mut impl FnMut(&str) -> bool) -> bool {
    let mut permitted = one(rest, is_allowed);
    while let ["AND", behind @ ..] = *rest {
        *rest = behind;
        permitted &= one(rest, is_allowed);
    }
    permitted
}

fn one(rest: &mut &[&str], is_allowed: &mut impl FnMut(&str) -> bool) -> bool {
    match *rest {
        ["(", behind @ ..] => {
            *rest = behind;
            let permitted = any(rest, is_allowed);
            let closed = rest.split_first().filter(|(word, _)| **word == ")");
            *rest = closed.map_or(&[], |(_, behind)| behind);
            permitted && closed.is_some()
        }
        [name, "WITH", exception, behind @ ..] => {
            *rest = behind;
            is_allowed(&format!("{name} WITH {exception}"))
        }
        [name, behind @ ..] => {
            *rest = behind;
            is_allowed(name)
        }
        [] => false,
    }
}

/// A package of `Cargo.lock`.
#[derive(Debug, PartialEq, Eq)]
struct Locked {
    name: String,
    version: String,
    /// None for what is in this repository.
    source: Option<String>,
}

fn packages_of(lock: &str) -> Vec<Locked> {
    let entries = lock.split("[[package]]").skip(1);
    let packages = entries.filter_map(|entry| {
        let value = |key: &str| {
            let found = entry.lines().find_map(|line| line.strip_prefix(key));
            found.and_then(|value| quoted(value).into_iter().next())
        };
        Some(Locked {
            name: value("name = ")?,
            version: value("version = ")?,
            source: value("source = "),
        })
    });
    packages.collect()
}

fn wrong_sources(rules: &Rules, lock: &[Locked]) -> Vec<String> {
    let is_denied = |source: &str| {
        let key = if source.starts_with("git+") {
            "unknown-git"
        } else {
            "unknown-registry"
        };
        source != CRATES_IO && rule(rules, "sources", key) == "\"deny\""
    };
    let sources = lock
        .iter()
        .filter_map(|it| Some((it, it.source.as_deref()?)));
    sources
        .filter(|(_, source)| is_denied(source))
        .map(|(package, source)| {
            format!("deny.toml denies where {} is from: {source}", package.name)
        })
        .collect()
}

fn doubles(lock: &[Locked]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
    }
    versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| {
            format!(
                "deny.toml denies several versions of {name}: {}",
                versions.join(", ")
            )
        })
        .collect()
}

/// Dependencies of ours that take any version.
fn wildcards(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in manifests(root)? {
        let text = read(&path)?;
        let lines = text.lines().filter(|line| line.contains("= \"*\""));
        found.extend(lines.map(|line| format!("{}: any version of {line}", path.display())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# why\n[graph]\ntargets = [\"x86\"]\n[licenses]\nallow = [\n    \"MIT\",\n    # why\n    \"ISC\",\n]\n\
        exceptions = [{ crate = \"a\", allow = [\"MPL-2.0\"] }]\n[sources]\nunknown-git = \"deny\"\n";

    fn licensed(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, licence)| ((*name).to_owned(), (*licence).to_owned()))
            .collect()
    }

    #[test]
    fn a_licence_is_allowed_when_its_expression_can_be_met() {
        let allows = |expression: &str| {
            permits(expression, &mut |one: &str| {
                ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&one)
            })
        };
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(allows(expression), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC",
            "MIT ISC",
            "Apache-2.0",
            "OR",
        ] {
            assert!(!allows(expression), "{expression}");
        }
    }

    #[test]
    fn licences_that_are_not_allowed_and_rules_that_nobody_needs_are_named() {
        let rules = rules_of(RULES);
        assert!(unknown_rules(&rules).is_empty());
        let good = licensed(&[
            ("a v1", "MPL-2.0"),
            ("b v1", "MIT"),
            ("c v2", "ISC OR GPL-3.0"),
        ]);
        assert!(wrong_licences(&rules, &good).is_empty());
        let bad = licensed(&[("b v1", "MPL-2.0"), ("c v1", ""), ("d v1", "MIT")]);
        let found = wrong_licences(&rules, &bad).join("\n");
        for part in [
            "of b v1: MPL-2.0",
            "of c v1: none",
            "allows ISC,",
            "allows a,",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert_eq!(found.lines().count(), 4, "{found}");
        let tree = licences_of("a v1|MIT\n\na v1|MIT (*)\nb v2 (proc-macro)|ISC\n");
        assert_eq!(
            tree,
            licensed(&[("a v1", "MIT"), ("b v2 (proc-macro)", "ISC")])
        );
    }

    #[test]
    fn a_rule_that_is_not_held_is_told() {
        let found = unknown_rules(&rules_of(
            "[bans]\ndeny = [\"openssl\"]\nwildcards = \"warn\"\n",
        ));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn strange_sources_and_double_versions_are_named() {
        let lock = format!(
            "version = 4\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"{CRATES_IO}\"\n\
             [[package]]\nname = \"a\"\nversion = \"2\"\nsource = \"git+https://x.y/a#1\"\n[[package]]\nname = \"own\"\nversion = \"0\"\n"
        );
        let lock = packages_of(&lock);
        assert_eq!(lock.len(), 3);
        let found = wrong_sources(&rules_of(RULES), &lock);
        assert_eq!(
            found,
            ["deny.toml denies where a is from: git+https://x.y/a#1"]
        );
        assert_eq!(
            doubles(&lock),
            ["deny.toml denies several versions of a: 1, 2"]
        );
    }
}
