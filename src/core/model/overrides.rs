//! Parts of a model that the user named.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ModelComponent, ModelFiles};

/// Places that the user named; they win over all that could be found.
///
/// Each is a file or a component's folder. A text encoder's folder brings the tokenizer next to it along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentOverrides {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vae: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_encoder: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_encoder_2: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_encoder: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_2: Option<PathBuf>,
}

impl ComponentOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These without those of components that the model does not have, and what the left ones are called.
    pub fn of_model(&self, files: &ModelFiles) -> (Self, Vec<&'static str>) {
        let mut own = self.clone();
        let mut left = Vec::new();
        let mut keep = |named: &mut Option<PathBuf>, has: bool, what: &'static str| {
            if !has && named.take().is_some() {
                left.push(what);
            }
        };
        let has_second = files.text_encoder_2.is_some();
        keep(&mut own.text_encoder_2, has_second, "text-encoder-2");
        keep(&mut own.tokenizer_2, has_second, "tokenizer-2");
        keep(
            &mut own.image_encoder,
            files.image_encoder.is_some(),
            "image-encoder",
        );
        (own, left)
    }

    pub(crate) fn path(&self, component: ModelComponent) -> Option<&PathBuf> {
        match component {
            ModelComponent::Vae => self.vae.as_ref(),
            ModelComponent::TextEncoder => self.text_encoder.as_ref(),
            ModelComponent::TextEncoder2 => self.text_encoder_2.as_ref(),
            ModelComponent::ImageEncoder => self.image_encoder.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn tokenizer_of(&self, text_encoder: ModelComponent) -> Option<&PathBuf> {
        match text_encoder {
            ModelComponent::TextEncoder => self.tokenizer.as_ref(),
            ModelComponent::TextEncoder2 => self.tokenizer_2.as_ref(),
            _ => None,
        }
    }

    /// All of them by their names in diffusers' folders, each where the user named one.
    pub fn each(&self) -> [(&'static str, Option<&PathBuf>); 6] {
        [
            ("vae", self.vae.as_ref()),
            ("text_encoder", self.text_encoder.as_ref()),
            ("text_encoder_2", self.text_encoder_2.as_ref()),
            ("image_encoder", self.image_encoder.as_ref()),
            ("tokenizer", self.tokenizer.as_ref()),
            ("tokenizer_2", self.tokenizer_2.as_ref()),
        ]
    }

    /// In the order of [`Self::each`].
    pub fn each_mut(&mut self) -> [&mut Option<PathBuf>; 6] {
        [
            &mut self.vae,
            &mut self.text_encoder,
            &mut self.text_encoder_2,
            &mut self.image_encoder,
            &mut self.tokenizer,
            &mut self.tokenizer_2,
        ]
    }

    /// Returns true if the user named a component of a diffusers folder.
    pub(crate) fn names(&self, component: &str) -> bool {
        let mut each = self.each().into_iter();
        each.any(|(name, place)| name == component && place.is_some())
    }
}
