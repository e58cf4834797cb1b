//! False `/sys` trees for tests, laid as the kernel lays them.
//!
//! Compiled for tests alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Lays a card as the kernel does: `class/drm/cardN/device` leads to the device.
pub(crate) fn lay_card(sysfs: &Path, card: &str, vendor: &str, pci: &str, memory: &[(&str, u64)]) {
    let device = sysfs.join("devices").join(card);
    fs::create_dir_all(&device).unwrap();
    fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
    fs::write(device.join("device"), "0x1586\n").unwrap();
    let uevent = format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\n");
    fs::write(device.join("uevent"), uevent).unwrap();
    for (name, bytes) in memory {
        let path = device.join(format!("mem_info_{name}"));
        fs::write(path, format!("{bytes}\n")).unwrap();
    }
    let link = sysfs.join("class/drm").join(card);
    fs::create_dir_all(&link).unwrap();
    symlink(&device, link.join("device")).unwrap();
    fs::create_dir_all(sysfs.join("class/drm").join(format!("{card}-eDP-1"))).unwrap();
}

pub(crate) fn lay_node(sysfs: &Path, number: u32, properties: &str) {
    let node = sysfs.join(format!("class/kfd/kfd/topology/nodes/{number}"));
    fs::create_dir_all(&node).unwrap();
    fs::write(node.join("properties"), properties).unwrap();
}

/// Lays sensors as the driver does: `hwmon/hwmon3` in the device's folder.
pub(crate) fn lay_sensors(sysfs: &Path, card: &str, files: &[(&str, &str)]) {
    let hwmon = sysfs.join("devices").join(card).join("hwmon/hwmon3");
    fs::create_dir_all(&hwmon).unwrap();
    for (name, text) in files {
        fs::write(hwmon.join(name), text).unwrap();
    }
}

/// A file below a root with the folders above it.
pub(crate) fn lay(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a `/proc` with these amounts of memory in MiB: total, available, and used by programs.
pub(crate) fn lay_memory(proc: &Path, total: u64, available: u64, taken: u64) {
    let [total, available, taken] = [total, available, taken].map(|mib| mib << 10);
    let text =
        format!("MemTotal: {total} kB\nMemAvailable: {available} kB\nAnonPages: {taken} kB\n");
    lay(proc, "meminfo", &text);
}

/// A `/proc` of this much memory, in GiB.
pub(crate) fn lay_meminfo(proc: &Path, total_gib: u64, available_gib: u64) {
    let kib = |gib: u64| gib << 20;
    let text = format!(
        "MemTotal: {} kB\nMemFree: 1024 kB\nMemAvailable: {} kB\nBuffers: 1024 kB\nCached: 4096 kB\nShmem: 1024 kB\nSReclaimable: 2048 kB\n",
        kib(total_gib),
        kib(available_gib)
    );
    fs::create_dir_all(proc).unwrap();
    fs::write(proc.join("meminfo"), text).unwrap();
}
