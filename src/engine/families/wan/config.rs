//! The numbers of a Wan model, from its folders' configs or its files' headers, which were checked against each other when
//! the model was opened.
//!
//! Nothing is assumed but the schedule of files that come without one.

use crate::EngineError;
use safelight_core::model::ModelFiles;
use safelight_core::networks::{
    ClipVisionConfig, NetworkConfig as _, SchedulerConfig, T5Config, T5Kind, WanTransformerConfig,
    WanVaeConfig,
};

#[derive(Clone, Debug)]
pub struct WanConfig {
    pub files: ModelFiles,
    pub transformer: WanTransformerConfig,
    /// The low-noise expert's.
    pub transformer_2: Option<WanTransformerConfig>,
    pub scheduler: SchedulerConfig,
    /// In models that read images' embeddings.
    pub image_encoder: Option<ClipVisionConfig>,
    pub text_encoder: T5Config,
    pub vae: WanVaeConfig,
}

impl WanConfig {
    pub fn read(files: &ModelFiles) -> Result<Self, EngineError> {
        let config = Self {
            files: files.clone(),
            transformer: WanTransformerConfig::read(&files.transformer)?,
            transformer_2: files
                .transformer_2
                .as_deref()
                .map(WanTransformerConfig::read)
                .transpose()?,
            scheduler: match &files.scheduler {
                Some(folder) => SchedulerConfig::read_with_fixed_shift(folder)?,
                None => SchedulerConfig::of_wan(),
            },
            image_encoder: files
                .image_encoder
                .as_deref()
                .map(ClipVisionConfig::read)
                .transpose()?,
            text_encoder: T5Config::read_as(T5Kind::Umt5, &files.text_encoder)?,
            vae: WanVaeConfig::read(&files.vae)?,
        };
        if config.transformer_2.is_some() && files.boundary_ratio.is_none() {
            let reason = "it is not said where one expert hands over to the other";
            return Err(EngineError::config(reason.to_owned(), &files.transformer));
        }
        Ok(config)
    }

    /// The timestep at and above which the high-noise expert works; `None` with one transformer.
    pub fn boundary(&self) -> Option<f64> {
        self.transformer_2.as_ref()?;
        let ratio = self.files.boundary_ratio?;
        Some(ratio * f64::from(self.scheduler.num_train_timesteps))
    }
}
