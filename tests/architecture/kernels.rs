//! Holds that every GPU kernel has a case in `packaging/lab/amd`, which runs it without a GPU, and that the convolutions that no
//! probe tries leave MIOpen out.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, read, rust_files};

/// Kernels that exist for several numbers of pieces are called `NAME_##V`.
fn kernels(source: &str) -> BTreeSet<String> {
    let definitions = source.split("KERNEL ").skip(1);
    let names = definitions
        .filter_map(|rest| rest.split_once('('))
        .map(|(name, _)| name);
    let names = names.map(|name| name.trim_end_matches("_##V"));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    names.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_kernel_has_a_case_that_runs_it_without_a_gpu() {
    let folder = "src/engine/kernels";
    let sources =
        ["rows.cu", "pixels.cu", "expand.cu"].map(|name| read(&format!("{folder}/{name}")));
    let found = kernels(&sources.concat());
    assert!(found.len() >= 12, "{found:?}");
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let is_source = |path: &Path| path.extension().is_some_and(|ending| ending == "cu");
    let num_files = files
        .flatten()
        .filter(|file| is_source(&file.path()))
        .count();
    assert_eq!(num_files, sources.len(), "a source is not looked at here");
    let cases = read("packaging/lab/amd/cases.py");
    let without: Vec<&String> = found
        .iter()
        .filter(|name| !cases.contains(&format!("    def case_{name}(self")))
        .collect();
    assert!(
        without.is_empty(),
        "packaging/lab/amd/cases.py has no case for {without:?}"
    );
}

#[test]
fn convolutions_that_no_probe_tries_leave_miopen_out() {
    let may = [
        "src/engine/vae",
        "src/engine/probe",
        "src/engine/speed.rs",
        "src/engine/self_test.rs",
    ];
    let mut seen = Vec::new();
    for file in rust_files("src/engine") {
        let is_tiny = file == "src/engine/vae/tiny/mod.rs";
        let is_probed = may.iter().any(|place| file.starts_with(place)) && !is_tiny;
        if is_probed || file.contains("test") {
            continue;
        }
        let text = code(&read(&file));
        let convolves = [".conv2d(", ".conv3d(", ".convolution("]
            .iter()
            .any(|call| text.contains(call));
        if convolves || is_tiny {
            assert!(
                text.contains("disable_miopen("),
                "{file} computes convolutions by MIOpen"
            );
            seen.push(file);
        }
    }
    assert!(seen.len() >= 2, "{seen:?}");
}
