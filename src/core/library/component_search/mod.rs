//! Components that a transformer's file does not contain: their paths, and checks that they fit.
//!
//! A file is recognised by its header. Among several that fit, the nearest folder wins, then the usual name. Nothing is
//! loaded.

mod search;
pub(crate) mod wanted;

use std::path::PathBuf;

use crate::library::ComponentLibrary;
use crate::library::component_search::wanted::ComponentQuery;
use crate::model::{CatalogError, ComponentOverrides, ModelFiles};
use search::ComponentSearch;
pub(crate) use search::around;

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
            Err(CatalogError::MissingCompanion { .. }) if wanted.component.is_optional() => {}
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
    fn component_overrides_that_a_model_does_not_use_are_removed_and_reported() {
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
