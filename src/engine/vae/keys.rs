//! Lets autoencoders' weights be asked for by their authors' names, whichever dialect the file is written in and wherever
//! in it the autoencoder is.
//!
//! The dialects themselves are core's.

use safelight_core::networks::{KlVaeKeys, VaeHalf, WanVaeConfig, WanVaeKeys};

use crate::weights::Weights;

/// Of Wan's autoencoder with these numbers.
pub(super) fn wan(weights: &Weights, cfg: &WanVaeConfig) -> Weights {
    match wan_keys(weights) {
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
    by_kl_keys(weights, kl_keys(weights), levels)
}

/// Of HunyuanVideo's autoencoder with so many levels, which has the names of a picture's.
pub(super) fn hunyuan(weights: &Weights, levels: usize) -> Weights {
    by_kl_keys(weights, hunyuan_keys(weights), levels)
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
    unexpected(weights, half, wan_keys(weights).map(|keys| keys.prefix))
}

pub(super) fn unexpected_of_kl(weights: &Weights, half: VaeHalf) -> Vec<String> {
    unexpected(weights, half, kl_keys(weights).map(|keys| keys.prefix))
}

pub(super) fn unexpected_of_hunyuan(weights: &Weights, half: VaeHalf) -> Vec<String> {
    unexpected(weights, half, hunyuan_keys(weights).map(|keys| keys.prefix))
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

fn wan_keys(weights: &Weights) -> Option<WanVaeKeys> {
    let keys: Vec<&str> = weights.keys().collect();
    WanVaeKeys::detect(keys.iter().copied())
}

fn kl_keys(weights: &Weights) -> Option<KlVaeKeys> {
    let keys: Vec<&str> = weights.keys().collect();
    KlVaeKeys::detect(keys.iter().copied())
}

fn hunyuan_keys(weights: &Weights) -> Option<KlVaeKeys> {
    let keys: Vec<&str> = weights.keys().collect();
    KlVaeKeys::detect_video(keys.iter().copied())
}
