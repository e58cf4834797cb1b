//! What the worker has to know of drivers and AMD's libraries before it starts an engine: their versions, and which ways of MIOpen
//! are worth a probe.
//!
//! Looks at names of files only.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safelight_core::memory::tiers::MiopenWay;
use safelight_core::settings::{Runtime, RuntimeSettings};

use super::environment::{MIOPEN_FIND_MODE, MIOPEN_LAYOUT};
use crate::telemetry::host;

/// Before it a search takes minutes or hangs the driver; from it on it is reported to be the better way.
const SEARCHES_WELL: (u32, u32) = (7, 14);

/// What decides how a GPU computes, besides libtorch: the versions of its driver and of what comes with it.
pub(super) fn driver_of(runtime: &Runtime) -> String {
    if runtime.kind() == "rocm" {
        return driver_versions(runtime);
    }
    let version = fs::read_to_string("/sys/module/nvidia/version").ok();
    // Containers may have this one alone.
    let version = version.or_else(|| {
        let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
        Some(text.lines().next()?.to_owned())
    });
    version.unwrap_or_default().trim().to_owned()
}

/// The same of an AMD GPU: the kernel with its driver, the driver's own version where it is not the kernel's, and the HIP
/// runtime, beside libtorch or of AMD's wheels.
pub(crate) fn driver_versions(runtime: &Runtime) -> String {
    let kernel = host::kernel_release(Path::new("/proc"));
    let module = fs::read_to_string("/sys/module/amdgpu/version").ok();
    let parts = [kernel, module].into_iter().flatten();
    let parts = parts.chain(hip_versions(runtime));
    let parts: Vec<String> = parts.map(|part| part.trim().to_owned()).collect();
    parts.join(", ")
}

/// The names of what has the HIP runtime, which say its version.
fn hip_versions(runtime: &Runtime) -> Vec<String> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    // libamdhip64.so.7 is a link to libamdhip64.so.7.1.52802.
    let libraries = runtime.folders().flat_map(names);
    let library = libraries
        .filter(|name| name.starts_with("libamdhip64"))
        .max();
    // In AMD's wheels it has no longer name, and their own names say it: rocm_sdk_core-7.14.1.dist-info.
    let packages = runtime.lib.parent().and_then(Path::parent);
    let wheels = packages.into_iter().flat_map(names);
    let wheel = wheels
        .filter(|name| name.starts_with("rocm_sdk_core-") && name.ends_with(".dist-info"))
        .max();
    library.into_iter().chain(wheel).collect()
}

/// The ways of MIOpen beside the first that a probe may try. `rocm`: what libtorch was built for.
pub(super) fn other_ways(
    settings: &RuntimeSettings,
    inherited: &BTreeMap<String, String>,
    rocm: Option<(u32, u32)>,
) -> Vec<MiopenWay> {
    let is_ours = |name: &str| !settings.environment.contains_key(name);
    let may_search = is_ours(MIOPEN_FIND_MODE) && rocm >= Some(SEARCHES_WELL);
    let is_said = inherited
        .get(MIOPEN_LAYOUT)
        .is_some_and(|it| !it.is_empty());
    let may_turn = is_ours(MIOPEN_LAYOUT) && !is_said;
    let all = MiopenWay::ALL.into_iter();
    all.filter(|way| *way != MiopenWay::default())
        .filter(|way| (may_search || !way.searches()) && (may_turn || !way.is_innermost()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hip_of_amds_wheels_and_that_beside_libtorch_are_told_apart_by_version() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("site-packages");
        let at = |place: &str| packages.join(place);
        let runtime = Runtime {
            folder: at("torch"),
            lib: at("torch/lib"),
            extra: vec![at("_rocm_sdk_core/lib")],
            source: "a test",
        };
        for folder in ["torch/lib", "_rocm_sdk_core/lib"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("_rocm_sdk_core/lib/libamdhip64.so.7"), b"").unwrap();
        let of_wheel = |version: &str| {
            let folder = at(&format!("rocm_sdk_core-{version}.dist-info"));
            fs::create_dir(&folder).unwrap();
            let found = driver_versions(&runtime);
            fs::remove_dir(&folder).unwrap();
            found
        };
        let [old, new] = ["7.14.0", "7.14.1"].map(of_wheel);
        assert!(old.ends_with("libamdhip64.so.7, rocm_sdk_core-7.14.0.dist-info"));
        assert_ne!(old, new);
        fs::write(at("torch/lib/libamdhip64.so.7.1.52802"), b"").unwrap();
        let found = driver_versions(&runtime);
        assert!(found.ends_with("libamdhip64.so.7.1.52802"), "{found}");
    }

    #[test]
    fn a_search_is_tried_from_rocm_7_14_on_and_nothing_that_the_user_has_set() {
        use MiopenWay::{Innermost, Searching, SearchingInnermost};
        let mut settings = RuntimeSettings::default();
        let mut shell = BTreeMap::new();
        let all = vec![Searching, Innermost, SearchingInnermost];
        assert_eq!(other_ways(&settings, &shell, Some((7, 14))), all);
        assert_eq!(other_ways(&settings, &shell, Some((7, 2))), [Innermost]);
        assert_eq!(other_ways(&settings, &shell, None), [Innermost]);
        shell.insert(MIOPEN_LAYOUT.to_owned(), "1".to_owned());
        assert_eq!(other_ways(&settings, &shell, Some((10, 0))), [Searching]);
        let name = MIOPEN_FIND_MODE.to_owned();
        settings.environment.insert(name, "3".to_owned());
        assert_eq!(other_ways(&settings, &shell, Some((10, 0))), []);
    }
}
