//! Networks for post-processing on this disk: upscalers, RIFE and Depth Anything.

use std::path::{Path, PathBuf};

use crate::job::{JobError, JobErrorKind};
pub use crate::library::networks::InstalledNetwork;
use crate::library::networks::{ListedFolders, NetworkFolders, find};
use crate::model::CatalogError;
use crate::networks::{DepthConfig, IfnetConfig, UpscalerConfig};
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

/// Those of ComfyUI and its nodes by Kijai.
const DEPTH: NetworkFolders = NetworkFolders {
    folders: &["depthanything", "depthestimation", "geometryestimation"],
    listed: ListedFolders::Finishers,
    home: "depth_estimation",
    what: "Depth Anything networks",
};

pub type FoundUpscaler = InstalledNetwork<UpscalerConfig>;
pub type FoundInterpolator = InstalledNetwork<IfnetConfig>;
pub type FoundDepth = InstalledNetwork<DepthConfig>;

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

/// The upscaler in a file.
pub fn read_upscaler(path: &Path) -> Result<FoundUpscaler, CatalogError> {
    InstalledNetwork::read(UpscalerConfig::read, path)
}

/// The RIFE network in a file.
pub fn read_interpolator(path: &Path) -> Result<FoundInterpolator, CatalogError> {
    InstalledNetwork::read(IfnetConfig::read, path)
}

/// The Depth Anything network in a file.
pub fn read_depth(path: &Path) -> Result<FoundDepth, CatalogError> {
    InstalledNetwork::read(DepthConfig::read, path)
}

/// The file of an upscaler by its path or name, else the only one that is found.
pub fn chosen_upscaler(
    wanted: Option<&str>,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, JobError> {
    let found = find_upscalers(paths, settings).into_iter();
    let found = found.map(|it| (it.label(), it.name, it.path)).collect();
    chosen((&UPSCALERS, "upscaler"), wanted, (paths, settings), found)
}

/// The file of a RIFE network by its path or name, else the only one that is found.
pub fn chosen_interpolator(
    wanted: Option<&str>,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, JobError> {
    let found = find_interpolators(paths, settings).into_iter();
    let found = found.map(|it| (it.label(), it.name, it.path)).collect();
    chosen(
        (&INTERPOLATORS, "RIFE network"),
        wanted,
        (paths, settings),
        found,
    )
}

/// All Depth Anything networks, sorted by name.
pub fn find_depth(paths: &AppPaths, settings: &Settings) -> Vec<FoundDepth> {
    find(DepthConfig::read, &DEPTH.files(paths, settings))
}

/// The file of a Depth Anything network by its path or name, else the only one that is found.
pub fn chosen_depth(
    wanted: Option<&str>,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, JobError> {
    let found = find_depth(paths, settings).into_iter();
    let found = found
        .map(|it| (it.name.clone(), it.name, it.path))
        .collect();
    let kind = (&DEPTH, "Depth Anything network");
    chosen(kind, wanted, (paths, settings), found)
}

/// `found`: label, name and file of each network of this kind.
fn chosen(
    (folders, what): (&NetworkFolders, &str),
    wanted: Option<&str>,
    (paths, settings): (&AppPaths, &Settings),
    mut found: Vec<(String, String, PathBuf)>,
) -> Result<PathBuf, JobError> {
    if let Some(wanted) = wanted {
        let names = || found.into_iter().map(|(_, name, _)| name).collect();
        let named = folders.named(wanted, paths, settings, names);
        return named.map_err(|err| JobError::from_error(JobErrorKind::BadModel, &err));
    }
    if found.len() > 1 {
        let labels: Vec<String> = found.into_iter().map(|(label, ..)| label).collect();
        let text = format!("several {what}s were found: choose one with --model");
        return Err(JobError::invalid(text).advise(labels.join("; ")));
    }
    found.pop().map(|(.., path)| path).ok_or_else(|| {
        let home = paths.models().join(folders.home);
        JobError::invalid(format!("no {what} was found")).advise(format!(
            "Put one as .safetensors into {}, or name its file with --model",
            home.display()
        ))
    })
}
