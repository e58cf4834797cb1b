//! LoRAs for FLUX.2: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{DOUBLE, Dialect, List, Names, Network, SINGLE, Share, Table, of_schema};
use crate::networks::{Flux2TransformerConfig, Flux2TransformerKeys, flux2_transformer};

/// The transformer, whose file has diffusers' names or the authors'.
pub fn network(is_diffusers: bool) -> Network {
    if is_diffusers {
        Network::transformer("flux2 in diffusers' names", || names(true))
    } else {
        Network::transformer("flux2", || names(false))
    }
}

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        sign("double_stream_modulation"),
        sign("single_stream_modulation"),
        LoraSign::ending(
            "flux2",
            "FLUX.2",
            "single_transformer_blocks_#_",
            &["to_qkv_mlp_proj"],
        ),
        LoraSign::ending(
            "flux2",
            "FLUX.2",
            "transformer_blocks_#_",
            &["linear_in", "linear_out"],
        ),
    ],
    // Under the trainers' names its layers are called as FLUX.1's; the shapes tell those apart.
    accepts: |origin, _| origin == "flux2" || origin == "flux",
    model_label: |_| "FLUX.2".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = Flux2TransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(network(keys.is_diffusers), "", &shape)])
    },
    has_musubi: false,
};

const fn sign(start: &'static str) -> LoraSign {
    LoraSign::of("flux2", "FLUX.2", start)
}

/// What only some LoRA tools call a layer.
const EXTRA: [(&str, &str); 3] = [
    ("img_attn.qkv", "attn.to_qkv"),
    ("txt_attn.qkv", "attn.to_added_qkv"),
    ("img_attn.proj", "attn.to_out"),
];

/// The layers, one entry for each kind of block. The names are the authors' and diffusers'.
fn names(is_diffusers: bool) -> Vec<Names> {
    let config = Flux2TransformerConfig {
        num_layers: 1,
        num_single_layers: 1,
        ..Flux2TransformerConfig::klein_4b()
    };
    let diffusers = Flux2TransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let diffusers = Dialect {
        file_key: &|name| diffusers.file_key(name),
        is_split: true,
    };
    let lists: [List; 3] = [("", &[], "img_in.weight"), DOUBLE, SINGLE];
    let schema = flux2_transformer::schema(&config, Flux2TransformerKeys::ORIGINAL);
    let mut all = of_schema(&schema, &lists, &[diffusers], is_diffusers);
    for layer in all.iter_mut().flat_map(|names| &mut names.layers) {
        let extra = EXTRA.iter().filter(|(own, _)| *own == layer.own);
        let extra = extra.map(|(_, name)| ((*name).to_owned(), Share::All));
        // Norms are called without their end, too.
        let bare = layer.own.strip_suffix(".scale");
        let bare = bare.map(|name| (name.to_owned(), Share::All));
        layer.others.extend(extra.chain(bare));
    }
    all
}
