//! Transformers of double and single blocks, as FLUX.1 and HunyuanVideo have them: all tokens go through together.

use super::{PlannedJob, StageFootprint};
use crate::footprint::{NetworkFootprint, PlannedNetwork};
use crate::networks::stream_blocks::StreamShape;

/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;

/// The blocks of a transformer, and the tokens that go through them.
pub(crate) struct TokenSequence {
    /// Tokens of one text, with those that are appended.
    pub(crate) text: f64,
    /// Tokens of one image.
    pub(crate) image: f64,
    /// Batch size.
    pub(crate) images: f64,
    /// Numbers of an image's token.
    pub(crate) channels: f64,
    pub(crate) shape: StreamShape,
}

impl TokenSequence {
    /// Tokens of a batch of images.
    pub(crate) fn of_images(
        job: &PlannedJob<'_>,
        [text, image]: [f64; 2],
        channels: i64,
        shape: StreamShape,
    ) -> Self {
        Self {
            text,
            image,
            images: job.images(),
            channels: channels as f64,
            shape,
        }
    }
}

/// The worst moment is in a single block (hidden states, what goes into the wide product or comes out of the attention,
/// and the product itself: 7 widths, or 9 where the feed-forward part is gated) and never below that of a double block.
pub(crate) fn streams(
    job: &PlannedJob<'_>,
    network: &NetworkFootprint,
    sequence: &TokenSequence,
) -> StageFootprint {
    let size = job.number_bytes() as f64;
    let [dim, head_dim] = [sequence.shape.dim, sequence.shape.head_dim].map(|it| it as f64);
    let heads = dim / head_dim;
    let [double, single] = sequence.shape.blocks.map(|blocks| blocks as f64);
    let images = sequence.images;
    let one = sequence.image + sequence.text;
    let tokens = images * one;
    let hidden = tokens * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let scores = one * heads * 4.0;
    // Each image of a batch attends alone, from a copy.
    let copies = if images > 1.0 {
        4.0 * one * dim * size
    } else {
        0.0
    };
    let widths = 2.0 + 3.0 + sequence.shape.mlp_in() as f64 / dim;
    let moment = widths * hidden + expanded.max(copies + scores);
    let texts = f64::from(job.passes());
    let calls = modulated_calls(job);
    let told = if sequence.shape.is_shared {
        12.0 + 3.0
    } else {
        12.0 * double + 3.0 * single
    };
    let modulations = texts * calls * (told + 2.0) * dim * size;
    let angles = tokens * (head_dim / 2.0) * 8.0;
    let text = texts * sequence.text * dim * size;
    let latents = images * sequence.image * sequence.channels * 4.0 * 8.0;
    let kept = job.step_cache_bytes(hidden, texts);
    let bytes = moment + modulations + angles + text + latents + kept;
    let one_image = job.operations(PlannedNetwork::Transformer, one, (dim, double + single));
    StageFootprint {
        calls: job.calls(job.passes()),
        operations: images * one_image,
        attended: tokens * dim * (double + single),
        ..job.need(PlannedNetwork::Transformer, bytes)
    }
}

/// A transformer whose blocks take image and text as one sequence with a gated feed-forward part, and its tokens.
pub(crate) struct JointSequence {
    /// Tokens of one text, and of one image.
    pub(crate) text: f64,
    pub(crate) image: f64,
    /// Numbers of an image's token.
    pub(crate) channels: f64,
    /// Width of the hidden states, inside the feed-forward part, and of one head.
    pub(crate) dim: f64,
    pub(crate) wide: f64,
    pub(crate) head_dim: f64,
    pub(crate) heads: f64,
    /// Heads of keys and values that are made as many as the queries; 0 where there are as many.
    pub(crate) repeated_heads: f64,
    pub(crate) layers: f64,
    /// Vectors as wide as the hidden states that modulate one call, in f32.
    pub(crate) modulations: f64,
}

impl JointSequence {
    /// Bytes of the hidden states that are computed at once: on the CPU one image goes after the other.
    pub(crate) fn hidden(&self, job: &PlannedJob<'_>) -> f64 {
        let at_once = if job.is_on_gpu() { job.images() } else { 1.0 };
        at_once * (self.image + self.text) * self.dim * job.number_bytes() as f64
    }
}

/// Calls whose modulations are made at once.
pub(crate) fn modulated_calls(job: &PlannedJob<'_>) -> f64 {
    f64::from(job.calls(1)).min(CALLS_AT_ONCE)
}

/// The engine's `Block::forward`: the worst moment is in the feed-forward part (hidden states, what goes in, and both wide
/// layers) or in the attention (hidden states, what goes in, queries, keys, values and what comes of them). `moment`: bytes
/// of another moment; `more`: bytes that are there at every moment.
pub(crate) fn joint(
    job: &PlannedJob<'_>,
    network: &NetworkFootprint,
    sequence: &JointSequence,
    [moment, more]: [f64; 2],
) -> StageFootprint {
    let JointSequence {
        text,
        image,
        channels,
        dim,
        wide,
        head_dim,
        heads,
        repeated_heads,
        layers,
        modulations,
    } = *sequence;
    let (size, images) = (job.number_bytes() as f64, job.images());
    let (one, hidden) = (image + text, sequence.hidden(job));
    let at_once = if job.is_on_gpu() { images } else { 1.0 };
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let attention =
        (7.0 + 2.0 * repeated_heads / heads) * hidden + (at_once * one * heads * 4.0).max(expanded);
    let feed_forward = 2.0 * hidden + 2.0 * at_once * one * wide * size + expanded;
    let texts = f64::from(job.passes());
    let modulations = modulated_calls(job) * modulations * dim * 4.0;
    let angles = texts * one * (head_dim / 2.0) * 8.0;
    let text = texts * text * dim * size;
    let latents = images * image * channels * 4.0 * 8.0;
    let kept = job.step_cache_bytes(images * one * dim * size, texts);
    let moment = attention.max(feed_forward).max(moment);
    let bytes = moment + modulations + angles + text + latents + kept + more;
    StageFootprint {
        calls: job.calls(job.passes()),
        operations: images * job.operations(PlannedNetwork::Transformer, one, (dim, layers)),
        attended: images * one * dim * layers,
        ..job.need(PlannedNetwork::Transformer, bytes)
    }
}

/// Adds ControlNets of double and single blocks to the `need` of a transformer's [`streams`]; `controls`: the shape of each.
///
/// Their outputs stay until the last block of a step; the peak is in one of their blocks, with the transformer's hidden
/// states before and after its first norm.
pub(crate) fn add_controls(
    job: &PlannedJob<'_>,
    sequence: &TokenSequence,
    controls: impl Iterator<Item = StreamShape>,
    need: &mut StageFootprint,
) {
    let (size, dim) = (job.number_bytes() as f64, sequence.shape.dim as f64);
    let of_images = sequence.images * sequence.image * dim * size;
    let of_all = sequence.images * (sequence.image + sequence.text) * dim * size;
    let blocks_of = |shape: StreamShape| shape.blocks.map(|blocks| blocks as f64);
    let mut blocks = 0.0;
    for shape in controls {
        let [double, single] = blocks_of(shape);
        // Modulations of a step's calls are made together, as the transformer's.
        let told = 12.0 * double + 3.0 * single;
        let modulations = modulated_calls(job) * told * dim * size;
        need.activation_bytes += (double + single + 1.0) * of_images + modulations;
        blocks += double + single;
    }
    if blocks > 0.0 {
        need.activation_bytes += 2.0 * of_all;
        let [double, single] = blocks_of(sequence.shape);
        // One pass serves both texts.
        need.operations *= 1.0 + blocks / (double + single) / f64::from(job.passes());
    }
}
