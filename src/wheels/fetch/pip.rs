//! The package index that pip is configured for on this machine: its variables and its configuration files.
//!
//! pip itself need not be installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safelight_wheels::PYPI;

/// Settings of pip that decide where wheels come from.
#[derive(Debug, PartialEq, Eq)]
pub struct PipConfig {
    /// Addresses of indexes, the first one first.
    pub indexes: Vec<String>,
    /// Folders with wheels, and addresses of pages that list wheels.
    pub links: Vec<String>,
    pub certificates: Option<PathBuf>,
    pub proxy: Option<String>,
}

impl PipConfig {
    pub fn of_this_user() -> Self {
        Self::new(
            |name| std::env::var(name).ok(),
            |path| std::fs::read_to_string(path).ok(),
        )
    }

    fn new(
        variable: impl Fn(&str) -> Option<String>,
        read: impl Fn(&Path) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|text| !text.is_empty());
        let mut values = BTreeMap::new();
        for path in files(&set) {
            values.extend(values_of(&read(&path).unwrap_or_default()));
        }
        let value = |key: &str| {
            let name = format!("PIP_{}", key.to_uppercase().replace('-', "_"));
            set(&name).or_else(|| values.get(key).cloned())
        };
        let list = |key: &str| -> Vec<String> {
            let text = value(key).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let mut indexes = vec![value("index-url").unwrap_or_else(|| PYPI.to_owned())];
        indexes.extend(list("extra-index-url"));
        let no_index = value("no-index").unwrap_or_default();
        if ["1", "true", "yes", "on"].contains(&&*no_index.to_lowercase()) {
            indexes.clear();
        }
        Self {
            indexes,
            links: list("find-links"),
            certificates: value("cert").map(PathBuf::from),
            proxy: value("proxy"),
        }
    }
}

/// pip's configuration files; what a later one says counts.
fn files(variable: &impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let own = variable("PIP_CONFIG_FILE").map(PathBuf::from);
    if own.as_deref() == Some(Path::new("/dev/null")) {
        return Vec::new();
    }
    let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
    let shared = variable("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".to_owned());
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let mut files: Vec<PathBuf> = shared
        .split(':')
        .map(|folder| Path::new(folder).join("pip/pip.conf"))
        .collect();
    files.extend([
        PathBuf::from("/etc/pip.conf"),
        home.join(".pip/pip.conf"),
        config
            .unwrap_or_else(|| home.join(".config"))
            .join("pip/pip.conf"),
    ]);
    files.extend(variable("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("pip.conf")));
    files.extend(own);
    files
}

/// Values in `[global]` and `[download]`; a value may continue in indented lines. `[download]` overrides `[global]` in
/// any order.
fn values_of(text: &str) -> BTreeMap<String, String> {
    let (mut values, mut of_download) = (BTreeMap::new(), BTreeMap::new());
    let (mut section, mut key) = ("", String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let values = match section {
            "global" => &mut values,
            "download" => &mut of_download,
            _ => continue,
        };
        if line.starts_with([' ', '\t']) {
            let value: &mut String = values.entry(key.clone()).or_default();
            value.push('\n');
            value.push_str(trimmed);
        } else if let Some((name, value)) = trimmed.split_once(['=', ':']) {
            key = name.trim().to_lowercase().replace('_', "-");
            values.insert(key.clone(), value.trim().to_owned());
        }
    }
    values.extend(of_download);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pip(variables: &[(&str, &str)], files: &[(&str, &str)]) -> PipConfig {
        let of = |pairs: &[(&str, &str)], name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        PipConfig::new(
            |name| of(variables, name),
            |path| of(files, &path.to_string_lossy()),
        )
    }

    #[test]
    fn the_index_is_that_of_the_variable_else_of_the_last_file_else_the_python_registry() {
        let home = ("HOME", "/home/ada");
        assert_eq!(pip(&[home], &[]).indexes, [PYPI]);
        let system = (
            "/etc/pip.conf",
            "[global]\nindex-url = https://a.example/simple\ncert: /a.pem\n",
        );
        let user = (
            "/home/ada/.config/pip/pip.conf",
            "[download]\nindex_url=https://b.example/\n[global]\nindex-url=https://c.example\n[list]\nproxy=no\n",
        );
        let found = pip(&[home], &[system, user]);
        assert_eq!(found.indexes, ["https://b.example/"]);
        assert_eq!(found.certificates, Some("/a.pem".into()));
        assert_eq!(found.proxy, None);
        let set = ("PIP_INDEX_URL", "https://d.example/");
        let expected = ["https://d.example/"];
        assert_eq!(pip(&[home, set], &[system, user]).indexes, expected);
        let none = ("PIP_CONFIG_FILE", "/dev/null");
        assert_eq!(pip(&[home, none], &[system, user]).indexes, [PYPI]);
    }

    #[test]
    fn lists_may_take_several_lines_and_an_index_may_be_forbidden() {
        let file = (
            "/etc/pip.conf",
            "[global]\n# why\nfind-links =\n    /wheels\n    https://e.example/\nno-index = true\n",
        );
        let found = pip(&[], &[file]);
        assert_eq!(found.links, ["/wheels", "https://e.example/"]);
        assert!(found.indexes.is_empty());
        let more = ("PIP_EXTRA_INDEX_URL", "https://f.example https://g.example");
        assert_eq!(pip(&[more], &[]).indexes.len(), 3);
    }
}
