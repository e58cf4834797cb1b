//! Classification of error messages of allocators, libraries, drivers and dead engines: memory ran out, or the device
//! failed.
//!
//! The engine and the worker decide what follows.

use serde::{Deserialize, Serialize};

/// Failure after which an attempt with less memory may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceFault {
    /// Device memory ran out. The engine can continue.
    DeviceMemory,
    /// Host memory ran out. The engine can continue, if it is alive.
    HostMemory,
    /// AMD's runtime could not allocate (`HSA … BlockAllocator::alloc failed`): every later call in the process fails too.
    RuntimeMemory,
    /// Illegal address, failed launch, memory errors or a lost device: the process cannot use the device any more.
    Device,
}

/// libtorch's own frames follow this in its messages; they name functions, not what happened.
const FRAMES: &str = "exception raised from";

const RUNTIME_MEMORY: [&str; 3] = [
    "blockallocator::alloc",
    "hsa_status_error_out_of_resources",
    "memoryregion::alloc",
];

const HOST_MEMORY: [&str; 11] = [
    "defaultcpuallocator",
    "bad_alloc",
    "cannot allocate memory",
    "not enough memory",
    "memory allocation of", // Rust's own words, before it aborts.
    "cudahostalloc",
    "hiphostmalloc",
    "cachinghostallocator",
    "host_allocation_failed",
    "os error 12",
    "failed to mmap",
];

/// libtorch's advice under every CUDA error speaks of "device-side assertions", so that is no sign.
const DEVICE: [&str; 27] = [
    "illegal memory access",
    "illegaladdress",
    "illegal address",
    "misaligned address",
    "misalignedaddress",
    "illegal instruction was encountered",
    "unspecified launch failure",
    "launchfailure",
    "launch timed out",
    "launchtimeout",
    "device-side assert triggered",
    "uncorrectable ecc",
    "eccnotcorrectable",
    "eccuncorrectable",
    "device lost",
    "devicelost",
    "gpu is lost",
    "gpu hang",
    "hw exception by gpu",
    "memory access fault by gpu",
    "memory_aperture_violation",
    "fallen off the bus",
    "hsa_status_error_exception",
    "cuda error: unknown error",
    "hip error: unknown error",
    "cublas_status_execution_failed",
    "hipblas_status_execution_failed",
];

const DEVICE_MEMORY: [&str; 14] = [
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "errormemoryallocation",
    "can't allocate memory",
    "_alloc_failed",
    "statusallocfailed",
    "device_allocation_failed",
    "rocblas_status_memory_error",
    // Of libraries that have no room for their workspace.
    "cublas_status_not_initialized",
    "hipblas_status_not_initialized",
    "cudnn_status_not_initialized",
    "failed to allocate",
    "allocate workspace",
];

impl ResourceFault {
    /// Classifies a message; `None` if it is not about memory or the device.
    pub fn of(message: &str) -> Option<Self> {
        let text = message.to_lowercase();
        let text = text.split(FRAMES).next().unwrap_or_default();
        let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
        let signs: [(&[&str], Self); 4] = [
            (&RUNTIME_MEMORY, Self::RuntimeMemory),
            (&DEVICE, Self::Device),
            (&HOST_MEMORY, Self::HostMemory),
            (&DEVICE_MEMORY, Self::DeviceMemory),
        ];
        let found = signs.into_iter().find(|(signs, _)| says(signs));
        found.map(|(_, fault)| fault)
    }

    /// Classifies the last lines of a dead process, by the last one that has a class.
    pub fn of_last_words(words: &str) -> Option<Self> {
        let is_log = |line: &str| line.contains(" safelight_engine");
        let lines = words.lines().rev();
        // The engine survived what it logged.
        lines.filter(|line| !is_log(line)).find_map(Self::of)
    }

    /// Any kind of memory ran out.
    pub fn is_memory(self) -> bool {
        self != Self::Device
    }

    /// The engine's process must be replaced.
    pub fn ends_engine(self) -> bool {
        matches!(self, Self::RuntimeMemory | Self::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_messages_are_classified_as_device_host_or_runtime() {
        use ResourceFault::{DeviceMemory, HostMemory, RuntimeMemory};
        let device = [
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...",
            "HIP out of memory. Tried to allocate 20.00 MiB",
            "CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            "hipErrorOutOfMemory",
            "cudaErrorMemoryAllocation",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate`",
            "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
            "miopenStatusAllocFailed",
        ];
        let host = [
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
            "std::bad_alloc",
            "Cannot allocate memory (os error 12)",
            "memory allocation of 4294967296 bytes failed",
        ];
        let runtime = [
            "HSA exception: MemoryRegion::BlockAllocator::alloc failed",
            "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.",
        ];
        for (messages, expected) in [
            (&device[..], DeviceMemory),
            (&host, HostMemory),
            (&runtime, RuntimeMemory),
        ] {
            for message in messages {
                assert_eq!(ResourceFault::of(message), Some(expected), "{message}");
            }
        }
    }

    #[test]
    fn a_device_that_failed_is_not_one_that_is_full() {
        for message in [
            "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported",
            "HIP error: hipErrorIllegalAddress",
            "CUDA error: unspecified launch failure",
            "HIP error: hipErrorLaunchFailure",
            "CUDA error: uncorrectable ECC error encountered",
            "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. Reason: Page not present.",
            "HW Exception by GPU node-1 reason :GPU Hang",
            "CUDA error: device-side assert triggered",
        ] {
            let found = ResourceFault::of(message);
            assert_eq!(found, Some(ResourceFault::Device), "{message}");
        }
    }

    #[test]
    fn unrelated_errors_are_not_memory_faults_even_if_stack_frames_name_memory() {
        for message in [
            "The size of tensor a (3) must match the size of tensor b (4)",
            "mat1 and mat2 shapes cannot be multiplied\nException raised from OutOfMemory at x.cpp:1",
            "No space left on device (os error 28)",
            "",
        ] {
            assert_eq!(ResourceFault::of(message), None, "{message}");
        }
    }

    #[test]
    fn the_last_words_of_an_engine_are_read_from_their_end_and_without_its_log() {
        let words = "the engine process ended: signal 6\n\
            2026-01-01T00:00:00Z ERROR safelight_engine::serve: denoise: CUDA out of memory. Tried to allocate 1 GiB\n\
            terminate called after throwing an instance of 'c10::AcceleratorError'\n\
            \x20 what():  HIP error: an illegal memory access was encountered";
        let found = ResourceFault::of_last_words(words);
        assert_eq!(found, Some(ResourceFault::Device));
        let words = "the engine process ended: signal 9\n\
            2026-01-01T00:00:00Z ERROR safelight_engine::serve: denoise: CUDA out of memory. Tried to allocate 1 GiB";
        assert_eq!(ResourceFault::of_last_words(words), None);
    }
}
