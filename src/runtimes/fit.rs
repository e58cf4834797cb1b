//! Which build of libtorch fits this machine best, and what stands against it, before anything is fetched.
//!
//! Data in, data out.

use safelight_core::settings::{EngineBuild, Installation, libtorch_versions};
use serde::Serialize;

use super::machine::{Gpu, Machine};
use super::table::{Build, Kind};
use crate::telemetry::host::kernel_version;

/// Something that has to be mended first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// One sentence, no full stop.
    pub what: String,
    /// What mends it.
    pub advice: String,
    /// A line for a shell that mends it; empty when there is none.
    pub command: String,
}

/// What a GPU can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit<'a> {
    /// The first build of the table that works on it.
    Build(&'a Build),
    Refused(Refusal),
}

/// What the GPU that jobs would get can have; `None` where there is no GPU.
pub fn of_machine<'a>(machine: &'a Machine, builds: &'a [Build]) -> Option<(&'a Gpu, Fit<'a>)> {
    let fits: Vec<(&Gpu, Fit<'_>)> = machine
        .gpus
        .iter()
        .filter(|gpu| !gpu.is_display_only)
        .map(|gpu| (gpu, of_gpu(gpu, machine, builds)))
        .collect();
    let works = |(_, fit): &&(&Gpu, Fit<'_>)| matches!(fit, Fit::Build(_));
    // A card that works before one that would after mending; those are in the order of their strength.
    let best = fits.iter().find(works).or_else(|| fits.first());
    best.cloned()
}

/// What the GPU at this place on the bus can have; `None` where there is none.
pub fn of_place<'a>(pci: &str, machine: &Machine, builds: &'a [Build]) -> Option<Fit<'a>> {
    let gpu = machine.gpus.iter().find(|gpu| gpu.pci == pci)?;
    Some(of_gpu(gpu, machine, builds))
}

fn of_gpu<'a>(gpu: &Gpu, machine: &Machine, builds: &'a [Build]) -> Fit<'a> {
    let serves = |build: &&Build| {
        build.kind == gpu.kind
            && machine.has(build.engine())
            && (build.kind != Kind::Rocm
                || gpu
                    .target
                    .as_ref()
                    .is_some_and(|it| build.targets.contains(it)))
    };
    if let Some(refusal) = unusable(gpu, machine) {
        return Fit::Refused(refusal);
    }
    let mut refused = None;
    for build in builds.iter().filter(serves) {
        match lacks(build, gpu, machine) {
            None => return Fit::Build(build),
            Some(refusal) => {
                refused.get_or_insert(refusal);
                // Another build for the same chip and kernel would hang as this one does.
                if build.kernel.is_some() {
                    break;
                }
            }
        }
    }
    Fit::Refused(refused.unwrap_or_else(|| Refusal {
        what: format!(
            "no libtorch {} is known that has code for {}",
            machine.engines.join(" or "),
            gpu.name
        ),
        advice: "Add a build that has to runtimes.toml in the folder of settings.toml".to_owned(),
        command: String::new(),
    }))
}

/// What keeps a build that was named from working on any of the GPUs that it is for; nothing where there is none.
pub fn refusal(build: &Build, machine: &Machine) -> Option<Refusal> {
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

fn without_engine(build: &Build) -> Refusal {
    let Build { name, version, .. } = build;
    let (what, advice) = match build.engine() {
        Some(EngineBuild {
            libtorch,
            executable,
        }) => (
            format!(
                "{name} needs the engine for libtorch {libtorch} ({executable}), which is not installed"
            ),
            Installation::of_this_program().second_engine_advice(),
        ),
        None => (
            format!(
                "{name} is libtorch {version}, and Safelight has engines for {} alone",
                libtorch_versions("and")
            ),
            "Name a build of one of these",
        ),
    };
    Refusal {
        what,
        advice: advice.to_owned(),
        command: String::new(),
    }
}

fn has_no_code(build: &Build, gpu: &Gpu) -> Option<Refusal> {
    let target = gpu.target.as_ref()?;
    let has = build.targets.is_empty() || build.targets.contains(target);
    (!has).then(|| Refusal {
        what: format!("{} has no code for {}", build.name, gpu.name),
        advice: format!("It is for {}", build.targets.join(", ")),
        command: String::new(),
    })
}

/// What keeps every build from this GPU.
fn unusable(gpu: &Gpu, machine: &Machine) -> Option<Refusal> {
    match (gpu.kind, &machine.nvidia_driver) {
        (Kind::Rocm, _) if gpu.target.is_none() => Some(Refusal {
            what: format!("the kernel's compute driver does not list {} ({})", gpu.name, gpu.pci),
            advice: "Look at what the driver says of it: ROCm cannot use a card that is not under /sys/class/kfd"
                .to_owned(),
            command: "sudo dmesg | grep -iE 'kfd|amdgpu'".to_owned(),
        }),
        (Kind::Rocm, _) => {
            let (what, command) = machine.no_access.clone()?;
            Some(Refusal {
                what,
                advice: "ROCm needs access to the GPU: give it, then log in again".to_owned(),
                command,
            })
        }
        (Kind::Cuda, Some(Err(why))) => Some(Refusal {
            what: format!("NVIDIA's driver does not work: {why}"),
            advice: "Install NVIDIA's driver of your distribution and restart".to_owned(),
            command: "nvidia-smi".to_owned(),
        }),
        _ => None,
    }
}

/// What this build misses on this machine.
fn lacks(build: &Build, gpu: &Gpu, machine: &Machine) -> Option<Refusal> {
    if let Some(needed) = &build.kernel
        && !gpu.does(&machine.kernel, needed)
    {
        let release = &machine.kernel;
        return Some(Refusal {
            what: format!("{} needs Linux {needed} or a backport, and this is {release}", gpu.name),
            advice: "Install a newer kernel and restart: with this one programs hang or crash on the GPU".to_owned(),
            command: "uname -r; grep -hE 'cwsr_size|ctl_stack_size' /sys/class/kfd/kfd/topology/nodes/*/properties"
                .to_owned(),
        });
    }
    if let (Some(needed), Some(Ok(driver))) = (&build.driver, &machine.nvidia_driver)
        && kernel_version(driver) < kernel_version(needed)
    {
        return Some(Refusal {
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
