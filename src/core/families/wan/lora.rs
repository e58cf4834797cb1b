//! LoRAs for Wan: names of its transformer's layers, and the models that a LoRA is for.

use crate::families::prelude::*;
use crate::families::single::transformer_table;
use crate::networks::{TransformerConfig as _, WanTransformerConfig};

/// The transformer, in the authors' names.
pub const NETWORK: LoraTarget = LoraTarget {
    of_images: |name| {
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
    ..LoraTarget::transformer("wan", |_| {
        let config = WanTransformerConfig {
            // Models with an image encoder have all layers of the others.
            image_dim: Some(1),
            added_kv_proj_dim: Some(1),
            ..WanTransformerConfig::default()
        };
        of_transformer(&config, true, ExtraNames::default())
    })
};

pub(super) const RULES: LoraRules = LoraRules {
    signs: lora_signatures! {
        "wan" "Wan": "blocks_#_self_attn_", "blocks_#_cross_attn_", "blocks_#_ffn_", "blocks_#_attn1_", "blocks_#_attn2_";
    },
    accepts: |origin, _| origin == "wan",
    published,
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

/// The published sizes.
fn published() -> Vec<(String, LayerTable)> {
    let sizes = [
        ("1.3B", 12, 8960, 30),
        ("5B", 24, 14_336, 30),
        ("14B", 40, 13_824, 40),
    ];
    let tables = sizes.map(|(size, num_attention_heads, ffn_dim, num_layers)| {
        let config = WanTransformerConfig {
            num_attention_heads,
            ffn_dim,
            num_layers,
            image_dim: Some(1280),
            added_kv_proj_dim: Some(num_attention_heads * 128),
            ..WanTransformerConfig::default()
        };
        (
            format!("Wan {size}"),
            LayerTable::of_schema(NETWORK, config.schema(None)),
        )
    });
    tables.into()
}
