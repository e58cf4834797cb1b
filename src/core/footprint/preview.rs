//! Memory of previews: a tiny decoder next to the transformer, and its activations between two steps.
//!
//! Linear previews take nothing to speak of.

use super::{PlannedJob, StageFootprint};
use crate::job::PreviewChoice;

/// The longest edge of a preview in pixels, as the engine bounds it.
const MAX_EDGE: f64 = 512.0;
/// Elements per pixel of the preview at the last level, of 64 channels: a block's input, the previous frame, their
/// concatenation, and the outputs of two convolutions (7 times); the caches of three blocks (3), with the earlier
/// levels (2.25).
const NUMBERS_A_PIXEL: f64 = 64.0 * 12.25;

/// A transformer's need with that of watching.
pub(super) fn watched(job: &PlannedJob<'_>, need: StageFootprint) -> StageFootprint {
    let numbers = job.weights.preview_numbers;
    if job.request.options.preview != PreviewChoice::Auto || numbers == 0 || !need.is_transformer()
    {
        return need;
    }
    let edge = |pixels: u32| f64::from(pixels).min(MAX_EDGE);
    let pixels = edge(job.request.width) * edge(job.request.height);
    let size = need.number_bytes as f64;
    // The two are never at work at once.
    let most = need.activation_bytes.max(pixels * NUMBERS_A_PIXEL * size);
    StageFootprint {
        activation_bytes: most + numbers as f64 * size,
        ..need
    }
}
