//! Keys in weight files: what is a tensor's own name, and what says how the tensor next to it is stored.

/// Names that ComfyUI gave to the factor of a matrix, after the name of its layer.
pub const SCALES: [&str; 2] = [".scale_weight", ".weight_scale"];
/// Tensors next to a matrix that change none of its values.
const ASIDE: [&str; 3] = [".scale_input", ".input_scale", ".comfy_quant"];
/// Other scales and tables of quantized matrices.
const QUANT: [&str; 5] = [
    ".weight_scale_2",
    ".weight_s_rel",
    ".weight_s_channel",
    ".weight_codebook",
    ".pre_quant_scale",
];
/// Says that a file has scales, and no more.
pub const MARKER: &str = "scaled_fp8";

/// Tensors of a component besides its own: scales, and settings of its storage.
pub fn is_aside(key: &str) -> bool {
    aside_ends().any(|end| key.ends_with(end)) || key.rsplit('.').next() == Some(MARKER)
}

/// Suffixes of the keys that are stored with a matrix, after the name of its layer.
pub fn aside_ends() -> impl Iterator<Item = &'static str> {
    SCALES.into_iter().chain(ASIDE).chain(QUANT)
}

/// Part before a tensor's own name in a file with its storage in the name: quanto's `weight._data` and
/// nunchaku's `qweight` are a `weight`.
pub(crate) fn plain_name(key: &str) -> String {
    let key = key.strip_suffix("._data").unwrap_or(key);
    match key.strip_suffix(".qweight") {
        Some(layer) => format!("{layer}.weight"),
        None => key.to_owned(),
    }
}

/// Returns true if `key` is `end`, bare or after a prefix of whole names.
pub(crate) fn ends_with_path(key: &str, end: &str) -> bool {
    key.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}
