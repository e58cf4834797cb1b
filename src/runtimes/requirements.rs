//! Choice of the libtorch build that fits this machine best, and the problems that prevent it, before any download.
//!
//! Pure functions on data.

use safelight_core::settings::{EngineBuild, InstallationKind, libtorch_versions};
use serde::Serialize;

use super::machine::{MachineGpu, MachineGpus};
use super::table::{RuntimeBuild, RuntimeKind};
use crate::telemetry::host::kernel_version;

/// Problem that must be fixed first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimeRefusal {
    /// One sentence, no full stop.
    pub what: String,
    /// Solution.
    pub advice: String,
    /// Shell command that fixes it; may be empty.
    pub command: String,
}

/// Builds for a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildFit<'a> {
    /// The first build of the table that works on it.
    Build(&'a RuntimeBuild),
    Refused(RuntimeRefusal),
}

/// Builds for the GPU that jobs would get; `None` without a GPU.
pub fn of_machine<'a>(
    machine: &'a MachineGpus,
    builds: &'a [RuntimeBuild],
) -> Option<(&'a MachineGpu, BuildFit<'a>)> {
    let fits: Vec<(&MachineGpu, BuildFit<'_>)> = machine
        .gpus
        .iter()
        .filter(|gpu| !gpu.is_display_only)
        .map(|gpu| (gpu, of_gpu(gpu, machine, builds)))
        .collect();
    let works = |(_, fit): &&(&MachineGpu, BuildFit<'_>)| matches!(fit, BuildFit::Build(_));
    // A working card before one that needs a fix; those are sorted by strength.
    let best = fits.iter().find(works).or_else(|| fits.first());
    best.cloned()
}

/// Builds for the GPU at this PCI address; `None` without one.
pub fn of_place<'a>(
    pci: &str,
    machine: &MachineGpus,
    builds: &'a [RuntimeBuild],
) -> Option<BuildFit<'a>> {
    let gpu = machine.gpus.iter().find(|gpu| gpu.pci == pci)?;
    Some(of_gpu(gpu, machine, builds))
}

fn of_gpu<'a>(gpu: &MachineGpu, machine: &MachineGpus, builds: &'a [RuntimeBuild]) -> BuildFit<'a> {
    let serves = |build: &&RuntimeBuild| {
        build.kind == gpu.kind
            && machine.has(build.engine())
            && (build.kind != RuntimeKind::Rocm
                || gpu
                    .target
                    .as_ref()
                    .is_some_and(|it| build.targets.contains(it)))
    };
    if let Some(refusal) = unusable(gpu, machine) {
        return BuildFit::Refused(refusal);
    }
    let mut refused = None;
    for build in builds.iter().filter(serves) {
        match lacks(build, gpu, machine) {
            None => return BuildFit::Build(build),
            Some(refusal) => {
                refused.get_or_insert(refusal);
                // Another build for the same chip and kernel would hang as this one does.
                if build.kernel.is_some() {
                    break;
                }
            }
        }
    }
    BuildFit::Refused(refused.unwrap_or_else(|| RuntimeRefusal {
        what: format!(
            "no libtorch {} is known that has code for {}",
            machine.engines.join(" or "),
            gpu.name
        ),
        advice: "Add a build that has to runtimes.toml in the folder of settings.toml".to_owned(),
        command: String::new(),
    }))
}

/// Problem that prevents a named build from working on any of its GPUs; `None` without a problem.
pub fn refusal(build: &RuntimeBuild, machine: &MachineGpus) -> Option<RuntimeRefusal> {
    if !machine.has(build.engine()) {
        return Some(without_engine(build));
    }
    let mut first = None;
    for gpu in machine.gpus.iter().filter(|gpu| gpu.kind == build.kind) {
        let refused = unusable(gpu, machine)
            .or_else(|| lacks(build, gpu, machine))
            .or_else(|| has_no_code(build, gpu));
        first.get_or_insert(refused?);
    }
    first
}

fn without_engine(build: &RuntimeBuild) -> RuntimeRefusal {
    let RuntimeBuild { name, version, .. } = build;
    let (what, advice) = match build.engine() {
        Some(EngineBuild {
            libtorch,
            executable,
        }) => (
            format!(
                "{name} needs the engine for libtorch {libtorch} ({executable}), which is not installed"
            ),
            InstallationKind::of_this_program().second_engine_advice(),
        ),
        None => (
            format!(
                "{name} is libtorch {version}, and Safelight has engines for {} alone",
                libtorch_versions("and")
            ),
            "Name a build of one of these",
        ),
    };
    RuntimeRefusal {
        what,
        advice: advice.to_owned(),
        command: String::new(),
    }
}

fn has_no_code(build: &RuntimeBuild, gpu: &MachineGpu) -> Option<RuntimeRefusal> {
    let target = gpu.target.as_ref()?;
    let has = build.targets.is_empty() || build.targets.contains(target);
    (!has).then(|| RuntimeRefusal {
        what: format!("{} has no code for {}", build.name, gpu.name),
        advice: format!("It is for {}", build.targets.join(", ")),
        command: String::new(),
    })
}

/// Problem that prevents every build on this GPU.
fn unusable(gpu: &MachineGpu, machine: &MachineGpus) -> Option<RuntimeRefusal> {
    match (gpu.kind, &machine.nvidia_driver) {
        (RuntimeKind::Rocm, _) if gpu.target.is_none() => Some(RuntimeRefusal {
            what: format!("the kernel's compute driver does not list {} ({})", gpu.name, gpu.pci),
            advice: "Look at what the driver says of it: ROCm cannot use a card that is not under /sys/class/kfd"
                .to_owned(),
            command: "sudo dmesg | grep -iE 'kfd|amdgpu'".to_owned(),
        }),
        (RuntimeKind::Rocm, _) => {
            let (what, command) = machine.no_access.clone()?;
            Some(RuntimeRefusal {
                what,
                advice: "ROCm needs access to the GPU: give it, then log in again".to_owned(),
                command,
            })
        }
        (RuntimeKind::Cuda, Some(Err(why))) => Some(RuntimeRefusal {
            what: format!("NVIDIA's driver does not work: {why}"),
            advice: "Install NVIDIA's driver of your distribution and restart".to_owned(),
            command: "nvidia-smi".to_owned(),
        }),
        _ => None,
    }
}

/// Requirement of this build that this machine does not meet.
fn lacks(build: &RuntimeBuild, gpu: &MachineGpu, machine: &MachineGpus) -> Option<RuntimeRefusal> {
    if let Some(needed) = &build.kernel
        && !gpu.does(&machine.kernel, needed)
    {
        let release = &machine.kernel;
        return Some(RuntimeRefusal {
            what: format!("{} needs Linux {needed} or a backport, and this is {release}", gpu.name),
            advice: "Install a newer kernel and restart: with this one programs hang or crash on the GPU".to_owned(),
            command: "uname -r; grep -hE 'cwsr_size|ctl_stack_size' /sys/class/kfd/kfd/topology/nodes/*/properties"
                .to_owned(),
        });
    }
    if let (Some(needed), Some(Ok(driver))) = (&build.driver, &machine.nvidia_driver)
        && kernel_version(driver) < kernel_version(needed)
    {
        return Some(RuntimeRefusal {
            what: format!(
                "{} needs NVIDIA's driver {needed} or newer, and this is {driver}",
                build.name
            ),
            advice: "Install a newer driver and restart".to_owned(),
            command: "nvidia-smi --query-gpu=driver_version --format=csv".to_owned(),
        });
    }
    None
}
