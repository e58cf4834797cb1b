//! The names of the autoencoder's tensors: the fields follow the authors' own, which the catalogue's table translates
//! into those of the file, wherever in it the autoencoder is.

use safelight_core::catalog::KlVaeKeys;

use crate::weights::Weights;

/// Lets `weights` be asked with the authors' names, whichever dialect the file is written in. `levels`: how many there
/// are, since the authors count the decoder's from the other end.
pub(super) fn original_names(weights: &Weights, levels: usize) -> Weights {
    match detect(weights) {
        Some(mut keys) => {
            keys.levels = levels;
            weights.translated(move |original| keys.file_key(original))
        }
        None => weights.clone(),
    }
}

/// How many levels the file has.
pub(super) fn levels(weights: &Weights) -> usize {
    detect(weights).map_or(0, |keys| keys.levels)
}

/// Keys of the autoencoder that nobody asked for, without those of one half.
pub(super) fn unexpected(weights: &Weights, other_half: Half) -> Vec<String> {
    let starts = match other_half {
        Half::Encoder => ["encoder.", "quant_conv."],
        Half::Decoder => ["decoder.", "post_quant_conv."],
    };
    let prefix = detect(weights).map_or_else(String::new, |keys| keys.prefix);
    let mut unexpected = weights.finish();
    // A file with a prefix holds other networks too.
    unexpected.retain(|key| {
        key.strip_prefix(&prefix)
            .is_some_and(|key| !starts.iter().any(|start| key.starts_with(start)))
    });
    unexpected
}

fn detect(weights: &Weights) -> Option<KlVaeKeys> {
    let keys: Vec<&str> = weights.keys().collect();
    KlVaeKeys::detect(keys.iter().copied())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Encoder,
    Decoder,
}
