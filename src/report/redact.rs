//! Takes out of a report what is nobody's business: names of the user and the computer, folders, serial numbers.
//!
//! Goes over every string of the report, whoever wrote it: a driver's complaint may quote anything.

use std::path::Path;

use safelight_core::settings::Paths;
use serde_json::Value;

use super::Report;

const USER: &str = "<user>";
const COMPUTER: &str = "<computer>";
const FOLDER: &str = "<folder>";
const SERIAL: &str = "<serial>";
/// Folders that every machine has, and that tell nothing of who uses it.
const KNOWN_FOLDERS: [&str; 9] = [
    "/proc/",
    "/sys/",
    "/dev/",
    "/etc/",
    "/usr/lib",
    "/usr/bin",
    "/usr/share",
    "/opt/rocm",
    "/lib/",
];
/// Names that are words too, and that many machines and users have.
const COMMON: [&str; 6] = ["root", "user", "localhost", "linux", "home", "amd"];

/// The names of one user and machine.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// What is replaced by what, the longest first.
    names: Vec<(String, &'static str)>,
}

impl Redactor {
    /// Of who runs this program, on this machine.
    pub fn of_this_user(paths: &Paths) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let users = [variable("USER"), variable("LOGNAME"), variable("SUDO_USER")];
        let computers = [
            variable("HOSTNAME"),
            file("/proc/sys/kernel/hostname"),
            file("/etc/hostname"),
        ];
        let serials = [file("/etc/machine-id")];
        let own = [
            &paths.config,
            &paths.data,
            &paths.cache,
            &paths.videos,
            &paths.pictures,
        ];
        let home = variable("HOME");
        let folders = own.into_iter().map(|path| path.display().to_string());
        Self::of(&users, &computers, &serials, folders.chain([home]))
    }

    /// Of names that are given.
    pub fn of(
        users: &[String],
        computers: &[String],
        serials: &[String],
        folders: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut names: Vec<(String, &'static str)> = Vec::new();
        let mut put = |name: &str, by: &'static str| {
            let name = name.trim().trim_end_matches('/');
            let is_common = COMMON.contains(&name.to_lowercase().as_str());
            if name.chars().count() >= 3 && !is_common {
                names.push((name.to_owned(), by));
            }
        };
        for name in computers {
            put(name, COMPUTER);
            // The name without its domain.
            put(name.split('.').next().unwrap_or_default(), COMPUTER);
        }
        for name in users {
            put(name, USER);
        }
        for name in serials {
            put(name, SERIAL);
        }
        for folder in folders {
            put(&folder, FOLDER);
            let last = Path::new(&folder).file_name();
            // A home folder is named after its user.
            let is_home = Path::new(&folder).parent() == Some(Path::new("/home"));
            if let Some(last) = last.filter(|_| is_home) {
                put(&last.to_string_lossy(), USER);
            }
        }
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.dedup();
        Self { names }
    }

    /// The report with nothing of them in it.
    pub fn clean(&self, report: &Report) -> Report {
        let Ok(mut value) = serde_json::to_value(report) else {
            return Report::default();
        };
        self.clean_value(&mut value);
        // Only strings are others, of which a report can have any.
        serde_json::from_value(value).unwrap_or_default()
    }

    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(fields) => fields
                .values_mut()
                .for_each(|field| self.clean_value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// One text.
    pub fn text(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut word = String::new();
        for letter in text.chars() {
            // A path ends where a sentence or a list goes on; folders with spaces are known by their names.
            if letter.is_whitespace() || matches!(letter, '"' | '\'' | ',' | ';' | '(' | ')' | '=')
            {
                clean.push_str(&without_path(&word));
                clean.push(letter);
                word.clear();
            } else {
                word.push(letter);
            }
        }
        clean.push_str(&without_path(&word));
        for (name, by) in &self.names {
            clean = replace_whole(&clean, name, by);
        }
        clean
    }
}

/// A word, unless it is a path of somebody or a serial number.
fn without_path(word: &str) -> String {
    let start = word.find('/').filter(|&start| {
        // `GiB/s`, `1/2` and `and/or` are no paths, `file:/a` and `:/a` are.
        start == 0 || word[..start].ends_with([':', '>', '[', '`', '~'])
    });
    if let Some(start) = start {
        let path = &word[start..];
        let is_known = KNOWN_FOLDERS.iter().any(|known| path.starts_with(known));
        let is_alone = path.trim_end_matches(['.', ':']).len() < 2;
        if !is_known && !is_alone {
            let end = if word.ends_with([':', '.']) {
                &word[word.len() - 1..]
            } else {
                ""
            };
            let scheme = word[..start].trim_end_matches('~');
            return format!("{scheme}{FOLDER}{end}");
        }
        return word.to_owned();
    }
    if is_serial(word) {
        SERIAL.to_owned()
    } else {
        word.to_owned()
    }
}

/// A UUID, alone or behind a word as in `GPU-…`, or the address of a network card.
fn is_serial(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':']);
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = word.split('-').collect();
    let is_uuid = parts.windows(5).any(|parts| {
        parts
            .iter()
            .zip([8, 4, 4, 4, 12])
            .all(|(part, len)| is_hex(part, len))
    });
    let bytes: Vec<&str> = word.split(':').collect();
    is_uuid || (bytes.len() == 6 && bytes.iter().all(|byte| is_hex(byte, 2)))
}

/// Replaces a name where it is no part of a longer word, whatever its case.
fn replace_whole(text: &str, name: &str, by: &str) -> String {
    let (lower, wanted) = (text.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = lower[at..].find(&wanted) {
        let (start, end) = (at + found, at + found + wanted.len());
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let is_part =
            is_letter(text[..start].chars().next_back()) || is_letter(text[end..].chars().next());
        clean.push_str(&text[at..start]);
        clean.push_str(if is_part { &text[start..end] } else { by });
        at = end;
    }
    clean.push_str(&text[at..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::super::{Fact, Finding, Row, Section};
    use super::*;

    fn planted() -> Redactor {
        let owned = |name: &str| vec![name.to_owned()];
        let folders = ["/home/petra", "/mnt/Petras Modelle"].map(str::to_owned);
        let id = "0123456789abcdef0123456789abcdef";
        Redactor::of(
            &owned("petra"),
            &owned("petras-halo.fritz.box\n"),
            &owned(id),
            folders,
        )
    }

    #[test]
    fn names_folders_and_serial_numbers_are_gone_from_every_string() {
        let texts = [
            "cannot open /home/petra/models/flux.safetensors: denied",
            "HIP error on petras-halo: see /var/tmp/xyz.log.",
            "Petra is not in the group render",
            "GPU-8f2c1a3b-11aa-22bb-33cc-1234567890ab lost",
            "uuid=8f2c1a3b-11aa-22bb-33cc-1234567890ab",
            "eth0 00:1b:44:11:3a:b7",
            "in /mnt/Petras Modelle/flux",
            "file:///home/petra/x.html and petras-halo.fritz.box",
            "machine 0123456789abcdef0123456789abcdef",
            "'/srv/data/petra'",
            "~/Bilder/urlaub.png",
        ];
        let report = Report {
            device: texts[0].to_owned(),
            incomplete: Some(texts[1].to_owned()),
            facts: texts
                .iter()
                .map(|text| Fact {
                    name: "fact".to_owned(),
                    value: (*text).to_owned(),
                })
                .collect(),
            findings: vec![Finding {
                message: texts[2].to_owned(),
                advice: texts[7].to_owned(),
                ..Finding::default()
            }],
            sections: vec![Section {
                problems: vec![texts[3].to_owned()],
                rows: vec![Row {
                    note: texts[4].to_owned(),
                    ..Row::default()
                }],
                ..Section::default()
            }],
            ..Report::default()
        };
        let clean = serde_json::to_string(&planted().clean(&report)).unwrap();
        let lower = clean.to_lowercase();
        for planted in [
            "petra",
            "halo",
            "fritz",
            "/home",
            "/var/tmp",
            "/mnt",
            "/srv",
            "8f2c1a3b",
            "3a:b7",
            "0123456789abcdef",
            "urlaub",
        ] {
            assert!(!lower.contains(planted), "{planted} in {clean}");
        }
        assert!(
            clean.contains("<folder>: denied") && clean.contains("<serial>"),
            "{clean}"
        );
    }

    #[test]
    fn what_tells_nothing_of_anybody_stays() {
        for text in [
            "48.2 GiB/s, 1/2 of 0000:c4:00.0",
            "/dev/kfd and /opt/rocm-7.1/lib can be opened",
            "Petrarch wrote it; a root of 2 by 4096 × 4096",
            "bf16, libtorch 2.11.0+cu130",
            "/",
        ] {
            assert_eq!(planted().text(text), text);
        }
    }
}
