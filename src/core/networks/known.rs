//! Recognition of a file by the names of a few of its tensors: one list of rules, for a search of the disk and for
//! messages.
//!
//! Each network and each family has its own rules; their order is that of `library::kind`. Reads nothing.

use crate::model::ModelComponent;

/// A network next to the transformer, of one family or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PartKind {
    WanVae,
    /// Of pictures.
    KlVae,
    /// Of HunyuanVideo.
    VideoVae,
    Umt5,
    T5,
    /// The text half.
    Clip,
    ClipVision,
    Siglip,
    /// Projects SigLIP's embeddings to tokens of a text.
    Redux,
    Llama,
    /// Qwen 2.5 and 3.
    Qwen,
    /// For previews.
    TinyDecoder,
}

impl PartKind {
    /// Returns true if models have it in this place.
    pub fn can_be(self, component: ModelComponent) -> bool {
        match component {
            ModelComponent::Transformer => false,
            ModelComponent::Vae => matches!(self, Self::WanVae | Self::KlVae | Self::VideoVae),
            ModelComponent::TextEncoder => {
                matches!(
                    self,
                    Self::Umt5 | Self::T5 | Self::Clip | Self::Llama | Self::Qwen
                )
            }
            ModelComponent::TextEncoder2 => matches!(self, Self::T5 | Self::Clip),
            ModelComponent::ImageEncoder => matches!(self, Self::ClipVision | Self::Siglip),
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

    pub const fn transformer(
        family: &'static str,
        text: &'static str,
        ends: &'static [&'static str],
    ) -> Self {
        Self::new(family, "transformer", text, ends)
    }

    /// This rule for files that are a part of a model.
    pub const fn of(self, part: PartKind) -> Self {
        Self {
            part: Some(part),
            ..self
        }
    }

    /// This rule for files with other ends of keys.
    pub const fn with(self, ends: &'static [&'static str]) -> Self {
        Self { ends, ..self }
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
