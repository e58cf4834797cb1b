//! What the doctor prints on machines that people have: the whole text, compared with what was judged to be good.
//!
//! The engine's words are made up; everything else is examined. `UPDATE_SNAPSHOTS=1` writes the texts anew.

use super::*;
use crate::telemetry::fake_tree::lay;
use crate::telemetry::nvidia::NvidiaReport;

/// What the engine says on the CPU, with the libtorch that ships and with one for a GPU that it does not use.
const ON_CPU: &str = "CPU, 16 threads, libtorch 2.11.0, which is built for the CPU";
/// The bytes that a Strix Halo's driver offers with half of the memory for the GPU.
const HALO_BYTES: u64 = 64 << 30;
const NAVI_BYTES: u64 = 24 << 30;

fn machine() -> Case {
    let mut case = Case::new();
    case.set_kernel("6.18.4-1-generic\n");
    case.engine.line = ON_CPU.to_owned();
    if let Ok(runtime) = &mut case.patient.runtime {
        runtime.source = "beside the executable";
    }
    case.patient.paths.assets = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"));
    let root = case.root.path();
    lay(root, "etc/group", "video:x:44:me\nrender:x:993:me\n");
    let user = "Uid:\t1000\t1000\nGid:\t1000\t1000\nGroups:\t44 993\n";
    lay(root, "proc/self/status", user);
    case
}

fn with_amdgpu(case: Case) -> Case {
    let roots = &case.patient.machine.roots;
    fs::create_dir_all(roots.sysfs.join("module/amdgpu")).expect("a folder");
    for device in ["kfd", "dri/renderD128"] {
        lay(&roots.dev, device, "");
    }
    case
}

fn strix_halo() -> Case {
    let case = with_amdgpu(machine());
    let node = "gfx_target_version 110501\nlocation_id 50176\nsimd_count 80\n";
    lay_halo(&case, 100 << 20, node);
    case
}

fn lay_navi(case: &Case, card: &str, node: u32) {
    let memory = [
        ("vram_total", NAVI_BYTES),
        ("vram_used", 1 << 30),
        ("gtt_total", 62 << 30),
        ("gtt_used", 100 << 20),
    ];
    lay_card(case.sysfs(), card, "0x1002", "0000:03:00.0", &memory);
    let device = case.sysfs().join("devices").join(card).join("device");
    fs::write(device, "0x744c\n").expect("a file");
    let properties = "gfx_target_version 110000\nlocation_id 768\nsimd_count 192\n";
    lay_node(case.sysfs(), node, properties);
}

fn with_rocm(mut case: Case, version: &str, libraries: &[&str]) -> Case {
    case.lay_libraries(&["libtorch_hip.so", "libc10_hip.so"]);
    case.lay_libraries(libraries);
    case.set_version(version);
    if let Ok(runtime) = &mut case.patient.runtime {
        runtime.source = "the setting runtime.libtorch";
    }
    case
}

fn computing(mut case: Case, name: &str, pci: &'static str, total_bytes: u64) -> Case {
    let gib = total_bytes >> 30;
    case.engine.line = format!("{name} (cuda:0), {gib}.0 GiB, libtorch 2.11.0+rocm7.14.1");
    case.engine.device = DeviceChoice::Cuda(0);
    case.engine.total_bytes = total_bytes;
    case.engine.pci = pci;
    case
}

fn computing_on_navi(case: Case) -> Case {
    let case = with_rocm(case, "2.11.0+rocm7.2\n", &ROCM);
    let mut case = computing(case, "AMD Radeon RX 7900 XTX", "0000:03:00.0", NAVI_BYTES);
    case.engine.line = case.engine.line.replace("7.14.1", "7.2");
    case
}

const ROCM: [&str; 2] = ["libamdhip64.so.7", "libMIOpen.so.1"];

fn assert_prints(name: &str, case: &Case) {
    let text: String = case.checks().iter().map(CheckResult::text).collect();
    let text = text.replace(&case.root.path().display().to_string(), "HOME");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor/golden");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &text).expect("a file that can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{name}");
}

#[test]
fn a_strix_halo_without_a_runtime() {
    assert_prints("strix_halo_no_runtime", &strix_halo());
}

#[test]
fn a_strix_halo_with_rocm_7_14() {
    let case = with_rocm(strix_halo(), "2.11.0+rocm7.14.1\n", &ROCM);
    let case = computing(case, "AMD Radeon 8060S", "0000:c4:00.0", HALO_BYTES);
    assert_prints("strix_halo_rocm_7_14", &case);
}

#[test]
fn a_strix_halo_with_a_broken_runtime() {
    let mut case = with_rocm(strix_halo(), "2.11.0+rocm7.14.1\n", &ROCM[..1]);
    case.engine.gpu_problem =
        Some("libtorch_hip.so could not be loaded: libMIOpen.so.1 is missing");
    assert_prints("strix_halo_broken_runtime", &case);
}

#[test]
fn an_rx_7900_xtx() {
    let case = with_amdgpu(machine());
    lay_navi(&case, "card0", 1);
    assert_prints("rx_7900_xtx", &computing_on_navi(case));
}

#[test]
fn two_amd_cards() {
    let case = with_amdgpu(machine());
    let memory = [
        ("vram_total", 512 << 20),
        ("vram_used", 200 << 20),
        ("gtt_total", 31 << 30),
        ("gtt_used", 50 << 20),
    ];
    lay_card(case.sysfs(), "card0", "0x1002", "0000:7a:00.0", &memory);
    let device = case.sysfs().join("devices/card0/device");
    fs::write(device, "0x164e\n").expect("a file");
    let raphael = "gfx_target_version 100306\nlocation_id 31232\nsimd_count 4\n";
    lay_node(case.sysfs(), 1, raphael);
    lay_navi(&case, "card1", 2);
    assert_prints("two_amd_cards", &computing_on_navi(case));
}

#[test]
fn an_nvidia_card_with_an_old_driver() {
    let mut case = machine();
    let (name, memory) = ("NVIDIA GeForce RTX 3060", [12 << 30, 400 << 20]);
    case.patient.machine.nvidia = Ok(NvidiaReport::of_card(name, "470.256.02", "11.4", memory));
    assert_prints("nvidia_old_driver", &case);
}

#[test]
fn no_gpu_at_all() {
    let mut case = machine();
    case.patient.machine.nvidia = Err("libnvidia-ml.so.1 is not there".to_owned());
    assert_prints("no_gpu", &case);
}

#[test]
fn the_text_has_a_line_a_check_one_a_piece_of_advice_and_one_a_command() {
    let check = |name, status, message: &str, advice: &str, command: &str| CheckResult {
        group: CheckGroup::Engine,
        name,
        status,
        message: message.to_owned(),
        advice: advice.to_owned(),
        command: command.to_owned(),
        figure: None,
    };
    let checks = [
        check("a", CheckStatus::Ok, "fine", "", ""),
        check("long", CheckStatus::Fail, "bad", "mend it", "sudo mend"),
        check("b", CheckStatus::Warn, "odd", "", ""),
    ];
    let text: String = checks.iter().map(CheckResult::text).collect();
    let lines = [
        "ok    a             fine",
        "FAIL  long          bad",
        "                    -> mend it",
        "                     $ sudo mend",
        "note  b             odd",
    ];
    assert_eq!(text, format!("{}\n", lines.join("\n")));
}
