//! ControlNets of Qwen-Image: InstantX's, recognised by header alone, and others, which are named and refused.

use std::path::Path;

use crate::families::prelude::*;
use crate::networks::QwenImageControlConfig;

/// A layer after each block of DiffSynth's alone.
const BLOCKWISE: &str = "controlnet_blocks.0.x_rms.weight";

pub(super) fn find(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    if weights.has(BLOCKWISE) {
        let reason = "this is DiffSynth's blockwise ControlNet of Qwen-Image, which does not run here; \
                      InstantX's Qwen-Image-ControlNet-Union does";
        return Some(Err(CatalogError::config(reason, place)));
    }
    control_net(weights, place, |config: &QwenImageControlConfig| {
        ControlNetwork {
            family: super::FAMILY,
            label: if config.takes_mask() {
                "Qwen-Image ControlNet Inpainting"
            } else {
                "Qwen-Image ControlNet"
            },
            kinds: &[],
            takes_masks: config.takes_mask(),
        }
    })
}
