//! The vendor's compiler and driver, found at run time: NVRTC and the CUDA driver, or HIPRTC and HIP.
//!
//! Unsafe are this file, `compiler.rs`, `vendor.rs`, which finds what they call, and the launches in `ops.rs`. Knows no tensors and no kernel's meaning.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use libloading::os::unix::Library;
use tch::Device;

use super::compiler::{KernelCompiler, succeeded};
use super::vendor::{
    AttributeFn, CUDA, ContextFn, FindFunction, FunctionFinder, GetForInt, GetInt, HIP, LaunchFn,
    LoadModule, PropertiesFn, PushContext, RetainContext, SetInt, libraries,
};
use super::{KernelError, child_compiler};
use crate::runtime::libtorch_folder;

type Result<T> = std::result::Result<T, KernelError>;

/// Vendor functions for the current device of a thread.
enum DeviceSelection {
    Cuda {
        get: GetForInt,
        attribute: AttributeFn,
        retain: RetainContext,
        current: ContextFn,
        push: PushContext,
        pop: ContextFn,
    },
    Hip {
        get: GetInt,
        set: SetInt,
        properties: PropertiesFn,
        version: GetInt,
    },
}

/// The functions of the vendor whose half of libtorch is loaded.
pub(super) struct KernelDriver {
    compiler: KernelCompiler,
    load_module: LoadModule,
    find_function: FindFunction,
    launch: LaunchFn,
    devices: DeviceSelection,
    /// They stay for the life of the process.
    _libraries: Vec<Library>,
}

/// A loaded binary and the context that it lives in. Both stay for the life of the process.
pub(super) struct KernelModule {
    index: c_int,
    /// CUDA's primary context of the device; null for HIP.
    context: DriverHandle,
    module: DriverHandle,
}

/// A pointer that only the driver looks into.
#[derive(Clone, Copy)]
pub(super) struct DriverHandle(pub(super) *mut c_void);

#[expect(unsafe_code, reason = "the driver's handles are plain numbers to us")]
// SAFETY: CUDA and HIP let any thread use a handle.
unsafe impl Send for DriverHandle {}
#[expect(unsafe_code, reason = "the driver's handles are plain numbers to us")]
// SAFETY: CUDA and HIP let several threads use a handle at once.
unsafe impl Sync for DriverHandle {}

/// Numbers of blocks and threads of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaunchGrid {
    pub(super) blocks: u32,
    /// Along a row, and rows.
    pub(super) threads: [u32; 2],
}

impl KernelDriver {
    /// Finds the functions. libtorch's GPU half must be loaded.
    pub(super) fn open() -> Result<Self> {
        let folder = libtorch_folder().ok_or(KernelError::NoGpuHalf)?;
        let names = [CUDA, HIP]
            .into_iter()
            .find(|names| folder.join(names.gpu_half).exists())
            .ok_or(KernelError::NoGpuHalf)?;
        let libraries = libraries(&folder, &names);
        let find = FunctionFinder(&libraries);
        let devices = if names.gpu_half == CUDA.gpu_half {
            DeviceSelection::Cuda {
                get: find.function(c"cuDeviceGet")?,
                attribute: find.function(c"cuDeviceGetAttribute")?,
                retain: find.function(c"cuDevicePrimaryCtxRetain")?,
                current: find.function(c"cuCtxGetCurrent")?,
                push: find.function(c"cuCtxPushCurrent_v2")?,
                pop: find.function(c"cuCtxPopCurrent_v2")?,
            }
        } else {
            DeviceSelection::Hip {
                get: find.function(c"hipGetDevice")?,
                set: find.function(c"hipSetDevice")?,
                properties: find
                    .function(c"hipGetDevicePropertiesR0600")
                    .or_else(|_| find.function(c"hipGetDeviceProperties"))?,
                version: find.function(c"hipRuntimeGetVersion")?,
            }
        };
        Ok(Self {
            compiler: KernelCompiler::find(&find, &names)?,
            load_module: find.function(names.load_module)?,
            find_function: find.function(names.find_function)?,
            launch: find.function(names.launch)?,
            devices,
            _libraries: libraries,
        })
    }

    /// Compiler with its version: a binary depends on it in addition to source and device.
    pub(super) fn compiler(&self) -> Result<String> {
        let (major, minor) = self.compiler.version()?;
        match &self.devices {
            DeviceSelection::Cuda { .. } => Ok(format!("NVRTC {major}.{minor}")),
            DeviceSelection::Hip { version, .. } => {
                // HIPRTC has said 9.0 for years.
                let mut release = 0;
                #[expect(unsafe_code, reason = "calls into the driver")]
                // SAFETY: the function fills one integer.
                let code = unsafe { version(&raw mut release) };
                succeeded("hipRuntimeGetVersion", code)?;
                Ok(format!("HIPRTC {major}.{minor} of HIP {release}"))
            }
        }
    }

    /// Vendor's name of the device's instruction set: `sm_90`, `gfx1151`.
    pub(super) fn architecture(&self, index: usize) -> Result<String> {
        let index = device_index(index)?;
        #[expect(unsafe_code, reason = "calls into the driver")]
        match &self.devices {
            DeviceSelection::Cuda { get, attribute, .. } => {
                // The numbers of `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
                const MAJOR: c_int = 75;
                const MINOR: c_int = 76;
                let (mut device, mut major, mut minor) = (0, 0, 0);
                // SAFETY: each function fills one integer.
                unsafe {
                    succeeded("cuDeviceGet", get(&raw mut device, index))?;
                    succeeded(
                        "the device's generation",
                        attribute(&raw mut major, MAJOR, device),
                    )?;
                    succeeded(
                        "the device's generation",
                        attribute(&raw mut minor, MINOR, device),
                    )?;
                }
                Ok(format!("sm_{major}{minor}"))
            }
            DeviceSelection::Hip { properties, .. } => {
                // The struct grew with each release, but is far smaller than this in all of them.
                let mut bytes = vec![0_u64; 2048];
                // SAFETY: the buffer is larger, and as aligned, as what the function fills.
                let code = unsafe { properties(bytes.as_mut_ptr().cast(), index) };
                succeeded("hipGetDeviceProperties", code)?;
                let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
                gcn_arch_name(&bytes).ok_or(KernelError::Nonsense {
                    call: "hipGetDeviceProperties",
                })
            }
        }
    }

    pub(super) fn options(&self, architecture: &str) -> Vec<String> {
        match self.devices {
            DeviceSelection::Cuda { .. } => vec![
                format!("--gpu-architecture={architecture}"),
                "--std=c++17".to_owned(),
            ],
            DeviceSelection::Hip { .. } => vec![
                format!("--offload-arch={architecture}"),
                "-std=c++17".to_owned(),
                "-O3".to_owned(),
            ],
        }
    }

    pub(super) fn compile(&self, source: &CStr, options: &[String]) -> Result<Vec<u8>> {
        if let DeviceSelection::Hip { .. } = self.devices
            && let Some(binary) = child_compiler::compile(options)?
        {
            return Ok(binary);
        }
        self.compiler.compile(source, options)
    }

    /// Loads a binary that [`Self::compile`] made for this device.
    pub(super) fn load(&self, index: usize, binary: &[u8]) -> Result<KernelModule> {
        let mut module = KernelModule {
            index: device_index(index)?,
            context: DriverHandle(ptr::null_mut()),
            module: DriverHandle(ptr::null_mut()),
        };
        #[expect(unsafe_code, reason = "calls into the driver")]
        if let DeviceSelection::Cuda { get, retain, .. } = &self.devices {
            let mut device = 0;
            // SAFETY: the functions fill a number and a handle; the context is never released.
            unsafe {
                succeeded("cuDeviceGet", get(&raw mut device, module.index))?;
                let code = retain(&raw mut module.context.0, device);
                succeeded("cuDevicePrimaryCtxRetain", code)?;
            }
        }
        let mut loaded = ptr::null_mut();
        let code = self.on_device(&module, || {
            #[expect(unsafe_code, reason = "calls into the driver")]
            // SAFETY: the driver copies the binary, whose length is in its header.
            unsafe {
                (self.load_module)(&raw mut loaded, binary.as_ptr().cast())
            }
        })?;
        succeeded("loading the binary", code)?;
        module.module = DriverHandle(loaded);
        Ok(module)
    }

    pub(super) fn function(&self, module: &KernelModule, name: &CStr) -> Result<DriverHandle> {
        let mut function = ptr::null_mut();
        let code = self.on_device(module, || {
            #[expect(unsafe_code, reason = "calls into the driver")]
            // SAFETY: the module is loaded, and the name ends with a zero.
            unsafe {
                (self.find_function)(&raw mut function, module.module.0, name.as_ptr())
            }
        })?;
        succeeded("finding a kernel in the binary", code)?;
        Ok(DriverHandle(function))
    }

    /// Queues a kernel on the stream that libtorch computes on.
    #[expect(
        unsafe_code,
        reason = "a kernel reads and writes what its arguments point to"
    )]
    /// # Safety
    /// `args` is the struct that the kernel takes, and everything that it points to is on the module's device, has the
    /// length that the kernel expects, and was allocated on the current stream.
    pub(super) unsafe fn launch<T>(
        &self,
        module: &KernelModule,
        function: DriverHandle,
        grid: LaunchGrid,
        args: &mut T,
    ) -> Result<()> {
        let stream = current_stream(module.index)?;
        let mut parameters = [ptr::from_mut(args).cast::<c_void>()];
        let [x, y] = grid.threads;
        let code = self.on_device(module, || {
            // SAFETY: the handles belong to the driver; the parameters are copied before the call returns.
            unsafe {
                (self.launch)(
                    function.0,
                    grid.blocks,
                    1,
                    1,
                    x,
                    y,
                    1,
                    0,
                    stream.0,
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            }
        })?;
        succeeded("launching a kernel", code)
    }

    /// Calls the driver with the module's device current on this thread, and leaves things as they were.
    fn on_device(&self, module: &KernelModule, call: impl FnOnce() -> c_int) -> Result<c_int> {
        #[expect(unsafe_code, reason = "calls into the driver")]
        match &self.devices {
            DeviceSelection::Cuda {
                current, push, pop, ..
            } => {
                let (mut now, wanted) = (ptr::null_mut(), module.context.0);
                // SAFETY: the functions take and fill handles; what is pushed is popped again.
                unsafe {
                    succeeded("cuCtxGetCurrent", current(&raw mut now))?;
                    if now == wanted {
                        return Ok(call());
                    }
                    succeeded("cuCtxPushCurrent", push(wanted))?;
                    let code = call();
                    succeeded("cuCtxPopCurrent", pop(&raw mut now))?;
                    Ok(code)
                }
            }
            DeviceSelection::Hip { get, set, .. } => {
                let mut now = 0;
                // SAFETY: the functions take and fill a number.
                unsafe {
                    succeeded("hipGetDevice", get(&raw mut now))?;
                    if now == module.index {
                        return Ok(call());
                    }
                    succeeded("hipSetDevice", set(module.index))?;
                    let code = call();
                    succeeded("hipSetDevice", set(now))?;
                    Ok(code)
                }
            }
        }
    }
}

// See `stream.cpp`.
#[expect(unsafe_code, reason = "tch has no streams")]
unsafe extern "C" {
    fn safelight_current_stream(index: i8, handle: *mut *mut c_void) -> bool;
    fn safelight_use_device(index: i8) -> bool;
    fn safelight_fork_stream(index: i8, handle: *mut *mut c_void) -> bool;
    fn safelight_mark_side_stream(index: i8) -> *mut c_void;
    fn safelight_wait_for_mark(index: i8, mark: *mut c_void) -> bool;
    fn safelight_drop_mark(mark: *mut c_void);
}

/// Selects a GPU for the calling thread, as libraries other than libtorch expect.
pub(crate) fn use_gpu(device: Device) -> bool {
    #[expect(unsafe_code, reason = "tch has no streams")]
    // SAFETY: the function takes any number and never throws.
    stream_index(device).is_some_and(|index| unsafe { safelight_use_device(index) })
}

/// Another stream of a GPU for this thread, whose work from here on waits for what libtorch's stream has now.
pub(crate) fn fork_stream(device: Device) -> Option<*mut c_void> {
    let mut stream = ptr::null_mut();
    let index = stream_index(device)?;
    #[expect(unsafe_code, reason = "tch has no streams")]
    // SAFETY: the function fills a handle and never throws.
    let is_forked = unsafe { safelight_fork_stream(index, &raw mut stream) };
    is_forked.then_some(stream)
}

/// A mark after what the stream of [`fork_stream`] has now.
pub(crate) struct StreamMark {
    mark: NonNull<c_void>,
    index: i8,
}

impl StreamMark {
    pub(crate) fn new(device: Device) -> Option<Self> {
        let index = stream_index(device)?;
        #[expect(unsafe_code, reason = "tch has no streams")]
        // SAFETY: the function takes any number and never throws.
        let mark = NonNull::new(unsafe { safelight_mark_side_stream(index) })?;
        Some(Self { mark, index })
    }

    /// From here on libtorch's stream waits for the mark; `false` where the driver refuses.
    pub(crate) fn wait(&self) -> bool {
        #[expect(unsafe_code, reason = "tch has no streams")]
        // SAFETY: the mark is alive, and the function never throws.
        unsafe {
            safelight_wait_for_mark(self.index, self.mark.as_ptr())
        }
    }
}

impl Drop for StreamMark {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "tch has no streams")]
        // SAFETY: the shim made the mark, and nothing else uses it.
        unsafe {
            safelight_drop_mark(self.mark.as_ptr());
        }
    }
}

fn stream_index(device: Device) -> Option<i8> {
    match device {
        Device::Cuda(index) => i8::try_from(index).ok(),
        _ => None,
    }
}

/// The stream that libtorch computes on.
pub(super) fn current_stream(index: c_int) -> Result<DriverHandle> {
    let index = i8::try_from(index).map_err(|_err| KernelError::NoStream)?;
    let mut stream = ptr::null_mut();
    #[expect(unsafe_code, reason = "tch has no streams")]
    // SAFETY: the function fills a handle and never throws.
    let is_known = unsafe { safelight_current_stream(index, &raw mut stream) };
    if is_known {
        Ok(DriverHandle(stream))
    } else {
        Err(KernelError::NoStream)
    }
}

pub(super) fn device_index(index: usize) -> Result<c_int> {
    c_int::try_from(index).map_err(|_err| KernelError::NoStream)
}

/// Field `gcnArchName` of HIP's device properties, at any offset: it follows the marketing name, which comes first and
/// has 256 bytes.
fn gcn_arch_name(properties: &[u8]) -> Option<String> {
    let fields = properties.get(256..)?;
    let start = fields.windows(3).position(|window| window == b"gfx")?;
    let name = CStr::from_bytes_until_nul(&fields[start..]).ok()?;
    let name = name.to_str().ok()?;
    (name.len() < 64).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amd_device_is_named_wherever_its_release_keeps_the_name() {
        for at in [396, 1160, 1400] {
            let mut properties = vec![0_u8; 2048];
            properties[..17].copy_from_slice(b"gfx is no name of");
            properties[at..at + 23].copy_from_slice(b"gfx90a:sramecc+:xnack-\0");
            let name = gcn_arch_name(&properties);
            assert_eq!(name.as_deref(), Some("gfx90a:sramecc+:xnack-"));
        }
        assert_eq!(gcn_arch_name(&[0; 2048]), None);
        assert_eq!(gcn_arch_name(b"short"), None);
    }

    #[test]
    fn without_a_gpu_half_there_is_no_driver() {
        assert_eq!(KernelDriver::open().err(), Some(KernelError::NoGpuHalf));
    }
}
