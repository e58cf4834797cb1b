//! Options of computing a job, which a request takes over from its form and from the settings as they are.

use std::ops::Not;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::prompt::{BracketUse, PromptWeights};
use super::{PreviewChoice, StepCache};
use crate::memory::MemoryOptions;
use crate::model::ModelFamily;
use crate::model::choices::DtypeChoice;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// Memory options of the job. With little memory the autoencoder works in tiles, which changes the result slightly,
    /// and the two passes of true CFG run one by one, which rounds differently.
    pub memory: MemoryOptions,
    /// Other computers, as ssh knows them, each with as many devices that share the steps. Not embedded in files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Preview method; changes no result. Not embedded in files.
    pub preview: PreviewChoice,
    pub dtype: DtypeChoice,
    /// Edge of the tiles, in pixels, in which the VAE works; whole frames when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vae_tile: Option<u32>,
    /// Tokens that the longest text encoder reads; the model's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sequence_length: Option<u32>,
    /// One stage at the full size, in models that otherwise make a video at half its size and upscale the latents.
    #[serde(skip_serializing_if = "Not::not")]
    pub single_stage: bool,
    /// Every step is computed when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_cache: Option<StepCache>,
    /// Weights such as `(word:1.2)`, in families that have them. `None`: as the settings say; in a request, off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_weights: Option<PromptWeights>,
    /// Path of `capture.safetensors`, for comparisons with the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<PathBuf>,
    /// Also writes the settings next to the file, as `.json`.
    pub sidecar: bool,
}

impl JobOptions {
    /// Meaning of brackets in the prompts of a job.
    pub fn bracket_use(&self, family: ModelFamily) -> BracketUse {
        match self.prompt_weights.unwrap_or_default() {
            PromptWeights::Off => BracketUse::Text,
            _ if !family.has_prompt_weights => BracketUse::Unescaped,
            PromptWeights::Comfy => BracketUse::Weights,
            PromptWeights::A1111 => BracketUse::A1111,
        }
    }
}
