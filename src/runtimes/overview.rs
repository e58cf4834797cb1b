//! This machine's GPUs, the libtorch folders that are here, and what to do so that jobs run on the GPU.
//!
//! For the command line and the window alike. Asks drivers, so it may take a moment: not for a thread that draws.

use safelight_core::job::DeviceChoice;
use safelight_core::settings::{Paths, Settings};

use super::fit::{Fit, Refusal, of_machine};
use super::here::{self, Found, Surroundings};
use super::machine::{Gpu, Machine};
use super::table::{self, Build, TableError};
use crate::telemetry::{Roots, nvidia};

#[derive(Clone, Debug)]
pub struct Overview {
    pub machine: Machine,
    pub here: Vec<Found>,
    pub advice: Advice,
    /// Why the user's own table is left out.
    pub table_error: Option<TableError>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: there is no GPU.
    NoGpu,
    /// Nothing: the settings choose the CPU.
    CpuChosen,
    /// Nothing: the libtorch in use is for this GPU.
    Served { gpu: Gpu },
    /// One that is here would serve the GPU.
    Use { gpu: Gpu, id: String },
    /// This one would.
    Get { gpu: Gpu, build: Build },
    /// Something has to be mended first.
    Mend { gpu: Gpu, refusal: Refusal },
}

impl Overview {
    pub fn of_this_user(paths: &Paths, settings: &Settings) -> Self {
        let machine = Machine::find(&Roots::of_this_machine(), &nvidia::report());
        let here = here::all(paths, settings, &Surroundings::of_this_user());
        let (builds, table_error) = table::builds(&paths.config);
        let advice = match settings.runtime.device {
            DeviceChoice::Cpu => Advice::CpuChosen,
            _ => advice(&machine, &here, &builds),
        };
        Self {
            machine,
            here,
            advice,
            table_error,
        }
    }
}

impl Advice {
    /// The GPU that jobs could run on and do not.
    pub fn idle_gpu(&self) -> Option<&Gpu> {
        match self {
            Self::NoGpu | Self::CpuChosen | Self::Served { .. } => None,
            Self::Use { gpu, .. } | Self::Get { gpu, .. } | Self::Mend { gpu, .. } => Some(gpu),
        }
    }
}

pub(super) fn advice(machine: &Machine, here: &[Found], builds: &[Build]) -> Advice {
    let Some((gpu, fit)) = of_machine(machine, builds) else {
        return Advice::NoGpu;
    };
    let gpu = gpu.clone();
    // Whatever is here: with no access to the GPU, or a kernel that hangs, it is of no use.
    let build = match fit {
        Fit::Refused(refusal) => return Advice::Mend { gpu, refusal },
        Fit::Build(build) => build.clone(),
    };
    let mut serving = here.iter().filter(|it| serves(it, &gpu));
    match serving.next() {
        Some(found) if found.is_used => Advice::Served { gpu },
        Some(found) => Advice::Use {
            gpu,
            id: found.id.clone(),
        },
        None => Advice::Get { gpu, build },
    }
}

/// Whether a libtorch is for the GPU's maker, of the engine's version, and has code for the chip as far as it tells.
fn serves(found: &Found, gpu: &Gpu) -> bool {
    let chips: Vec<String> = gpu.target.iter().cloned().collect();
    let targets = found.targets();
    found.runtime.kind() == gpu.kind.name()
        && found.runtime.concerns(&chips).is_empty()
        && (targets.is_empty() || chips.iter().all(|chip| targets.contains(chip)))
}
