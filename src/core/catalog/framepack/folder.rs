//! A diffusers folder of a FramePack model, and the components that it needs.

use std::path::Path;

use super::check;
use super::config::FramePackConfig;
use super::parts::parts;
use super::variant;
use crate::catalog::companions::{self, Companions};
use crate::catalog::configs::ModelIndex;
use crate::catalog::facts::Facts;
use crate::catalog::identify::check_components;
use crate::catalog::library::Library;
use crate::catalog::{CatalogError, ModelFiles, scan};

/// What diffusers calls the pipeline.
pub(in crate::catalog) const PIPELINE: &str = "HunyuanVideoFramepackPipeline";

/// Checks a folder whole. Parts that the user named stand in for the folder's own.
pub(in crate::catalog) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    let components = [
        ("feature_extractor", None),
        ("image_encoder", Some("SiglipVisionModel")),
        ("scheduler", None),
        ("text_encoder", None),
        ("text_encoder_2", Some("CLIPTextModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        (
            "transformer",
            Some("HunyuanVideoFramepackTransformer3DModel"),
        ),
        ("vae", Some("AutoencoderKLHunyuanVideo")),
    ];
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles {
        image_processor: Some(folder.join("feature_extractor")),
        ..ModelFiles::from_index(folder, index)
    };
    let transformer = FramePackConfig::read(&files.transformer)?;
    if !companions.is_empty() {
        companions::replace(&mut files, &parts(&transformer), companions, library)?;
    }
    let order = variant::of_names(&[&scan::model_name(folder)]);
    let facts = check(&files, order)?;
    Ok((files, facts))
}
