//! A family's files, jobs and LoRAs, as the catalogue, memory plans and LoRA checks ask for them.
//!
//! A family is a table, and [`single`](super::single) implements this for all tables. Names and shapes of tensors are in
//! `networks`.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use super::table::LoraTable;
use crate::footprint::{
    NetworkFootprint, NetworkReader, PlannedJob, PlannedNetwork, StageFootprint,
};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::single::AssembledModel;
use crate::library::{ComponentCandidate, ComponentLibrary, ControlNetwork};
use crate::lora::{LayerTable, LoraTarget};
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, TransformerShape};
use crate::model::{
    CatalogError, ComponentOverrides, ModelComponent, ModelFamily, ModelFiles, ModelSpec,
    ReduxFiles,
};
use crate::tokens::TextReader;

/// A network of a published model, and its config.
pub(crate) type PublishedNetwork = (PlannedNetwork, Arc<dyn Any + Send + Sync>);

/// Finds the networks of image prompts for a model among installed parts.
pub(crate) type FindImagePrompts = fn(&ModelFiles, &[ComponentCandidate]) -> Option<ReduxFiles>;
/// The model that a control LoRA makes of one, which then takes a control image.
pub(crate) type WithControlLora = fn(&ModelSpec, &Path) -> Result<ModelSpec, String>;

/// ControlNets of a family.
#[derive(Clone, Copy)]
pub(crate) struct ControlNets {
    /// The ControlNet with these weights at a place, or its error; `None` where it is not one of the family.
    pub find: fn(&WeightSet, &Path) -> Option<Result<ControlNetwork, CatalogError>>,
    /// Reads the memory needs of the one at a place.
    pub footprint: fn(&Path) -> Result<NetworkFootprint, CatalogError>,
}

type FolderCheck = fn(
    &Path,
    &ModelIndex,
    &ComponentOverrides,
    &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError>;

/// Files of a family whose models may have two transformers, for steps of much noise and for the others.
#[derive(Clone, Copy)]
pub(crate) struct ExpertRules {
    /// See [`FamilyDef::check_folder`].
    pub check_folder: FolderCheck,
    /// See [`FamilyDef::assemble`].
    pub assemble:
        fn(&Path, &ComponentOverrides, &ComponentLibrary) -> Result<AssembledModel, CatalogError>,
    pub variant_at: fn(&Path) -> Option<&'static str>,
    /// Share of the timesteps at which the published low-noise expert of a model of this plain name takes over.
    pub boundary_of: fn(&str) -> Option<f64>,
}

/// A family, whatever the type of its table is.
pub(crate) trait FamilyDef: Sync {
    fn family(&self) -> ModelFamily;

    /// The text encoders of a model, first the one that reads the most tokens.
    fn text_readers(&self, spec: &ModelSpec) -> Vec<TextReader>;

    /// Reads the networks of a model, the halves of its autoencoder apart.
    fn networks(&self, files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError>;

    /// The networks that a stage needs, one after the other.
    fn needs(&self, job: &PlannedJob<'_>, stage: Stage) -> Vec<StageFootprint>;

    /// The configs of the networks that a published model with such a transformer has, for plans before its files are here.
    fn published(&self, shape: &TransformerShape) -> Vec<PublishedNetwork>;

    /// About how many weights the text encoders have: the first and the second.
    fn text_encoder_weights(&self) -> [u64; 2];

    fn owns_pipeline(&self, class: &str) -> bool;

    /// Checks a diffusers folder whole -> where its parts are, and what is known of the model. Parts that the user named
    /// replace the folder's own.
    fn check_folder(
        &self,
        folder: &Path,
        index: &ModelIndex,
        companions: &ComponentOverrides,
        library: &ComponentLibrary,
    ) -> Result<(ModelFiles, ModelFacts), CatalogError>;

    /// Returns true if a transformer of the family is in a file, whole or not.
    fn has_transformer(&self, weights: &WeightSet) -> bool;

    /// The model of the transformer at a place, whose header is `weights`.
    fn assemble(
        &self,
        place: &Path,
        weights: &WeightSet,
        companions: &ComponentOverrides,
        library: &ComponentLibrary,
    ) -> Result<AssembledModel, CatalogError>;

    /// The variant of the transformer at a place as far as its header and its name say it.
    fn variant_at(&self, place: &Path) -> Option<&'static str>;

    fn experts(&self) -> Option<ExpertRules>;

    /// Returns true if a place holds this part of the published models with such a transformer.
    fn is_published_part(
        &self,
        component: ModelComponent,
        shape: TransformerShape,
        place: &Path,
    ) -> bool;

    fn ships_tokenizers(&self) -> bool;

    fn image_prompts(&self) -> Option<FindImagePrompts>;

    fn control_nets(&self) -> Option<ControlNets>;

    fn lora(&self) -> LoraTable;

    /// The transformer as LoRAs change it, whose file has diffusers' names or others.
    fn lora_target(&self, is_diffusers: bool) -> LoraTarget;

    /// Transformers of its published models, one of each size, with labels where those are not the family's.
    fn lora_models(&self) -> Vec<(String, LayerTable)>;

    /// The networks of a model that LoRAs change. Both experts of a model have the same layers.
    fn lora_tables(&self, files: &ModelFiles) -> Result<Vec<LayerTable>, CatalogError>;
}
