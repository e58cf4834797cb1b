//! Arguments on memory, shared with `plan`.
//!
//! They override the settings; the plan interprets them.

use clap::Args;
use safelight_core::memory::MemoryOptions;
use safelight_core::settings::{ComputerSettings, MemorySettings};

/// Memory of the device that a job may use.
#[derive(Args, Clone, Debug, Default)]
pub struct MemoryArgs {
    /// Device memory kept free for activations; more is safer and slower [default: the setting, else computed]
    #[arg(long, value_name = "GIB", value_parser = gib_value)]
    preserved: Option<f64>,
    /// Device memory to use at most [default: the setting, else by the kind of device]
    #[arg(long, value_name = "GIB", value_parser = gib_value)]
    vram_cap: Option<f64>,
    /// Keep models loaded between stages where they fit together
    #[arg(long)]
    keep_loaded: bool,
    /// GPUs that share the steps of the job, from the chosen one on; 0 for all [default: the setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    devices: Option<u32>,
    /// Other computers whose GPUs share the steps too, as many of each, by the names that ssh knows
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',', value_parser = host_value)]
    pub hosts: Vec<String>,
}

impl MemoryArgs {
    /// Returns whether all GPUs share the steps.
    pub fn shares_automatically(&self, settings: &MemorySettings) -> bool {
        self.devices.unwrap_or(settings.devices) == 0
    }

    /// These options, with the settings where none are given.
    pub fn choice(&self, settings: &MemorySettings) -> MemoryOptions {
        MemorySettings {
            preserved_gib: self.preserved.or(settings.preserved_gib),
            cap_gib: self.vram_cap.or(settings.cap_gib),
            keep_loaded: self.keep_loaded || settings.keep_loaded,
            devices: self.devices.unwrap_or(settings.devices),
            ..*settings
        }
        .choice()
    }
}

fn host_value(text: &str) -> Result<String, String> {
    let host = text.to_owned();
    ComputerSettings::host_problem(text).map_or(Ok(host), Err)
}

/// A number of GiB.
pub fn gib_value(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gib) if gib.is_finite() && (0.0..=65536.0).contains(&gib) => Ok(gib),
        _ => Err(format!("{text:?} is not a number of GiB from 0 up")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_in_place_of_the_settings() {
        let settings = MemorySettings {
            preserved_gib: Some(4.0),
            cap_gib: Some(20.0),
            ..MemorySettings::default()
        };
        let args = MemoryArgs {
            preserved: Some(0.5),
            ..MemoryArgs::default()
        };
        let choice = args.choice(&settings);
        assert_eq!(choice.preserved_bytes, Some(1 << 29));
        assert_eq!(choice.cap_bytes, Some(20 << 30));
        assert!(gib_value("-1").is_err() && gib_value("nan").is_err() && gib_value("0").is_ok());
    }
}
