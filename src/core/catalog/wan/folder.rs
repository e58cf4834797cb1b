//! A diffusers folder of a Wan model: which variant it is, and the components that it needs.

use std::path::Path;

use super::variant::of_index;
use super::{check, parts};
use crate::catalog::companions::{self, Companions};
use crate::catalog::configs::{ModelIndex, WanTransformerConfig};
use crate::catalog::facts::Facts;
use crate::catalog::identify::check_components;
use crate::catalog::library::Library;
use crate::catalog::{CatalogError, ModelFiles};

/// Checks a folder whole. Parts that the user named stand in for the folder's own.
pub(in crate::catalog) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    // Before anything is said about its parts: another variant has other parts.
    let transformer = WanTransformerConfig::read(&folder.join("transformer")).ok();
    let variant = match of_index(index, transformer.as_ref()) {
        Ok(variant) => variant,
        Err(what) => {
            return Err(CatalogError::Unsupported {
                what,
                path: folder.to_owned(),
            });
        }
    };
    let mut components = vec![
        ("scheduler", None),
        ("text_encoder", Some("UMT5EncoderModel")),
        ("tokenizer", None),
        ("transformer", Some("WanTransformer3DModel")),
        ("vae", Some("AutoencoderKLWan")),
    ];
    if variant.has_two_experts() {
        components.push(("transformer_2", Some("WanTransformer3DModel")));
    }
    if transformer.is_some_and(|cfg| cfg.image_dim.is_some()) {
        components.push(("image_encoder", Some("CLIPVisionModel")));
    }
    if index.components.contains_key("image_processor") {
        components.push(("image_processor", None));
    }
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles::from_index(folder, index);
    if !companions.is_empty() {
        let transformer = WanTransformerConfig::read(&files.transformer)?;
        companions::replace(&mut files, &parts(&transformer), companions, library)?;
    }
    let facts = check(&files, variant)?;
    Ok((files, facts))
}
