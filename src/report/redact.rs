//! Removal of private names from a report: user, computer, folders and serial numbers.
//!
//! Every string is searched, since an error message of a driver may quote anything.

use std::cmp::Reverse;
use std::fs;
use std::path::Path;

use safelight_core::settings::AppPaths;
use serde_json::Value;

use super::MachineReport;

const USER: &str = "<user>";
const COMPUTER: &str = "<computer>";
const FOLDER: &str = "<folder>";
const SERIAL: &str = "<serial>";
/// Beginnings of paths that every machine has.
const PUBLIC_PATHS: [&str; 9] = [
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
/// Common user and host names, which are not redacted.
const COMMON: [&str; 6] = ["root", "user", "localhost", "linux", "home", "amd"];

/// Private names of one user and machine with their replacements, the longest first.
pub(super) struct NameRedactor(Vec<(String, &'static str)>);

impl NameRedactor {
    pub(super) fn of_this_user(paths: &AppPaths) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let file = |path| fs::read_to_string(path).unwrap_or_default();
        let folder = |path: &Path| (path.display().to_string(), FOLDER);
        Self::new([
            (variable("USER"), USER),
            (variable("LOGNAME"), USER),
            (variable("SUDO_USER"), USER),
            (variable("HOSTNAME"), COMPUTER),
            (file("/proc/sys/kernel/hostname"), COMPUTER),
            (file("/etc/hostname"), COMPUTER),
            (file("/etc/machine-id"), SERIAL),
            (variable("HOME"), FOLDER),
            folder(&paths.config),
            folder(&paths.data),
            folder(&paths.cache),
            folder(&paths.videos),
            folder(&paths.images),
        ])
    }

    fn new(names: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        let mut all = Vec::new();
        for (name, by) in names {
            let name = name.trim().trim_end_matches('/');
            all.push((name.to_owned(), by));
            if by == COMPUTER {
                // Without its domain.
                all.extend(name.split('.').next().map(|host| (host.to_owned(), by)));
            } else if let Some(user) = name.strip_prefix("/home/").filter(|it| !it.contains('/')) {
                all.push((user.to_owned(), USER));
            }
        }
        all.retain(|(name, _)| {
            name.chars().count() >= 3 && !COMMON.contains(&name.to_lowercase().as_str())
        });
        all.sort_by_key(|(name, _)| Reverse(name.len()));
        Self(all)
    }

    pub(super) fn clean(&self, report: &MachineReport) -> MachineReport {
        let mut value = serde_json::to_value(report).unwrap_or_default();
        self.clean_value(&mut value);
        // Cannot fail: only strings changed.
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

    fn text(&self, text: &str) -> String {
        // Paths that contain these are known by name.
        let ends_word = |letter: char| letter.is_whitespace() || "\"',;()=".contains(letter);
        let words = text.split_inclusive(ends_word);
        let clean = words
            .map(|word| public_word(word, word.trim_end_matches(ends_word)))
            .collect();
        self.0.iter().fold(clean, |text: String, (name, by)| {
            replace_word(&text, name, by)
        })
    }
}

/// `full` with its path or serial number replaced; `word`: without the separator at its end.
fn public_word(full: &str, word: &str) -> String {
    let body = word.trim_end_matches(['.', ':']);
    let end = &full[body.len()..];
    // `GiB/s` and `1/2` are not paths, `file:/a` and `~/a` are.
    let is_path =
        |start: &usize| *start == 0 || body[..*start].ends_with([':', '>', '[', '`', '~']);
    match body.find('/').filter(is_path) {
        Some(start)
            if body.len() - start > 1
                && !PUBLIC_PATHS.iter().any(|it| body[start..].starts_with(it)) =>
        {
            format!("{}{FOLDER}{end}", body[..start].trim_end_matches('~'))
        }
        None if is_serial(body) => format!("{SERIAL}{end}"),
        _ => full.to_owned(),
    }
}

/// A UUID, perhaps after a word as in `GPU-…`, or a MAC address.
fn is_serial(word: &str) -> bool {
    let is_hex = |(part, len): (&&str, usize)| {
        part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = word.split('-').collect();
    let bytes: Vec<&str> = word.split(':').collect();
    parts
        .windows(5)
        .any(|uuid| uuid.iter().zip([8, 4, 4, 4, 12]).all(is_hex))
        || (bytes.len() == 6 && bytes.iter().zip([2; 6]).all(is_hex))
}

/// Replaces `name` in any case where it is a whole word.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let mut clean = String::new();
    let mut copied = 0;
    for (start, _) in text
        .to_ascii_lowercase()
        .match_indices(&name.to_ascii_lowercase())
    {
        let end = start + name.len();
        if !is_letter(text[..start].chars().next_back()) && !is_letter(text[end..].chars().next()) {
            clean.push_str(&text[copied..start]);
            clean.push_str(by);
            copied = end;
        }
    }
    clean.push_str(&text[copied..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::super::ReportSection;
    use super::super::rows::fact;
    use super::*;

    fn planted() -> NameRedactor {
        let names = [
            ("petra", USER),
            ("petras-halo.fritz.box\n", COMPUTER),
            ("0123456789abcdef0123456789abcdef", SERIAL),
            ("/home/petra", FOLDER),
            ("/mnt/Petras Modelle", FOLDER),
        ];
        NameRedactor::new(names.map(|(name, by)| (name.to_owned(), by)))
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
        let report = MachineReport {
            device: texts[0].to_owned(),
            incomplete: Some(texts[1].to_owned()),
            sections: vec![ReportSection {
                problems: texts.map(str::to_owned).to_vec(),
                rows: vec![fact(texts[2], texts[4].to_owned())],
                ..ReportSection::default()
            }],
            ..MachineReport::default()
        };
        let clean = serde_json::to_string(&planted().clean(&report)).unwrap();
        let lower = clean.to_lowercase();
        let names =
            "petra halo fritz /home /var/tmp /mnt /srv 8f2c1a3b 3a:b7 0123456789abcdef urlaub";
        for planted in names.split(' ') {
            assert!(!lower.contains(planted), "{planted} in {clean}");
        }
        for shown in ["<folder>: denied", "<serial>"] {
            assert!(clean.contains(shown), "{clean}");
        }
    }

    #[test]
    fn text_without_personal_data_is_left_unchanged() {
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
