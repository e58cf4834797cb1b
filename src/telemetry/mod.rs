//! What the drivers and the kernel say about this machine: GPUs, memory, sensors, free space.
//!
//! Reads only, and starts no process. The engine's own memory comes from the engine; what is read here is
//! what the rest of the machine knows. Every source may be absent, wrong or gone a moment later, and then says
//! nothing.

pub mod budget;
pub mod device;
#[cfg(test)]
#[path = "../core/machine/fake_tree.rs"]
pub(crate) mod fake_tree;
pub mod host;
pub mod limit;
pub mod monitor;
pub mod nvidia;
pub mod record;
pub mod room;
pub mod sampler;

pub use device::{Device, DeviceQuery, device, device_class, device_facts};
pub use safelight_core::machine::{Roots, amdgpu};
