//! LoRAs for Wan: names of its transformer's layers, and the models that a LoRA is for.

use crate::families::single::transformer_table;
use crate::families::{LoraRules, LoraSignature};
use crate::lora::{LayerTable, LoraTarget, of_transformer};
use crate::networks::WanTransformerConfig;

/// The transformer, in the authors' names.
pub const NETWORK: LoraTarget = LoraTarget {
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
    names: || {
        let config = WanTransformerConfig {
            // Models with an image encoder have all layers of the others.
            image_dim: Some(1),
            added_kv_proj_dim: Some(1),
            ..WanTransformerConfig::default()
        };
        of_transformer(&config, "patch_embedding.weight", true)
    },
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
    shared_names: None,
    objection: |_| None,
    tables: |files| {
        let place = &files.transformer;
        Ok(vec![transformer_table::<WanTransformerConfig>(
            place,
            |_| NETWORK,
        )?])
    },
    has_musubi: true,
};

const fn sign(start: &'static str) -> LoraSignature {
    LoraSignature::of("wan", "Wan", start)
}

/// Name of a model of a width.
fn label(width: u64) -> String {
    match width {
        1536 => "Wan 1.3B".to_owned(),
        3072 => "Wan 5B".to_owned(),
        5120 => "Wan 14B".to_owned(),
        width => format!("a Wan of width {width}"),
    }
}

fn width(tables: &[LayerTable]) -> Option<u64> {
    let layers = tables.first()?.layers().iter();
    let mut attention = layers.filter(|layer| layer.name.ends_with("self_attn.q"));
    attention.next().map(|layer| layer.sides().0)
}
