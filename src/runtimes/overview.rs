//! This machine's GPUs, the libtorch folders that are here, and what to do so that jobs run on the GPU.
//!
//! For the command line and the window alike. Asks drivers, so it may take a moment: not for a thread that draws.

use safelight_core::job::DeviceChoice;
use safelight_core::settings::{AppPaths, LibtorchRuntime, Settings};

use super::installed::{self, InstalledRuntime, RuntimeSearch};
use super::machine::{MachineGpu, MachineGpus};
use super::notes::RuntimeNotes;
use super::requirements::{BuildFit, RuntimeRefusal, of_machine, refusal};
use super::table::{self, RuntimeBuild, RuntimeKind, TableError};
use super::{broken, files};
use crate::telemetry::{SystemRoots, nvidia};
use crate::worker::engine_for;

#[derive(Clone, Debug, Default)]
pub struct RuntimeOverview {
    pub machine: MachineGpus,
    pub here: Vec<RuntimeRow>,
    /// Builds that are not here and would work on this machine.
    pub offers: Vec<RuntimeBuild>,
    pub advice: RuntimeAdvice,
    /// Why the user's own table is left out.
    pub table_error: Option<TableError>,
}

/// One that is here, with what it takes a look into its files to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeRow {
    pub found: InstalledRuntime,
    pub kind: RuntimeKind,
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
    pub build: Option<RuntimeBuild>,
}

/// Recommended action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuntimeAdvice {
    /// Nothing: there is no GPU.
    #[default]
    NoGpu,
    /// Nothing: the settings choose the CPU.
    CpuChosen,
    /// Nothing: the libtorch in use is for this GPU.
    Served { gpu: MachineGpu },
    /// One that is here would serve the GPU.
    Use { gpu: MachineGpu, id: String },
    /// This one would.
    Get {
        gpu: MachineGpu,
        build: RuntimeBuild,
    },
    /// A problem must be fixed first.
    Repair {
        gpu: MachineGpu,
        refusal: RuntimeRefusal,
    },
}

impl RuntimeOverview {
    pub fn of_this_user(paths: &AppPaths, settings: &Settings) -> Self {
        let machine = MachineGpus::find(&SystemRoots::of_this_machine(), &nvidia::report());
        let here = installed::all(paths, settings, &RuntimeSearch::of_this_user());
        let (builds, table_error) = table::builds(&paths.config);
        let advice = match settings.runtime.first_device() {
            DeviceChoice::Cpu => RuntimeAdvice::CpuChosen,
            _ => advice(&machine, &here, &builds),
        };
        let offers = offers(&machine, &here, &builds);
        let notes = RuntimeNotes::load(paths);
        let gfx: Vec<String> = machine
            .gpus
            .iter()
            .filter_map(|gpu| gpu.target.clone())
            .collect();
        let row = |found: InstalledRuntime| {
            let own = found
                .is_own
                .then(|| installed::folder(paths).join(&found.id));
            let missing = own.as_deref().map(files::missing).unwrap_or_default();
            let known = builds.iter().find(|build| build.id == found.id);
            let concerns = concerns(&found.runtime, &gfx);
            RuntimeRow {
                kind: RuntimeKind::from_runtime(&found.runtime),
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
    pub fn has_gpu_for(&self, kind: RuntimeKind) -> bool {
        self.machine.gpus.iter().any(|gpu| gpu.kind == kind)
    }
}

/// Builds to offer: for an installed GPU, and for the CPU if no runtime for it is installed.
pub(super) fn offers(
    machine: &MachineGpus,
    here: &[InstalledRuntime],
    builds: &[RuntimeBuild],
) -> Vec<RuntimeBuild> {
    let is_wanted = |build: &&RuntimeBuild| {
        let is_here = here.iter().any(|it| it.id == build.id);
        let serves = match build.kind {
            RuntimeKind::Cpu => here
                .iter()
                .all(|it| it.runtime.kind() != RuntimeKind::Cpu.name()),
            kind => machine.gpus.iter().any(|gpu| gpu.kind == kind),
        };
        serves && !is_here && refusal(build, machine).is_none()
    };
    builds.iter().filter(is_wanted).cloned().collect()
}

impl RuntimeAdvice {
    /// The GPU that jobs could run on and do not.
    pub fn idle_gpu(&self) -> Option<&MachineGpu> {
        match self {
            Self::NoGpu | Self::CpuChosen | Self::Served { .. } => None,
            Self::Use { gpu, .. } | Self::Get { gpu, .. } | Self::Repair { gpu, .. } => Some(gpu),
        }
    }
}

pub(super) fn advice(
    machine: &MachineGpus,
    here: &[InstalledRuntime],
    builds: &[RuntimeBuild],
) -> RuntimeAdvice {
    let Some((gpu, fit)) = of_machine(machine, builds) else {
        return RuntimeAdvice::NoGpu;
    };
    let gpu = gpu.clone();
    // Whatever is here: with no access to the GPU, or a kernel that hangs, it is of no use.
    let build = match fit {
        BuildFit::Refused(refusal) => return RuntimeAdvice::Repair { gpu, refusal },
        BuildFit::Build(build) => build.clone(),
    };
    let mut serving = here.iter().filter(|it| serves(it, &gpu, machine));
    match serving.next() {
        Some(found) if found.is_used => RuntimeAdvice::Served { gpu },
        Some(found) => RuntimeAdvice::Use {
            gpu,
            id: found.id.clone(),
        },
        None => RuntimeAdvice::Get { gpu, build },
    }
}

/// Sentences on known problems of a runtime, including a missing engine.
fn concerns(runtime: &LibtorchRuntime, gfx: &[String]) -> Vec<String> {
    let known = runtime.concerns(gfx).into_iter().map(|it| it.what);
    let known: Vec<String> = known.collect();
    match engine_for(runtime) {
        Err(err) if known.is_empty() => vec![err.summary],
        _ => known,
    }
}

/// Returns whether a libtorch supports the GPU's vendor, has an engine here, and contains code for the chip as far as
/// it states.
fn serves(found: &InstalledRuntime, gpu: &MachineGpu, machine: &MachineGpus) -> bool {
    let chips: Vec<String> = gpu.target.iter().cloned().collect();
    let targets = found.targets();
    found.runtime.kind() == gpu.kind.name()
        && machine.has(found.runtime.engine())
        && found.runtime.concerns(&chips).is_empty()
        && (targets.is_empty() || chips.iter().all(|chip| targets.contains(chip)))
}
