//! Versions of AMD's driver and libraries, and the modes of MIOpen that are worth a probe.
//!
//! Looks at names of files only.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::settings::{LibtorchRuntime, RuntimeSettings};

use super::environment::{MIOPEN_FIND_MODE, MIOPEN_LAYOUT};
use crate::telemetry::host;

/// First version of ROCm whose MIOpen is reported to search well; before, a search takes minutes or hangs the driver.
const SEARCHES_WELL: (u32, u32) = (7, 14);

/// Returns the versions that decide how an AMD GPU computes, besides libtorch: the kernel, the driver if it is not the
/// kernel's own, and the HIP runtime, next to libtorch or in AMD's wheels.
pub(super) fn driver_versions(runtime: &LibtorchRuntime) -> String {
    let kernel = host::kernel_release(Path::new("/proc"));
    let module = fs::read_to_string("/sys/module/amdgpu/version").ok();
    let parts = [kernel, module].into_iter().flatten();
    let parts = parts.chain(hip_versions(runtime));
    let parts: Vec<String> = parts.map(|part| part.trim().to_owned()).collect();
    parts.join(", ")
}

/// The names of what has the HIP runtime, which say its version.
fn hip_versions(runtime: &LibtorchRuntime) -> Vec<String> {
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

/// Returns the modes of MIOpen that a probe may try besides the default. `rocm`: version that libtorch was built for.
pub(super) fn other_modes(
    settings: &RuntimeSettings,
    inherited: &BTreeMap<String, String>,
    rocm: Option<(u32, u32)>,
) -> Vec<MiopenMode> {
    let is_ours = |name: &str| !settings.environment.contains_key(name);
    let may_search = is_ours(MIOPEN_FIND_MODE) && rocm >= Some(SEARCHES_WELL);
    let is_said = inherited
        .get(MIOPEN_LAYOUT)
        .is_some_and(|it| !it.is_empty());
    let may_turn = is_ours(MIOPEN_LAYOUT) && !is_said;
    let all = MiopenMode::ALL.into_iter();
    all.filter(|mode| *mode != MiopenMode::default())
        .filter(|mode| (may_search || !mode.searches()) && (may_turn || !mode.is_innermost()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hip_versions_from_amd_wheels_and_next_to_libtorch_are_distinguished() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("site-packages");
        let at = |place: &str| packages.join(place);
        let runtime = LibtorchRuntime {
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
        use MiopenMode::{Innermost, Searching, SearchingInnermost};
        let mut settings = RuntimeSettings::default();
        let mut shell = BTreeMap::new();
        let all = vec![Searching, Innermost, SearchingInnermost];
        assert_eq!(other_modes(&settings, &shell, Some((7, 14))), all);
        assert_eq!(other_modes(&settings, &shell, Some((7, 2))), [Innermost]);
        assert_eq!(other_modes(&settings, &shell, None), [Innermost]);
        shell.insert(MIOPEN_LAYOUT.to_owned(), "1".to_owned());
        assert_eq!(other_modes(&settings, &shell, Some((10, 0))), [Searching]);
        let name = MIOPEN_FIND_MODE.to_owned();
        settings.environment.insert(name, "3".to_owned());
        assert_eq!(other_modes(&settings, &shell, Some((10, 0))), []);
    }
}
