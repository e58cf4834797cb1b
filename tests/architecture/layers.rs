//! Folders of a crate as layers: each imports only those before it, so no two import each other.

use super::imports::paths_of;
use super::source::{code, names};
use super::{read, rust_files};

const CORE: &str = "\
enum_macros files job_id measured naming sanitize units uri compute \
formats locks memory self_test speed trash \
machine media model \
job networks tokens \
footprint prompts presets settings \
library finish lora families fitting token_count plan catalog job_update restore gallery protocol";

const ENGINE: &str = "\
fault runtime weights_error error hooks \
kernels parallel step_cache pixels sampling self_test speed timing \
weights encoder_prefix nn placement tensor_files \
capture memory streams vision denoise vae audio \
finish preview probe work controls text guidance stages families bench ranks serve process";

#[test]
fn folders_of_core_import_only_lower_ones() {
    assert_layers("src/core", CORE);
}

#[test]
fn folders_of_the_engine_import_only_lower_ones() {
    assert_layers("src/engine", ENGINE);
}

fn assert_layers(root: &str, layers: &str) {
    let layers: Vec<&str> = layers.split_whitespace().collect();
    let rank = |name: &str| layers.iter().position(|layer| *layer == name);
    let lib = read(&format!("{root}/lib.rs"));
    // The folder of a name that the root of the crate exports.
    let exported = |name: &str| {
        let mut lines = lib.lines().filter_map(|line| {
            let (folder, items) = line.strip_prefix("pub use ")?.split_once("::")?;
            names(items, name).then_some(folder)
        });
        lines.next().and_then(rank)
    };
    let mut upward = Vec::new();
    for path in rust_files(root) {
        let inside = path.trim_start_matches(root).trim_start_matches('/');
        let own = inside.split('/').next().unwrap_or_default();
        let own = own.trim_end_matches(".rs");
        let is_test = inside.contains("tests") || own == "testing";
        if is_test || matches!(own, "lib" | "program" | "build") {
            continue;
        }
        let own_rank = rank(own).unwrap_or_else(|| panic!("{root}/{own} has no layer"));
        let source = read(&path);
        let product = source.split("#[cfg(test)]").next().unwrap_or_default();
        for import in paths_of(&code(product)) {
            let first = import.strip_prefix("crate::");
            let first = first.and_then(|rest| rest.split("::").next());
            let other = first.and_then(|first| rank(first).or_else(|| exported(first)));
            if other.is_some_and(|other| other > own_rank) {
                upward.push(format!("{path} imports {import}"));
            }
        }
    }
    assert!(upward.is_empty(), "\n{}", upward.join("\n"));
}
