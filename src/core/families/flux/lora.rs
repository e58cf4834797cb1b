//! LoRAs for Flux: what the layers of its transformer are called in them, and which of them are for a model.

use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora;
use crate::lora::{
    Coverage, DOUBLE, Dialect, List, Misfit, Names, Network, SINGLE, Share, Table, of_schema,
};
use crate::networks::{FluxTransformerConfig, FluxTransformerKeys, flux_transformer};

/// The transformer, whose file has diffusers' names or the authors'.
pub fn network(is_diffusers: bool) -> Network {
    if is_diffusers {
        Network::transformer("flux in diffusers' names", || names(true))
    } else {
        Network::transformer("flux", || names(false))
    }
}

pub(super) const RULES: LoraRules = LoraRules {
    signs: &[
        LoraSign::ending(
            "hunyuan",
            "HunyuanVideo",
            "double_blocks_#_",
            &["_mlp_fc1", "_mlp_fc2", "_mod_linear"],
        ),
        LoraSign::ending(
            "hunyuan",
            "HunyuanVideo",
            "single_blocks_#_",
            &["modulation_linear"],
        ),
        LoraSign::of("ltx", "LTX-Video", "transformer_blocks_#_attn1_"),
        LoraSign::of("sd3", "Stable Diffusion 3", "joint_blocks_#_"),
        LoraSign::of("sd", "Stable Diffusion", "down_blocks_#_"),
        LoraSign::of("sd", "Stable Diffusion", "up_blocks_#_"),
        LoraSign::of("sd", "Stable Diffusion", "mid_block_"),
        LoraSign::of("sd", "Stable Diffusion", "input_blocks_#_"),
        LoraSign::of("sd", "Stable Diffusion", "output_blocks_#_"),
        deeper("double_blocks_#_", 19),
        deeper("transformer_blocks_#_", 19),
        deeper("single_blocks_#_", 38),
        deeper("single_transformer_blocks_#_", 38),
        LoraSign::of("flux", "Flux", "double_blocks_#_"),
        LoraSign::of("flux", "Flux", "single_blocks_#_"),
        LoraSign::of("flux", "Flux", "single_transformer_blocks_#_"),
        LoraSign::of("flux", "Flux", "transformer_blocks_#_"),
    ],
    accepts: |origin, _| origin == "flux",
    model_label: |_| "Flux".to_owned(),
    label_of_width: |_| None,
    objection: |coverage: &Coverage| {
        coverage
            .misfits
            .iter()
            .any(is_of_control)
            .then_some(
                "this is a control LoRA, which Safelight does not run: use the whole FLUX.1 Depth or Canny, or a ControlNet",
            )
    },
    tables: |files| {
        let weights = WeightSet::at(&files.transformer)?;
        let keys = FluxTransformerKeys::of(|key| weights.has(key));
        let shape = |name: &str| weights.shape(&keys.file_key(name));
        let mut tables = vec![Table::new(network(keys.is_diffusers), "", &shape)];
        let encoders = [
            (lora::CLIP, Some(&files.text_encoder)),
            (lora::T5, files.text_encoder_2.as_ref()),
        ];
        for (network, place) in encoders {
            // One that cannot be read is told where it is loaded.
            if let Some(Ok(weights)) = place.map(|place| WeightSet::at(place)) {
                let keys = weights.tensors.keys().map(String::as_str);
                let prefix = lora::text_encoder_prefix(network, keys);
                tables.push(Table::new(network, prefix, &|name| weights.shape(name)));
            }
        }
        Ok(tables)
    },
    has_musubi: false,
};

/// Names that Flux has as well, in a block that it does not have.
const fn deeper(start: &'static str, first_block: usize) -> LoraSign {
    LoraSign {
        first_block,
        ..LoraSign::of(
            "hunyuan",
            "HunyuanVideo or another model with more blocks than Flux",
            start,
        )
    }
}

/// Whether a layer takes in more than the latents of the picture that is made.
fn is_of_control(misfit: &Misfit) -> bool {
    let name = lora::normal(&misfit.layer);
    let is_input = name.ends_with("img_in") || name.ends_with("x_embedder");
    is_input && misfit.found.1 > misfit.expected.1
}

/// What only some LoRA tools call a layer.
const EXTRA: [(&str, &str, Share); 9] = [
    ("img_attn.qkv", "attn.to_qkv", Share::All),
    ("img_attn.qkv", "processor.qkv_lora1", Share::All),
    ("txt_attn.qkv", "attn.to_added_qkv", Share::All),
    ("txt_attn.qkv", "processor.qkv_lora2", Share::All),
    ("img_attn.proj", "attn.to_out", Share::All),
    ("img_attn.proj", "processor.proj_lora1", Share::All),
    ("txt_attn.proj", "processor.proj_lora2", Share::All),
    ("linear1", "processor.qkv_lora", Share::QkvOfSeven),
    ("linear2", "processor.proj_lora", Share::All),
];

fn names(is_diffusers: bool) -> Vec<Names> {
    let config = FluxTransformerConfig {
        num_layers: 1,
        num_single_layers: 1,
        guidance_embeds: true,
        ..FluxTransformerConfig::default()
    };
    let diffusers = FluxTransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let diffusers = Dialect {
        file_key: &|name| diffusers.file_key(name),
        is_split: true,
    };
    let lists: [List; 3] = [("", &[], "img_in.weight"), DOUBLE, SINGLE];
    let schema = flux_transformer::schema(&config, FluxTransformerKeys::ORIGINAL);
    with_extra_names(of_schema(&schema, &lists, &[diffusers], is_diffusers))
}

/// The same with what only some LoRA tools call the layers of such blocks.
pub(in crate::families) fn with_extra_names(mut all: Vec<Names>) -> Vec<Names> {
    for layer in all.iter_mut().flat_map(|names| &mut names.layers) {
        let extra = EXTRA.iter().filter(|(own, ..)| *own == layer.own);
        let extra = extra.map(|(_, name, share)| ((*name).to_owned(), *share));
        // Norms are called without their end, too.
        let bare = layer.own.strip_suffix(".scale");
        let bare = bare.map(|name| (name.to_owned(), Share::All));
        layer.others.extend(extra.chain(bare));
    }
    all
}
