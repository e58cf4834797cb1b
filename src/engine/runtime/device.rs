//! Selection of the device: loads the GPU half of libtorch if the chosen runtime has one, and says in one line which
//! device is used and why not another.
//!
//! Sets no environment: the parent process does.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use safelight_core::job::DeviceChoice;
use safelight_core::machine::{SystemRoots, amdgpu};
use safelight_core::memory::DeviceClass;
use safelight_core::settings::{loader_complaint, version_of};
use tch::Device;

use super::loaded::libtorch_folder;
use super::{LIBTORCH_VERSION, memory_counts};

/// The GPU halves, and what their vendors' drivers call the functions that describe a device.
pub(super) static GPU_HALVES: [GpuHalf; 2] = [
    GpuHalf {
        library: "libtorch_cuda.so",
        driver: Some("libcuda.so.1"),
        init: Some(c"cuInit"),
        device_get: c"cuDeviceGet",
        device_name: c"cuDeviceGetName",
        device_place: c"cuDeviceGetPCIBusId",
        attribute: c"cuDeviceGetAttribute",
        integrated: 18, // CU_DEVICE_ATTRIBUTE_INTEGRATED
    },
    GpuHalf {
        library: "libtorch_hip.so",
        driver: None,
        init: None,
        device_get: c"hipDeviceGet",
        device_name: c"hipDeviceGetName",
        device_place: c"hipDeviceGetPCIBusId",
        attribute: c"hipDeviceGetAttribute",
        integrated: 16, // hipDeviceAttributeIntegrated
    },
];

#[derive(Debug)]
pub(super) struct GpuHalf {
    library: &'static str,
    /// By the name of its interface; `None` where the half brings the driver along. One that is looked for by a name
    /// without a version may be another one than libtorch runs on.
    driver: Option<&'static str>,
    init: Option<&'static CStr>,
    device_get: &'static CStr,
    device_name: &'static CStr,
    device_place: &'static CStr,
    attribute: &'static CStr,
    /// The attribute that says whether a device has the host's memory.
    integrated: c_int,
}

impl GpuHalf {
    fn is_amds(&self) -> bool {
        self.library == "libtorch_hip.so"
    }
}

#[derive(Clone, Debug)]
pub struct DeviceRuntime {
    pub device: Device,
    pub device_name: String,
    /// The device's place on the bus, such as `0000:c4:00.0`; empty where there is none.
    pub pci: String,
    pub total_bytes: u64,
    /// `None` where the driver does not say.
    pub class: Option<DeviceClass>,
    /// One line on the device, and why it is not a GPU.
    pub line: String,
    /// Reason why the CPU is used although this libtorch is for a GPU and the CPU was not requested.
    pub gpu_problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoGpu {
    /// This libtorch is for the CPU.
    NoHalf,
    /// It is for a GPU, and this is wrong.
    Unusable(String),
}

impl fmt::Display for NoGpu {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHalf => out.write_str("this libtorch has no GPU part"),
            Self::Unusable(problem) => out.write_str(problem),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the device {wanted} is not available: {found}")]
pub struct RuntimeError {
    pub wanted: DeviceChoice,
    pub found: String,
}

impl DeviceRuntime {
    pub fn open(wanted: DeviceChoice) -> Result<Self, RuntimeError> {
        if wanted == DeviceChoice::Cpu {
            return Ok(Self::cpu("as asked"));
        }
        let gpus = gpu_half().and_then(|(half, _)| {
            let count = num_gpus(half).map_err(NoGpu::Unusable)?;
            Ok((half, count))
        });
        Self::settle(wanted, gpus, Self::gpu)
    }

    /// Chooses among the GPUs that were counted; `open` makes one ready.
    fn settle(
        wanted: DeviceChoice,
        gpus: Result<(&GpuHalf, usize), NoGpu>,
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
            (_, Ok((half, _))) => Ok(open(half, 0).unwrap_or_else(Self::instead)),
            (_, Err(NoGpu::Unusable(problem))) => Ok(Self::instead(problem)),
            (_, Err(NoGpu::NoHalf)) => Ok(Self::cpu("which is built for the CPU")),
        }
    }

    /// The CPU in the place of a GPU that has this problem.
    fn instead(problem: String) -> Self {
        let cpu = Self::cpu(&format!("because {problem}"));
        Self {
            gpu_problem: Some(problem),
            ..cpu
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
                "CPU, {threads} thread{}, {}, {why}",
                if threads == 1 { "" } else { "s" },
                libtorch_words()
            ),
            gpu_problem: None,
        }
    }

    fn gpu(half: &GpuHalf, index: usize) -> Result<Self, String> {
        let device = Device::Cuda(index);
        // The first tensor makes the device's context; before it the allocator has no counts. On a GPU that is full or
        // that another program has for itself, it is also what fails.
        let first = tch::Tensor::f_zeros([1], (tch::Kind::Float, device));
        drop(first.map_err(|err| {
            let text = match err {
                tch::TchError::Torch(text) => text,
                err => err.to_string(),
            };
            let line = text.lines().next().unwrap_or_default();
            format!("cuda:{index} could not be used: {line}")
        })?);
        let library = gpu_half().ok().map(|(_, library)| library);
        let reported = library.and_then(|library| driver_facts(half, library, index));
        let DriverFacts { name, pci, class } =
            facts(half, reported, &SystemRoots::of_this_machine().sysfs);
        OPENED.set((index, class)).ok(); // A process opens one device.
        let total_bytes = memory_counts(device).total;
        Ok(Self {
            device,
            line: format!(
                "{name} (cuda:{index}), {:.1} GiB, {}",
                total_bytes as f64 / (1_u64 << 30) as f64,
                libtorch_words()
            ),
            device_name: name,
            pci,
            total_bytes,
            class,
            gpu_problem: None,
        })
    }
}

/// The version of the libtorch that this process runs on, such as `2.11.0+cu130`.
pub fn libtorch_version() -> String {
    let reported = libtorch_folder().and_then(|folder| version_of(&folder));
    reported.unwrap_or_else(|| LIBTORCH_VERSION.to_owned())
}

fn libtorch_words() -> String {
    let found = libtorch_version();
    if found.split('+').next() == Some(LIBTORCH_VERSION) {
        format!("libtorch {found}")
    } else {
        format!("libtorch {found} instead of {LIBTORCH_VERSION}")
    }
}

/// The GPU that this process opened, and its class.
static OPENED: OnceLock<(usize, Option<DeviceClass>)> = OnceLock::new();

/// Relation of a device's memory to the host's; a GPU that does not report it counts as discrete.
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
static LOADED: OnceLock<Result<(&'static GpuHalf, Library), NoGpu>> = OnceLock::new();

fn gpu_half() -> Result<(&'static GpuHalf, &'static Library), NoGpu> {
    let found = LOADED.get_or_init(|| {
        let folder = libtorch_folder().ok_or(NoGpu::NoHalf)?;
        load_gpu_half(&folder)
    });
    match found {
        Ok((half, library)) => Ok((half, library)),
        Err(reason) => Err(reason.clone()),
    }
}

/// GPU half next to the libtorch in a folder.
pub(super) fn load_gpu_half(folder: &Path) -> Result<(&'static GpuHalf, Library), NoGpu> {
    let half = GPU_HALVES
        .iter()
        .find(|half| folder.join(half.library).exists())
        .ok_or(NoGpu::NoHalf)?;
    // By its full name, so that a stray libtorch elsewhere on the library path is not mixed in.
    let path = folder.join(half.library);
    #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: it is the other half of the libtorch that is loaded already; registering its kernels is all that its
    // initialisers do.
    let loaded = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    match loaded {
        Ok(library) => Ok((half, library)),
        Err(err) => {
            // The loader's message is in the error's source.
            let words = err
                .source()
                .map_or_else(|| err.to_string(), ToString::to_string);
            let (library, why) = (half.library, loader_complaint(&words));
            Err(NoGpu::Unusable(format!(
                "{library} could not be loaded: {why}"
            )))
        }
    }
}

/// Returns true if the GPU library is ROCm, which presents its devices as CUDA devices.
pub(crate) fn is_rocm() -> bool {
    let loaded = LOADED.get().and_then(|loaded| loaded.as_ref().ok());
    loaded.is_some_and(|(half, _)| half.is_amds())
}

fn num_gpus(half: &GpuHalf) -> Result<usize, String> {
    match usize::try_from(tch::Cuda::device_count()) {
        Ok(count) if count > 0 && tch::Cuda::is_available() => Ok(count),
        _ => Err(format!("{} found no GPU that it can use", half.library)),
    }
}

type InitFn = unsafe extern "C" fn(c_int) -> c_int;
type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type DeviceText = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type DeviceAttributeFn = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DriverFacts {
    pub(super) name: String,
    /// Its place on the bus; empty where the driver does not say.
    pub(super) pci: String,
    pub(super) class: Option<DeviceClass>,
}

/// Facts of the opened device: from its driver, completed from the kernel's tables.
pub(super) fn facts(half: &GpuHalf, reported: Option<DriverFacts>, sysfs: &Path) -> DriverFacts {
    let mut facts = reported.unwrap_or_default();
    if half.is_amds()
        && (facts.name.is_empty() || facts.class.is_none())
        && let Some(card) = amdgpu::card_of(sysfs, &facts.pci)
    {
        facts.class = facts.class.or(Some(card.class));
        if facts.name.is_empty() {
            facts.name = card.name();
            facts.pci = card.pci;
        }
    }
    if facts.name.is_empty() {
        "GPU".clone_into(&mut facts.name);
    }
    facts
}

/// The two drivers' functions have one signature each. `library`: the loaded half itself.
pub(super) fn driver_facts(half: &GpuHalf, library: &Library, index: usize) -> Option<DriverFacts> {
    let index = c_int::try_from(index).ok()?;
    let [mut name, mut place] = [[0_u8; 256]; 2];
    let mut class = None;
    #[expect(
        unsafe_code,
        reason = "calls into the driver, whose functions have no other binding"
    )]
    // SAFETY: the signatures are those of the drivers' stable C interfaces; the buffer's length is passed on.
    unsafe {
        let opened = match half.driver {
            Some(name) => Some(Library::open(Some(name), RTLD_NOW).ok()?),
            None => None,
        };
        // The half's own handle also finds what it needs in turn: the runtime that libtorch computes with, and no other.
        let driver = opened.as_ref().unwrap_or(library);
        if let Some(init) = half.init {
            driver
                .get::<InitFn>(init.to_bytes_with_nul())
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
        if let Ok(attribute) = driver.get::<DeviceAttributeFn>(half.attribute.to_bytes_with_nul())
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
        let reason = DeviceRuntime::gpu(&GPU_HALVES[0], 100).unwrap_err();
        assert!(reason.starts_with("cuda:100 could not be used: "));
        assert_eq!(reason.lines().count(), 1);
    }

    #[test]
    fn auto_device_falls_back_to_cpu_and_names_the_gpu_problem() {
        let half = &GPU_HALVES[0];
        let full = |_: &GpuHalf, index| Err(format!("cuda:{index} could not be used: it is full"));
        let runtime = DeviceRuntime::settle(DeviceChoice::Auto, Ok((half, 1)), full).unwrap();
        assert_eq!(runtime.device, Device::Cpu);
        let problem = "cuda:0 could not be used: it is full";
        assert_eq!(runtime.gpu_problem.as_deref(), Some(problem));
        let why = ", because cuda:0 could not be used: it is full";
        assert!(runtime.line.ends_with(why), "{}", runtime.line);

        let wanted = DeviceChoice::Cuda(1);
        let refusal = DeviceRuntime::settle(wanted, Ok((half, 2)), full).unwrap_err();
        assert_eq!(refusal.found, "cuda:1 could not be used: it is full");
    }
}
