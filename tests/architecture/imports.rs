//! Which files of a folder import each other, from their `use` lines and whole paths, and where that goes in circles.

use std::collections::{BTreeMap, BTreeSet};

use super::source::code;

/// A file as a path of modules: `window/queue/mod.rs` is `[window, queue]`.
type Module = Vec<String>;

/// Files by their modules, each with those that it imports.
pub struct Imports(BTreeMap<Module, BTreeSet<Module>>);

impl Imports {
    /// Of these sources, by their paths below `src`.
    pub fn of<'a>(sources: impl Iterator<Item = (&'a str, String)>) -> Self {
        let sources: BTreeMap<Module, String> = sources
            .map(|(path, source)| {
                let product = source.split("#[cfg(test)]\nmod tests").next();
                (module_of(path), code(product.unwrap_or_default()))
            })
            .collect();
        let imported = sources.iter().map(|(own, code)| {
            let paths = paths_of(code);
            let found = paths.iter().filter_map(|path| file_of(path, own, &sources));
            (own.clone(), found.filter(|found| found != own).collect())
        });
        Self(imported.collect())
    }

    /// Files from each of which an import leads to all the others, if they are more than so many.
    pub fn circles(&self, most: usize) -> Vec<BTreeSet<Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .keys()
            .map(|from| (from, self.reached(from)))
            .collect();
        let circles: BTreeSet<BTreeSet<Module>> = reached
            .iter()
            .map(|(from, all)| {
                let back = all.iter().filter(|to| reached[*to].contains(from));
                back.map(|to| (*to).clone()).collect()
            })
            .collect();
        let large = circles.into_iter().filter(|circle| circle.len() > most);
        large.collect()
    }

    fn reached(&self, from: &Module) -> BTreeSet<&Module> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<&Module> = self.0[from].iter().collect();
        while let Some(next) = waiting.pop() {
            if found.insert(next) {
                waiting.extend(&self.0[next]);
            }
        }
        found
    }
}

fn module_of(path: &str) -> Module {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    stem.split('/').map(str::to_owned).collect()
}

/// All paths of `use` lines, and those that begin with `crate` or `super` elsewhere.
pub fn paths_of(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (start, _) in code.match_indices("use ") {
        let line = code[start + 4..].split(';').next().unwrap_or_default();
        let line: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &line, &mut paths);
    }
    for prefix in ["crate::", "super::"] {
        let found = code.match_indices(prefix);
        // How far something is seen says nothing of what it needs.
        let found = found.filter(|(start, _)| !code[..*start].ends_with("(in "));
        paths.extend(found.map(|(start, _)| {
            let rest = code[start..].chars();
            rest.take_while(|letter| letter.is_alphanumeric() || "_:".contains(*letter))
                .collect()
        }));
    }
    paths
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn expand(before: &str, text: &str, paths: &mut Vec<String>) {
    let Some((stem, inner)) = text.split_once('{') else {
        paths.push(format!("{before}{}", text.trim()));
        return;
    };
    let before = format!("{before}{}", stem.trim());
    let (mut depth, mut item) = (0, String::new());
    for letter in inner.trim_end().trim_end_matches('}').chars().chain([',']) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            if !item.trim().is_empty() {
                expand(&before, item.trim(), paths);
            }
            item.clear();
        } else {
            item.push(letter);
        }
    }
}

/// The file in which a path ends that stands in this one.
fn file_of(path: &str, own: &Module, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let path = path.split(" as ").next().unwrap_or_default();
    let mut segments = path.split("::").map(str::trim).peekable();
    let mut module = match segments.peek().copied() {
        Some("crate") => {
            segments.next();
            Vec::new()
        }
        Some("self") => {
            segments.next();
            own.clone()
        }
        Some("super") => own.clone(),
        Some(child) => {
            let mut module = own.clone();
            module.push(child.to_owned());
            sources.contains_key(&module).then(|| own.clone())?
        }
        None => return None,
    };
    for segment in segments {
        if segment == "super" {
            module.pop();
        } else {
            module.push(segment.to_owned());
        }
    }
    while !module.is_empty() && !sources.contains_key(&module) {
        module.pop();
    }
    (!module.is_empty()).then_some(module)
}
