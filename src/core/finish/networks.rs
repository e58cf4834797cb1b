//! Networks for post-processing on this disk: upscalers and RIFE.

use std::path::PathBuf;

pub use crate::library::networks::InstalledNetwork;
use crate::library::networks::{ListedFolders, NetworkFolders, find};
use crate::model::CatalogError;
use crate::networks::{IfnetConfig, UpscalerConfig};
use crate::settings::{AppPaths, Settings};

/// Those of ComfyUI, and of Forge and A1111.
const UPSCALERS: NetworkFolders = NetworkFolders {
    folders: &["upscalemodels", "esrgan", "realesrgan", "upscalers"],
    listed: ListedFolders::Finishers,
    home: "upscale_models",
    what: "upscalers",
};
/// Those of ComfyUI.
const INTERPOLATORS: NetworkFolders = NetworkFolders {
    folders: &["frameinterpolation", "rife"],
    listed: ListedFolders::Finishers,
    home: "frame_interpolation",
    what: "RIFE networks",
};

pub type FoundUpscaler = InstalledNetwork<UpscalerConfig>;
pub type FoundInterpolator = InstalledNetwork<IfnetConfig>;

impl FoundUpscaler {
    /// For lists: `4x-UltraSharp, ESRGAN ×4`.
    pub fn label(&self) -> String {
        format!(
            "{}, {} ×{}",
            self.name,
            self.config.kind(),
            self.config.scale()
        )
    }
}

impl FoundInterpolator {
    /// For lists: `rife_v4.26, RIFE 4.25 or 4.26`.
    pub fn label(&self) -> String {
        match self.config.version() {
            Some(version) => format!("{}, RIFE {version}", self.name),
            None => format!("{}, RIFE", self.name),
        }
    }
}

/// All upscalers, sorted by name.
pub fn find_upscalers(paths: &AppPaths, settings: &Settings) -> Vec<FoundUpscaler> {
    find(UpscalerConfig::read, &UPSCALERS.files(paths, settings))
}

/// All RIFE networks, sorted by name.
pub fn find_interpolators(paths: &AppPaths, settings: &Settings) -> Vec<FoundInterpolator> {
    find(IfnetConfig::read, &INTERPOLATORS.files(paths, settings))
}

/// The file of an upscaler by its path or name.
pub fn upscaler_named(
    wanted: &str,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, CatalogError> {
    UPSCALERS.named(wanted, paths, settings, || {
        let known = find_upscalers(paths, settings).into_iter();
        known.map(|it| it.name).collect()
    })
}

/// The file of a RIFE network by its path or name.
pub fn interpolator_named(
    wanted: &str,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, CatalogError> {
    INTERPOLATORS.named(wanted, paths, settings, || {
        let known = find_interpolators(paths, settings).into_iter();
        known.map(|it| it.name).collect()
    })
}
