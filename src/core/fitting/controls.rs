//! ControlNets on this disk.

use std::path::{Path, PathBuf};

use crate::families::control_network;
use crate::library::FoundControl;
use crate::library::networks::{InstalledNetwork, ListedFolders, NetworkFolders, find};
use crate::model::CatalogError;
use crate::settings::{AppPaths, Settings};

/// Those of ComfyUI, and of Forge and A1111.
const SHELF: NetworkFolders = NetworkFolders {
    folders: &["controlnet", "modelpatches", "controlnets"],
    listed: ListedFolders::Controls,
    home: "controlnet",
    what: "ControlNets",
};

/// All of them, in the order of their names.
pub fn find_controls(paths: &AppPaths, settings: &Settings) -> Vec<FoundControl> {
    find(control_network, &SHELF.files(paths, settings))
}

/// The ControlNet in a file.
pub fn read_control(path: &Path) -> Result<FoundControl, CatalogError> {
    InstalledNetwork::read(control_network, path)
}

/// The file of a network that a user names: a path, or the name of one that is where networks are looked for.
pub fn control_named(
    wanted: &str,
    paths: &AppPaths,
    settings: &Settings,
) -> Result<PathBuf, CatalogError> {
    SHELF.named(wanted, paths, settings, || {
        let known = find_controls(paths, settings).into_iter();
        known.map(|it| it.name).collect()
    })
}
