//! A diffusers folder of a Flux model: which variant it is, and the components that it needs.

use std::path::Path;

use super::check;
use super::config::FluxTransformerConfig;
use super::parts::parts;
use super::single::foreign_part;
use super::variant::Variant;
use crate::catalog::companions::{self, Companions};
use crate::catalog::configs::ModelIndex;
use crate::catalog::facts::Facts;
use crate::catalog::identify::check_components;
use crate::catalog::library::Library;
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, ModelFiles};

/// Checks a folder whole. Parts that the user named stand in for the folder's own.
pub(in crate::catalog) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    let unsupported = |what: String| CatalogError::Unsupported {
        what,
        path: folder.to_owned(),
    };
    let is_kontext = is_kontext(&index.class).map_err(unsupported)?;
    let components = [
        ("scheduler", None),
        ("text_encoder", Some("CLIPTextModel")),
        ("text_encoder_2", Some("T5EncoderModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        ("transformer", Some("FluxTransformer2DModel")),
        ("vae", Some("AutoencoderKL")),
    ];
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles::from_index(folder, index);
    let transformer = FluxTransformerConfig::read(&files.transformer)?;
    let variant = Variant::of(&transformer, is_kontext).map_err(unsupported)?;
    if let Some(what) = foreign_part(&WeightSet::at(&files.transformer)?) {
        return Err(unsupported(what));
    }
    if !companions.is_empty() {
        companions::replace(&mut files, &parts(&transformer), companions, library)?;
    }
    let facts = check(&files, variant)?;
    Ok((files, facts))
}

/// Whether a pipeline's class is Kontext's, or the sentence part for a Flux model of another kind.
fn is_kontext(class: &str) -> Result<bool, String> {
    match class {
        "FluxPipeline" | "FluxImg2ImgPipeline" | "FluxInpaintPipeline" | "FluxFillPipeline" => {
            Ok(false)
        }
        "FluxKontextPipeline" | "FluxKontextInpaintPipeline" => Ok(true),
        "FluxPriorReduxPipeline" => Err("a Flux Redux model".to_owned()),
        _ if class.starts_with("FluxControlNet") => Err("a Flux ControlNet model".to_owned()),
        _ if class.starts_with("FluxControl") => {
            Err("a Flux control model (Canny or Depth)".to_owned())
        }
        other => Err(format!("a Flux model for {other}")),
    }
}
