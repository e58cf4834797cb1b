//! The shapes that a file's tensors had before they were written them as GGUF.
//!
//! ggml knows four sizes and forgets those of 1 in front; what was reshaped for its sake says so under
//! `comfy.gguf.orig_shape.<name>`. Only shapes change here, never the count of numbers.

use std::collections::BTreeMap;

use crate::formats::weights::TensorInfo;

/// Prefix of the name of a reshaped tensor.
pub(super) const ORIGINAL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// Gives the tensors of Wan whose sizes ggml folded or forgot their own again.
///
/// A kernel `(out, in, t, h, w)` is folded to `(out·in, t, h, w)`, its bias shows `out`; tables of `(1, n, width)`
/// lose the 1.
pub(super) fn unfold(tensors: &mut BTreeMap<String, TensorInfo>) {
    let widths: BTreeMap<String, u64> = tensors
        .iter()
        .filter_map(|(name, info)| {
            let module = name.strip_suffix("patch_embedding.bias")?;
            let &[width] = &info.shape[..] else {
                return None;
            };
            Some((format!("{module}patch_embedding.weight"), width))
        })
        .collect();
    for (name, info) in tensors.iter_mut() {
        let own = match (&info.shape[..], widths.get(name)) {
            (&[folded, t, h, w], Some(&width)) if width > 0 && folded % width == 0 => {
                vec![width, folded / width, t, h, w]
            }
            (&[rows, width], _) if name.ends_with("modulation") || name.ends_with("emb_pos") => {
                vec![1, rows, width]
            }
            _ => continue,
        };
        info.shape = own;
    }
}
