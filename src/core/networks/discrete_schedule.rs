//! Scheduler of a model that was trained on 1000 discrete noise levels: `scheduler/scheduler_config.json` of any of
//! diffusers' schedulers of such models. The sampler is the request's, whatever class the file names.

use std::path::Path;

use crate::formats::read_json;
use crate::model::ModelFiles;
use crate::networks::prelude::*;

/// Quantity that a model predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PredictionType {
    /// The noise.
    #[default]
    #[serde(rename = "epsilon")]
    Epsilon,
    /// Noise and image, weighted by the noise level.
    #[serde(rename = "v_prediction")]
    V,
}

/// Timesteps of the model's own schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestepSpacing {
    /// Evenly spaced from timestep 0 up, so the first step is not at the noisiest level.
    #[default]
    Leading,
    /// Evenly spaced from the noisiest level down.
    Trailing,
    /// Between both ends.
    Linspace,
}

network_config! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct DiscreteScheduleConfig {
        #[serde(rename = "_class_name")]
        class_name: String = String::new(),
        pub num_train_timesteps: u32 = 1000,
        pub beta_start: f64 = 0.00085,
        pub beta_end: f64 = 0.012,
        beta_schedule: String = "scaled_linear".to_owned() => only(),
        trained_betas: Option<Value> = None => only(),
        pub prediction_type: PredictionType = PredictionType::Epsilon,
        /// Zero terminal SNR: the noisiest level has nothing of the image.
        pub rescale_betas_zero_snr: bool = false,
        pub timestep_spacing: TimestepSpacing = TimestepSpacing::Leading,
        pub steps_offset: u32 = 1,
        pub use_karras_sigmas: bool = false,
        use_exponential_sigmas: bool = false => only(),
        use_beta_sigmas: bool = false => only(),
        thresholding: bool = false => only(),
    }
}

impl DiscreteScheduleConfig {
    /// Of a file without a scheduler's folder. Only trailing timesteps begin at the noisiest level.
    pub fn of_file(files: &ModelFiles) -> Self {
        let mut config = Self::default();
        if files.predicts_v {
            config.prediction_type = PredictionType::V;
        }
        if files.zero_terminal_snr {
            config.rescale_betas_zero_snr = true;
            config.timestep_spacing = TimestepSpacing::Trailing;
        }
        config
    }

    /// From a scheduler's folder.
    pub fn read(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.join("scheduler_config.json");
        let config: Self = read_json(&path)?;
        match config.check() {
            Ok(()) => Ok(config),
            Err(reason) => Err(CatalogError::config(reason, path)),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let class = &self.class_name;
        ensure!(
            !class.starts_with("FlowMatch") && !class.starts_with("EDM"),
            "expected the scheduler of a model with discrete noise levels, found '{class}'"
        );
        let Self {
            beta_start,
            beta_end,
            num_train_timesteps,
            steps_offset,
            ..
        } = *self;
        ensure!(
            0.0 < beta_start && beta_start < beta_end && beta_end < 1.0,
            "expected a beta_start below the beta_end, both between 0 and 1, found {beta_start} and {beta_end}"
        );
        ensure!(
            (2..=100_000).contains(&num_train_timesteps) && steps_offset < num_train_timesteps,
            "expected num_train_timesteps between 2 and 100000, above steps_offset, found {num_train_timesteps} and {steps_offset}"
        );
        Ok(())
    }
}
