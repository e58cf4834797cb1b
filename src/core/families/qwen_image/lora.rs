//! LoRAs for Qwen-Image: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{DOUBLE, Dialect, List, Names, Network, Share, Table, of_schema};
use crate::networks::{
    QwenImageTransformerConfig, QwenImageTransformerKeys, qwen_image_transformer,
};

/// The transformer, in the names with which the engine asks.
pub const NETWORK: Network = Network::transformer("qwen_image", names);

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        sign("transformer_blocks_#_img_m"),
        sign("transformer_blocks_#_txt_m"),
        // What names alone the attention could be Flux's, which has not so many blocks; nor has anybody else.
        LoraSign {
            first_block: 40,
            ..sign("transformer_blocks_#_attn_")
        },
    ],
    accepts: |origin, _| origin == "qwen_image",
    model_label: |_| "Qwen-Image".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = QwenImageTransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(NETWORK, "", &shape)])
    },
    has_musubi: true,
};

const fn sign(start: &'static str) -> LoraSign {
    LoraSign::of("qwen_image", "Qwen-Image", start)
}

/// The layers, one entry for the blocks and one for what is in none. Others' names are diffusers'.
fn names() -> Vec<Names> {
    let config = QwenImageTransformerConfig {
        num_layers: 1,
        ..QwenImageTransformerConfig::default()
    };
    let diffusers = Dialect {
        file_key: &|name| QwenImageTransformerKeys::BARE.file_key(name),
        is_split: true,
    };
    let lists: [List; 2] = [("", &[], "img_in.weight"), DOUBLE];
    let own = qwen_image_transformer::flux_schema(&config);
    let mut all = of_schema(&own, &lists, &[diffusers], true);
    for layer in all.iter_mut().flat_map(|names| &mut names.layers) {
        // Some tools leave out the number of diffusers' name.
        if layer.own == "img_attn.proj" {
            layer.others.push(("attn.to_out".to_owned(), Share::All));
        }
    }
    all
}
