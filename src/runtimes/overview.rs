//! This machine's GPUs, the libtorch folders that are here, and what to do so that jobs run on the GPU.
//!
//! For the command line and the window alike. Asks drivers, so it may take a moment: not for a thread that draws.

use safelight_core::job::DeviceChoice;
use safelight_core::settings::{Paths, Runtime, Settings};

use super::fit::{Fit, Refusal, of_machine, refusal};
use super::here::{self, Found, Surroundings};
use super::machine::{Gpu, Machine};
use super::notes::Notes;
use super::table::{self, Build, Kind, TableError};
use super::{broken, files};
use crate::telemetry::{Roots, nvidia};
use crate::worker::engine_for;

#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub machine: Machine,
    pub here: Vec<RuntimeRow>,
    /// Builds that are not here and would work on this machine.
    pub offers: Vec<Build>,
    pub advice: Advice,
    /// Why the user's own table is left out.
    pub table_error: Option<TableError>,
}

/// One that is here, with what it takes a look into its files to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeRow {
    pub found: Found,
    pub kind: Kind,
    pub version: Option<String>,
    /// The chips that it has code for, as far as it tells.
    pub targets: Vec<String>,
    pub bytes: u64,
    /// The engine's words on the device, when it was last tried.
    pub device: Option<String>,
    /// Sentences on known problems.
    pub concerns: Vec<String>,
    /// Files are missing with which it was installed.
    pub is_incomplete: bool,
    /// Build from which it was installed, if it is still available.
    pub build: Option<Build>,
}

/// Recommended action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: there is no GPU.
    #[default]
    NoGpu,
    /// Nothing: the settings choose the CPU.
    CpuChosen,
    /// Nothing: the libtorch in use is for this GPU.
    Served { gpu: Gpu },
    /// One that is here would serve the GPU.
    Use { gpu: Gpu, id: String },
    /// This one would.
    Get { gpu: Gpu, build: Build },
    /// A problem must be fixed first.
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
        let offers = offers(&machine, &here, &builds);
        let notes = Notes::of(paths);
        let gfx: Vec<String> = machine
            .gpus
            .iter()
            .filter_map(|gpu| gpu.target.clone())
            .collect();
        let row = |found: Found| {
            let own = found.is_own.then(|| here::folder(paths).join(&found.id));
            let missing = own.as_deref().map(files::missing).unwrap_or_default();
            let known = builds.iter().find(|build| build.id == found.id);
            let concerns = concerns(&found.runtime, &gfx);
            RuntimeRow {
                kind: Kind::of(&found.runtime),
                version: found.runtime.version(),
                targets: found.targets(),
                bytes: found.bytes(),
                device: notes.device(&found.runtime).map(str::to_owned),
                concerns: broken(&missing).into_iter().chain(concerns).collect(),
                is_incomplete: !missing.is_empty(),
                build: known.filter(|_| found.is_own).cloned(),
                found,
            }
        };
        Self {
            here: here.into_iter().map(row).collect(),
            machine,
            offers,
            advice,
            table_error,
        }
    }

    /// The one that jobs used before the one in use.
    pub fn previous(&self) -> Option<&RuntimeRow> {
        self.here.iter().find(|row| row.found.is_previous())
    }

    /// Returns whether this machine has a GPU of the vendor of a build.
    pub fn has_gpu_for(&self, kind: Kind) -> bool {
        self.machine.gpus.iter().any(|gpu| gpu.kind == kind)
    }
}

/// Builds to offer: for an installed GPU, and for the CPU if no runtime for it is installed.
pub(super) fn offers(machine: &Machine, here: &[Found], builds: &[Build]) -> Vec<Build> {
    let is_wanted = |build: &&Build| {
        let is_here = here.iter().any(|it| it.id == build.id);
        let serves = match build.kind {
            Kind::Cpu => here.iter().all(|it| it.runtime.kind() != Kind::Cpu.name()),
            kind => machine.gpus.iter().any(|gpu| gpu.kind == kind),
        };
        serves && !is_here && refusal(build, machine).is_none()
    };
    builds.iter().filter(is_wanted).cloned().collect()
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
    let mut serving = here.iter().filter(|it| serves(it, &gpu, machine));
    match serving.next() {
        Some(found) if found.is_used => Advice::Served { gpu },
        Some(found) => Advice::Use {
            gpu,
            id: found.id.clone(),
        },
        None => Advice::Get { gpu, build },
    }
}

/// Sentences on known problems of a runtime, including a missing engine.
fn concerns(runtime: &Runtime, gfx: &[String]) -> Vec<String> {
    let known = runtime.concerns(gfx).into_iter().map(|it| it.what);
    let known: Vec<String> = known.collect();
    match engine_for(runtime) {
        Err(err) if known.is_empty() => vec![err.summary],
        _ => known,
    }
}

/// Returns whether a libtorch supports the GPU's vendor, has an engine here, and contains code for the chip as far as
/// it
/// states.
fn serves(found: &Found, gpu: &Gpu, machine: &Machine) -> bool {
    let chips: Vec<String> = gpu.target.iter().cloned().collect();
    let targets = found.targets();
    found.runtime.kind() == gpu.kind.name()
        && machine.has(found.runtime.engine())
        && found.runtime.concerns(&chips).is_empty()
        && (targets.is_empty() || chips.iter().all(|chip| targets.contains(chip)))
}
