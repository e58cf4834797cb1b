//! The numbers of a Wan model, from its folders' configs or its files' headers, checked against each other.
//!
//! Nothing is assumed but the schedule of files that come without one.

use crate::EngineError;
use safelight_core::model::ModelFiles;
use safelight_core::networks::{
    ClipVisionConfig, NetworkConfig as _, SchedulerConfig, T5Config, T5Kind, WanTransformerConfig,
    WanVaeConfig,
};

/// Config values that must be equal.
const PAIRS: [&str; 8] = [
    "text encoder's width and the transformer's text width",
    "autoencoder's channels and the transformer's output channels",
    "transformer's input channels and those that it can be given",
    "image encoder's width and that which the transformer reads",
    "patches of the two experts",
    "input channels of the two experts",
    "channels that the control blocks read and those of a control video",
    "numbers of control blocks of the two experts",
];

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
        config.check()?;
        Ok(config)
    }

    /// Checks that the components fit together.
    fn check(&self) -> Result<(), EngineError> {
        let wrong = |reason: String| EngineError::config(reason, &self.files.transformer);
        if self.transformer_2.is_some() && self.files.boundary_ratio.is_none() {
            return Err(wrong(
                "it is not said where one expert hands over to the other".to_owned(),
            ));
        }
        let experts = self.transformer_2.iter().chain([&self.transformer]);
        for transformer in experts {
            let (z_dim, own) = (self.vae.z_dim, transformer);
            let given = match own.condition_channels() {
                0 => z_dim,
                _ => 2 * z_dim + self.vae.temporal_factor(),
            };
            let image_encoder = self.image_encoder.as_ref();
            let image_width = image_encoder.map_or(0, |video| video.hidden_size);
            // Kept part of the video, regenerated part, and a mask with a channel for each pixel of a latent.
            let control = if own.has_control() {
                own.vace_in_channels
            } else {
                2 * z_dim + self.vae.spatial_factor().pow(2)
            };
            let control_blocks = |config: &WanTransformerConfig| config.vace_layers.len() as i64;
            let pairs = [
                (self.text_encoder.d_model, own.text_dim),
                (z_dim, own.out_channels),
                (own.in_channels, given),
                (image_width, own.image_dim.unwrap_or(0)),
                (own.patch_size[0], self.transformer.patch_size[0]),
                (own.in_channels, self.transformer.in_channels),
                (control, 2 * z_dim + self.vae.spatial_factor().pow(2)),
                (control_blocks(own), control_blocks(&self.transformer)),
            ];
            for (what, (one, other)) in PAIRS.into_iter().zip(pairs) {
                if one != other {
                    return Err(wrong(format!(
                        "the {what} should be equal, but are {one} and {other}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The timestep at and above which the high-noise expert works; `None` with one transformer.
    pub fn boundary(&self) -> Option<f64> {
        self.transformer_2.as_ref()?;
        let ratio = self.files.boundary_ratio?;
        Some(ratio * f64::from(self.scheduler.num_train_timesteps))
    }
}
