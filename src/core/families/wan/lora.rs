//! LoRAs for Wan: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{Dialect, List, Names, Network, Table, of_schema};
use crate::networks::{TransformerKeys, WanTransformerConfig, wan_transformer};

/// The transformer, in the authors' names.
pub const NETWORK: Network = Network {
    name: "wan",
    is_text_encoder: false,
    of_pictures: |name| {
        let ends = [
            "_k_img",
            "_v_img",
            "_add_k_proj",
            "_add_v_proj",
            "_norm_added_k",
        ];
        let starts = ["img_emb_", "condition_embedder_image_embedder_"];
        ends.iter().any(|end| name.ends_with(end))
            || starts.iter().any(|start| name.starts_with(start))
    },
    input: None,
    names,
};

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        sign("blocks_#_self_attn_"),
        sign("blocks_#_cross_attn_"),
        sign("blocks_#_ffn_"),
        sign("blocks_#_attn1_"),
        sign("blocks_#_attn2_"),
    ],
    accepts: |origin, _| origin == "wan",
    model_label: |tables| width(tables).map_or_else(|| "Wan".to_owned(), label),
    label_of_width: |width| Some(label(width)),
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = TransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(NETWORK, "", &shape)])
    },
    has_musubi: true,
};

const fn sign(start: &'static str) -> LoraSign {
    LoraSign::of("wan", "Wan", start)
}

/// What a model of a width is called.
fn label(width: u64) -> String {
    match width {
        1536 => "Wan 1.3B".to_owned(),
        3072 => "Wan 5B".to_owned(),
        5120 => "Wan 14B".to_owned(),
        width => format!("a Wan of width {width}"),
    }
}

fn width(tables: &[Table]) -> Option<u64> {
    let layers = tables.first()?.layers().iter();
    let mut attention = layers.filter(|layer| layer.name.ends_with("self_attn.q"));
    attention.next().map(|layer| layer.sides().0)
}

/// The layers, one entry for each kind of block. The names are the authors' and diffusers'.
fn names() -> Vec<Names> {
    let config = WanTransformerConfig {
        num_layers: 1,
        // Models that look at pictures have all layers of the others.
        image_dim: Some(1),
        added_kv_proj_dim: Some(1),
        ..WanTransformerConfig::default()
    };
    let [authors, diffusers] = [false, true].map(|is_diffusers| TransformerKeys {
        prefix: "",
        is_diffusers,
    });
    let lists: [List; 2] = [
        ("", &[], "patch_embedding.weight"),
        ("blocks.{}.", &[], "ffn.0.weight"),
    ];
    let diffusers = Dialect {
        file_key: &|name| diffusers.file_key(name),
        is_split: false,
    };
    let schema = wan_transformer::schema(&config, authors);
    of_schema(&schema, &lists, &[diffusers], true)
}
