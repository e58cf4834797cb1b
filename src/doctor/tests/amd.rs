//! The doctor on a Strix Halo: what is known to be wrong with its software, and who is on its memory.

use super::*;
use crate::telemetry::fake_tree::lay;

#[test]
fn rocm_version_that_crashes_this_gpu_is_a_warning() {
    let case = strix_halo();
    case.set_version("2.11.0+rocm7.1");
    let message = "ROCm 7.1 crashes on gfx1151";
    case.assert_says("libtorch", CheckStatus::Warn, &[message]);
}

#[test]
fn broken_gpu_firmware_and_programs_holding_gpu_memory_are_reported() {
    let case = strix_halo();
    let roots = &case.patient.machine.roots;
    let wrong = |case: &Case| {
        let mut checks = case.named("driver");
        checks.retain(|check| check.message.contains("linux-firmware 20251125"));
        checks.len()
    };
    assert_eq!(wrong(&case), 0);
    let package = "lib/pacman/local/linux-firmware-20251125-1/desc";
    lay(&roots.var, package, "");
    assert_eq!(wrong(&case), 1);
    let holders = |case: &Case| {
        let mut checks = case.named("gpu memory");
        checks.retain(|check| check.message.starts_with("programs that hold"));
        checks.pop().map(|check| check.message)
    };
    case.lay_libraries(&["libtorch_hip.so"]);
    assert_eq!(holders(&case), None);
    lay(&roots.proc, "70/comm", "python3\n");
    let text = "drm-client-id:\t1\ndrm-pdev:\t0000:c4:00.0\ndrm-memory-gtt:\t3145728 KiB\n";
    lay(&roots.proc, "70/fdinfo/3", text);
    let message = holders(&case).unwrap();
    assert!(message.ends_with("python3 (70) 3.0 GiB"), "{message}");
}
