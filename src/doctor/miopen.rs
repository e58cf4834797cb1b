//! What MIOpen, AMD's library of convolutions, keeps on disk: how much, and away with it.
//!
//! What it keeps from one version can make the next one slow or wrong; it makes everything anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::settings::Paths;
use safelight_core::units::size_text;

use super::Check;

/// The name of its check, which a page can offer to clear.
pub const MIOPEN_CACHE: &str = "miopen cache";

const MAX_FILES: usize = 100_000;

/// Where it keeps things: found kernels beside the user's settings, compiled ones among the caches.
pub fn folders(paths: &Paths) -> Vec<PathBuf> {
    let home = paths.programs.as_ref().map(|programs| &programs.home);
    home.into_iter()
        .flat_map(|home| [home.join(".config/miopen"), home.join(".cache/miopen")])
        .collect()
}

pub(super) fn all(paths: &Paths) -> Vec<Check> {
    let folders: Vec<PathBuf> = folders(paths)
        .into_iter()
        .filter(|folder| folder.is_dir())
        .collect();
    if folders.is_empty() {
        return Vec::new();
    }
    let bytes = folders.iter().map(|folder| size(folder)).sum();
    let named: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    vec![
        Check::ok(
            MIOPEN_CACHE,
            format!("{} kept by MIOpen: {}", size_text(bytes), named.join(", ")),
        )
        .advise("Clear it if decoding became slow or wrong after a ROCm update")
        .mend("safelight doctor --clear-miopen-cache"),
    ]
}

/// Removes all of it; gives the bytes that were there.
pub fn clear(paths: &Paths) -> io::Result<u64> {
    let mut cleared = 0;
    for folder in folders(paths) {
        // A link to elsewhere is not ours to follow.
        if fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir()) {
            cleared += size(&folder);
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(cleared)
}

fn size(folder: &Path) -> u64 {
    let mut waiting = vec![folder.to_owned()];
    let mut bytes = 0;
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && seen < MAX_FILES {
                waiting.push(entry.path());
            } else {
                bytes += meta.len();
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use safelight_core::settings::ProgramPaths;

    use super::*;

    #[test]
    fn the_cache_is_weighed_and_cleared_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let paths = Paths {
            programs: Some(ProgramPaths {
                home: home.clone(),
                config: home.join(".config"),
                data: home.join(".local/share"),
                system: Vec::new(),
            }),
            ..Paths::under(root.path())
        };
        assert_eq!(all(&paths), []);
        assert_eq!(clear(&paths).unwrap(), 0);
        for (file, bytes) in [
            (".config/miopen/a.ufdb.txt", 100),
            (".cache/miopen/3.5/deep/b.kdb", 900),
            (".config/other/keep", 5),
        ] {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        let checks = all(&paths);
        assert!(
            checks[0].message.starts_with("1000 bytes kept"),
            "{checks:?}"
        );
        assert!(checks[0].command.contains("--clear-miopen-cache"));
        assert_eq!(clear(&paths).unwrap(), 1000);
        assert!(home.join(".config/other/keep").exists());
        assert!(!home.join(".cache/miopen").exists());
    }
}
