//! Which device computes: loads the GPU half of libtorch where the chosen runtime has one, and says
//! in one line what it got and why not more.
//!
//! Sets no environment: whoever starts the engine does.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use safelight_core::job::DeviceChoice;
use safelight_core::memory::DeviceClass;
use tch::Device;

use super::memory_counts;

/// The libtorch that this engine is built for.
pub const LIBTORCH_VERSION: &str = "2.11.0";

/// The GPU halves, and what their vendors' drivers call the functions that describe a device.
const GPU_HALVES: [GpuHalf; 2] = [
    GpuHalf {
        library: "libtorch_cuda.so",
        driver: "libcuda.so.1",
        init: Some(c"cuInit"),
        device_get: c"cuDeviceGet",
        device_name: c"cuDeviceGetName",
        device_place: c"cuDeviceGetPCIBusId",
        attribute: c"cuDeviceGetAttribute",
        integrated: 18, // CU_DEVICE_ATTRIBUTE_INTEGRATED
    },
    GpuHalf {
        library: "libtorch_hip.so",
        driver: "libamdhip64.so",
        init: None,
        device_get: c"hipDeviceGet",
        device_name: c"hipDeviceGetName",
        device_place: c"hipDeviceGetPCIBusId",
        attribute: c"hipDeviceGetAttribute",
        integrated: 16, // hipDeviceAttributeIntegrated
    },
];

struct GpuHalf {
    library: &'static str,
    driver: &'static str,
    init: Option<&'static CStr>,
    device_get: &'static CStr,
    device_name: &'static CStr,
    device_place: &'static CStr,
    attribute: &'static CStr,
    /// The attribute that says whether a device has the host's memory.
    integrated: c_int,
}

#[derive(Clone, Debug)]
pub struct Runtime {
    pub device: Device,
    pub device_name: String,
    /// The device's place on the bus, such as `0000:c4:00.0`; empty where there is none.
    pub pci: String,
    pub total_bytes: u64,
    /// `None` where the driver does not say.
    pub class: Option<DeviceClass>,
    /// Which device it is, and why not a GPU where it is none.
    pub line: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the device {wanted} is not available: {found}")]
pub struct RuntimeError {
    pub wanted: DeviceChoice,
    pub found: String,
}

impl Runtime {
    pub fn open(wanted: DeviceChoice) -> Result<Self, RuntimeError> {
        if wanted == DeviceChoice::Cpu {
            return Ok(Self::cpu("as asked"));
        }
        let gpus = load_gpu_half().and_then(|half| num_gpus(half).map(|count| (half, count)));
        Self::settle(wanted, gpus, Self::gpu)
    }

    /// Chooses among the GPUs that were counted; `open` makes one ready.
    fn settle(
        wanted: DeviceChoice,
        gpus: Result<(&GpuHalf, usize), String>,
        open: impl FnOnce(&GpuHalf, usize) -> Result<Self, String>,
    ) -> Result<Self, RuntimeError> {
        match (wanted, gpus) {
            (DeviceChoice::Cuda(index), Ok((half, count))) if index < count => {
                open(half, index).map_err(|found| RuntimeError { wanted, found })
            }
            (DeviceChoice::Cuda(_), Ok((_, count))) => Err(RuntimeError {
                wanted,
                found: format!(
                    "{count} GPU{}, counted from cuda:0",
                    if count == 1 { "" } else { "s" }
                ),
            }),
            (DeviceChoice::Cuda(_), Err(reason)) => Err(RuntimeError {
                wanted,
                found: format!("only the CPU, because {reason}"),
            }),
            (_, Ok((half, _))) => {
                Ok(open(half, 0).unwrap_or_else(|reason| Self::cpu(&format!("because {reason}"))))
            }
            (_, Err(reason)) => Ok(Self::cpu(&format!("because {reason}"))),
        }
    }

    fn cpu(why: &str) -> Self {
        let threads = tch::get_num_threads();
        Self {
            device: Device::Cpu,
            device_name: "CPU".to_owned(),
            pci: String::new(),
            total_bytes: memory_counts(Device::Cpu).total,
            class: Some(DeviceClass::Cpu),
            line: format!(
                "CPU, {threads} thread{}, libtorch {LIBTORCH_VERSION}, {why}",
                if threads == 1 { "" } else { "s" }
            ),
        }
    }

    fn gpu(half: &GpuHalf, index: usize) -> Result<Self, String> {
        let device = Device::Cuda(index);
        // The first tensor makes the device's context; before it the allocator has no counts. On a GPU
        // that is full or that another program has for itself, it is also what fails.
        let first = tch::Tensor::f_zeros([1], (tch::Kind::Float, device));
        drop(first.map_err(|err| {
            let text = match err {
                tch::TchError::Torch(text) => text,
                err => err.to_string(),
            };
            let line = text.lines().next().unwrap_or_default();
            format!("cuda:{index} could not be used: {line}")
        })?);
        let facts = driver_facts(half, index);
        let class = facts.as_ref().and_then(|facts| facts.class);
        OPENED.set((index, class)).ok(); // A process opens one device.
        let (name, pci) = facts.map_or_else(
            || ("GPU".to_owned(), String::new()),
            |facts| (facts.name, facts.pci),
        );
        let total_bytes = memory_counts(device).total;
        Ok(Self {
            device,
            line: format!(
                "{name} (cuda:{index}), {:.1} GiB, libtorch {LIBTORCH_VERSION}",
                total_bytes as f64 / (1_u64 << 30) as f64
            ),
            device_name: name,
            pci,
            total_bytes,
            class,
        })
    }
}

/// The GPU that this process opened, and its class.
static OPENED: OnceLock<(usize, Option<DeviceClass>)> = OnceLock::new();

/// How the memory of a device relates to the host's; a GPU that does not say has its own.
pub(crate) fn device_class(device: Device) -> DeviceClass {
    let Device::Cuda(index) = device else {
        return DeviceClass::Cpu;
    };
    let opened = OPENED.get().filter(|(opened, _)| *opened == index);
    opened
        .and_then(|(_, class)| *class)
        .unwrap_or(DeviceClass::Discrete)
}

/// Loads the GPU half once; the library stays for the life of the process.
fn load_gpu_half() -> Result<&'static GpuHalf, String> {
    static LOADED: OnceLock<Result<(&'static GpuHalf, Library), String>> = OnceLock::new();
    LOADED
        .get_or_init(find_gpu_half)
        .as_ref()
        .map(|(half, _)| *half)
        .map_err(Clone::clone)
}

fn find_gpu_half() -> Result<(&'static GpuHalf, Library), String> {
    let folder = libtorch_folder();
    for half in &GPU_HALVES {
        // By its full name, so that a stray libtorch elsewhere on the library path is not mixed in.
        let Some(path) = folder
            .as_ref()
            .map(|folder| folder.join(half.library))
            .filter(|path| path.exists())
        else {
            continue;
        };
        #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
        // SAFETY: it is the other half of the libtorch that is loaded already; registering its kernels is
        // all that its initialisers do.
        let loaded = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
        return match loaded {
            Ok(library) => Ok((half, library)),
            Err(err) => Err(format!("{} could not be loaded: {err}", half.library)),
        };
    }
    Err("this libtorch has no GPU part".to_owned())
}

/// Whether the GPU half is AMD's, which presents its devices under the same names as NVIDIA's.
pub(crate) fn is_rocm() -> bool {
    static IS_ROCM: OnceLock<bool> = OnceLock::new();
    *IS_ROCM.get_or_init(|| folder_of_loaded("libtorch_hip.so").is_some())
}

/// The folder of the `libtorch_cpu.so` that this process runs on.
pub(crate) fn libtorch_folder() -> Option<PathBuf> {
    folder_of_loaded("libtorch_cpu.so")
}

/// The folder of a library that this process has loaded: `name`, with or without a version behind it.
pub(crate) fn folder_of_loaded(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])))
        .find(|path| {
            let found = path.file_name().and_then(OsStr::to_str);
            let rest = found.and_then(|found| found.strip_prefix(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .and_then(|path| path.parent().map(PathBuf::from))
}

fn num_gpus(half: &GpuHalf) -> Result<usize, String> {
    match usize::try_from(tch::Cuda::device_count()) {
        Ok(count) if count > 0 && tch::Cuda::is_available() => Ok(count),
        _ => Err(format!("{} found no GPU that it can use", half.library)),
    }
}

type Init = unsafe extern "C" fn(c_int) -> c_int;
type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type DeviceText = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// What the driver says of a device.
struct DriverFacts {
    name: String,
    /// Its place on the bus; empty where the driver does not say.
    pci: String,
    class: Option<DeviceClass>,
}

/// The two drivers' functions have one signature each.
fn driver_facts(half: &GpuHalf, index: usize) -> Option<DriverFacts> {
    let index = c_int::try_from(index).ok()?;
    let [mut name, mut place] = [[0_u8; 256]; 2];
    let mut class = None;
    #[expect(
        unsafe_code,
        reason = "calls into the driver, whose functions have no other binding"
    )]
    // SAFETY: the signatures are those of the drivers' stable C interfaces; the buffer's length is passed on.
    unsafe {
        let driver = Library::open(Some(half.driver), RTLD_NOW).ok()?;
        if let Some(init) = half.init {
            driver
                .get::<Init>(init.to_bytes_with_nul())
                .ok()
                .filter(|init| init(0) == 0)?;
        }
        let mut device = 0;
        let get = driver
            .get::<DeviceGet>(half.device_get.to_bytes_with_nul())
            .ok()?;
        let tell = driver
            .get::<DeviceText>(half.device_name.to_bytes_with_nul())
            .ok()?;
        if get(&raw mut device, index) != 0 || tell(name.as_mut_ptr().cast(), 256, device) != 0 {
            return None;
        }
        if let Ok(tell) = driver.get::<DeviceText>(half.device_place.to_bytes_with_nul())
            && tell(place.as_mut_ptr().cast(), 256, device) != 0
        {
            place[0] = 0;
        }
        let mut integrated = 0;
        if let Ok(attribute) = driver.get::<Attribute>(half.attribute.to_bytes_with_nul())
            && attribute(&raw mut integrated, half.integrated, device) == 0
        {
            class = Some(match integrated {
                0 => DeviceClass::Discrete,
                _ => DeviceClass::Unified,
            });
        }
    }
    let text = |buffer: &[u8]| {
        let text = CStr::from_bytes_until_nul(buffer).unwrap_or_default();
        text.to_string_lossy().into_owned()
    };
    let (name, pci) = (text(&name), text(&place));
    (!name.is_empty()).then_some(DriverFacts { name, pci, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_used_is_an_error_of_one_line() {
        // No machine has so many, and without its GPU half libtorch has none at all.
        let reason = Runtime::gpu(&GPU_HALVES[0], 100).unwrap_err();
        assert!(reason.starts_with("cuda:100 could not be used: "));
        assert_eq!(reason.lines().count(), 1);
    }

    #[test]
    fn automatic_goes_on_with_the_cpu_and_says_why_the_gpu_could_not_be_used() {
        let half = &GPU_HALVES[0];
        let full = |_: &GpuHalf, index| Err(format!("cuda:{index} could not be used: it is full"));
        let runtime = Runtime::settle(DeviceChoice::Auto, Ok((half, 1)), full).unwrap();
        assert_eq!(runtime.device, Device::Cpu);
        let why = ", because cuda:0 could not be used: it is full";
        assert!(runtime.line.ends_with(why), "{}", runtime.line);

        let wanted = DeviceChoice::Cuda(1);
        let refusal = Runtime::settle(wanted, Ok((half, 2)), full).unwrap_err();
        assert_eq!(refusal.found, "cuda:1 could not be used: it is full");
    }
}
