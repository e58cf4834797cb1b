//! Paths of one model's components: parts of a diffusers folder, or separate files.
//!
//! Only paths; the catalogue checks the contents and the engine reads them.

use std::collections::BTreeMap;
use std::ops::Not;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::configs::ModelIndex;
use super::{CatalogError, ModelComponent};

/// One place for each component. A component is a folder (a `config.json` and weights) or one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFiles {
    /// The only transformer, or the expert for high noise.
    pub transformer: PathBuf,
    /// The expert for low noise.
    pub transformer_2: Option<PathBuf>,
    pub vae: PathBuf,
    /// UMT5 in Wan, CLIP-L in Flux, Llama in FramePack.
    pub text_encoder: PathBuf,
    /// T5 in Flux, CLIP-L in FramePack.
    pub text_encoder_2: Option<PathBuf>,
    /// A folder with `tokenizer.json`, `spiece.model` or `vocab.json` and `merges.txt`, or a weight file that
    /// carries a tokenizer.
    pub tokenizer: PathBuf,
    /// The class that the pipeline reads the tokenizer with; what the tokenizer itself says when absent.
    pub tokenizer_class: Option<String>,
    /// Of `text_encoder_2`.
    pub tokenizer_2: Option<PathBuf>,
    pub tokenizer_2_class: Option<String>,
    pub image_encoder: Option<PathBuf>,
    /// Tiny decoder for previews, if installed; no part of the model.
    pub preview_decoder: Option<PathBuf>,
    /// Redux adapter for image prompts, if installed; no part of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_prompts: Option<ReduxFiles>,
    /// The folder of `preprocessor_config.json`; the published values when absent.
    pub image_processor: Option<PathBuf>,
    /// The folder of `scheduler_config.json`; the published values when absent.
    pub scheduler: Option<PathBuf>,
    /// The part of the schedule's timesteps at and above which the high-noise expert works.
    pub boundary_ratio: Option<f64>,
    /// Sigmas of a model that was distilled to these; the schedule's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_sigmas: Option<Vec<f32>>,
    /// Without a scheduler: the model predicts noise and image weighted by the noise level, not the noise.
    #[serde(skip_serializing_if = "Not::not")]
    pub predicts_v: bool,
    /// Without a scheduler: the noisiest level has nothing of the image (zero terminal SNR).
    #[serde(skip_serializing_if = "Not::not")]
    pub zero_terminal_snr: bool,
    /// True if every token has a separate timestep, and a given first frame has timestep 0 (Wan 2.2 TI2V).
    pub expand_timesteps: bool,
    /// The model has layers for a control video, which see something in every job (Wan VACE).
    #[serde(default, skip_serializing_if = "Not::not")]
    pub takes_control: bool,
    /// Components that few families have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<ModelComponent, PathBuf>,
}

/// Paths of the two networks for image prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReduxFiles {
    pub image_encoder: PathBuf,
    /// As that of a model.
    pub image_processor: Option<PathBuf>,
    /// Makes tokens of what the image encoder sees.
    pub embedder: PathBuf,
}

impl ModelFiles {
    /// The places that a diffusers folder's `model_index.json` names.
    pub fn of_folder(folder: &Path) -> Result<Self, CatalogError> {
        Ok(Self::from_index(folder, &ModelIndex::read(folder)?))
    }

    pub(crate) fn from_index(folder: &Path, index: &ModelIndex) -> Self {
        let named = |name: &str| {
            let name = index.folder_of(name);
            let is_named = index.components.contains_key(name);
            is_named.then(|| folder.join(name))
        };
        Self {
            transformer: folder.join(index.folder_of("transformer")),
            transformer_2: named("transformer_2"),
            text_encoder_2: named("text_encoder_2"),
            tokenizer: folder.join(index.folder_of("tokenizer")),
            tokenizer_class: index.components.get("tokenizer").cloned(),
            tokenizer_2: named("tokenizer_2"),
            tokenizer_2_class: index
                .components
                .get(index.folder_of("tokenizer_2"))
                .cloned(),
            image_encoder: named("image_encoder"),
            scheduler: Some(folder.join("scheduler"))
                .filter(|it| !index.is_modular() || it.is_dir()),
            image_processor: named("image_processor"),
            boundary_ratio: index.boundary_ratio,
            sample_sigmas: index.sample_sigmas.clone(),
            expand_timesteps: index.expand_timesteps,
            ..Self::in_folder(folder)
        }
    }

    /// Path of a component; `None` if this model has none.
    pub fn path(&self, component: ModelComponent) -> Option<&Path> {
        match component {
            ModelComponent::Transformer => Some(&self.transformer),
            ModelComponent::Vae => Some(&self.vae),
            ModelComponent::TextEncoder => Some(&self.text_encoder),
            ModelComponent::TextEncoder2 => self.text_encoder_2.as_deref(),
            ModelComponent::ImageEncoder => self.image_encoder.as_deref(),
            more => self.more.get(&more).map(PathBuf::as_path),
        }
    }

    pub(crate) fn put(&mut self, component: ModelComponent, place: PathBuf) {
        match component {
            ModelComponent::Transformer => self.transformer = place,
            ModelComponent::Vae => self.vae = place,
            ModelComponent::TextEncoder => self.text_encoder = place,
            ModelComponent::TextEncoder2 => self.text_encoder_2 = Some(place),
            ModelComponent::ImageEncoder => self.image_encoder = Some(place),
            more => drop(self.more.insert(more, place)),
        }
    }

    /// Puts the tokenizer of a text encoder, to be read as what it says itself.
    pub(crate) fn put_tokenizer(&mut self, text_encoder: ModelComponent, place: PathBuf) {
        if text_encoder == ModelComponent::TextEncoder2 {
            self.tokenizer_2 = Some(place);
            self.tokenizer_2_class = None;
        } else {
            self.tokenizer = place;
            self.tokenizer_class = None;
        }
    }

    /// Path of a text encoder's tokenizer, if known.
    pub(crate) fn tokenizer_of(&self, text_encoder: ModelComponent) -> Option<&Path> {
        if text_encoder == ModelComponent::TextEncoder2 {
            self.tokenizer_2.as_deref()
        } else {
            Some(&self.tokenizer)
        }
    }

    /// The usual places in a diffusers folder with one transformer and no image encoder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            transformer: folder.join("transformer"),
            vae: folder.join("vae"),
            text_encoder: folder.join("text_encoder"),
            tokenizer: folder.join("tokenizer"),
            scheduler: Some(folder.join("scheduler")),
            ..Self::default()
        }
    }
}
