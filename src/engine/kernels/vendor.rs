//! Names of the two vendors' functions, and the libraries that may contain them.
//!
//! Only names and lookup; `driver.rs` calls the functions.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::KernelError;
use crate::runtime::{folder_of_loaded, loaded_as};

pub(super) type VersionFn = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
pub(super) type CreateProgram = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
pub(super) type CompileProgram =
    unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
pub(super) type ProgramSize = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
pub(super) type ProgramBytes = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
pub(super) type DestroyProgram = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
pub(super) type LoadModule = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int;
pub(super) type FindFunction =
    unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
pub(super) type LaunchFn = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;
pub(super) type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
pub(super) type SetInt = unsafe extern "C" fn(c_int) -> c_int;
pub(super) type GetForInt = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
pub(super) type AttributeFn = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
pub(super) type PropertiesFn = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
pub(super) type RetainContext = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
pub(super) type ContextFn = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
pub(super) type PushContext = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Names of one vendor's functions that both vendors have with equal signatures.
pub(super) struct VendorNames {
    pub(super) gpu_half: &'static str,
    /// Libraries searched if those loaded by libtorch do not have the functions. Only names with a version: without one
    /// the loader may find and load another release than the one that libtorch runs on.
    pub(super) libraries: &'static [&'static str],
    pub(super) version: &'static CStr,
    pub(super) create: &'static CStr,
    pub(super) compile: &'static CStr,
    pub(super) log_size: &'static CStr,
    pub(super) log: &'static CStr,
    pub(super) code_size: &'static CStr,
    pub(super) code: &'static CStr,
    pub(super) destroy: &'static CStr,
    pub(super) load_module: &'static CStr,
    pub(super) find_function: &'static CStr,
    pub(super) launch: &'static CStr,
}

pub(super) const CUDA: VendorNames = VendorNames {
    gpu_half: "libtorch_cuda.so",
    libraries: &["libnvrtc.so.13", "libnvrtc.so.12", "libcuda.so.1"],
    version: c"nvrtcVersion",
    create: c"nvrtcCreateProgram",
    compile: c"nvrtcCompileProgram",
    log_size: c"nvrtcGetProgramLogSize",
    log: c"nvrtcGetProgramLog",
    code_size: c"nvrtcGetCUBINSize",
    code: c"nvrtcGetCUBIN",
    destroy: c"nvrtcDestroyProgram",
    load_module: c"cuModuleLoadData",
    find_function: c"cuModuleGetFunction",
    launch: c"cuLaunchKernel",
};

pub(super) const HIP: VendorNames = VendorNames {
    gpu_half: "libtorch_hip.so",
    libraries: &[],
    version: c"hiprtcVersion",
    create: c"hiprtcCreateProgram",
    compile: c"hiprtcCompileProgram",
    log_size: c"hiprtcGetProgramLogSize",
    log: c"hiprtcGetProgramLog",
    code_size: c"hiprtcGetCodeSize",
    code: c"hiprtcGetCode",
    destroy: c"hiprtcDestroyProgram",
    load_module: c"hipModuleLoadData",
    find_function: c"hipModuleGetFunction",
    launch: c"hipModuleLaunchKernel",
};

/// Everything that may hold the functions, the surest first: what this process has loaded already.
pub(super) fn libraries(folder: &Path, names: &VendorNames) -> Vec<Library> {
    let mut found = vec![Library::this()];
    // The half itself finds what it needs in turn; then libtorch's own door to compiler and driver, which knows where
    // its package keeps them.
    let own = [names.gpu_half, "libcaffe2_nvrtc.so"].map(|name| folder.join(name));
    let beside = names.libraries.iter().map(|name| folder.join(name));
    let system = names.libraries.iter().map(PathBuf::from);
    let paths = own.into_iter().chain(compiler_of_hip());
    for path in paths.chain(beside).chain(system) {
        if path.is_absolute() && !path.exists() {
            continue;
        }
        found.extend(open(&path));
    }
    open_nvrtc_builtins();
    found
}

/// One of the libraries that libtorch itself loads to compile kernels.
pub(super) fn open(path: &Path) -> Option<Library> {
    #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: libtorch would run them too.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW) };
    opened.ok()
}

/// AMD's compiler of the same release as the loaded runtime: it is next to it, under the same version.
fn compiler_of_hip() -> Option<PathBuf> {
    let runtime = loaded_as("libamdhip64.so").into_iter().next()?;
    let name = runtime.file_name()?.to_str()?;
    let release = name.strip_prefix("libamdhip64")?;
    Some(runtime.with_file_name(format!("libhiprtc{release}")))
}

/// NVRTC opens its builtins by their bare name, which the linker finds only where they are loaded already.
fn open_nvrtc_builtins() {
    let Some(folder) = folder_of_loaded("libnvrtc.so") else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("libnvrtc-builtins.so")
        {
            #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
            // SAFETY: it is the other half of the compiler that is loaded already.
            let opened = unsafe { Library::open(Some(entry.path()), RTLD_NOW | RTLD_GLOBAL) };
            // Closing it would unload it; the process keeps it.
            opened.map(Library::into_raw).ok();
        }
    }
}

pub(super) struct FunctionFinder<'a>(pub(super) &'a [Library]);

impl FunctionFinder<'_> {
    pub(super) fn function<T: Copy>(&self, name: &'static CStr) -> Result<T, KernelError> {
        self.0
            .iter()
            .find_map(|library| {
                #[expect(unsafe_code, reason = "a symbol has no type of its own")]
                // SAFETY: `T` is the signature that the vendor documents for this name.
                let symbol = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
                symbol.ok().map(|symbol| *symbol)
            })
            .ok_or_else(|| KernelError::MissingFunction {
                name: name.to_str().unwrap_or_default(),
            })
    }
}
