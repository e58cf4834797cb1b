//! LoRAs for Krea 2: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{Dialect, List, Names, Network, Table, of_schema};
use crate::networks::{Krea2TransformerConfig, Krea2TransformerKeys, krea2_transformer};

/// The transformer, in the names that readers ask with.
pub const NETWORK: Network = Network::transformer("krea2", names);

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        sign("blocks_#_attn_w"),
        sign("blocks_#_attn_gate"),
        sign("blocks_#_mlp_gate"),
        sign("blocks_#_mlp_up"),
        sign("blocks_#_mlp_down"),
        sign("txtfusion_"),
        sign("text_fusion_"),
        sign("transformer_blocks_#_attn_to_gate"),
        sign("transformer_blocks_#_ff_gate"),
        sign("transformer_blocks_#_ff_up"),
        sign("transformer_blocks_#_ff_down"),
    ],
    accepts: |origin, _| origin == "krea2",
    model_label: |_| "Krea 2".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = Krea2TransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(NETWORK, "", &shape)])
    },
    has_musubi: true,
};

const fn sign(start: &'static str) -> LoraSign {
    LoraSign::of("krea2", "Krea 2", start)
}

/// The layers, one entry for each kind of block, with the authors' names and diffusers'.
fn names() -> Vec<Names> {
    let config = Krea2TransformerConfig {
        num_layers: 1,
        num_layerwise_text_blocks: 1,
        num_refiner_text_blocks: 1,
        ..Krea2TransformerConfig::default()
    };
    let theirs = Krea2TransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let dialects = [
        Dialect {
            file_key: &|name| Krea2TransformerKeys::ORIGINAL.file_key(name),
            is_split: true,
        },
        Dialect {
            file_key: &|name| theirs.file_key(name),
            is_split: true,
        },
    ];
    const MARK: &str = "prenorm.scale";
    let lists: [List; 4] = [
        ("", &[], "first.weight"),
        ("blocks.{}.", &["transformer_blocks.{}."], MARK),
        (
            "txtfusion.layerwise_blocks.{}.",
            &["text_fusion.layerwise_blocks.{}."],
            MARK,
        ),
        (
            "txtfusion.refiner_blocks.{}.",
            &["text_fusion.refiner_blocks.{}."],
            MARK,
        ),
    ];
    let schema = krea2_transformer::own_schema(&config);
    of_schema(&schema, &lists, &dialects, true)
}
