//! ControlNets of Qwen-Image: InstantX's, told by header alone, and others, which are named and refused.

use std::path::Path;

use crate::formats::weights::WeightSet;
use crate::library::ControlNetwork;
use crate::memory::Network;
use crate::model::CatalogError;
use crate::networks::{NetworkConfig as _, QwenImageControlConfig, QwenImageControlKeys};

/// What DiffSynth's have behind each block, and no others.
const BLOCKWISE: &str = "controlnet_blocks.0.x_rms.weight";

pub(super) fn network(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    if weights.has(BLOCKWISE) {
        let reason = "this is DiffSynth's blockwise ControlNet of Qwen-Image, which does not run here; \
                      InstantX's Qwen-Image-ControlNet-Union does";
        return Some(Err(CatalogError::config(reason, place)));
    }
    let read = || {
        let config = QwenImageControlConfig::read(place)?;
        config.check_weights(weights)?;
        Ok(ControlNetwork {
            family: super::FAMILY,
            label: if config.takes_mask() {
                "Qwen-Image ControlNet Inpainting"
            } else {
                "Qwen-Image ControlNet"
            },
            kinds: &[],
            takes_masks: config.takes_mask(),
        })
    };
    QwenImageControlKeys::are_in(|key| weights.has(key)).then(read)
}

pub(super) fn weights(place: &Path) -> Result<Network, CatalogError> {
    Network::read::<QwenImageControlConfig>(place)
}
