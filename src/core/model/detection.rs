//! Recognition of a file by the names of a few of its tensors: one list of rules, for a search of the disk and for
//! messages.
//!
//! Each network and each family has its own rules; their order is that of `library::kind`. Reads nothing.

use super::ModelComponent;

/// A network next to the transformer, of one family or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PartKind {
    WanVae,
    /// VAE of images.
    KlVae,
    /// VAE of HunyuanVideo.
    VideoVae,
    /// Video VAE of LTX-2.3.
    Ltx2Vae,
    /// Audio VAE or vocoder of LTX-2.3.
    Ltx2Audio,
    /// Text connectors or projections of LTX-2.3.
    Ltx2Text,
    /// Doubles the edges of LTX-2.3's latents.
    LatentUpscaler,
    Umt5,
    T5,
    /// In the file of Anima's transformer.
    AnimaAdapter,
    /// The text half.
    Clip,
    ClipVision,
    Siglip,
    /// Projects SigLIP's embeddings to tokens of a text.
    Redux,
    Llama,
    /// Qwen 2.5 and 3.
    Qwen,
    Gemma,
    /// For previews.
    TinyDecoder,
}

impl PartKind {
    /// Returns true if models have it in this place.
    pub fn can_be(self, component: ModelComponent) -> bool {
        match component {
            ModelComponent::Transformer => false,
            ModelComponent::Vae => matches!(
                self,
                Self::WanVae | Self::KlVae | Self::VideoVae | Self::Ltx2Vae
            ),
            ModelComponent::TextEncoder => {
                matches!(
                    self,
                    Self::Umt5 | Self::T5 | Self::Clip | Self::Llama | Self::Qwen | Self::Gemma
                )
            }
            ModelComponent::TextEncoder2 => {
                matches!(self, Self::T5 | Self::Clip | Self::AnimaAdapter)
            }
            ModelComponent::ImageEncoder => matches!(self, Self::ClipVision | Self::Siglip),
            ModelComponent::TextConnectors | ModelComponent::TextProjection => {
                self == Self::Ltx2Text
            }
            ModelComponent::AudioVae | ModelComponent::Vocoder => self == Self::Ltx2Audio,
            ModelComponent::LatentUpscaler => self == Self::LatentUpscaler,
        }
    }
}

/// A rule that recognises a file by certain tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectionRule {
    /// A family's id, the short name of a relative that this version does not run or of an encoder, or empty.
    pub family: &'static str,
    pub role: &'static str,
    /// A noun phrase.
    pub text: &'static str,
    /// Ends of keys that all must be there.
    pub ends: &'static [&'static str],
    /// End of a key, axis of its tensor, and the size that the axis must have.
    pub size: Option<(&'static str, usize, u64)>,
    /// The part of a model that it can be; none of a transformer, and of what no model here has.
    pub part: Option<PartKind>,
}

impl DetectionRule {
    pub const fn new(
        family: &'static str,
        role: &'static str,
        text: &'static str,
        ends: &'static [&'static str],
    ) -> Self {
        Self {
            family,
            role,
            text,
            ends,
            size: None,
            part: None,
        }
    }

    /// Returns whether the tensor of [`Self::size`] has that size. `shape_of`: shape of the tensor whose key has an
    /// ending.
    pub fn has_size<'a>(&self, shape_of: impl Fn(&str) -> Option<&'a [u64]>) -> bool {
        self.size.is_none_or(|(end, axis, size)| {
            shape_of(end).is_some_and(|shape| shape.get(axis) == Some(&size))
        })
    }

    /// Returns whether all its tensors exist. `has`: whether a key with an ending exists.
    pub fn fits(&self, has: impl Fn(&str) -> bool) -> bool {
        self.ends.iter().all(|end| has(end))
    }
}

/// [`DetectionRule`]s, one a row: family, role, noun phrase and part of a model; after the colon the ends of keys.
macro_rules! detection_rules {
    ($($family:literal $role:literal $text:literal $(as $part:ident)?: $($end:expr),+;)+) => {
        &[$($crate::model::DetectionRule {
            part: [$(Some($crate::model::PartKind::$part),)? None][0],
            ..$crate::model::DetectionRule::new($family, $role, $text, &[$($end),+])
        }),+]
    };
}

/// [`LoraSignature`]s, one family a row: id and label; after the colon beginnings of names, each with the
/// first block and the ends that tell.
macro_rules! lora_signatures {
    ($($family:literal $label:literal: $($start:literal $(from $first:literal)? $([$($end:literal),+])?),+;)+) => {
        &[$($($crate::model::LoraSignature {
            first_block: [$($first,)? 0][0],
            ends: &[$($($end),+)?],
            ..$crate::model::LoraSignature::of($family, $label, $start)
        }),+),+]
    };
}

pub(crate) use {detection_rules, lora_signatures};

/// Layer names that a family shares with another one, and the differences.
pub(crate) struct SharedLoraNames {
    /// Short name and label of the other family.
    pub other: (&'static str, &'static str),
    /// Parts of names in files of the other family alone.
    pub other_parts: &'static [&'static str],
    /// Parts of names in files of this family alone.
    pub own_parts: &'static [&'static str],
    /// Ends of names in underscores of this family alone.
    pub own_ends: &'static [&'static str],
    /// Last blocks of this family, in underscores: the other one has more, and few LoRAs change all blocks but the last.
    pub own_blocks: &'static [&'static str],
}

/// Layer names by which LoRAs of one origin are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoraSignature {
    /// A family's id, the short name of a relative, or the label of another model.
    pub family: &'static str,
    pub label: &'static str,
    /// The beginning of a layer's name, where each `#` is a number: the last one that of a block.
    pub start: &'static str,
    /// The ends of that; none where every end will do.
    pub ends: &'static [&'static str],
    /// The first number of a block that tells.
    pub first_block: usize,
    /// The outputs and inputs of the layer, where only those tell.
    pub outputs: Option<u64>,
    pub inputs: Option<u64>,
}

impl LoraSignature {
    pub const fn of(family: &'static str, label: &'static str, start: &'static str) -> Self {
        Self {
            family,
            label,
            start,
            ends: &[],
            first_block: 0,
            outputs: None,
            inputs: None,
        }
    }
}
