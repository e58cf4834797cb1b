//! The check on inherited environment variables that trouble libtorch and ROCm.
//!
//! Safelight sets what it needs for the engine by itself; what is listed here came from elsewhere.

use super::Check;

/// A name, or the beginning of names when it ends in `*`, and what it does.
const KNOWN: &[(&str, &str)] = &[
    (
        "HSA_OVERRIDE_GFX_VERSION",
        "makes ROCm take the GPU for another one",
    ),
    (
        "PYTORCH_ALLOC_CONF",
        "changes how libtorch keeps GPU memory; normally it is not set",
    ),
    (
        "PYTORCH_CUDA_ALLOC_CONF",
        "changes how libtorch keeps GPU memory; normally it is not set",
    ),
    (
        "PYTORCH_HIP_ALLOC_CONF",
        "changes how libtorch keeps GPU memory; normally it is not set",
    ),
    (
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "makes every allocation on the GPU slow",
    ),
    (
        "MIOPEN_*",
        "changes how convolutions are chosen on AMD, which can take minutes or hang",
    ),
    (
        "CUDA_VISIBLE_DEVICES",
        "hides GPUs or changes their numbers",
    ),
    ("HIP_VISIBLE_DEVICES", "hides GPUs or changes their numbers"),
    (
        "ROCR_VISIBLE_DEVICES",
        "hides GPUs or changes their numbers",
    ),
    ("CUDA_LAUNCH_BLOCKING", "makes the GPU wait for every step"),
    ("HIP_LAUNCH_BLOCKING", "makes the GPU wait for every step"),
    ("AMD_SERIALIZE_KERNEL", "makes the GPU wait for every step"),
];

pub(super) fn all(variables: &[(String, String)], has_gfx1151: bool) -> Vec<Check> {
    let mut found: Vec<(&str, &str, &str)> = variables
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str(), effect(name, value)?)))
        .collect();
    found.sort_unstable();
    if found.is_empty() {
        return vec![Check::ok(
            "environment",
            "no inherited variable is known to trouble the engine",
        )];
    }
    found
        .into_iter()
        .map(|(name, value, effect)| {
            let message = format!("{name}={value} is set, which {effect}");
            if name == "HSA_OVERRIDE_GFX_VERSION" && has_gfx1151 {
                Check::fail("environment", format!("{message}; it crashes gfx1151"))
            } else {
                Check::warn("environment", message)
            }
            .advise(format!(
                "Unless you mean it, start Safelight without it: `env -u {name} safelight`"
            ))
        })
        .collect()
}

fn effect(name: &str, value: &str) -> Option<&'static str> {
    // On is what the engine is given anyway.
    if name == "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL" && value == "0" {
        return Some("turns off fast attention on AMD");
    }
    if name == "MIOPEN_FIND_MODE" && matches!(value, "2" | "FAST") {
        return None;
    }
    let fits = |known: &str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == known,
    };
    KNOWN
        .iter()
        .find(|(known, _)| fits(known))
        .map(|(_, effect)| *effect)
}
