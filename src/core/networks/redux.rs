//! Redux: two layers that make tokens of a text of what SigLIP sees in an image.
//!
//! Names are those of the authors' file, which diffusers' `ReduxImageEncoder` kept.

use crate::networks::prelude::*;

/// Width of the layer between, in widths of the text.
const WIDER: i64 = 3;

network_config! {
    /// `image_embedder/config.json`; what it leaves out is as published.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ReduxConfig {
        /// Width of what the image encoder gives.
        pub redux_dim: i64 = 1152 => dim("redux_up.weight", 1),
        /// Width of a text's tokens.
        pub txt_in_features: i64 = 4096 => dim("redux_down.weight", 0),
    }
}

impl ReduxConfig {
    /// Width between the two layers.
    pub fn inner_dim(&self) -> i64 {
        WIDER * self.txt_in_features
    }
}

impl NetworkConfig for ReduxConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("ReduxImageEncoder")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        Self::of_declared(&NamedShapes::new(weights, &str::to_owned))
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()
    }

    fn tensors(&self, _weights: &WeightSet) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        schema.linear("redux_up", self.inner_dim(), self.redux_dim);
        schema.linear("redux_down", self.txt_in_features, self.inner_dim());
        schema.into_tensors()
    }
}
