//! User, machine and programs of an examination.

use std::collections::BTreeMap;
use std::path::Path;

use safelight_core::job::JobError;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{AppPaths, LibtorchRuntime, LoadedSettings, RuntimeMissing};
use safelight_core::speed::SpeedLine;

use crate::child::ChildExit;
use crate::telemetry::SystemRoots;
use crate::telemetry::host;
use crate::telemetry::nvidia::{self, NvidiaReport};
use crate::worker::environment;

/// Everything that the checks look at, gathered first so that tests can say what is there.
#[derive(Debug)]
pub struct DoctorInputs {
    pub roots: SystemRoots,
    /// The environment that the engine would inherit.
    pub variables: BTreeMap<String, String>,
    /// Report of NVIDIA's driver, or the reason why there is none.
    pub nvidia: Result<NvidiaReport, String>,
    /// Bytes that can still be written under a folder.
    pub free_bytes: fn(&Path) -> Option<u64>,
}

impl DoctorInputs {
    pub fn of_this_user() -> Self {
        Self {
            roots: SystemRoots::of_this_machine(),
            variables: environment::inherited(),
            nvidia: nvidia::report(),
            free_bytes: host::free_bytes,
        }
    }
}

/// Programs started for the examination.
pub trait DoctorProbes {
    /// Starts an engine, hears its first message and ends it.
    fn engine(&mut self) -> Result<EngineReport, JobError>;
    /// Lets an engine measure how fast it is, and tells each line of it.
    fn speed(&mut self, tell: &mut dyn FnMut(SpeedLine)) -> Result<ChildExit, JobError>;
}

/// User and machine under examination.
pub struct DoctorTarget {
    pub paths: AppPaths,
    pub loaded: LoadedSettings,
    pub machine: DoctorInputs,
    pub runtime: Result<LibtorchRuntime, RuntimeMissing>,
    /// The GPU and the disk are measured too, which takes some seconds.
    pub is_measured: bool,
}
