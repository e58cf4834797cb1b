//! Tiny decoders for previews: which of those that were found reads the latents of a model.
//!
//! The header decides; a file's name only tells apart what no header can: Wan's and HunyuanVideo's are built alike, as
//! those of Flux and Stable Diffusion 3 are. Loads nothing.

use std::path::{Path, PathBuf};

use safetensors::Dtype;

use crate::formats::weights::WeightSet;
use crate::library::{ComponentCandidate, WeightFileRole};
use crate::model::ModelFamily;
use crate::networks::{PartKind, TinyDecoderKeys};

/// Channels that the latents of several families have.
const COMMON_CHANNELS: u64 = 16;

/// The decoder for previews of a model, among all parts that were found.
pub(crate) fn for_model(
    family: ModelFamily,
    latent_channels: u64,
    items: &[ComponentCandidate],
) -> Option<PathBuf> {
    let tiny = items
        .iter()
        .filter(|item| item.role == WeightFileRole::Part(PartKind::TinyDecoder));
    let fitting = tiny.filter_map(|item| {
        let doubt = doubt(&item.place, family, latent_channels)?;
        Some((doubt, &item.place))
    });
    // The first of equals, in the order in which places win.
    let best = fitting.min_by_key(|(doubt, _)| *doubt);
    best.map(|(_, place)| place.clone())
}

/// Doubt that a file fits, 0 where its name or shape shows it; `None` if it is for another model.
fn doubt(place: &Path, family: ModelFamily, latent_channels: u64) -> Option<u8> {
    let weights = WeightSet::open(place).ok()?;
    let keys = TinyDecoderKeys::detect(|key| weights.has(key))?;
    let first = weights.tensors.get(&format!("{}.weight", keys.first()))?;
    if keys.is_video == family.makes_images || first.shape.get(1) != Some(&latent_channels) {
        return None;
    }
    let name = last_names(place);
    let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let own = &family.tiny_decoder;
    let is_own = says(own.words);
    if !keys.is_video {
        let is_other = says(&["taesd", "sd3"]);
        return (is_own || !is_other).then_some(u8::from(!is_own));
    }
    // Latents of other numbers of channels are one family's alone.
    if latent_channels != COMMON_CHANNELS {
        return Some(0);
    }
    let mut others = ModelFamily::all().filter(|other| *other != family && !other.makes_images);
    let is_other = others.any(|other| says(other.tiny_decoder.words));
    if is_own != is_other {
        return is_own.then_some(0);
    }
    // Without a name the type of its numbers tells.
    ((first.dtype == Dtype::F16) == own.is_f16).then_some(1)
}

/// The names of a place and of the folders around it, as far as they can speak of it.
fn last_names(place: &Path) -> String {
    let all: Vec<_> = place.iter().collect();
    // A repository's name is two folders above its files.
    let last = &all[all.len().saturating_sub(if place.is_dir() { 3 } else { 1 })..];
    let names = last
        .iter()
        .map(|name| name.to_string_lossy().to_lowercase());
    names.collect::<Vec<_>>().join("/")
}
