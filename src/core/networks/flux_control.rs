//! ControlNets of FLUX.1: some blocks of the transformer's kinds that see a control picture beside the noise, and a layer
//! behind each whose result is added in the transformer.
//!
//! InstantX's, Shakker-Labs' and jasperai's files have diffusers' names, bare, in ComfyUI's folders as in diffusers'.
//! Readers ask with the names of Flux's authors, as of the transformer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::before_last;
use super::header::{not_a, sizes};
use super::stream_blocks::{
    CONTROL_EMBEDDER, CONTROL_LISTS, GUIDANCE, add_control, check_blocks, check_guidance,
};
use super::{FluxTransformerConfig, FluxTransformerKeys, NetworkConfig, TensorSpec, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// Kinds of control pictures, of which one is told by a row of this table.
pub const MODES: &str = "controlnet_mode_embedder";

/// `config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FluxControlConfig {
    /// The blocks, of which there are fewer than in a transformer.
    #[serde(flatten)]
    pub blocks: FluxTransformerConfig,
    /// How many kinds of control pictures it is told apart, where it is.
    pub num_mode: Option<i64>,
    /// What only networks have that read pixels, as XLabs' do.
    pub conditioning_embedding_channels: Option<i64>,
}

impl NetworkConfig for FluxControlConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("FluxControlNetModel")
    }

    /// What shapes cannot say, the width of a head and the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        if !FluxControlKeys::are_in(|key| weights.has(key)) {
            return Err(not_a("FLUX.1 ControlNet", weights));
        }
        let table = format!("{MODES}.weight");
        let num_mode = weights
            .has(&table)
            .then(|| sizes::<2>(weights, &table).map(|[modes, _]| modes));
        Ok(Self {
            blocks: FluxTransformerConfig::of_blocks(weights, FluxTransformerKeys::DIFFUSERS)?,
            num_mode: num_mode.transpose()?,
            conditioning_embedding_channels: None,
        })
    }

    fn check(&self) -> Result<(), String> {
        let single = self.blocks.num_single_layers;
        let blocks = FluxTransformerConfig {
            // Other than a transformer it may do without.
            num_single_layers: if single == 0 { 1 } else { single },
            ..self.blocks.clone()
        };
        blocks.check()?;
        match (self.num_mode, self.conditioning_embedding_channels) {
            (_, Some(_)) => Err(
                "expected a ControlNet that reads the latents of pictures, found conditioning_embedding_channels"
                    .to_owned(),
            ),
            (Some(modes), _) if modes < 1 => {
                Err(format!("expected a num_mode of at least 1, found {modes}"))
            }
            _ => Ok(()),
        }
    }

    fn tensors(&self, _weights: &WeightSet) -> Vec<TensorSpec> {
        let mut schema = before_last(&self.blocks, true);
        add_control(&mut schema, self.blocks.streams(), self.blocks.in_channels);
        if let Some(modes) = self.num_mode {
            schema.table(MODES, modes, self.blocks.dim());
        }
        schema.renamed(FluxControlKeys::file_key)
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let counts = self.blocks.streams().blocks;
        let names = FluxTransformerKeys::DIFFUSERS.block_names();
        check_blocks(weights, &names, &counts)?;
        check_blocks(weights, &CONTROL_LISTS.map(str::to_owned), &counts)?;
        let guidance = FluxControlKeys::file_key(GUIDANCE);
        check_guidance(weights, self.blocks.guidance_embeds, &guidance)
    }
}

/// What files call the tensors.
#[derive(Clone, Copy, Debug)]
pub enum FluxControlKeys {}

impl FluxControlKeys {
    /// Whether a file has such a network, by whether it has a key.
    pub fn are_in(has: impl Fn(&str) -> bool) -> bool {
        has(&format!("{CONTROL_EMBEDDER}.weight")) && has("context_embedder.weight")
    }

    /// What the file calls the tensor that Flux's authors would call `original`.
    #[must_use]
    pub fn file_key(original: &str) -> String {
        if original.starts_with("controlnet_") {
            return original.to_owned();
        }
        FluxTransformerKeys::DIFFUSERS.file_key(original)
    }
}
