//! Renames an autoencoder's keys to those of its authors, for every dialect and any prefix in the file.
//!
//! The dialects are defined in core.

use safelight_core::networks::{KlVaeKeys, VaeHalf, WanVaeConfig, WanVaeKeys};

use crate::weights::Weights;

/// Of Wan's autoencoder with these numbers.
pub(super) fn wan(weights: &Weights, cfg: &WanVaeConfig) -> Weights {
    match WanVaeKeys::detect(weights.keys()) {
        Some(keys) => {
            let keys = keys.of_levels(cfg);
            weights.translated(move |original| keys.file_key(original))
        }
        // No known key: the first requested tensor is reported as missing.
        None => weights.clone(),
    }
}

pub(super) fn kl(weights: &Weights, levels: usize) -> Weights {
    by_kl_keys(weights, KlVaeKeys::detect(weights.keys()), levels)
}

/// HunyuanVideo's autoencoder with `levels` levels; it uses the names of an image autoencoder.
pub(super) fn hunyuan(weights: &Weights, levels: usize) -> Weights {
    by_kl_keys(weights, KlVaeKeys::detect_video(weights.keys()), levels)
}

fn by_kl_keys(weights: &Weights, keys: Option<KlVaeKeys>, levels: usize) -> Weights {
    match keys {
        Some(keys) => {
            let keys = keys.of_levels(levels);
            weights.translated(move |original| keys.file_key(original))
        }
        None => weights.clone(),
    }
}

/// Keys of one half of Wan's autoencoder that were not requested.
pub(super) fn unexpected_of_wan(weights: &Weights, half: VaeHalf) -> Vec<String> {
    let keys = WanVaeKeys::detect(weights.keys());
    unexpected(weights, half, keys.map(|keys| keys.prefix))
}

pub(super) fn unexpected_of_kl(weights: &Weights, half: VaeHalf) -> Vec<String> {
    let keys = KlVaeKeys::detect(weights.keys());
    unexpected(weights, half, keys.map(|keys| keys.prefix))
}

pub(super) fn unexpected_of_hunyuan(weights: &Weights, half: VaeHalf) -> Vec<String> {
    let keys = KlVaeKeys::detect_video(weights.keys());
    unexpected(weights, half, keys.map(|keys| keys.prefix))
}

fn unexpected(weights: &Weights, half: VaeHalf, prefix: Option<String>) -> Vec<String> {
    let prefix = prefix.unwrap_or_default();
    let other = match half {
        VaeHalf::Encoder => VaeHalf::Decoder,
        VaeHalf::Decoder => VaeHalf::Encoder,
    };
    let mut unexpected = weights.finish();
    // A file with a prefix holds other networks too.
    unexpected.retain(|key| key.strip_prefix(&prefix).is_some_and(|key| !other.has(key)));
    unexpected
}
