//! NVIDIA GPUs through the driver's library, which is loaded at run time.
//!
//! A missing driver is reported and ignored. A call into a broken driver can hang, so it runs on a thread that may be
//! abandoned.

use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use safelight_core::settings::loader_complaint;

use super::time_limit::within;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvidiaCard {
    pub name: String,
    pub pci: String,
    /// Dedicated memory; `None` if it has none, as on Grace and Jetson.
    pub memory: Option<NvidiaMemory>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvidiaMemory {
    pub total_bytes: u64,
    pub used_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvidiaReport {
    pub driver: String,
    /// The newest CUDA that the driver can run, such as `13.0`.
    pub cuda: String,
    pub cards: Vec<NvidiaCard>,
}

/// A driver that has not answered by then is broken.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks the driver; the error is a sentence part that says why there is none to ask, or that it hangs.
pub fn report() -> Result<NvidiaReport, String> {
    let answer = within(LIMIT, "nvml", ask);
    answer.unwrap_or_else(|| Err("the driver does not answer".to_owned()))
}

fn ask() -> Result<NvidiaReport, String> {
    let nvml = Nvml::init().map_err(|err| loader_complaint(&err.to_string()))?;
    let count = nvml.device_count().map_err(|err| err.to_string())?;
    let cards = (0..count)
        .filter_map(|index| {
            // A card that fell off the bus must not hide the others.
            let device = nvml.device_by_index(index).ok()?;
            Some(NvidiaCard {
                name: device.name().ok()?,
                pci: device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
                memory: memory(&device).ok()?,
            })
        })
        .collect();
    let cuda = nvml.sys_cuda_driver_version().map_or_else(
        |_| "unknown".to_owned(),
        |version| format!("{}.{}", version / 1000, version % 1000 / 10),
    );
    Ok(NvidiaReport {
        driver: nvml
            .sys_driver_version()
            .unwrap_or_else(|_| "unknown".to_owned()),
        cuda,
        cards,
    })
}

/// `None` for a card without dedicated memory; the error is of a card that is gone.
fn memory(device: &Device<'_>) -> Result<Option<NvidiaMemory>, NvmlError> {
    match device.memory_info() {
        Ok(memory) => Ok(Some(NvidiaMemory {
            total_bytes: memory.total,
            used_bytes: memory.used,
        })),
        Err(NvmlError::NotSupported) => Ok(None),
        Err(err) => Err(err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NvidiaReport {
        /// One card of this name; `memory`: total and used bytes.
        pub(crate) fn of_card(name: &str, driver: &str, cuda: &str, memory: [u64; 2]) -> Self {
            let [total_bytes, used_bytes] = memory;
            let card = NvidiaCard {
                name: name.to_owned(),
                pci: "0000:01:00.0".to_owned(),
                memory: Some(NvidiaMemory {
                    total_bytes,
                    used_bytes,
                }),
            };
            Self {
                driver: driver.to_owned(),
                cuda: cuda.to_owned(),
                cards: vec![card],
            }
        }
    }
}
