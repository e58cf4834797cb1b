//! Libraries loaded by this process, with the paths that the loader was given.
//!
//! Not from `/proc/self/maps`: that shows link targets, and a package manager may link every file into a store, where
//! its neighbours are missing. Loads nothing.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// All libraries with a path, in the order in which they came.
fn loaded() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    #[expect(unsafe_code, reason = "the loader's own list has no other binding")]
    // SAFETY: the loader calls back before it returns, with the pointer that it is given here and nothing else uses.
    unsafe {
        libc::dl_iterate_phdr(Some(keep), (&raw mut found).cast());
    }
    found
}

#[expect(unsafe_code, reason = "called by the loader")]
unsafe extern "C" fn keep(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: both pointers are good for the call: the loader's own, and the list that `loaded` handed in.
    let (name, found) = unsafe {
        let name = (*info).dlpi_name;
        (!name.is_null()).then(|| (CStr::from_ptr(name), &mut *found.cast::<Vec<PathBuf>>()))
    }
    .unzip();
    if let (Some(name), Some(found)) = (name, found) {
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        // The program itself has no name here, and what the kernel brings has no folder.
        if path.parent().is_some_and(|parent| parent != Path::new("")) {
            found.push(path.to_owned());
        }
    }
    0
}

/// Loaded libraries of this name, with or without a version suffix.
pub(crate) fn loaded_as(name: &str) -> Vec<PathBuf> {
    let mut found = loaded();
    found.retain(|path| {
        let found = path.file_name().and_then(OsStr::to_str);
        let rest = found.and_then(|found| found.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    found
}

/// Folder of a loaded library: `name`, with or without a version suffix.
pub(crate) fn folder_of_loaded(name: &str) -> Option<PathBuf> {
    let first = loaded_as(name).into_iter().next()?;
    first.parent().map(PathBuf::from)
}

/// The folder of the `libtorch_cpu.so` that this process runs on.
pub(crate) fn libtorch_folder() -> Option<PathBuf> {
    folder_of_loaded("libtorch_cpu.so")
}
