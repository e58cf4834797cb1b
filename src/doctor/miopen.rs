//! Size and removal of the caches of MIOpen, AMD's convolution library.
//!
//! Caches of one version can make the next one slow or wrong; MIOpen rebuilds them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::settings::{AppPaths, RuntimeSettings};
use safelight_core::units::size_text;

use super::check::CheckResult;

/// The name of its check, which a page can offer to clear.
pub const MIOPEN_CACHE: &str = "miopen cache";

const MAX_FILES: usize = 100_000;

/// A folder where it keeps things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiopenFolder {
    pub folder: PathBuf,
    /// True if it contains only MIOpen's files; a folder named by a variable may contain anything.
    is_own: bool,
}

/// Extensions of MIOpen's files, including those next to a database.
const ENDINGS: [&str; 7] = [
    ".ukdb",
    ".kdb",
    ".udb.txt",
    ".ufdb.txt",
    ".fdb.txt",
    ".db.txt",
    ".db",
];

/// MIOpen's folders: found kernels in the user's configuration, compiled ones in the caches, or as the engine's
/// variables say.
pub fn places(
    paths: &AppPaths,
    settings: &RuntimeSettings,
    inherited: &BTreeMap<String, String>,
) -> Vec<MiopenFolder> {
    let home = paths.programs.as_ref().map(|programs| &programs.home);
    let place = |variable: &str, below: &str| {
        let of_settings = settings.environment.get(variable);
        let said = of_settings.or_else(|| inherited.get(variable));
        match said.filter(|folder| !folder.is_empty()) {
            Some(folder) => Some(MiopenFolder {
                folder: PathBuf::from(folder),
                is_own: false,
            }),
            None => Some(MiopenFolder {
                folder: home?.join(below),
                is_own: true,
            }),
        }
    };
    let places = [
        ("MIOPEN_USER_DB_PATH", ".config/miopen"),
        ("MIOPEN_CUSTOM_CACHE_DIR", ".cache/miopen"),
    ];
    let places = places.into_iter();
    places
        .filter_map(|(variable, below)| place(variable, below))
        .collect()
}

pub(super) fn all(places: &[MiopenFolder]) -> Vec<CheckResult> {
    let places = places.iter().filter(|place| place.folder.is_dir());
    let (sizes, named): (Vec<u64>, Vec<String>) = places
        .map(|place| (place.size(), place.folder.display().to_string()))
        .unzip();
    if named.is_empty() {
        return Vec::new();
    }
    let bytes = sizes.iter().sum();
    vec![
        CheckResult::ok(
            MIOPEN_CACHE,
            format!("{} kept by MIOpen: {}", size_text(bytes), named.join(", ")),
        )
        .advise("Clear it if decoding became slow or wrong after a ROCm update")
        .fix("safelight doctor --clear-miopen-cache"),
    ]
}

/// Removes all that MIOpen keeps; gives the bytes that were there.
pub fn clear(places: &[MiopenFolder]) -> io::Result<u64> {
    let mut cleared = 0;
    for place in places {
        // A link to elsewhere is not ours to follow.
        if fs::symlink_metadata(&place.folder).is_ok_and(|meta| meta.is_dir()) {
            cleared += place.size();
            if place.is_own {
                fs::remove_dir_all(&place.folder)?;
            } else {
                for (file, _) in place.files() {
                    fs::remove_file(file)?;
                }
            }
        }
    }
    Ok(cleared)
}

impl MiopenFolder {
    fn size(&self) -> u64 {
        self.files().iter().map(|(_, bytes)| bytes).sum()
    }

    /// MIOpen's files with their sizes. Links are not followed.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut waiting = vec![self.folder.clone()];
        let mut files = Vec::new();
        let mut seen = 0;
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                seen += 1;
                let Ok(meta) = entry.metadata() else { continue };
                if meta.is_dir() && seen < MAX_FILES {
                    waiting.push(entry.path());
                } else if !meta.is_dir() && (self.is_own || is_of_miopen(&entry.path())) {
                    files.push((entry.path(), meta.len()));
                }
            }
        }
        files
    }
}

fn is_of_miopen(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix("-wal").unwrap_or(&name);
    let name = name.strip_suffix("-shm").unwrap_or(name);
    // gfx1151_20.HIP.3_5_0.ufdb.txt
    name.starts_with("gfx") && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use safelight_core::settings::ProgramPaths;

    use super::*;

    #[test]
    fn the_cache_is_weighed_and_cleared_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let paths = AppPaths {
            programs: Some(ProgramPaths {
                home: home.clone(),
                config: home.join(".config"),
                data: home.join(".local/share"),
                system: Vec::new(),
            }),
            ..AppPaths::under(root.path())
        };
        let mut settings = RuntimeSettings::default();
        let mut inherited = BTreeMap::new();
        let own = places(&paths, &settings, &inherited);
        assert_eq!(all(&own), []);
        assert_eq!(clear(&own).unwrap(), 0);
        for (file, bytes) in [
            (".config/miopen/a.ufdb.txt", 100),
            (".cache/miopen/3.5/deep/b.kdb", 900),
            (".config/other/keep", 5),
        ] {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        let checks = all(&own);
        let said = &checks[0].message;
        assert!(said.starts_with("1000 bytes kept"), "{said}");
        assert!(checks[0].command.contains("--clear-miopen-cache"));
        assert_eq!(clear(&own).unwrap(), 1000);
        assert!(home.join(".config/other/keep").exists());
        assert!(!home.join(".cache/miopen").exists());

        // Folders that the engine's variables name, which may hold other things.
        let [db, cache] = ["db", "cache"].map(|name| root.path().join(name));
        for (file, bytes) in [
            (db.join("gfx1151_20.HIP.3_5_0.ufdb.txt"), 40),
            (db.join("letter.txt"), 5),
            (cache.join("3.5.0/gfx1151.ukdb"), 60),
            (cache.join("3.5.0/gfx1151.ukdb-wal"), 8),
            (cache.join("photos.db"), 7),
        ] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, vec![0; bytes]).unwrap();
        }
        let said = |folder: &Path| folder.to_str().unwrap().to_owned();
        inherited.insert("MIOPEN_USER_DB_PATH".to_owned(), said(&db));
        inherited.insert("MIOPEN_CUSTOM_CACHE_DIR".to_owned(), said(&home));
        let name = "MIOPEN_CUSTOM_CACHE_DIR".to_owned();
        settings.environment.insert(name, said(&cache));
        let named = places(&paths, &settings, &inherited);
        assert!(all(&named)[0].message.starts_with("108 bytes kept"));
        assert_eq!(clear(&named).unwrap(), 108);
        assert!(db.join("letter.txt").exists() && cache.join("photos.db").exists());
        assert_eq!(all(&named)[0].message.split(' ').next(), Some("0"));
    }
}
