//! Components that a transformer's file does not contain: their paths, and checks that they fit.
//!
//! A file is recognised by its header. Among several that fit, the nearest folder wins, then the usual name. Nothing is
//! loaded.

mod search;
pub(crate) mod wanted;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::library::ComponentLibrary;
use crate::library::component_search::wanted::ComponentQuery;
use crate::model::{CatalogError, ModelComponent, ModelFiles};
use search::ComponentSearch;
pub(crate) use search::around;

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
            ModelComponent::Transformer => None,
            ModelComponent::Vae => self.vae.as_ref(),
            ModelComponent::TextEncoder => self.text_encoder.as_ref(),
            ModelComponent::TextEncoder2 => self.text_encoder_2.as_ref(),
            ModelComponent::ImageEncoder => self.image_encoder.as_ref(),
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

    /// Returns true if the user named a component of a diffusers folder.
    pub(crate) fn names(&self, component: &str) -> bool {
        let mut each = self.each().into_iter();
        each.any(|(name, place)| name == component && place.is_some())
    }
}

/// Finds all parts of a model of single files, with their tokenizers.
pub(crate) fn complete(
    files: &mut ModelFiles,
    parts: &[ComponentQuery<'_>],
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<(), CatalogError> {
    let around = files.transformer.clone();
    let search = ComponentSearch::new(&around, companions, library);
    let mut missing = Vec::new();
    for wanted in parts {
        match search.find(wanted) {
            Ok(place) => files.put(wanted.component, place),
            // Whoever lacks several wants to hear of all.
            Err(err @ CatalogError::MissingCompanion { .. }) => missing.push(err),
            Err(err) => return Err(err),
        }
    }
    if !missing.is_empty() {
        return Err(all_missing(missing, around));
    }
    // Only once all files are there: whoever lacks one wants to hear of that.
    for wanted in parts {
        search.add_tokenizer(files, wanted)?;
    }
    Ok(())
}

/// One error for all parts that are missing next to the transformer at `path`.
fn all_missing(mut missing: Vec<CatalogError>, path: PathBuf) -> CatalogError {
    if missing.len() == 1 {
        return missing.remove(0);
    }
    let mut parts = Vec::new();
    let mut places = String::new();
    for err in missing {
        if let CatalogError::MissingCompanion {
            what,
            example,
            looked,
            ..
        } = err
        {
            parts.push((what, example));
            // The longest list has the others in it.
            if looked.len() > places.len() {
                places = looked;
            }
        }
    }
    CatalogError::MissingCompanions {
        parts,
        looked: places,
        path,
    }
}

/// Puts the parts that the user named into those of a diffusers folder.
pub(crate) fn replace(
    files: &mut ModelFiles,
    parts: &[ComponentQuery<'_>],
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<(), CatalogError> {
    let around = files.transformer.clone();
    let search = ComponentSearch::new(&around, companions, library);
    for wanted in parts {
        let is_named = companions.path(wanted.component).is_some();
        if is_named {
            files.put(wanted.component, search.find(wanted)?);
        }
        if is_named || companions.tokenizer_of(wanted.component).is_some() {
            search.add_tokenizer(files, wanted)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_a_model_does_not_have_are_told_and_left_out() {
        let named = ComponentOverrides {
            vae: Some("vae".into()),
            text_encoder_2: Some("t5".into()),
            image_encoder: Some("clip_h".into()),
            tokenizer_2: Some("pieces".into()),
            ..ComponentOverrides::default()
        };
        let (own, left) = named.of_model(&ModelFiles::default());
        assert_eq!(left, ["text-encoder-2", "tokenizer-2", "image-encoder"]);
        let vae_alone = ComponentOverrides {
            vae: named.vae.clone(),
            ..ComponentOverrides::default()
        };
        assert_eq!(own, vae_alone);
        let files = ModelFiles {
            text_encoder_2: Some("t5".into()),
            image_encoder: Some("clip_h".into()),
            ..ModelFiles::default()
        };
        assert_eq!(named.of_model(&files), (named, Vec::new()));
    }
}
