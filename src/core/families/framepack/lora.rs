//! LoRAs for FramePack, and for HunyuanVideo of which it came: what the layers of its transformer are called in them,
//! and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora::{DOUBLE, Dialect, List, Names, Network, SINGLE, Table, of_schema};
use crate::networks::{
    FramePackDialect, FramePackTransformerConfig, FramePackTransformerKeys, framepack_transformer,
};

/// The transformer, whose file has diffusers' names or ComfyUI's.
pub fn network(is_diffusers: bool) -> Network {
    if is_diffusers {
        Network::transformer("framepack in diffusers' names", || names(true))
    } else {
        Network::transformer("framepack", || names(false))
    }
}

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        LoraSign::of("framepack", "FramePack", "clean_x_embedder"),
        LoraSign::of("framepack", "FramePack", "image_projection"),
        LoraSign::of("hunyuan", "HunyuanVideo", "txt_in_individual_token_refiner"),
        LoraSign::of("hunyuan", "HunyuanVideo", "context_embedder_token_refiner"),
    ],
    // What was made for HunyuanVideo acts here, too. Names that Flux has as well tell the two apart only where there
    // are more blocks than in Flux.
    accepts: |origin, tables| {
        let layers = tables.iter().flat_map(Table::layers);
        let mut beyond = layers.filter(|layer| layer.name.starts_with("double_blocks.19."));
        let is_small = beyond.next().is_none();
        matches!(origin, "framepack" | "hunyuan") || (origin == "flux" && is_small)
    },
    model_label: |_| "FramePack".to_owned(),
    label_of_width: |_| None,
    objection: |_| None,
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = FramePackTransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        Ok(vec![Table::new(network(keys.is_diffusers()), "", &shape)])
    },
    has_musubi: true,
};

const REFINER: List = (
    "txt_in.individual_token_refiner.blocks.{}.",
    &["context_embedder.token_refiner.refiner_blocks.{}."],
    "self_attn.proj.weight",
);
/// The layers, one entry for each kind of block: FramePack's, and HunyuanVideo's of which it came.
fn names(is_diffusers: bool) -> Vec<Names> {
    let config = FramePackTransformerConfig {
        num_layers: 1,
        num_single_layers: 1,
        num_refiner_layers: 1,
        ..FramePackTransformerConfig::default()
    };
    let hunyuan = FramePackTransformerKeys {
        prefix: "",
        dialect: FramePackDialect::Hunyuan,
    };
    let dialects = [
        Dialect {
            file_key: &|name| hunyuan.file_key(name),
            is_split: false,
        },
        Dialect {
            file_key: &|name| FramePackTransformerKeys::DIFFUSERS.file_key(name),
            is_split: true,
        },
    ];
    let outer: List = ("", &[], "img_in.proj.weight");
    let schema = framepack_transformer::schema(&config, FramePackTransformerKeys::COMFY);
    of_schema(
        &schema,
        &[outer, REFINER, DOUBLE, SINGLE],
        &dialects,
        is_diffusers,
    )
}
