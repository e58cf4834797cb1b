//! Loading of the GPU half from wheels of AMD's layout: libraries with nothing in them but a fake device.
//!
//! They stay loaded in this process, so each test uses separate names where possible.

#[expect(dead_code, reason = "the app's tests lay the rest")]
#[path = "../../core/machine/fake_tree.rs"]
mod fake_tree;
#[path = "../../../tests/common/stubs.rs"]
mod stubs;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_NOW};
use safelight_core::memory::DeviceClass;

use fake_tree::{lay_card, lay_node};

use super::device::{DriverFacts, GPU_HALVES, NoGpu, driver_facts, facts, load_gpu_half};
use super::{folder_of_loaded, loaded_as};
use crate::kernels::hip_libraries;

type TellName = unsafe extern "C" fn(*mut u8, i32, i32) -> i32;

/// `site-packages` in AMD's layout: every name has a version, and libtorch's half cannot find them alone. The paths are
/// passed here instead of in the library path.
fn lay_wheels(root: &Path) -> PathBuf {
    let core = root.join("_rocm_sdk_core/lib");
    let [hip, compiler] = ["libamdhip64.so.7", "libhiprtc.so.7"].map(|name| core.join(name));
    stubs::compile(&hip, &stubs::hip_of("wheel"), &[], false);
    let version = "int hiprtcVersion(int *major, int *minor) { return *major = 7, *minor = 0; }";
    stubs::compile(&compiler, version, &[], false);
    let torch = root.join("torch/lib");
    stubs::compile(&torch.join("libtorch_hip.so"), "", &[&hip], true);
    torch
}

#[expect(unsafe_code, reason = "loads a library that the test made")]
fn open(path: &Path) -> Library {
    // SAFETY: the library has no initialisers.
    unsafe { Library::open(Some(path), RTLD_NOW) }.unwrap()
}

#[test]
fn amds_runtime_is_the_one_that_libtorch_runs_on_and_no_second_is_loaded() {
    let root = tempfile::tempdir().unwrap();
    let torch = lay_wheels(root.path());
    // Somebody else's, under the names without a version, where it would be found first.
    let stray = stubs::hip_of("stray");
    for name in ["libamdhip64.so", "libhiprtc.so"] {
        stubs::compile(&torch.join(name), &stray, &[], false);
    }
    let (half, library) = load_gpu_half(&torch).unwrap();
    let reported = driver_facts(half, &library, 0).unwrap();
    let expected = DriverFacts {
        name: "made-up Radeon of the wheel".to_owned(),
        pci: "0000:c4:00.0".to_owned(),
        class: Some(DeviceClass::Unified),
    };
    assert_eq!(reported, expected);

    let libraries = hip_libraries(&torch);
    let mut name = [0; 64];
    #[expect(unsafe_code, reason = "calls into a library that the test made")]
    let has_compiler = libraries.iter().any(|library| {
        // SAFETY: the functions have these signatures, and the buffer's length is passed on.
        unsafe {
            if let Ok(tell) = library.get::<TellName>(b"hipDeviceGetName\0") {
                tell(name.as_mut_ptr(), 64, 0);
            }
            library.get::<TellName>(b"hiprtcVersion\0").is_ok()
        }
    });
    assert!(has_compiler, "the compiler beside the runtime is found");
    assert!(name.starts_with(b"made-up Radeon of the wheel\0"));
    let runtimes = loaded_as("libamdhip64.so");
    assert_eq!(runtimes.len(), 1, "{runtimes:?}");
}

#[test]
fn a_library_that_is_missing_is_named() {
    let root = tempfile::tempdir().unwrap();
    let torch = root.path().join("torch/lib");
    let missing = root.path().join("libhipblas.so.3");
    stubs::compile(&missing, "", &[], false);
    stubs::compile(&torch.join("libtorch_hip.so"), "", &[&missing], false);
    let err = load_gpu_half(&torch).unwrap_err();
    let said = "libtorch_hip.so could not be loaded: libhipblas.so.3 is missing";
    assert_eq!(err, NoGpu::Unusable(said.to_owned()));
    assert_eq!(load_gpu_half(root.path()).unwrap_err(), NoGpu::NoHalf);
}

#[test]
fn a_loaded_library_is_where_it_was_named_and_not_where_its_link_leads() {
    let root = tempfile::tempdir().unwrap();
    let name = "libsafelight_linked.so";
    let stored = root.path().join("store/some-hash").join(name);
    stubs::compile(&stored, "", &[], false);
    let linked = root.path().join("site-packages/torch/lib");
    fs::create_dir_all(&linked).unwrap();
    symlink(&stored, linked.join(name)).unwrap();
    let library = open(&linked.join(name));
    assert_eq!(folder_of_loaded(name), Some(linked));
    assert_eq!(folder_of_loaded("libsafelight_link"), None);
    drop(library);
}

#[test]
fn kernel_tables_supply_gpu_facts_missing_from_the_amd_runtime() {
    let root = tempfile::tempdir().unwrap();
    lay_card(root.path(), "card0", "0x1002", "0000:c4:00.0", &[]);
    let halo = "gfx_target_version 110501\nlocation_id 50176\n";
    lay_node(root.path(), 1, halo);
    let [cuda, hip] = &GPU_HALVES;
    let of_kernel = facts(hip, None, root.path());
    let expected = DriverFacts {
        name: "AMD gfx1151".to_owned(),
        pci: "0000:c4:00.0".to_owned(),
        class: Some(DeviceClass::Unified),
    };
    assert_eq!(of_kernel, expected);
    let reported = || DriverFacts {
        name: "its own name".to_owned(),
        ..DriverFacts::default()
    };
    let half_reported = facts(hip, Some(reported()), root.path());
    assert_eq!(half_reported.name, "its own name");
    assert_eq!(half_reported.class, Some(DeviceClass::Unified));
    // The card next to an NVIDIA GPU reports nothing of that.
    assert_eq!(facts(cuda, Some(reported()), root.path()), reported());
}
