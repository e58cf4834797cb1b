//! ControlNets of FLUX.1: some blocks of the transformer's kinds that see a control image next to the noise, and a layer
//! after each whose result is added in the transformer.
//!
//! InstantX's, Shakker-Labs' and jasperai's files have diffusers' names, bare, in ComfyUI's folders as in diffusers'.
//! Readers ask with the names of Flux's authors, as of the transformer.

use super::FluxTransformerConfig;
use super::flux_transformer::DIFFUSERS_TEXT;
use super::stream_blocks::{
    CONTROL_LISTS, DIFFUSERS_DOUBLE, DIFFUSERS_OUTER, DIFFUSERS_SINGLE, add_control,
};
use crate::networks::prelude::*;

/// A table with one row for each kind of control image.
pub const MODES: &str = "controlnet_mode_embedder";

/// `config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FluxControlConfig {
    /// The blocks, of which there are fewer than in a transformer.
    #[serde(flatten)]
    pub blocks: FluxTransformerConfig,
    /// Kinds of control images, where the network distinguishes them.
    pub num_mode: Option<i64>,
    /// Of networks alone that read pixels, as XLabs' do.
    pub conditioning_embedding_channels: Option<i64>,
}

impl DeclaredConfig for FluxControlConfig {
    fn of_declared(header: &NamedShapes<'_>) -> Result<Self, String> {
        let table = format!("{MODES}.weight");
        let num_mode = header.has(&table).then(|| header.dim(&table, 0));
        Ok(Self {
            blocks: FluxTransformerConfig::of_declared(header)?,
            num_mode: num_mode.transpose()?,
            conditioning_embedding_channels: None,
        })
    }

    fn check_declared(&self) -> Result<(), String> {
        let single = self.blocks.num_single_layers;
        let blocks = FluxTransformerConfig {
            // Unlike a transformer it may do without.
            num_single_layers: if single == 0 { 1 } else { single },
            ..self.blocks.clone()
        };
        blocks.check()
    }
}

impl TransformerConfig for FluxControlConfig {
    const LABEL: &'static str = "FLUX.1 ControlNet";
    const CLASSES: &'static [&'static str] = &["FluxControlNetModel"];
    const PREFIXES: &'static [&'static str] = &[""];
    const DIALECTS: &'static [TensorDialect] = &[TensorDialect::diffusers(
        &[two_of(&[
            "controlnet_x_embedder.weight",
            "context_embedder.weight",
        ])],
        &[
            DIFFUSERS_DOUBLE,
            DIFFUSERS_SINGLE,
            BlockList::shared(CONTROL_LISTS[0]),
            BlockList::shared(CONTROL_LISTS[1]),
        ],
        &[DIFFUSERS_TEXT, DIFFUSERS_OUTER],
    )];

    fn check_numbers(&self) -> Result<(), String> {
        match (self.num_mode, self.conditioning_embedding_channels) {
            (_, Some(_)) => Err(
                "expected a ControlNet that reads the latents of images, found conditioning_embedding_channels"
                    .to_owned(),
            ),
            (Some(modes), _) if modes < 1 => {
                Err(format!("expected a num_mode of at least 1, found {modes}"))
            }
            _ => Ok(()),
        }
    }

    fn block_counts(&self) -> Vec<i64> {
        [self.blocks.streams().blocks; 2].concat()
    }

    fn add_tensors(&self, schema: &mut Schema) {
        self.blocks.add_before_last(schema);
        add_control(schema, self.blocks.streams(), self.blocks.in_channels);
        if let Some(modes) = self.num_mode {
            schema.table(MODES, modes, self.blocks.dim());
        }
    }
}

pub type FluxControlKeys = TensorKeys<FluxControlConfig>;
