//! Lets autoencoders' weights be asked for by their authors' names, whichever dialect the file is written in and wherever
//! in it the autoencoder is.
//!
//! The dialects themselves are core's.

use safelight_core::networks::{KlVaeKeys, VaeHalf, WanVaeConfig, WanVaeKeys};

use crate::weights::Weights;

/// Of Wan's autoencoder with these numbers.
pub(super) fn wan(weights: &Weights, cfg: &WanVaeConfig) -> Weights {
    match WanVaeKeys::detect(weights.keys()) {
        Some(keys) => {
            let keys = keys.of_levels(cfg);
            weights.translated(move |original| keys.file_key(original))
        }
        // Nothing is there: what is asked for first will be named as missing.
        None => weights.clone(),
    }
}

/// Of a picture's autoencoder with so many levels.
pub(super) fn kl(weights: &Weights, levels: usize) -> Weights {
    by_kl_keys(weights, KlVaeKeys::detect(weights.keys()), levels)
}

/// Of HunyuanVideo's autoencoder with so many levels, which has the names of a picture's.
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

/// Keys of one half of Wan's autoencoder that nobody asked for.
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
