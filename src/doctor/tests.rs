//! The doctor on machines that these tests describe.

mod amd;
mod golden;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{
    AppPaths, InstallationKind, LibtorchRuntime, RuntimeMissing, Settings,
};
use safelight_core::speed::{SpeedProbe, SpeedState};

use super::*;
use crate::telemetry::SystemRoots;
use crate::telemetry::fake_tree::{lay_card, lay_meminfo, lay_node};
use crate::telemetry::nvidia::NvidiaReport;

struct Case {
    root: tempfile::TempDir,
    patient: DoctorTarget,
    engine: FakeEngine,
}

/// What an engine says of itself and measures.
struct FakeEngine {
    total_bytes: u64,
    device: DeviceChoice,
    gpu_problem: Option<&'static str>,
    pci: &'static str,
    line: String,
    lines: Vec<SpeedLine>,
    ended: ChildExit,
}

impl DoctorProbes for &FakeEngine {
    fn engine(&mut self) -> Result<EngineReport, JobError> {
        Ok(EngineReport {
            protocol: 1,
            libtorch: "2.11.0".to_owned(),
            device: self.device,
            device_name: "CPU".to_owned(),
            pci: self.pci.to_owned(),
            total_bytes: self.total_bytes,
            used_bytes: 0,
            class: None,
            line: self.line.clone(),
            gpu_problem: self.gpu_problem.map(str::to_owned),
            addresses: None,
        })
    }

    fn speed(&mut self, tell: &mut dyn FnMut(SpeedLine)) -> Result<ChildExit, JobError> {
        self.lines.iter().cloned().for_each(tell);
        Ok(self.ended.clone())
    }
}

impl Case {
    /// A machine with 128 GiB, an old kernel, a CPU libtorch and no GPU.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("proc/sys/kernel")).unwrap();
        fs::create_dir_all(at("dev")).unwrap();
        fs::write(at("proc/sys/kernel/osrelease"), "6.17.1-1\n").unwrap();
        lay_meminfo(&at("proc"), 128, 96);
        fs::create_dir_all(at("torch/lib")).unwrap();
        fs::write(at("torch/build-version"), "2.11.0\n").unwrap();
        let runtime = LibtorchRuntime {
            folder: at("torch"),
            lib: at("torch/lib"),
            extra: Vec::new(),
            source: "a test",
        };
        let paths = AppPaths::under(root.path());
        Self {
            patient: DoctorTarget {
                loaded: Settings::load(&paths.settings_file()),
                paths,
                machine: DoctorInputs {
                    roots: SystemRoots::under(root.path()),
                    variables: BTreeMap::new(),
                    nvidia: Err("no driver".to_owned()),
                    free_bytes: |_| Some(900 << 30),
                },
                runtime: Ok(runtime),
                is_measured: false,
            },
            engine: FakeEngine {
                total_bytes: 0,
                device: DeviceChoice::Cpu,
                gpu_problem: None,
                pci: "",
                line: "computes on the CPU".to_owned(),
                lines: Vec::new(),
                ended: ChildExit::Well,
            },
            root,
        }
    }

    fn checks(&self) -> Vec<CheckResult> {
        let mut checks = Vec::new();
        examine(&self.patient, &mut &self.engine, &mut |check| {
            checks.push(check);
        });
        checks
    }

    fn named(&self, name: &str) -> Vec<CheckResult> {
        let mut checks = self.checks();
        checks.retain(|check| check.name == name);
        checks
    }

    fn sysfs(&self) -> &Path {
        &self.patient.machine.roots.sysfs
    }

    fn first(&self, name: &str) -> CheckResult {
        self.named(name).remove(0)
    }

    fn status(&self, name: &str) -> CheckStatus {
        self.first(name).status
    }

    /// Asserts that the first check of this name ends so, and that its message, advice and command have these parts.
    #[track_caller]
    fn assert_says(&self, name: &str, status: CheckStatus, parts: &[&str]) {
        assert_says(&self.first(name), status, parts);
    }

    /// Writes these files next to libtorch's libraries.
    fn lay_libraries(&self, names: &[&str]) {
        for name in names {
            fs::write(self.root.path().join("torch/lib").join(name), b"").unwrap();
        }
    }

    fn set_version(&self, version: &str) {
        fs::write(self.root.path().join("torch/build-version"), version).unwrap();
    }

    fn set_kernel(&self, release: &str) {
        let file = self.patient.machine.roots.proc.join("sys/kernel/osrelease");
        fs::write(file, release).unwrap();
    }

    fn set_variables(&mut self, variables: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.patient.machine.variables = variables.iter().map(owned).collect();
    }
}

#[track_caller]
fn assert_says(check: &CheckResult, status: CheckStatus, parts: &[&str]) {
    let text = format!("{}\n{}\n$ {}", check.message, check.advice, check.command);
    assert_eq!(check.status, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "without {part:?}: {text}");
    }
}

fn strix_halo() -> Case {
    let case = Case::new();
    lay_halo(
        &case,
        1 << 20,
        "gfx_target_version 110501\nlocation_id 50176\n",
    );
    case
}

/// Half a GiB of its own, of which this is used, and 64 GiB of the host's.
fn lay_halo(case: &Case, used: u64, node: &str) {
    let memory = [
        ("vram_total", 512 << 20),
        ("vram_used", used),
        ("gtt_total", 64 << 30),
        ("gtt_used", 1 << 30),
    ];
    lay_card(case.sysfs(), "card0", "0x1002", "0000:c4:00.0", &memory);
    lay_node(case.sysfs(), 1, node);
}

#[test]
fn a_sound_machine_without_a_gpu_has_nothing_failing_but_models() {
    let case = Case::new();
    let mut failing = case.checks();
    failing.retain(|check| check.status == CheckStatus::Fail);
    assert_eq!((failing.len(), failing[0].name), (1, "models"));
    let gpu = case.first("gpu");
    assert!(gpu.message.contains("no supported GPU found"), "{gpu:?}");
    // Its age matters to gfx1151 only.
    case.assert_says("kernel", CheckStatus::Ok, &["6.17.1-1"]);
    assert!(case.named("driver").is_empty());
}

#[test]
fn without_libtorch_the_engine_is_not_tried() {
    let mut case = Case::new();
    case.patient.runtime = Err(RuntimeMissing::Nowhere {
        searched: Vec::new(),
    });
    let command = InstallationKind::of_this_program().libtorch_command();
    case.assert_says("libtorch", CheckStatus::Fail, &[&format!("$ {command}")]);
    assert!(case.named("engine").is_empty());
}

#[test]
fn another_version_of_libtorch_is_named() {
    let case = Case::new();
    case.set_version("2.9.1+cu128");
    let message =
        "this is libtorch 2.9.1+cu128, and Safelight has engines for 2.11.0 and 2.13.0 alone";
    case.assert_says("libtorch", CheckStatus::Fail, &[message]);
    assert!(case.named("engine").is_empty(), "it would only fail");
    for version in ["2.11.0+cu130", "2.13.0"] {
        case.set_version(version);
        assert_eq!(case.status("libtorch"), CheckStatus::Ok, "{version}");
    }
}

#[test]
fn an_engine_that_cannot_start_gives_its_reason_and_advice() {
    let err = JobError::new(JobErrorKind::Device, "libtorch is broken").advise("Fetch it again");
    let check = checks::engine(Err(err));
    let parts = ["libtorch is broken\n", "\nFetch it again"];
    assert_says(&check, CheckStatus::Fail, &parts);
}

#[test]
fn a_gpu_runtime_that_cannot_be_used_fails_and_one_on_the_systems_libraries_lacks_nothing() {
    let mut case = strix_halo();
    case.lay_libraries(&["libtorch_hip.so", "libc10_hip.so"]);
    case.engine.gpu_problem = Some("libtorch_hip.so could not be loaded: it is odd");
    let message = "could not be loaded: it is odd\n";
    case.assert_says("engine", CheckStatus::Fail, &[message]);
    let half = &case.named("libtorch")[1];
    assert_says(half, CheckStatus::Warn, &["lacks libamdhip64.so"]);

    case.engine.gpu_problem = None;
    case.engine.device = DeviceChoice::Cuda(0);
    assert_eq!(case.status("engine"), CheckStatus::Ok);
    // It was loaded.
    let half = &case.named("libtorch")[1];
    let expected = "with libamdhip64.so, libMIOpen.so of the system";
    assert_says(half, CheckStatus::Ok, &[expected]);
}

#[test]
fn strix_halo_checks_report_kernel_memory_pool_and_device_access() {
    let case = strix_halo();
    let (ok, warn) = (CheckStatus::Ok, CheckStatus::Warn);
    // A CPU libtorch does not use it.
    case.assert_says("gpu", warn, &["gfx1151", "one pool"]);
    case.assert_says("gpu access", warn, &["$ sudo "]);
    case.assert_says("kernel", warn, &["this is 6.17.1-1"]);
    // 128 GiB less the system's 8, in pages of 4 KiB.
    let advice = [
        "ttm.pages_limit=31457280",
        "rebuild the initramfs and restart",
    ];
    case.assert_says("gpu memory", ok, &advice);
    let command = ["$ ", "pages_limit=31457280", "update-initramfs"];
    case.assert_says("gpu memory", ok, &command);

    case.set_kernel("6.18.4");
    assert_eq!(case.status("kernel"), CheckStatus::Ok);
    case.set_kernel("6.14.0");
    let backport = "gfx_target_version 110501\nlocation_id 50176\ncwsr_size 1\nctl_stack_size 1\n";
    lay_node(case.sysfs(), 1, backport);
    assert_eq!(case.status("kernel"), CheckStatus::Ok);
    case.set_kernel("7.0.0-28-generic");
    let kernel = case.first("kernel");
    assert!(kernel.message.contains("too slowly"), "{kernel:?}");
    fs::write(case.patient.machine.roots.dev.join("kfd"), b"").unwrap();
    assert_eq!(case.status("gpu access"), CheckStatus::Ok);
}

#[test]
fn memory_conflicts_with_the_driver_and_missing_libraries_are_reported() {
    let mut case = strix_halo();
    case.lay_libraries(&["libtorch_hip.so"]);
    case.engine.device = DeviceChoice::Cuda(0);
    case.engine.total_bytes = 15_500 << 20;
    let parts = ["the driver says 15.1 GiB", "the least of"];
    case.assert_says("gpu memory", CheckStatus::Warn, &parts);
    // What an engine on the CPU tells is no driver's word.
    case.engine.device = DeviceChoice::Cpu;
    let pool = &case.named("gpu memory")[0];
    assert!(!pool.message.contains("the driver"), "{pool:?}");
    let half = &case.named("libtorch")[1];
    assert!(half.message.contains("lacks libc10_hip.so"), "{half:?}");
}

#[test]
fn harmful_inherited_variables_are_reported_with_their_effect() {
    let mut case = Case::new();
    assert_eq!(case.status("environment"), CheckStatus::Ok);
    case.set_variables(&[
        ("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
        ("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64"),
        ("MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_FWD", "1"),
        ("TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1"),
        ("PYTORCH_CUDA_ALLOC_CONF", ""),
        ("PATH", "/bin"),
    ]);
    let hurtful = |case: &Case| -> Vec<CheckResult> {
        let mut found = case.named("environment");
        found.retain(|check| check.status != CheckStatus::Ok);
        found
    };
    let found = hurtful(&case);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].command.contains("env -u HSA_OVERRIDE_GFX_VERSION"));
    let mut halo = strix_halo();
    halo.set_variables(&[("HSA_OVERRIDE_GFX_VERSION", "11.0.0")]);
    let found = hurtful(&halo);
    let expected = "the engine ignores it: it makes ROCm treat";
    assert!(found[0].message.contains(expected), "{found:?}");
}

#[test]
fn engine_environment_lists_each_variable_with_its_reason() {
    let mut case = strix_halo();
    case.lay_libraries(&["libtorch_hip.so"]);
    case.set_variables(&[("MIOPEN_FIND_MODE", "NORMAL")]);
    let environment = &mut case.patient.loaded.settings.runtime.environment;
    environment.insert("MINE".to_owned(), "yes".to_owned());
    let checks = case.named("environment");
    for expected in [
        "MIOPEN_FIND_MODE=NORMAL is set; the engine gets MIOPEN_FIND_MODE=2",
        "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1: turns on flash",
        "PYTORCH_MIOPEN_SUGGEST_NHWC=0: keeps MIOpen from",
        "MINE=yes, as the settings say so",
    ] {
        let is_told = |check: &CheckResult| check.message.contains(expected);
        assert!(checks.iter().any(is_told), "{checks:?}");
    }
}

fn done(probe: SpeedProbe, rate: f64, keeps_scores: bool) -> SpeedLine {
    SpeedLine {
        probe,
        state: SpeedState::Done {
            rate,
            size: "a size".to_owned(),
            secs: 0.01,
            keeps_scores,
        },
    }
}

#[test]
fn failed_measurement_names_its_probe_and_keeps_earlier_figures() {
    let mut case = Case::new();
    case.patient.is_measured = true;
    let begun = SpeedLine {
        probe: SpeedProbe::ConvolutionOverTime,
        state: SpeedState::Begin,
    };
    case.engine.lines = vec![done(SpeedProbe::MatrixF32, 0.1, false), begun];
    case.engine.ended = ChildExit::TooLate { secs: 90 };
    let speed = case.named("speed");
    assert_eq!((speed.len(), speed[0].status), (2, CheckStatus::Ok));
    let figure = speed[0].figure.as_ref().unwrap();
    assert_eq!((figure.value, figure.unit.as_str()), (0.1, "TFLOP/s"));
    let expected = "stopped at convolutions over time";
    assert_says(&speed[1], CheckStatus::Fail, &[expected]);
    case.engine.ended = ChildExit::Badly {
        how: "signal 11".to_owned(),
        complaint: "first\nHSA exception".to_owned(),
    };
    let speed = case.named("speed");
    let expected = "signal 11: HSA exception";
    assert!(speed[1].message.contains(expected), "{speed:?}");
    assert!(case.named("disk speed").len() == 1);
}

#[test]
fn slow_bf16_and_unfused_attention_are_reported_only_on_a_gpu() {
    let mut case = strix_halo();
    case.patient.is_measured = true;
    case.engine.lines = vec![
        done(SpeedProbe::MatrixBf16, 3.9, false),
        done(SpeedProbe::Attention, 1.0, true),
    ];
    let status = |case: &Case| -> Vec<CheckStatus> {
        let speed = case.named("speed");
        speed.into_iter().map(|check| check.status).collect()
    };
    assert_eq!(status(&case), [CheckStatus::Ok, CheckStatus::Ok]);
    case.lay_libraries(&["libtorch_hip.so"]);
    assert_eq!(status(&case), [CheckStatus::Warn, CheckStatus::Fail]);
}

#[test]
fn an_nvidia_card_that_the_chosen_libtorch_cannot_use_is_a_warning() {
    let mut case = Case::new();
    let memory = [24_000_000_000, 1_000_000_000];
    case.patient.machine.nvidia = Ok(NvidiaReport::of_card("Some GPU", "580.1", "13.0", memory));
    let parts = ["Some GPU", "$ safelight runtime install cuda13.0"];
    case.assert_says("gpu", CheckStatus::Warn, &parts);
    let own = crate::runtimes::folder(&case.patient.paths).join("cuda13.0");
    fs::create_dir_all(&own).unwrap();
    let command = "$ safelight runtime use cuda13.0";
    case.assert_says("gpu", CheckStatus::Warn, &[command]);
    case.lay_libraries(&["libtorch_cuda.so"]);
    assert_eq!(case.status("gpu"), CheckStatus::Ok);
}

#[test]
fn nvidia_gpu_without_a_working_driver_is_reported() {
    let case = Case::new();
    let device = case.sysfs().join("bus/pci/devices/0000:01:00.0");
    fs::create_dir_all(&device).unwrap();
    for file in ["vendor 0x10de", "class 0x030000", "device 0x2684"] {
        let (name, text) = file.split_once(' ').unwrap();
        fs::write(device.join(name), text).unwrap();
    }
    let message =
        "NVIDIA device 2684 (0000:01:00.0) is there, and NVIDIA's driver does not work: no driver";
    case.assert_says("gpu", CheckStatus::Warn, &[message]);
}

#[test]
fn broken_settings_and_unknown_keys_are_reported() {
    let mut case = Case::new();
    let file = AppPaths::under(case.root.path()).settings_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, status, part) in [
        (
            "[runtime]\ndevice = 'gpu'\n",
            CheckStatus::Fail,
            "line 2, column 10",
        ),
        (
            "[output]\nfromat = 'mp4'\n",
            CheckStatus::Warn,
            "output.fromat",
        ),
    ] {
        fs::write(&file, text).unwrap();
        case.patient.loaded = Settings::load(&file);
        case.assert_says("settings", status, &[part]);
    }
}

#[test]
fn a_folder_for_results_that_cannot_be_made_fails_and_a_trial_leaves_nothing() {
    let case = Case::new();
    assert_eq!(case.status("output"), CheckStatus::Ok);
    let before = fs::read_dir(case.root.path()).unwrap().count();
    assert_eq!(case.status("output"), CheckStatus::Ok);
    assert_eq!(fs::read_dir(case.root.path()).unwrap().count(), before);
    // A file where a folder is needed: true for every user, root included.
    let file = case.root.path().join("a file");
    fs::write(&file, b"").unwrap();
    let check = checks::output_folder(&file.join("results"));
    assert_says(&check, CheckStatus::Fail, &["output.folder"]);
}

#[test]
fn a_full_disk_fails_and_a_nearly_full_one_is_a_warning() {
    let cases = [
        (Some(100_000_000), CheckStatus::Fail),
        (Some(3_000_000_000), CheckStatus::Warn),
        (Some(6_000_000_000), CheckStatus::Ok),
        (None, CheckStatus::Warn),
    ];
    for (free, status) in cases {
        let check = checks::disk(Path::new("/"), free);
        assert_eq!(check.status, status, "{free:?}");
    }
}
