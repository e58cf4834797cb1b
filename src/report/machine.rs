//! Facts about this machine that the doctor does not state. Files with serial numbers are not read.

use std::fs;

use super::ReportRow;
use super::rows::fact;
use crate::telemetry::SystemRoots;

pub(super) fn facts(roots: &SystemRoots) -> Vec<ReportRow> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let dmi = |names: [&str; 2]| {
        let parts = names.map(|name| text(roots.sysfs.join("class/dmi/id").join(name)));
        format!("{} {}", parts[0].trim(), parts[1].trim())
    };
    let cpuinfo = text(roots.proc.join("cpuinfo"));
    let pairs = || cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let first = |key| {
        pairs()
            .find(|(name, _)| name.trim() == key)
            .map_or("", |(_, value)| value.trim())
    };
    let threads = pairs()
        .filter(|(name, _)| name.trim() == "processor")
        .count();
    let flags = first("flags");
    let has = |name: &&str| flags.split(' ').any(|flag| flag == *name);
    let vectors = ["avx512f", "avx2", "avx"].into_iter().find(has);
    let release = text(roots.etc.join("os-release"));
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let facts = [
        ("Machine", dmi(["sys_vendor", "product_name"])),
        ("Board", dmi(["board_vendor", "board_name"])),
        ("BIOS", dmi(["bios_version", "bios_date"])),
        (
            "Processor",
            format!(
                "{}, {threads} threads, {}",
                first("model name"),
                vectors.unwrap_or("no AVX")
            ),
        ),
        (
            "System",
            system.unwrap_or_default().trim_matches('"').to_owned(),
        ),
    ];
    let filled = facts
        .into_iter()
        .filter(|(_, value)| !value.trim().is_empty());
    filled.map(|(name, value)| fact(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_without_its_serial_numbers() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
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
        let facts = facts(&roots);
        let facts: Vec<_> = facts
            .iter()
            .map(|fact| (fact.label.as_str(), fact.note.as_str()))
            .collect();
        let expected = [
            ("Machine", "Framework Desktop"),
            ("Processor", "A CPU, 2 threads, avx2"),
            ("System", "Some Linux 1"),
        ];
        assert_eq!(facts, expected);
    }
}
