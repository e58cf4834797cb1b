//! Tiny decoders for previews: which files are ones, and whose latents they read.
//!
//! The header decides; a file's name only tells apart what no header can: Wan's and HunyuanVideo's are built alike, as
//! those of Flux and Stable Diffusion 3 are. Loads nothing.

use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::Family;
use super::library::{Item, Role};
use super::weights::WeightSet;

/// The names of a tiny decoder's layers: a prefix and numbers that count from the first convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinyDecoderKeys {
    pub prefix: &'static str,
    /// The number of the first convolution.
    pub first: usize,
    /// Of clips, whose blocks remember the frame before (TAEHV); else of pictures (TAESD).
    pub is_video: bool,
}

impl TinyDecoderKeys {
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let all = |keys: &[&str]| keys.iter().all(|key| has(key));
        let picture = |prefix, first| Self {
            prefix,
            first,
            is_video: false,
        };
        if all(&["decoder.22.weight", "decoder.7.conv.weight"]) {
            return Some(Self {
                prefix: "decoder.",
                first: 1,
                is_video: true,
            });
        }
        // diffusers' AutoencoderTiny does not count the clamp in front.
        if all(&["decoder.layers.0.weight", "decoder.layers.18.weight"]) {
            return Some(picture("decoder.layers.", 0));
        }
        let blocks = ["3.conv.0.weight", "18.conv.4.weight", "19.weight"];
        let own = ["", "decoder."]
            .into_iter()
            .find(|prefix| blocks.iter().all(|end| has(&format!("{prefix}{end}"))));
        own.map(|prefix| picture(prefix, 1))
    }

    /// The layer that many places behind the first convolution.
    pub fn layer(&self, number: usize) -> String {
        format!("{}{}", self.prefix, self.first + number)
    }
}

/// The decoder for previews of a model, among all parts that were found.
pub(super) fn for_model(family: Family, latent_channels: u64, items: &[Item]) -> Option<PathBuf> {
    let tiny = items.iter().filter(|item| item.role == Role::TinyDecoder);
    let fitting = tiny.filter_map(|item| {
        let doubt = doubt(&item.place, family, latent_channels)?;
        Some((doubt, &item.place))
    });
    // The first of equals, in the order in which places win.
    let best = fitting.min_by_key(|(doubt, _)| *doubt);
    best.map(|(_, place)| place.clone())
}

/// How little speaks for a file, 0 where its name or shape says so; `None` where it is for another model.
fn doubt(place: &Path, family: Family, latent_channels: u64) -> Option<u8> {
    let weights = WeightSet::at(place).ok()?;
    let keys = TinyDecoderKeys::detect(|key| weights.has(key))?;
    let first = weights.tensors.get(&format!("{}.weight", keys.layer(0)))?;
    if keys.is_video == family.makes_pictures() || first.shape.get(1) != Some(&latent_channels) {
        return None;
    }
    let name = last_names(place);
    let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if !keys.is_video {
        let is_flux = says(&["taef1", "flux"]);
        let is_other = says(&["taesd", "sd3", "sdxl"]);
        return (is_flux || !is_other).then_some(u8::from(!is_flux));
    }
    // Only Wan 2.2's autoencoder has so many.
    if latent_channels == 48 {
        return (family == Family::Wan).then_some(0);
    }
    let is_hunyuan = says(&["taehv", "taehy", "hunyuan", "framepack"]);
    let is_wan = says(&["taew", "wan"]);
    if is_hunyuan != is_wan {
        return (is_wan == (family == Family::Wan)).then_some(0);
    }
    // Without a name: HunyuanVideo's is published in halves.
    let is_in_halves = first.dtype == Dtype::F16;
    (is_in_halves != (family == Family::Wan)).then_some(1)
}

/// The names of a place and of the folders around it, as far as they can speak of it.
fn last_names(place: &Path) -> String {
    let all: Vec<_> = place.iter().collect();
    // A repository's name stands two folders above its files.
    let last = &all[all.len().saturating_sub(if place.is_dir() { 3 } else { 1 })..];
    let names = last
        .iter()
        .map(|name| name.to_string_lossy().to_lowercase());
    names.collect::<Vec<_>>().join("/")
}
