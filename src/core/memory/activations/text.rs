//! Text and image encoders: short rows of tokens, so most of it is the table of positions and the wide layers.

use crate::memory::network::Network;

/// T5 and UMT5: `tokens` at a time.
///
/// The bias of positions is made and masked (two of it, in UMT5 anew in each block, and one more is padded for the
/// attention), beside the wide layer's two halves and their product.
pub(super) fn t5(network: &Network, tokens: f64, number_bytes: u64) -> f64 {
    let size = number_bytes as f64;
    let width = network.number("d_model", 4096.0);
    let wide = network.number("d_ff", 10240.0);
    let heads = network.number("num_heads", 64.0);
    let inner = heads * network.number("d_kv", 64.0);
    let bias = 3.0 * heads * tokens * tokens * size;
    let hidden = tokens * (4.0 * width + 4.0 * inner) * size;
    let feed_forward = tokens * (3.0 * width + 4.0 * wide) * size;
    let buckets = tokens * tokens * 8.0;
    buckets + network.expansion_bytes(number_bytes) as f64 + (bias + hidden).max(feed_forward)
}

/// CLIP's text half: 77 tokens.
pub(super) fn clip_text(network: &Network, number_bytes: u64) -> f64 {
    let size = number_bytes as f64;
    let width = network.number("hidden_size", 768.0);
    let wide = network.number("intermediate_size", 3072.0);
    let heads = network.number("num_attention_heads", 12.0);
    77.0 * (8.0 * width + 2.0 * wide + 2.0 * 77.0 * heads) * size
        + network.expansion_bytes(number_bytes) as f64
}

/// CLIP's image half, in f32.
pub(super) fn vision(network: &Network, pictures: f64) -> f64 {
    let width = network.number("hidden_size", 1280.0);
    let wide = network.number("intermediate_size", 5120.0);
    let edge = network.number("image_size", 224.0);
    let patches = (edge / network.number("patch_size", 14.0).max(1.0)).floor();
    let tokens = pictures * (patches * patches + 1.0);
    (tokens * (8.0 * width + 2.0 * wide) + pictures * 3.0 * edge * edge) * 4.0
}

/// Llama: queries, keys, values and the two halves of the wide layer, and a causal mask.
pub(super) fn llama(network: &Network, tokens: f64, number_bytes: u64) -> f64 {
    let size = number_bytes as f64;
    let width = network.number("hidden_size", 4096.0);
    let wide = network.number("intermediate_size", 14336.0);
    let mask = tokens * tokens * 2.0 * size;
    let hidden = tokens * (6.0 * width + 3.0 * wide) * size;
    mask + hidden + network.expansion_bytes(number_bytes) as f64
}

/// SigLIP: one picture.
pub(super) fn siglip(network: &Network, number_bytes: u64) -> f64 {
    let size = number_bytes as f64;
    let width = network.number("hidden_size", 1152.0);
    let wide = network.number("intermediate_size", 4304.0);
    let edge = network.number("image_size", 384.0);
    let patches = (edge / network.number("patch_size", 14.0).max(1.0)).floor();
    patches * patches * (8.0 * width + 2.0 * wide) * size
        + 3.0 * edge * edge * size
        + network.expansion_bytes(number_bytes) as f64
}
