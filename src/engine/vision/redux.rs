//! Redux: tokens of a text of what SigLIP sees in a picture, by two layers.
//!
//! As diffusers' `ReduxImageEncoder` computes them (`pipelines/flux/modeling_flux.py` of 0.42.1).

use safelight_core::networks::ReduxConfig;
use tch::Tensor;

use crate::encoder_prefix;
use crate::nn::Linear;
use crate::weights::{Weights, WeightsError};

pub struct ReduxEmbedder {
    redux_up: Linear,
    redux_down: Linear,
}

impl ReduxEmbedder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &ReduxConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (seen, inner, text) = (config.redux_dim, config.inner_dim(), config.txt_in_features);
        Ok(Self {
            redux_up: Linear::new(seen, inner, &(w / "redux_up"))?,
            redux_down: Linear::new(inner, text, &(w / "redux_down"))?,
        })
    }

    /// The keys of a file that it should not have.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        encoder_prefix::left_over("", weights, &[])
    }

    /// `states`: after SigLIP's last norm, `(1, L, C)`. Returns `(1, L, width of text tokens)`.
    pub fn forward(&self, states: &Tensor) -> Tensor {
        self.redux_down
            .forward(&self.redux_up.forward(states).silu())
    }
}
