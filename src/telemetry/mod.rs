//! Telemetry of this machine from drivers and the kernel: GPUs, memory, sensors, free space.
//!
//! Read-only, and starts no process. The engine reports its memory itself; this module reads the rest of the machine.
//! Every source may be missing, wrong or gone a moment later, and is then ignored.

pub mod budget;
pub mod device;
#[cfg(test)]
#[path = "../core/machine/fake_tree.rs"]
pub(crate) mod fake_tree;
pub mod gpu_access;
pub mod host;
pub mod host_pools;
pub mod monitor;
pub mod nvidia;
pub mod record;
pub mod sampler;
pub mod time_limit;

pub use device::{DeviceQuery, TelemetryDevice, device, device_class, device_facts};
pub use safelight_core::machine::{SystemRoots, amdgpu};
