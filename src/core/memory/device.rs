//! What a device has, as plain numbers.
//!
//! Asks no driver: whoever does fills [`DeviceFacts`].

use serde::{Deserialize, Serialize};

use super::DeviceClass;

/// The memory of one device at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    pub class: DeviceClass,
    /// Of a discrete card its own memory; elsewhere the one pool, counted once.
    pub total_bytes: u64,
    /// What other programs have of it, without the engine.
    pub used_bytes: u64,
    /// What the host could still give to programs, caches that it would give up included.
    pub host_available_bytes: u64,
}
