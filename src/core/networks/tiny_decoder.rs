//! Tiny decoders for previews, of TAESD's family: for images (TAESD) and for videos (TAEHV).
//!
//! The header states the whole config, so no `config.json` is read. The catalogue matches decoders to latents.

use std::path::Path;

use crate::networks::prelude::*;

const NUM_LEVELS: usize = 3;
const BLOCKS_PER_LEVEL: usize = 3;
/// Patches of more pixels than any has.
const MAX_PATCH: i64 = 4;
/// By which its files are known.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "" "tiny_decoder" "a tiny decoder of videos, for previews" as TinyDecoder:
        "decoder.22.weight", "decoder.7.conv.weight";
    "" "tiny_decoder" "a tiny decoder of images, for previews" as TinyDecoder:
        "decoder.layers.0.weight", "decoder.layers.18.weight";
    "" "tiny_decoder" "a tiny decoder of images, for previews" as TinyDecoder:
        "3.conv.0.weight", "18.conv.4.weight", "19.weight";
};

/// The names of a tiny decoder's layers: a prefix and numbers that count from the first convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinyDecoderKeys {
    prefix: &'static str,
    /// The number of the first convolution.
    first: usize,
    /// Decodes videos, with blocks that use the previous frame (TAEHV); otherwise images (TAESD).
    pub is_video: bool,
}

impl TinyDecoderKeys {
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let dialect = |prefix, first, is_video| Self {
            prefix,
            first,
            is_video,
        };
        // diffusers' AutoencoderTiny does not count the clamp in front.
        let known = [
            (0, dialect("decoder.", 1, true)),
            (1, dialect("decoder.layers.", 0, false)),
            (2, dialect("", 1, false)),
            (2, dialect("decoder.", 1, false)),
        ];
        let found = known.into_iter().find(|(rule, keys)| {
            // The authors' names alone may have a prefix that their rule leaves out.
            let prefix = if *rule == 2 { keys.prefix } else { "" };
            let mut ends = KINDS[*rule].ends.iter();
            ends.all(|end| has(&format!("{prefix}{end}")))
        });
        found.map(|(_, keys)| keys)
    }

    /// The convolution that takes latents.
    pub fn first(&self) -> String {
        self.layer(0)
    }

    /// All layers after it.
    pub fn layers(&self) -> TinyDecoderLayers {
        // Behind the first convolution and its ReLU; each doubling counts as well.
        let mut number = 2;
        let mut layer = |skipped: usize| {
            number += skipped + 1;
            self.layer(number - 1)
        };
        let levels = [(); NUM_LEVELS].map(|()| TinyDecoderLevel {
            blocks: [(); BLOCKS_PER_LEVEL].map(|()| layer(0)),
            grow: self.is_video.then(|| format!("{}.conv", layer(1))),
            conv: layer(usize::from(!self.is_video)),
        });
        // A block, or a ReLU.
        let end = layer(0);
        TinyDecoderLayers {
            levels,
            end: (!self.is_video).then_some(end),
            last: layer(0),
        }
    }

    /// The layer at this distance after the first convolution.
    fn layer(&self, number: usize) -> String {
        format!("{}{}", self.prefix, self.first + number)
    }
}

/// Names of one level: blocks of one size, the doubling after them, and the convolution to the next level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinyDecoderLevel {
    pub blocks: [String; BLOCKS_PER_LEVEL],
    /// Convolution that makes several frames of one, in video decoders; without a bias.
    pub grow: Option<String>,
    /// The convolution to the next level, without a bias.
    pub conv: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinyDecoderLayers {
    pub levels: [TinyDecoderLevel; NUM_LEVELS],
    /// Block of the last size, in image decoders.
    pub end: Option<String>,
    pub last: String,
}

/// The numbers of a tiny decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinyDecoderConfig {
    pub keys: TinyDecoderKeys,
    pub latent_channels: i64,
    /// Widths of each level and after the last one, from latents to pixels.
    pub widths: Vec<i64>,
    /// Frames that each level of a video decoder can make of one; 1 for images.
    pub frames: Vec<i64>,
    /// Pixels along each edge that one place of the last convolution makes.
    pub patch_size: i64,
}

impl TinyDecoderConfig {
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let config = Self::of_header(&WeightSet::open(place)?);
        config.map_err(|reason| CatalogError::config(reason, place))
    }

    pub(super) fn of_header(weights: &WeightSet) -> Result<Self, String> {
        let keys = TinyDecoderKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("tiny decoder", weights))?;
        let shape = |layer: &str| sizes_of(weights, &format!("{layer}.weight"), 4);
        let first = shape(&keys.first())?;
        let layers = keys.layers();
        let (mut widths, mut frames) = (vec![first[0]], Vec::new());
        for level in &layers.levels {
            let width = widths[widths.len() - 1];
            let grown = level.grow.as_deref().map(shape).transpose()?;
            let grown = grown.map_or(width, |shape| shape[0]);
            frames.push((grown / width).max(1));
            widths.push(shape(&level.conv)?[0]);
        }
        let latent_channels = first[1];
        for &size in widths.iter().chain(&frames).chain([&latent_channels]) {
            check_sizes(&[("width", size)])?;
        }
        let colours = shape(&layers.last)?[0];
        let patch_size = (1..=MAX_PATCH).find(|patch| 3 * patch * patch == colours);
        Ok(Self {
            keys,
            latent_channels,
            widths,
            frames,
            patch_size: patch_size.ok_or_else(|| {
                format!("expected 3 colours of patches, found {colours} channels")
            })?,
        })
    }

    pub fn last_width(&self) -> i64 {
        self.widths[NUM_LEVELS]
    }

    /// Colours of the pixels of a patch.
    pub fn pixel_channels(&self) -> i64 {
        3 * self.patch_size * self.patch_size
    }

    pub fn schema(&self) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        let first = [self.widths[0], self.latent_channels, 3, 3];
        schema.conv(&self.keys.first(), &first);
        let layers = self.keys.layers();
        let widths = self.widths.windows(2).zip(&self.frames);
        for (level, (widths, frames)) in layers.levels.iter().zip(widths) {
            let (width, next) = (widths[0], widths[1]);
            for block in &level.blocks {
                self.block(&mut schema, block, width);
            }
            if let Some(grow) = &level.grow {
                let shape = [frames * width, width, 1, 1];
                schema.add(format!("{grow}.weight"), &shape, TensorRole::Fixed);
            }
            let conv = format!("{}.weight", level.conv);
            schema.add(conv, &[next, width, 3, 3], TensorRole::Fixed);
        }
        let width = self.last_width();
        if let Some(end) = &layers.end {
            self.block(&mut schema, end, width);
        }
        schema.conv(&layers.last, &[self.pixel_channels(), width, 3, 3]);
        schema.into_tensors()
    }

    fn block(&self, schema: &mut Schema, name: &str, width: i64) {
        // Its own frame and the one before it.
        let seen = if self.keys.is_video { 2 * width } else { width };
        schema.conv(&format!("{name}.conv.0"), &[width, seen, 3, 3]);
        schema.conv(&format!("{name}.conv.2"), &[width, width, 3, 3]);
        schema.conv(&format!("{name}.conv.4"), &[width, width, 3, 3]);
    }
}
