//! LoRAs for Flux: what the layers of its transformer are called in them, and which of them are for a model.

use std::path::Path;

use super::variant::Variant;
use crate::families::{LoraRules, LoraSign};
use crate::formats::weights::WeightSet;
use crate::lora;
use crate::lora::{
    Coverage, DOUBLE, Dialect, Expert, List, LoraFile, Misfit, Names, Network, Plan, SINGLE, Share,
    Table, of_schema,
};
use crate::model::choices::Lora;
use crate::model::{CatalogError, ModelSpec};
use crate::networks::{
    FluxTransformerConfig, FluxTransformerKeys, NetworkConfig as _, flux_transformer,
};

/// The transformer, whose file has diffusers' names or the authors'.
pub fn network(is_diffusers: bool) -> Network {
    let network = if is_diffusers {
        Network::transformer("flux in diffusers' names", || names(true))
    } else {
        Network::transformer("flux", || names(false))
    };
    Network {
        input: Some("img_in"),
        ..network
    }
}

/// What the transformer at a place is with the LoRAs of a job: the authors' for depth and edges let it see a control
/// picture beside the noise.
pub fn config_with(
    transformer: &Path,
    loras: &[Lora],
) -> Result<FluxTransformerConfig, CatalogError> {
    let config = FluxTransformerConfig::read(transformer)?;
    if loras.is_empty() {
        return Ok(config);
    }
    let table = table(transformer)?;
    let mut widest = None;
    for (lora, strength) in loras.iter().zip(lora::strengths(loras, Expert::Only)) {
        if strength != 0.0 {
            let file = LoraFile::read(&lora.path)?;
            let plan = Plan::new(&file, std::slice::from_ref(&table));
            widest = widest.max(plan.widened());
        }
    }
    Ok(match widest {
        Some(columns) => config.widened(columns as i64),
        None => config,
    })
}

/// What a model becomes with a control LoRA: one that needs a control picture, of the kind that the LoRA's name says.
pub(super) fn with_control(spec: &ModelSpec, lora: &Path) -> Result<ModelSpec, String> {
    let mut variants = [Variant::Dev, Variant::Schnell].into_iter();
    if !variants.any(|variant| variant.name() == spec.variant) {
        return Err(format!(
            "this is a control LoRA of FLUX.1 dev, with which {} does not run",
            spec.name
        ));
    }
    let names = [lora.file_stem(), lora.parent().and_then(Path::file_name)];
    let names = names.map(|name| name.unwrap_or_default().to_string_lossy());
    let variant = Variant::of_control(&names.each_ref().map(|name| &**name));
    let (start_image, image_role, mask) = variant.inputs();
    let mut spec = spec.clone();
    (spec.start_image, spec.image_role, spec.mask) = (start_image, image_role, mask);
    spec.limits.controls = variant.controls();
    Ok(spec)
}

/// The layers of the transformer at a place.
fn table(transformer: &Path) -> Result<Table, CatalogError> {
    let weights = WeightSet::at(transformer)?;
    let keys = FluxTransformerKeys::of(|key| weights.has(key));
    let shape = |name: &str| weights.shape(&keys.file_key(name));
    Ok(Table::new(network(keys.is_diffusers), "", &shape))
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
        coverage.misfits.iter().any(sees_more).then_some(
            "this LoRA is for a model that sees more beside the noise, as FLUX.1 Fill does",
        )
    },
    tables: |files| {
        let mut tables = vec![table(&files.transformer)?];
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

/// Whether a layer takes in more than the model can be made to take.
fn sees_more(misfit: &Misfit) -> bool {
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
