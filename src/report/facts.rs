//! What this machine is, as the kernel and the drivers say it. No serial numbers: those files are not read.

use std::fs;
use std::path::Path;

use safelight_core::memory::DeviceClass;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{Paths, Runtime, Settings, own_runtime};
use safelight_core::units::size_text;

use super::Fact;
use crate::doctor;
use crate::telemetry::{Roots, amdgpu, host, nvidia};
use crate::worker::driver_versions;

/// `engine`: what an engine said of itself, if one could be started.
pub(super) fn all(
    roots: &Roots,
    paths: &Paths,
    settings: &Settings,
    engine: Option<&EngineReport>,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push(Fact {
                name: name.to_owned(),
                value,
            });
        }
    };
    put("Safelight", env!("CARGO_PKG_VERSION").to_owned());
    put("Machine", dmi(roots, &["sys_vendor", "product_name"]));
    put("Board", dmi(roots, &["board_vendor", "board_name"]));
    put("BIOS", dmi(roots, &["bios_version", "bios_date"]));
    put("Processor", processor(&roots.proc));
    if let Some(memory) = host::memory(&roots.proc) {
        let (total, free) = (memory.total_bytes, memory.available_bytes);
        put(
            "Memory",
            format!("{}, {} of it free", size_text(total), size_text(free)),
        );
    }
    put("System", system(&roots.etc));
    put(
        "Kernel",
        host::kernel_release(&roots.proc).unwrap_or_default(),
    );
    let firmware = doctor::firmware_releases(&roots.var);
    // What rpm says of a package that it does not have.
    let firmware = firmware.filter(|release| !release.ends_with("is not installed"));
    let firmware: Vec<String> = firmware.collect();
    put("Firmware package", firmware.join(", "));
    put("Groups", groups(roots));
    for card in amdgpu::cards(&roots.sysfs) {
        let class = match card.class {
            DeviceClass::Unified => "shares the machine's memory",
            _ => "has memory of its own",
        };
        let gfx = card.gfx().unwrap_or("not driven by the compute driver");
        put(
            "AMD GPU",
            format!("{gfx}, chip {:04x}, {class}", card.device_id),
        );
    }
    if let Ok(report) = nvidia::report() {
        for card in &report.cards {
            put("NVIDIA GPU", card.name.clone());
        }
        put(
            "NVIDIA driver",
            format!("{}, for CUDA up to {}", report.driver, report.cuda),
        );
    }
    let runtime = own_runtime(settings, &paths.cache);
    if let Ok(runtime) = &runtime {
        put("Runtime", kind(runtime).to_owned());
        if runtime.kind() == "rocm" {
            put("HIP and driver", driver_versions(runtime));
        }
    }
    if let Some(engine) = engine {
        put("libtorch", engine.libtorch.clone());
        put("Computes on", engine.line.clone());
        put("Memory of the device", size_text(engine.total_bytes));
        put(
            "GPU is not used because",
            engine.gpu_problem.clone().unwrap_or_default(),
        );
    }
    facts
}

fn kind(runtime: &Runtime) -> &'static str {
    match runtime.kind() {
        "rocm" => "libtorch for AMD GPUs (ROCm)",
        "cuda" => "libtorch for NVIDIA GPUs (CUDA)",
        _ => "libtorch for the CPU",
    }
}

/// Files of `/sys/class/dmi/id`, as far as the firmware's maker filled them in.
fn dmi(roots: &Roots, names: &[&str]) -> String {
    let folder = roots.sysfs.join("class/dmi/id");
    let read = |name: &&str| fs::read_to_string(folder.join(name)).ok();
    let parts = names.iter().filter_map(read);
    let parts = parts.map(|part| part.trim().to_owned());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn processor(proc: &Path) -> String {
    let text = fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let name = value("model name").unwrap_or_default();
    let flags = value("flags").unwrap_or_default();
    let best = ["avx512f", "avx2", "avx"];
    let best = best
        .into_iter()
        .find(|flag| flags.split(' ').any(|has| has == *flag));
    let best = best.map_or_else(String::new, |best| format!(", {best}"));
    let processors = text
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    if name.is_empty() && processors == 0 {
        return String::new();
    }
    format!("{name}, {processors} threads{best}")
}

fn system(etc: &Path) -> String {
    let text = fs::read_to_string(etc.join("os-release")).unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

fn groups(roots: &Roots) -> String {
    let missing = doctor::missing_groups(roots);
    if missing.is_empty() {
        "in render and video, where there are such".to_owned()
    } else {
        format!("not in {}", missing.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_without_its_serial_numbers() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::under(root.path());
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sys/class/dmi/id/sys_vendor", "Framework\n");
        put("sys/class/dmi/id/product_name", "Desktop\n");
        put("sys/class/dmi/id/product_serial", "FRANSERIAL1\n");
        put(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A CPU\nflags\t: sse avx2\nprocessor\t: 1\n",
        );
        put("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n");
        let facts = all(
            &roots,
            &Paths::under(root.path()),
            &Settings::default(),
            None,
        );
        let of = |name: &str| {
            let fact = facts.iter().find(|fact| fact.name == name);
            fact.map(|fact| fact.value.as_str())
        };
        assert_eq!(of("Machine"), Some("Framework Desktop"));
        assert_eq!(of("Processor"), Some("A CPU, 2 threads, avx2"));
        assert_eq!(of("System"), Some("Some Linux 1"));
        assert!(!format!("{facts:?}").contains("SERIAL"));
    }
}
