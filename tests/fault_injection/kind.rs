//! What a fault does when it strikes: the deaths of a process, and the words of allocators and drivers.
//!
//! The words are those of libtorch 2.11 and of AMD's runtime, as far as they decide anything.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use crate::process::kill_this_process;

const OOM: &str = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which \
    512.00 MiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory \
    22.00 GiB is allocated by PyTorch, and 27.55 MiB is reserved by PyTorch but unallocated. (a fault on demand)";
/// As seen on machines whose GPU shares their memory.
const PRESSURE: &str = "HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 107.87 GiB of \
    which 52.30 GiB is free. Of the allocated memory 48.27 GiB is allocated by PyTorch, and 27.55 MiB is reserved by \
    PyTorch but unallocated. (a fault on demand)";
const CODE_2: &str = "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API \
    call, so the stacktrace below might be incorrect.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side \
    assertions.\n(a fault on demand)";
const HSA: &str = "HSA exception: MemoryRegion::BlockAllocator::alloc failed (a fault on demand)";
const ILLEGAL: &str = "HIP error: an illegal memory access was encountered (a fault on demand)";
const LOST: &str = "CUDA error: the GPU is lost (a fault on demand)";

/// A device that failed once fails for as long as the process lives.
static IS_POISONED: AtomicBool = AtomicBool::new(false);

/// What happens to every later use of a device that failed.
pub(super) fn fail_if_poisoned() {
    assert!(!IS_POISONED.load(Ordering::Relaxed), "{ILLEGAL}");
}

/// Kinds that are not known do nothing, so that a test that misspells one fails.
pub(super) fn strike(kind: &str) {
    tracing::warn!("a fault on demand: {kind}");
    match kind {
        "abort" => std::process::abort(),
        "kill" => kill_this_process(),
        "hang" => thread::sleep(Duration::from_hours(1)),
        "panic" => panic!("a panic on demand"),
        "oom" => panic!("{OOM}"),
        "oom_pressure" => panic!("{PRESSURE}"),
        "oom_code2" => panic!("{CODE_2}"),
        // A petabyte, which libtorch's own allocator refuses in its own words.
        "host_oom" => drop(Tensor::zeros([1 << 50], (Kind::Uint8, Device::Cpu))),
        "hsa" => poisoned(HSA),
        "illegal" => poisoned(ILLEGAL),
        "lost" => poisoned(LOST),
        "hsa_abort" => abort_with(HSA),
        "illegal_abort" => abort_with(ILLEGAL),
        _ => {}
    }
}

fn poisoned(words: &str) {
    IS_POISONED.store(true, Ordering::Relaxed);
    panic!("{words}");
}

/// As a C++ exception that nobody catches.
fn abort_with(words: &str) {
    // The process ends either way.
    writeln!(std::io::stderr(), "terminate called\n  what():  {words}").ok();
    std::process::abort();
}
