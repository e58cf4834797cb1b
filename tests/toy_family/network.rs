//! The toy family's network, as `safelight_core::networks` sees it: a table of letters, a matrix between channels, and one
//! from channels to colours.

use crate::networks::prelude::*;

network_config! {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ToyConfig {
        pub channels: i64 = 4 => dim("toy.mix.weight", 0),
    }
}

impl TransformerConfig for ToyConfig {
    const LABEL: &'static str = "toy transformer";
    const CLASSES: &'static [&'static str] = &["ToyTransformer"];
    const DIALECTS: &'static [TensorDialect] =
        &[TensorDialect::own(&[any_of(&["toy.mix.weight"])], &[])];

    fn check_numbers(&self) -> Result<(), String> {
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        Vec::new()
    }

    fn add_tensors(&self, schema: &mut Schema) {
        schema.table("toy.letters", 256, self.channels);
        schema.matrix("toy.mix", self.channels, self.channels);
        schema.matrix("toy.paint", 3, self.channels);
    }
}

impl DenoiserConfig for ToyConfig {
    fn latent_channels(&self) -> i64 {
        self.channels
    }

    fn shape(&self) -> TransformerShape {
        TransformerShape {
            heads: 1,
            head_dim: self.channels,
            layers: 1,
            channels: self.channels,
        }
    }
}
