//! Paths of a libtorch's libraries outside its folder, and the meaning of the loader's errors.
//!
//! Wheels are recognised by their folders next to `torch`. Looks at names only and loads nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// AMD's wheels: below `lib` of the package with the runtime itself.
const OF_ROCM_CORE: [&str; 4] = [
    "lib",
    "lib/rocm_sysdeps/lib",
    "lib/host-math/lib",
    "lib/llvm/lib",
];
/// Package of the mathematics libraries; older ones have the chip's name as a suffix.
const ROCM_LIBRARIES: &str = "_rocm_sdk_libraries";
/// AMD's runtime, with any version suffix. A process must have only one.
const HIP: &str = "libamdhip64.so";

/// Folders next to the package `torch` from which its GPU half takes libraries; `torch`'s libraries are in `lib`.
///
/// Python loads those of AMD's wheels before it loads torch; a native program needs them on the loader's path.
pub(super) fn beside(lib: &Path, kind: &str) -> Vec<PathBuf> {
    let packages = |lib: &Path| Some(lib.parent()?.parent()?.to_owned());
    // First the path as named: a package manager may link each file into a store. Then the link's target.
    let named = packages(lib);
    let led = fs::canonicalize(lib).ok().and_then(|lib| packages(&lib));
    let found = [named, led].into_iter().flatten().map(|packages| {
        if kind == "rocm" {
            of_amd(&packages)
        } else {
            of_nvidia(&packages)
        }
    });
    found
        .into_iter()
        .find(|folders| !folders.is_empty())
        .unwrap_or_default()
}

fn of_amd(packages: &Path) -> Vec<PathBuf> {
    let libraries = subfolders(packages)
        .into_iter()
        .filter(|package| {
            let name = package.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(ROCM_LIBRARIES)
        })
        .map(|package| package.join("lib"));
    let core = packages.join("_rocm_sdk_core");
    let core = OF_ROCM_CORE.iter().map(|below| core.join(below));
    libraries
        .chain(core)
        .filter(|folder| folder.is_dir())
        .collect()
}

/// `nvidia/*/lib`.
fn of_nvidia(packages: &Path) -> Vec<PathBuf> {
    subfolders(&packages.join("nvidia"))
        .into_iter()
        .map(|package| package.join("lib"))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// Subfolders by name; empty without the folder.
fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The package `torch` of a virtual environment, or of a folder of packages.
pub(super) fn torch_of(environment: &Path) -> impl Iterator<Item = PathBuf> {
    let pythons = ["lib", "lib64"].map(|lib| subfolders(&environment.join(lib)));
    let packages = pythons.into_iter().flatten().filter_map(|python| {
        let name = python.file_name()?.to_string_lossy().into_owned();
        name.starts_with("python3")
            .then(|| python.join("site-packages"))
    });
    std::iter::once(environment.to_owned())
        .chain(packages)
        .map(|packages| packages.join("torch"))
}

/// Returns whether a folder contains AMD's runtime.
pub(super) fn has_hip(folder: &Path) -> bool {
    subfolders(folder).iter().any(|file| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(HIP)
    })
}

/// Short form of a loader's error: the missing library, or the loader's text for other errors.
pub fn loader_complaint(words: &str) -> String {
    let line = words.lines().next().unwrap_or_default();
    let missing = line
        .split_once(": cannot open shared object file: No such file")
        .and_then(|(before, _)| before.rsplit(": ").next());
    match missing {
        Some(library) => format!("{library} is missing"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn lay(packages: &Path, folders: &[&str]) -> Vec<PathBuf> {
        let lay = |folder: &&str| {
            let folder = packages.join(folder);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        folders.iter().map(lay).collect()
    }

    #[test]
    fn both_layouts_of_amds_wheels_are_found_with_all_folders_below() {
        for libraries in ["_rocm_sdk_libraries/lib", "_rocm_sdk_libraries_gfx1151/lib"] {
            let root = tempfile::tempdir().unwrap();
            let core = ["", "/rocm_sysdeps/lib", "/host-math/lib", "/llvm/lib"];
            let core = core.map(|below| format!("_rocm_sdk_core/lib{below}"));
            let all = [&[libraries][..], &core.each_ref().map(|it| &it[..])].concat();
            let expected = lay(root.path(), &all);
            lay(root.path(), &["torch/lib", "_rocm_sdk_core/bin", "numpy"]);
            lay(root.path(), &["nvidia/cudnn/lib"]);
            let lib = root.path().join("torch/lib");
            assert_eq!(beside(&lib, "rocm"), expected);
        }
    }

    #[test]
    fn packages_are_found_next_to_a_symlink_or_else_at_its_target() {
        let root = tempfile::tempdir().unwrap();
        let [store, site] = ["store", "site-packages"].map(|name| root.path().join(name));
        lay(&store, &["torch/lib", "_rocm_sdk_core/lib"]);
        // A link to the package from a place that has nothing else.
        let link = root.path().join("elsewhere");
        symlink(store.join("torch"), &link).unwrap();
        let of_store = fs::canonicalize(store.join("_rocm_sdk_core/lib")).unwrap();
        assert_eq!(beside(&link.join("lib"), "rocm"), [of_store]);
        // Packages that are links into a store each.
        fs::create_dir_all(&site).unwrap();
        symlink(store.join("torch"), site.join("torch")).unwrap();
        symlink(store.join("_rocm_sdk_core"), site.join("_rocm_sdk_core")).unwrap();
        let found = beside(&site.join("torch/lib"), "rocm");
        assert_eq!(found, [site.join("_rocm_sdk_core/lib")]);
    }

    #[test]
    fn the_loaders_complaint_names_the_missing_library() {
        let missing = "cannot open shared object file: No such file or directory";
        let loading = "/a/safelight-engine: error while loading shared libraries";
        let undefined = "/t/libtorch_hip.so: undefined symbol: hipMemcpy";
        for (words, expected) in [
            (
                format!("{loading}: libroctracer64.so.4: {missing}"),
                "libroctracer64.so.4 is missing",
            ),
            (
                format!("libhipblas.so.3: {missing}"),
                "libhipblas.so.3 is missing",
            ),
            (format!("{undefined}\nmore"), undefined),
        ] {
            assert_eq!(loader_complaint(&words), expected);
        }
    }
}
