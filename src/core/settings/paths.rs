//! Where the app's files lie on this machine.
//!
//! Names folders, makes none.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

/// The app's folders, after XDG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `settings.toml`.
    pub config: PathBuf,
    /// Jobs and logs.
    pub data: PathBuf,
    /// The prepared libtorch.
    pub cache: PathBuf,
    /// The shipped models.
    pub assets: Option<PathBuf>,
    /// The user's videos.
    pub videos: PathBuf,
}

impl Paths {
    /// The folders of this user and this executable; `None` without a home folder.
    pub fn of_this_user() -> Option<Self> {
        let base = etcetera::choose_base_strategy().ok()?;
        let cache = std::env::var_os("SAFELIGHT_CACHE")
            .map_or_else(|| base.cache_dir().join("safelight"), PathBuf::from);
        Some(Self {
            config: base.config_dir().join("safelight"),
            data: base.data_dir().join("safelight"),
            cache,
            assets: find_assets(),
            videos: std::env::var_os("XDG_VIDEOS_DIR")
                .map_or_else(|| base.home_dir().join("Videos"), PathBuf::from),
        })
    }

    pub fn settings_file(&self) -> PathBuf {
        self.config.join("settings.toml")
    }

    pub fn jobs(&self) -> PathBuf {
        self.data.join("jobs")
    }

    pub fn log_file(&self) -> PathBuf {
        self.data.join("safelight.log")
    }
}

/// The assets folder: named outright, or near the executable as installed, unpacked or built.
fn find_assets() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("SAFELIGHT_ASSETS") {
        return Some(PathBuf::from(named));
    }
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?;
    let is_ours = |candidate: &PathBuf| candidate.join("little-world").is_dir();
    let near = [
        folder.join("assets"),
        folder.join("../share/safelight/assets"),
    ];
    // A built executable lies in target/debug, a test in target/debug/deps.
    let above = folder
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir: &Path| dir.join("assets"));
    near.into_iter().chain(above).find(is_ours)
}
