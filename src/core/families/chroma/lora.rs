//! LoRAs for Chroma: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::flux::lora::with_extra_names;
use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{self, DOUBLE, Dialect, List, Names, Network, SINGLE, Table, of_schema};
use crate::networks::{ChromaTransformerConfig, ChromaTransformerKeys, chroma_transformer};

/// The transformer, in the authors' names.
pub const NETWORK: Network = Network::transformer("chroma", names);

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[LoraSign::of("chroma", "Chroma", "distilled_guidance_layer")],
    // What changes the blocks alone says nothing of which of the two it was made for.
    accepts: |origin, _| matches!(origin, "chroma" | "flux"),
    model_label: |_| "Chroma".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = ChromaTransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        let mut tables = vec![Table::new(NETWORK, "", &shape)];
        // One that cannot be read is told where it is loaded.
        if let Ok(weights) = WeightSet::at(&files.text_encoder) {
            let keys = weights.tensors.keys().map(String::as_str);
            let prefix = lora::text_encoder_prefix(lora::T5, keys);
            tables.push(Table::new(lora::T5, prefix, &|name| weights.shape(name)));
        }
        Ok(tables)
    },
    has_musubi: false,
};

/// The layers, one entry for each kind of block. The names are the authors' and diffusers'.
fn names() -> Vec<Names> {
    let config = ChromaTransformerConfig {
        num_layers: 1,
        num_single_layers: 1,
        approximator_layers: 1,
        ..ChromaTransformerConfig::default()
    };
    let diffusers = ChromaTransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let diffusers = Dialect {
        file_key: &|name| diffusers.file_key(name),
        is_split: true,
    };
    let lists: [List; 5] = [
        ("", &[], "img_in.weight"),
        DOUBLE,
        SINGLE,
        (
            "distilled_guidance_layer.layers.{}.",
            &[],
            "in_layer.weight",
        ),
        ("distilled_guidance_layer.norms.{}.", &[], "scale"),
    ];
    let schema = chroma_transformer::schema(&config, ChromaTransformerKeys::ORIGINAL);
    with_extra_names(of_schema(&schema, &lists, &[diffusers], true))
}
