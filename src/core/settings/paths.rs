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
    /// Hugging Face's download cache, where other programs may have put models.
    pub huggingface: Option<PathBuf>,
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
            huggingface: Some(find_huggingface(&base.cache_dir())),
            videos: std::env::var_os("XDG_VIDEOS_DIR")
                .map_or_else(|| base.home_dir().join("Videos"), PathBuf::from),
        })
    }

    pub fn settings_file(&self) -> PathBuf {
        self.config.join("settings.toml")
    }

    /// Everything under one folder, and nothing of this user's: for tests.
    pub fn under(root: &Path) -> Self {
        Self {
            config: root.join("config"),
            data: root.join("data"),
            cache: root.join("cache"),
            assets: None,
            huggingface: None,
            videos: root.join("videos"),
        }
    }

    /// The user's own additions to the catalogue.
    pub fn models_file(&self) -> PathBuf {
        self.config.join("models.toml")
    }

    /// Where a user can put models without telling anybody.
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    pub fn jobs(&self) -> PathBuf {
        self.data.join("jobs")
    }

    pub fn log_file(&self) -> PathBuf {
        self.data.join("safelight.log")
    }
}

/// The cache as Hugging Face's own tools find it.
fn find_huggingface(cache: &Path) -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    named("HF_HUB_CACHE")
        .or_else(|| named("HUGGINGFACE_HUB_CACHE"))
        .map(PathBuf::from)
        .or_else(|| named("HF_HOME").map(|home| PathBuf::from(home).join("hub")))
        .unwrap_or_else(|| cache.join("huggingface/hub"))
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
