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
    let names = ["rows.cu", "pixels.cu", "expand.cu"];
    let sources = names.map(|name| read(&format!("{folder}/{name}")));
    let found = kernels(&sources.concat());
    assert!(found.len() >= 12, "{found:?}");
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let is_source = |path: &Path| path.extension().is_some_and(|ending| ending == "cu");
    let files = files.flatten().filter(|file| is_source(&file.path()));
    assert_eq!(
        files.count(),
        sources.len(),
        "a source is not looked at here"
    );
    let cases = read("packaging/lab/amd/cases.py");
    for name in found {
        let has_case = cases.contains(&format!("    def case_{name}(self"));
        assert!(
            has_case,
            "packaging/lab/amd/cases.py has no case for {name}"
        );
    }
}

#[test]
fn convolutions_that_no_probe_tries_leave_miopen_out() {
    let may = ["vae", "probe", "speed.rs", "self_test.rs"];
    let mut seen = Vec::new();
    for file in rust_files("src/engine") {
        let is_tiny = file == "src/engine/vae/tiny/mod.rs";
        let place = file.trim_start_matches("src/engine/");
        let is_probed = may.iter().any(|may| place.starts_with(may)) && !is_tiny;
        if is_probed || file.contains("test") {
            continue;
        }
        let text = code(&read(&file));
        let calls = [".conv2d(", ".conv3d(", ".convolution("];
        if calls.iter().any(|call| text.contains(call)) || is_tiny {
            let is_left_out = text.contains("disable_miopen(");
            assert!(is_left_out, "{file} computes convolutions by MIOpen");
            seen.push(file);
        }
    }
    assert!(seen.len() >= 2, "{seen:?}");
}
