//! The doctor on machines that these tests describe.

use std::fs;
use std::path::Path;

use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{Paths, Runtime, RuntimeMissing, Settings};

use super::*;
use crate::telemetry::amdgpu::tests::{lay_card, lay_node};
use crate::telemetry::nvidia::NvidiaCard;

struct Case {
    root: tempfile::TempDir,
    machine: Machine,
    runtime: Result<Runtime, RuntimeMissing>,
}

impl Case {
    /// A machine with 128 GiB, an old kernel, a CPU libtorch and no GPU.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("proc/sys/kernel")).unwrap();
        fs::create_dir_all(at("dev")).unwrap();
        fs::write(at("proc/sys/kernel/osrelease"), "6.17.1-1\n").unwrap();
        let meminfo = "MemTotal: 134217728 kB\nMemAvailable: 100000000 kB\n";
        fs::write(at("proc/meminfo"), meminfo).unwrap();
        fs::create_dir_all(at("torch/lib")).unwrap();
        fs::write(at("torch/build-version"), "2.11.0\n").unwrap();
        let roots = Roots {
            sysfs: at("sys"),
            proc: at("proc"),
            dev: at("dev"),
        };
        let runtime = Runtime {
            folder: at("torch"),
            lib: at("torch/lib"),
            extra: Vec::new(),
            source: "a test",
        };
        Self {
            machine: Machine {
                roots,
                variables: Vec::new(),
                nvidia: Err("no driver".to_owned()),
            },
            runtime: Ok(runtime),
            root,
        }
    }

    fn checks(&self) -> Vec<Check> {
        let paths = Paths::under(self.root.path());
        let loaded = Settings::load(&paths.settings_file());
        let surroundings = Surroundings { paths, loaded };
        examine(&surroundings, &self.machine, &self.runtime, &mut || {
            Ok(EngineReport {
                protocol: 1,
                libtorch: "2.11.0".to_owned(),
                device: DeviceChoice::Cpu,
                device_name: "CPU".to_owned(),
                total_bytes: 1,
                used_bytes: 0,
                class: None,
                line: "computes on the CPU".to_owned(),
            })
        })
    }

    fn named(&self, name: &str) -> Vec<Check> {
        self.checks()
            .into_iter()
            .filter(|check| check.name == name)
            .collect()
    }

    fn sysfs(&self) -> &Path {
        &self.machine.roots.sysfs
    }
}

fn strix_halo() -> Case {
    let case = Case::new();
    let memory = [
        ("vram_total", 512 << 20),
        ("vram_used", 1 << 20),
        ("gtt_total", 64 << 30),
        ("gtt_used", 1 << 30),
    ];
    lay_card(case.sysfs(), "card0", "0x1002", "0000:c4:00.0", &memory);
    lay_node(
        case.sysfs(),
        1,
        "gfx_target_version 110501\nlocation_id 50176\n",
    );
    case
}

#[test]
fn a_sound_machine_without_a_gpu_has_nothing_failing_but_models() {
    let case = Case::new();
    let failing: Vec<&str> = case
        .checks()
        .iter()
        .filter(|check| check.status == Status::Fail)
        .map(|check| check.name)
        .collect();
    assert_eq!(failing, ["models"]);
    let gpu = case.named("gpu");
    assert!(gpu[0].message.contains("so the CPU computes"), "{gpu:?}");
    assert!(
        case.named("kernel").is_empty(),
        "the kernel matters to gfx1151 only"
    );
}

#[test]
fn without_libtorch_the_engine_is_not_tried() {
    let mut case = Case::new();
    case.runtime = Err(RuntimeMissing::Nowhere {
        searched: Vec::new(),
    });
    let libtorch = case.named("libtorch");
    assert_eq!(libtorch[0].status, Status::Fail);
    assert!(libtorch[0].message.contains("cargo xtask setup"));
    assert!(case.named("engine").is_empty());
}

#[test]
fn another_version_of_libtorch_is_named() {
    let case = Case::new();
    fs::write(case.root.path().join("torch/build-version"), "2.9.1+cu128").unwrap();
    let libtorch = &case.named("libtorch")[0];
    assert_eq!(libtorch.status, Status::Warn);
    assert!(libtorch.message.contains("found 2.9.1+cu128"));
    fs::write(case.root.path().join("torch/build-version"), "2.11.0+cu130").unwrap();
    assert_eq!(case.named("libtorch")[0].status, Status::Ok);
}

#[test]
fn an_engine_that_cannot_start_gives_its_reason_and_advice() {
    let err = JobError::new(JobErrorKind::Device, "libtorch is broken").advise("Fetch it again");
    let check = checks::engine(Err(err));
    assert_eq!(check.status, Status::Fail);
    assert_eq!(
        (check.message.as_str(), check.advice.as_str()),
        ("libtorch is broken", "Fetch it again")
    );
}

#[test]
fn strix_halo_gets_its_kernel_pool_and_access_told() {
    let case = strix_halo();
    let gpu = &case.named("gpu")[0];
    assert!(
        gpu.message.contains("gfx1151") && gpu.message.contains("one pool"),
        "{gpu:?}"
    );
    assert_eq!(gpu.status, Status::Warn, "a CPU libtorch does not use it");
    assert_eq!(case.named("gpu access")[0].status, Status::Warn);
    let kernel = &case.named("kernel")[0];
    assert_eq!(kernel.status, Status::Warn);
    assert!(kernel.message.contains("found 6.17.1-1"), "{kernel:?}");
    let pool = &case.named("gpu memory")[0];
    // 128 GiB less the system's 8, in pages of 4 KiB.
    assert!(pool.advice.contains("ttm.pages_limit=31457280"), "{pool:?}");

    fs::write(
        case.machine.roots.proc.join("sys/kernel/osrelease"),
        "6.18.4",
    )
    .unwrap();
    assert_eq!(case.named("kernel")[0].status, Status::Ok);
    fs::write(
        case.machine.roots.proc.join("sys/kernel/osrelease"),
        "6.14.0",
    )
    .unwrap();
    let backport = "gfx_target_version 110501\nlocation_id 50176\ncwsr_size 1\nctl_stack_size 1\n";
    lay_node(case.sysfs(), 1, backport);
    assert_eq!(case.named("kernel")[0].status, Status::Ok);
    fs::write(case.machine.roots.dev.join("kfd"), b"").unwrap();
    assert!(case.named("gpu access").is_empty());
}

#[test]
fn inherited_variables_that_hurt_are_named_with_what_they_do() {
    let mut case = Case::new();
    assert_eq!(case.named("environment")[0].status, Status::Ok);
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    case.machine.variables = vec![
        set("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
        set("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64"),
        set("MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_FWD", "1"),
        set("MIOPEN_FIND_MODE", "2"),
        set("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1"),
        set("PYTORCH_CUDA_ALLOC_CONF", ""),
        set("PATH", "/bin"),
    ];
    let found = case.named("environment");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|check| check.status == Status::Warn));
    assert!(found[0].advice.contains("env -u HSA_OVERRIDE_GFX_VERSION"));
    let mut halo = strix_halo();
    halo.machine.variables = vec![set("HSA_OVERRIDE_GFX_VERSION", "11.0.0")];
    assert_eq!(halo.named("environment")[0].status, Status::Fail);
}

#[test]
fn an_nvidia_card_that_the_chosen_libtorch_cannot_use_is_a_warning() {
    let mut case = Case::new();
    case.machine.nvidia = Ok(NvidiaReport {
        driver: "580.1".to_owned(),
        cuda: "13.0".to_owned(),
        cards: vec![NvidiaCard {
            name: "Some GPU".to_owned(),
            pci: "0000:01:00.0".to_owned(),
            total_bytes: 24_000_000_000,
            used_bytes: 1_000_000_000,
        }],
    });
    let gpu = &case.named("gpu")[0];
    assert_eq!(gpu.status, Status::Warn);
    assert!(
        gpu.message.contains("Some GPU") && gpu.advice.contains("for cuda"),
        "{gpu:?}"
    );
    fs::write(case.root.path().join("torch/lib/libtorch_cuda.so"), b"").unwrap();
    assert_eq!(case.named("gpu")[0].status, Status::Ok);
}

#[test]
fn broken_settings_and_unknown_keys_are_told() {
    let case = Case::new();
    let file = Paths::under(case.root.path()).settings_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[runtime]\ndevice = 'gpu'\n").unwrap();
    let settings = &case.named("settings")[0];
    assert_eq!(settings.status, Status::Fail);
    assert!(
        settings.message.contains("line 2, column 10"),
        "{settings:?}"
    );
    fs::write(&file, "[output]\nfromat = 'mp4'\n").unwrap();
    let settings = &case.named("settings")[0];
    assert_eq!(settings.status, Status::Warn);
    assert!(settings.message.contains("output.fromat"), "{settings:?}");
}

#[test]
fn a_folder_for_results_that_cannot_be_made_fails_and_a_trial_leaves_nothing() {
    let case = Case::new();
    assert_eq!(case.named("output")[0].status, Status::Ok);
    let before = fs::read_dir(case.root.path()).unwrap().count();
    assert_eq!(case.named("output")[0].status, Status::Ok);
    assert_eq!(fs::read_dir(case.root.path()).unwrap().count(), before);
    // A file where a folder is needed: true for every user, root included.
    let file = case.root.path().join("a file");
    fs::write(&file, b"").unwrap();
    let check = checks::output_folder(&file.join("results"));
    assert_eq!(check.status, Status::Fail);
    assert!(check.advice.contains("output.folder"));
}

#[test]
fn the_text_has_one_line_a_check_and_one_a_piece_of_advice() {
    let text = as_text(&[
        Check::ok("a", "fine"),
        Check::fail("long", "bad").advise("mend it"),
    ]);
    assert_eq!(
        text,
        "ok    a     fine\nFAIL  long  bad\n            -> mend it\n"
    );
}
