//! Members of a wheel that a native program needs: shared libraries, their data files, and licences. Headers, tests,
//! tools and Python parts are skipped.
//!
//! Looks at names only.

use super::table::RuntimeKind;

/// Endings of what only builds, or Python, needs.
const NOT_NEEDED: [&str; 10] = [
    ".py", ".pyc", ".pyi", ".h", ".hpp", ".cuh", ".a", ".cmake", ".pc", ".o",
];
/// libtorch's halves for Python, and what tests.
const NOT_LOADED: [&str; 4] = [
    "libtorch_python.so",
    "libshm.so",
    "libbackend_with_compiler.so",
    "libjitbackend_test.so",
];

/// Libraries of libtorch's CPU half: a wheel with a GPU half links it to two of NVIDIA's libraries.
const OF_CPU: [&str; 5] = [
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp",
    "libcudart.so",
    "libcupti.so",
];

/// Returns whether a build of this kind needs a member.
pub(super) fn is_needed(kind: RuntimeKind, name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    let is_there = is_of_any(name);
    match kind {
        RuntimeKind::Cuda | RuntimeKind::Rocm => is_there,
        RuntimeKind::Cpu if is_licence(name) => true,
        RuntimeKind::Cpu => is_there && OF_CPU.iter().any(|start| file.starts_with(start)),
    }
}

/// Returns whether any build needs it.
fn is_of_any(name: &str) -> bool {
    if ["torch/version.py", "torch/build-version"].contains(&name) || is_licence(name) {
        return true;
    }
    let folders: Vec<&str> = name.split('/').collect();
    let Some((&file, folders)) = folders.split_last() else {
        return false;
    };
    if NOT_NEEDED.iter().any(|end| file.ends_with(end)) || NOT_LOADED.contains(&file) {
        return false;
    }
    match folders {
        // libtorch, with the folders of its kernels below `lib`; and AMD's kernels for each chip.
        ["torch", "lib" | ".kpack", ..] => true,
        // AMD's libraries and their data files. The compiler's tools are programs that are never started.
        ["_rocm_sdk_core", rest @ ..] => is_of_rocm(rest),
        [libraries, rest @ ..] if libraries.starts_with("_rocm_sdk_libraries") => is_of_rocm(rest),
        ["nvidia", _, "lib", ..] => true,
        _ => false,
    }
}

fn is_of_rocm(folders: &[&str]) -> bool {
    match folders {
        ["lib", rest @ ..] => !rest
            .iter()
            .any(|it| ["cmake", "pkgconfig", "bin", "include"].contains(it)),
        // MIOpen's tables, and what other libraries describe chips by.
        ["share", "miopen", ..] | [".kpack", ..] => true,
        _ => false,
    }
}

fn is_licence(name: &str) -> bool {
    let Some((folder, rest)) = name.split_once(".dist-info/") else {
        return false;
    };
    !folder.contains('/')
        && (rest.starts_with("licenses/") || rest.to_uppercase().starts_with("LICENSE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_their_tables_and_licences_are_needed_and_nothing_else() {
        for name in [
            "torch/lib/libtorch_hip.so",
            "torch/lib/libgomp.so.1",
            "torch/lib/rocblas/library/TensileLibrary_gfx1100.dat",
            "torch/.kpack/torch_gfx1151.kpack",
            "torch/version.py",
            "torch-2.11.0+rocm7.14.1.dist-info/licenses/LICENSE",
            "_rocm_sdk_core/lib/libamdhip64.so.7",
            "_rocm_sdk_core/lib/llvm/lib/libLLVM.so.23.0",
            "_rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1",
            "_rocm_sdk_libraries/lib/hipblaslt/library/TensileLibrary_gfx1151.co",
            "_rocm_sdk_libraries_gfx1151/share/miopen/db/gfx1151_40.HIP.fdb.txt",
            "nvidia/cu13/lib/libcudart.so.13",
        ] {
            assert!(is_needed(RuntimeKind::Rocm, name), "{name}");
        }
        for name in [
            "torch/lib/libtorch_python.so",
            "torch/include/torch/all.h",
            "torch/_dynamo/utils.py",
            "torch/test/test_api",
            "torch/bin/protoc",
            "torch-2.11.0.dist-info/METADATA",
            "_rocm_sdk_core/bin/rocminfo",
            "_rocm_sdk_core/include/hip/hip_runtime.h",
            "_rocm_sdk_core/lib/llvm/bin/clang-23",
            "_rocm_sdk_core/lib/cmake/hip/hip-config.cmake",
            "_rocm_sdk_libraries/lib/librocblas.a",
            "nvidia/cu13/include/cuda.h",
            "RECORD",
        ] {
            assert!(!is_needed(RuntimeKind::Rocm, name), "{name}");
        }
    }

    #[test]
    fn the_cpu_needs_its_half_and_the_two_libraries_that_it_is_linked_to() {
        for (name, is_it) in [
            ("torch/lib/libtorch_cpu.so", true),
            ("torch/lib/libc10.so", true),
            ("torch/lib/libgomp.so.1", true),
            ("nvidia/cu13/lib/libcudart.so.13", true),
            ("nvidia/cu13/lib/libcupti.so.13", true),
            ("torch-2.11.0.dist-info/licenses/LICENSE", true),
            ("torch/lib/libtorch_cuda.so", false),
            ("torch/lib/libc10_cuda.so", false),
            ("nvidia/cu13/lib/libnvrtc.so.13", false),
            // It names the wheel's GPU half.
            ("torch/version.py", false),
        ] {
            assert_eq!(is_needed(RuntimeKind::Cpu, name), is_it, "{name}");
        }
    }
}
