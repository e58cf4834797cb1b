//! The declaration of a family.
//!
//! Data where data says it, a function where it depends on the model, the request or a file. Names and shapes
//! of tensors are in `networks`.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use crate::footprint::{
    NetworkFootprint, NetworkReader, PlannedJob, PlannedNetwork, StageFootprint,
};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::single::AssembledModel;
use crate::library::{ComponentCandidate, ComponentLibrary, ControlNetwork};
use crate::lora::{LayerTable, LoraCoverage};
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, TransformerShape};
use crate::model::{
    CatalogError, ComponentOverrides, LoraSignature, ModelComponent, ModelFamily, ModelFiles,
    ModelSpec, ReduxFiles, SharedLoraNames,
};
use crate::tokens::TextReader;

/// Functions of a family that depend on its files.
pub(crate) struct FamilyDef {
    pub family: ModelFamily,
    /// The text encoders of a model, first the one that reads the most tokens.
    pub text_readers: fn(&ModelSpec) -> Vec<TextReader>,
    /// Reads the networks of a model, the halves of its autoencoder apart.
    pub(crate) networks: fn(&ModelFiles, &mut NetworkReader) -> Result<(), CatalogError>,
    /// The networks that a stage needs, one after the other.
    pub(crate) needs: fn(&PlannedJob<'_>, Stage) -> Vec<StageFootprint>,
    /// The configs of the networks that a published model with such a transformer has, for plans before its files are here.
    pub(crate) published: fn(&TransformerShape) -> Vec<PublishedNetwork>,
    /// About how many weights the text encoders have: the first and the second.
    pub(crate) text_encoder_weights: [u64; 2],
    pub(crate) files: FileRules,
    pub(crate) lora: LoraRules,
}

/// A network of a published model, and its config.
pub(crate) type PublishedNetwork = (PlannedNetwork, Arc<dyn Any + Send + Sync>);

/// Rules to recognise, assemble and check the files of a model.
pub(crate) struct FileRules {
    pub owns_pipeline: fn(&str) -> bool,
    /// Checks a diffusers folder whole. Parts that the user named replace the folder's own.
    pub check_folder: CheckFolder,
    /// Returns true if a transformer of the family is in a file, whole or not.
    pub has_transformer: fn(&WeightSet) -> bool,
    /// The model of the transformer at a place, whose header the weights are.
    pub assemble: fn(
        &Path,
        &WeightSet,
        &ComponentOverrides,
        &ComponentLibrary,
    ) -> Result<AssembledModel, CatalogError>,
    /// The variant of the transformer at a place as far as its header and its name say it.
    pub variant_at: fn(&Path) -> Option<&'static str>,
    pub are_experts: fn(&Path, &Path) -> bool,
    /// Share of the timesteps at which the published low-noise expert of a model of this plain name takes over.
    pub boundary_of: fn(&str) -> Option<f64>,
    /// Returns true if a place holds this part of the published models with such a transformer.
    pub is_published_part: fn(ModelComponent, TransformerShape, &Path) -> bool,
    pub ships_tokenizers: bool,
    /// Finds the networks of image prompts for a model among installed parts; `None` for families without them.
    pub image_prompts: Option<FindImagePrompts>,
    /// The ControlNet with these weights at a place, or its error; `None` where it is not one of the family.
    pub control_network: FindControlNetwork,
    /// Reads the memory needs of a ControlNet at a place; `None` for families without ControlNets.
    pub control_weights: Option<ReadNetwork>,
    /// The model that a control LoRA makes of one, which then takes a control image; `None` for families without such
    /// LoRAs.
    pub control_lora: Option<WithControlLora>,
}

pub(crate) type FindImagePrompts = fn(&ModelFiles, &[ComponentCandidate]) -> Option<ReduxFiles>;

pub(crate) type ReadNetwork = fn(&Path) -> Result<NetworkFootprint, CatalogError>;

pub(crate) type WithControlLora = fn(&ModelSpec, &Path) -> Result<ModelSpec, String>;

pub(crate) type FindControlNetwork =
    fn(&WeightSet, &Path) -> Option<Result<ControlNetwork, CatalogError>>;

/// Checks a diffusers folder whole -> where its parts are, and what is known of the model.
pub(crate) type CheckFolder = fn(
    &Path,
    &ModelIndex,
    &ComponentOverrides,
    &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError>;

pub(crate) struct LoraRules {
    /// Names that only layers of its LoRAs, or of relatives', have, in the order in which they are tried.
    pub signs: &'static [LoraSignature],
    /// Returns true if a LoRA of an origin may act on a model with these layers.
    pub accepts: fn(&str, &[LayerTable]) -> bool,
    /// Transformers of its published models, one of each size, with labels where those are not the family's.
    pub published: fn() -> Vec<(String, LayerTable)>,
    pub shared_names: Option<&'static SharedLoraNames>,
    /// Reason against a LoRA with such a coverage, whatever else it has.
    pub objection: fn(&LoraCoverage) -> Option<&'static str>,
    /// The networks of a model that LoRAs change. Both experts of a model have the same layers.
    pub tables: fn(&ModelFiles) -> Result<Vec<LayerTable>, CatalogError>,
    /// musubi-tuner trains them, whose names are otherwise kohya's.
    pub has_musubi: bool,
}
