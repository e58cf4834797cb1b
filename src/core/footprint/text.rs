//! Text and image encoders: short rows of tokens, so most of it is the table of positions and the wide layers.

use super::{PlannedJob, StageFootprint};
use crate::footprint::PlannedNetwork;
use crate::networks::{
    AnimaAdapterConfig, ClipConfig, ClipKind, ClipLayers, LanguageConfig, ReduxConfig,
    SiglipConfig, T5Config,
};

/// Bytes of a number in f32.
const EXACT_BYTES: u64 = 4;

/// T5 and UMT5: `tokens` at a time.
///
/// The position bias is built and masked (two copies, in UMT5 again in each block, and one more is padded for the
/// attention), in addition to the wide layer's two halves and their product.
pub(crate) fn t5(
    job: &PlannedJob<'_>,
    part: PlannedNetwork,
    tokens: f64,
) -> Option<StageFootprint> {
    let (network, config) = job.configured::<T5Config>(part)?;
    let size = job.number_bytes() as f64;
    let [width, wide] = [config.d_model, config.d_ff].map(|it| it as f64);
    let heads = config.num_heads as f64;
    let inner = heads * config.d_kv as f64;
    let bias = 3.0 * heads * tokens * tokens * size;
    let hidden = tokens * (4.0 * width + 4.0 * inner) * size;
    let feed_forward = tokens * (3.0 * width + 4.0 * wide) * size;
    let buckets = tokens * tokens * 8.0;
    let bytes = buckets + (bias + hidden).max(feed_forward);
    Some(job.need_of((part, network), bytes, job.number_bytes()))
}

/// Anima's text adapter: `tokens` of both tokenizers, and both layers of the feed-forward part.
pub(crate) fn anima_adapter(
    job: &PlannedJob<'_>,
    part: PlannedNetwork,
    tokens: f64,
) -> Option<StageFootprint> {
    let (network, config) = job.configured::<AnimaAdapterConfig>(part)?;
    let numbers = tokens * (8 * config.model_dim + 2 * config.mlp_dim()) as f64;
    let bytes = numbers * job.number_bytes() as f64;
    Some(job.need_of((part, network), bytes, job.number_bytes()))
}

/// CLIP's text half: 77 tokens.
pub(crate) fn clip_text<K: ClipKind + Send + Sync + 'static>(
    job: &PlannedJob<'_>,
    part: PlannedNetwork,
) -> Option<StageFootprint> {
    let (network, config) = job.configured::<ClipConfig<K>>(part)?;
    let size = job.number_bytes() as f64;
    let [width, wide] = [config.hidden_size, config.intermediate_size].map(|it| it as f64);
    let heads = config.num_attention_heads as f64;
    let numbers = 77.0 * (8.0 * width + 2.0 * wide + 2.0 * 77.0 * heads);
    Some(job.need_of((part, network), numbers * size, job.number_bytes()))
}

/// CLIP's and SigLIP's image half: images of `edge` pixels in `tokens` tokens each.
pub(crate) fn vision(
    layers: &ClipLayers,
    images: f64,
    (tokens, edge): (f64, f64),
    number_bytes: u64,
) -> f64 {
    let [width, wide] = [layers.hidden_size, layers.intermediate_size].map(|it| it as f64);
    let numbers = tokens * (8.0 * width + 2.0 * wide) + 3.0 * edge * edge;
    images * numbers * number_bytes as f64
}

/// SigLIP with one image at a time, in f32 whatever the rest computes in.
pub(crate) fn siglip(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let part = PlannedNetwork::ImageEncoder;
    let (network, config) = job.configured::<SiglipConfig>(part)?;
    let sizes = (config.num_tokens() as f64, config.image_size as f64);
    let bytes = vision(&config.layers(), 1.0, sizes, EXACT_BYTES);
    Some(job.need_of((part, network), bytes, EXACT_BYTES))
}

/// Redux adapter, from SigLIP's hidden states to text tokens, in f32.
pub(crate) fn redux(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let part = PlannedNetwork::ImageEmbedder;
    let (network, config) = job.configured::<ReduxConfig>(part)?;
    let widths = config.redux_dim + 2 * config.inner_dim() + 2 * config.txt_in_features;
    let bytes = seen_tokens(job) * widths as f64 * EXACT_BYTES as f64;
    Some(job.need_of((part, network), bytes, EXACT_BYTES))
}

/// Tokens of all images that are parts of the prompt.
pub(crate) fn seen_tokens(job: &PlannedJob<'_>) -> f64 {
    let images = job.request.prompt_images.len() as f64;
    let encoder = job.configured::<SiglipConfig>(PlannedNetwork::ImageEncoder);
    encoder.map_or(0.0, |(_, config)| images * config.num_tokens() as f64)
}

/// Llama and Qwen: queries, keys, values and the two halves of the wide layer, and a causal mask.
pub(crate) fn language(
    job: &PlannedJob<'_>,
    part: PlannedNetwork,
    tokens: f64,
) -> Option<StageFootprint> {
    let (network, config) = job.configured::<LanguageConfig>(part)?;
    let size = job.number_bytes() as f64;
    let [width, wide] = [config.hidden_size, config.intermediate_size].map(|it| it as f64);
    let inner = (config.num_attention_heads * config.head_dim()) as f64;
    let mask = tokens * tokens * 2.0 * size;
    let hidden = tokens * (2.0 * width + 4.0 * inner + 3.0 * wide) * size;
    // Several states are kept until they are concatenated.
    let kept = match config.tap.states(config.num_hidden_layers).len() {
        0 | 1 => 0.0,
        several => tokens * 2.0 * several as f64 * width * size,
    };
    let bytes = mask + hidden + kept;
    Some(job.need_of((part, network), bytes, job.number_bytes()))
}
