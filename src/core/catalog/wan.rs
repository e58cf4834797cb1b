//! Wan models in a diffusers folder: which variant it is, and whether every part fits its config.
//!
//! Looks at configs and headers only, and asks for every tensor of the transformer and the text encoder
//! and for the decisive ones of the VAE. Defaults and names are not its business.

use std::path::{Path, PathBuf};

use super::configs::{ModelIndex, SchedulerConfig, Umt5Config, WanTransformerConfig, WanVaeConfig};
use super::weights::WeightSet;
use super::{CatalogError, Limits, tokenizer};
use crate::job::Sampler;

const MAX_PIXELS: u64 = 1 << 24;
const MAX_FRAMES: u64 = 1025;

/// What configs and headers say about a TI2V folder.
#[derive(Clone, Debug)]
pub(super) struct WanFacts {
    pub variant: &'static str,
    pub shape: TransformerShape,
    pub limits: Limits,
    pub sampler: Sampler,
    pub bytes: u64,
}

/// What tells published models apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransformerShape {
    pub heads: u64,
    pub head_dim: u64,
    pub layers: u64,
    pub channels: u64,
}

/// The sentence part for a Wan model of another variant than TI2V, or `None` for TI2V itself.
pub(super) fn other_variant(
    index: &ModelIndex,
    transformer: Option<&WanTransformerConfig>,
) -> Option<String> {
    let has_two = index.components.contains_key("transformer_2");
    let name = match index.class.as_str() {
        "WanPipeline" | "WanImageToVideoPipeline" if index.expand_timesteps && !has_two => {
            return None;
        }
        "WanPipeline" if has_two => {
            "a Wan 2.2 text-to-video model with two transformers (T2V-A14B)"
        }
        "WanPipeline" => "a Wan 2.1 text-to-video model (T2V)",
        "WanImageToVideoPipeline" if has_two => {
            "a Wan 2.2 image-to-video model with two transformers (I2V-A14B)"
        }
        "WanImageToVideoPipeline"
            if transformer.is_some_and(|cfg| cfg.pos_embed_seq_len.is_some()) =>
        {
            "a Wan 2.1 first-and-last-frame model (FLF2V)"
        }
        "WanImageToVideoPipeline" => "a Wan 2.1 image-to-video model (I2V)",
        "WanVACEPipeline" => "a Wan VACE model",
        "WanAnimatePipeline" => "a Wan Animate model",
        other => return Some(format!("a Wan model for {other}")),
    };
    Some(name.to_owned())
}

/// Checks a TI2V folder whole.
pub(super) fn check(folder: &Path, index: &ModelIndex) -> Result<WanFacts, CatalogError> {
    for (component, class) in [
        ("scheduler", None),
        ("text_encoder", Some("UMT5EncoderModel")),
        ("tokenizer", None),
        ("transformer", Some("WanTransformer3DModel")),
        ("vae", Some("AutoencoderKLWan")),
    ] {
        check_component(folder, index, component, class)?;
    }
    let transformer_folder = folder.join("transformer");
    let vae_folder = folder.join("vae");
    let text_folder = folder.join("text_encoder");
    let transformer = WanTransformerConfig::read(&transformer_folder)?;
    if let Some(what) = other_variant(index, Some(&transformer)) {
        return Err(unsupported(what, folder));
    }
    let vae = WanVaeConfig::read(&vae_folder)?;
    let text = Umt5Config::read(&text_folder)?;
    let sampler = default_sampler(&folder.join("scheduler"))?;
    check_agreement(folder, &transformer, &vae, &text)?;

    let transformer_weights = WeightSet::open(&transformer_folder)?;
    check_transformer(&transformer_weights, &transformer)?;
    let vae_weights = WeightSet::open(&vae_folder)?;
    check_vae(&vae_weights, &vae)?;
    let text_weights = WeightSet::open(&text_folder)?;
    check_text_encoder(&text_weights, &text)?;
    tokenizer::check(&folder.join("tokenizer"), text.vocab_size)?;

    Ok(WanFacts {
        variant: "TI2V",
        shape: TransformerShape {
            heads: transformer.num_attention_heads,
            head_dim: transformer.attention_head_dim,
            layers: transformer.num_layers,
            channels: transformer.in_channels,
        },
        limits: limits(&transformer, &vae),
        sampler,
        bytes: transformer_weights.bytes + vae_weights.bytes + text_weights.bytes,
    })
}

fn check_component(
    folder: &Path,
    index: &ModelIndex,
    component: &str,
    expected: Option<&str>,
) -> Result<(), CatalogError> {
    let index_path = || folder.join("model_index.json");
    let Some(class) = index.components.get(component) else {
        return Err(CatalogError::Config {
            reason: format!("expected a {component} in model_index.json, found none"),
            path: index_path(),
        });
    };
    if let Some(expected) = expected
        && class != expected
    {
        return Err(CatalogError::Config {
            reason: format!("expected a {component} of class {expected}, found {class}"),
            path: index_path(),
        });
    }
    let path = folder.join(component);
    if !path.is_dir() {
        return Err(CatalogError::Missing {
            what: format!("the folder {component}"),
            path,
        });
    }
    Ok(())
}

fn default_sampler(folder: &Path) -> Result<Sampler, CatalogError> {
    let cfg = SchedulerConfig::read(folder)?;
    let wrong = |reason: String| CatalogError::Config {
        reason,
        path: folder.join("scheduler_config.json"),
    };
    match (cfg.class.as_str(), cfg.prediction_type.as_deref()) {
        ("FlowMatchEulerDiscreteScheduler", _) => Ok(Sampler::Euler),
        ("UniPCMultistepScheduler", Some("flow_prediction")) => Ok(Sampler::UniPc),
        ("UniPCMultistepScheduler", found) => Err(wrong(format!(
            "expected the prediction_type flow_prediction, found {}",
            found.unwrap_or("none")
        ))),
        (class, _) => Err(wrong(format!(
            "expected the scheduler UniPCMultistepScheduler or FlowMatchEulerDiscreteScheduler, found '{class}'"
        ))),
    }
}

/// Configs that each stand alone must also fit each other.
fn check_agreement(
    folder: &Path,
    transformer: &WanTransformerConfig,
    vae: &WanVaeConfig,
    text: &Umt5Config,
) -> Result<(), CatalogError> {
    if transformer.quantization_config.is_some() || text.quantization_config.is_some() {
        return Err(unsupported("a quantised Wan model".to_owned(), folder));
    }
    if !vae.is_residual {
        let what = "a Wan model with a Wan 2.1 VAE".to_owned();
        return Err(unsupported(what, folder));
    }
    let wrong = [
        ("transformer", wrong_transformer(transformer, vae, text)),
        ("vae", wrong_vae(vae)),
        ("text_encoder", wrong_text_encoder(text)),
    ];
    for (component, reason) in wrong {
        if let Some(reason) = reason {
            return Err(CatalogError::Config {
                reason,
                path: folder.join(component).join("config.json"),
            });
        }
    }
    Ok(())
}

fn wrong_transformer(
    cfg: &WanTransformerConfig,
    vae: &WanVaeConfig,
    text: &Umt5Config,
) -> Option<String> {
    for (name, channels) in [
        ("in_channels", cfg.in_channels),
        ("out_channels", cfg.out_channels),
    ] {
        if channels != vae.z_dim {
            return Some(format!(
                "expected {name} to be {}, the VAE's z_dim, found {channels}",
                vae.z_dim
            ));
        }
    }
    if cfg.text_dim != text.d_model {
        return Some(format!(
            "expected a text_dim of {}, the text encoder's d_model, found {}",
            text.d_model, cfg.text_dim
        ));
    }
    let patch_frames = cfg.patch_size[0];
    (patch_frames != 1).then(|| format!("expected a patch_size of 1 in time, found {patch_frames}"))
}

fn wrong_vae(cfg: &WanVaeConfig) -> Option<String> {
    let pixels = 3 * cfg.patch() * cfg.patch();
    (cfg.in_channels != pixels || cfg.out_channels != pixels).then(|| {
        format!(
            "expected {pixels} in_channels and out_channels (3 times patch_size squared), found {} and {}",
            cfg.in_channels, cfg.out_channels
        )
    })
}

fn wrong_text_encoder(cfg: &Umt5Config) -> Option<String> {
    // What is left out is what every UMT5 has.
    for (name, expected, found) in [
        ("model_type", "umt5", &cfg.model_type),
        ("feed_forward_proj", "gated-gelu", &cfg.feed_forward_proj),
    ] {
        if !found.is_empty() && found != expected {
            return Some(format!("expected the {name} {expected}, found {found}"));
        }
    }
    None
}

fn limits(transformer: &WanTransformerConfig, vae: &WanVaeConfig) -> Limits {
    let [_, patch_height, patch_width] = transformer.patch_size;
    let patch = least_common_multiple(patch_height, patch_width);
    let size_multiple = vae.spatial_factor() * patch;
    let frame_stride = vae.temporal_factor();
    // The table of rotations has this many places along each axis.
    let places = transformer.rope_max_seq_len;
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Limits {
        size_multiple: narrow(size_multiple),
        max_edge: narrow(places * patch_height.min(patch_width) * vae.spatial_factor()),
        max_pixels: MAX_PIXELS,
        frame_stride: narrow(frame_stride),
        max_frames: narrow(MAX_FRAMES.min((places - 1) * frame_stride + 1)),
        fixed_size: false,
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

fn check_transformer(weights: &WeightSet, cfg: &WanTransformerConfig) -> Result<(), CatalogError> {
    let dim = cfg.dim();
    let [pt, ph, pw] = cfg.patch_size;
    let linear = |name: &str, output: u64, input: u64| {
        weights.expect(&format!("{name}.weight"), &[output, input])?;
        weights.expect(&format!("{name}.bias"), &[output])
    };
    weights.expect(
        "patch_embedding.weight",
        &[dim, cfg.in_channels, pt, ph, pw],
    )?;
    weights.expect("patch_embedding.bias", &[dim])?;
    linear(
        "condition_embedder.time_embedder.linear_1",
        dim,
        cfg.freq_dim,
    )?;
    linear("condition_embedder.time_embedder.linear_2", dim, dim)?;
    linear("condition_embedder.time_proj", 6 * dim, dim)?;
    linear(
        "condition_embedder.text_embedder.linear_1",
        dim,
        cfg.text_dim,
    )?;
    linear("condition_embedder.text_embedder.linear_2", dim, dim)?;
    for layer in 0..cfg.num_layers {
        let block = format!("blocks.{layer}");
        for attention in ["attn1", "attn2"] {
            for part in ["to_q", "to_k", "to_v", "to_out.0"] {
                linear(&format!("{block}.{attention}.{part}"), dim, dim)?;
            }
            if cfg.qk_norm.as_deref() == Some("rms_norm_across_heads") {
                weights.expect(&format!("{block}.{attention}.norm_q.weight"), &[dim])?;
                weights.expect(&format!("{block}.{attention}.norm_k.weight"), &[dim])?;
            }
        }
        if cfg.cross_attn_norm {
            weights.expect(&format!("{block}.norm2.weight"), &[dim])?;
            weights.expect(&format!("{block}.norm2.bias"), &[dim])?;
        }
        linear(&format!("{block}.ffn.net.0.proj"), cfg.ffn_dim, dim)?;
        linear(&format!("{block}.ffn.net.2"), dim, cfg.ffn_dim)?;
        weights.expect(&format!("{block}.scale_shift_table"), &[1, 6, dim])?;
    }
    weights.expect("scale_shift_table", &[1, 2, dim])?;
    linear("proj_out", cfg.out_channels * pt * ph * pw, dim)?;
    no_more_layers(
        weights,
        &format!("blocks.{}.", cfg.num_layers),
        cfg.num_layers,
    )
}

fn check_vae(weights: &WeightSet, cfg: &WanVaeConfig) -> Result<(), CatalogError> {
    let convolution = |name: &str, output: u64, input: u64, edge: u64| {
        weights.expect(
            &format!("{name}.weight"),
            &[output, input, edge, edge, edge],
        )?;
        weights.expect(&format!("{name}.bias"), &[output])
    };
    let first = cfg.dim_mult.first().copied().unwrap_or(1);
    let last = cfg.dim_mult.last().copied().unwrap_or(1);
    convolution("encoder.conv_in", cfg.base_dim, cfg.in_channels, 3)?;
    convolution("encoder.conv_out", 2 * cfg.z_dim, cfg.base_dim * last, 3)?;
    convolution("quant_conv", 2 * cfg.z_dim, 2 * cfg.z_dim, 1)?;
    convolution("post_quant_conv", cfg.z_dim, cfg.z_dim, 1)?;
    convolution("decoder.conv_in", cfg.decoder_dim() * last, cfg.z_dim, 3)?;
    convolution(
        "decoder.conv_out",
        cfg.out_channels,
        cfg.decoder_dim() * first,
        3,
    )
}

fn check_text_encoder(weights: &WeightSet, cfg: &Umt5Config) -> Result<(), CatalogError> {
    // Both names hold the same tensor; which of them a file keeps depends on who wrote it.
    let embedding = ["shared.weight", "encoder.embed_tokens.weight"]
        .into_iter()
        .find(|key| weights.has(key))
        .unwrap_or("shared.weight");
    weights.expect(embedding, &[cfg.vocab_size, cfg.d_model])?;
    weights.expect("encoder.final_layer_norm.weight", &[cfg.d_model])?;
    let inner = cfg.num_heads * cfg.d_kv;
    for layer in 0..cfg.num_layers {
        let block = format!("encoder.block.{layer}.layer");
        for (name, shape) in [
            ("0.layer_norm.weight", vec![cfg.d_model]),
            ("0.SelfAttention.q.weight", vec![inner, cfg.d_model]),
            ("0.SelfAttention.k.weight", vec![inner, cfg.d_model]),
            ("0.SelfAttention.v.weight", vec![inner, cfg.d_model]),
            ("0.SelfAttention.o.weight", vec![cfg.d_model, inner]),
            (
                "0.SelfAttention.relative_attention_bias.weight",
                vec![cfg.relative_attention_num_buckets, cfg.num_heads],
            ),
            ("1.layer_norm.weight", vec![cfg.d_model]),
            ("1.DenseReluDense.wi_0.weight", vec![cfg.d_ff, cfg.d_model]),
            ("1.DenseReluDense.wi_1.weight", vec![cfg.d_ff, cfg.d_model]),
            ("1.DenseReluDense.wo.weight", vec![cfg.d_model, cfg.d_ff]),
        ] {
            weights.expect(&format!("{block}.{name}"), &shape)?;
        }
    }
    let next = format!("encoder.block.{}.", cfg.num_layers);
    no_more_layers(weights, &next, cfg.num_layers)
}

/// A config that says fewer layers than the weights have would quietly make another picture.
fn no_more_layers(weights: &WeightSet, next: &str, expected: u64) -> Result<(), CatalogError> {
    match weights.tensors.keys().find(|key| key.starts_with(next)) {
        Some(key) => Err(CatalogError::Config {
            reason: format!("expected {expected} layers by the config, found the tensor '{key}'"),
            path: weights.files.first().cloned().unwrap_or_default(),
        }),
        None => Ok(()),
    }
}

fn unsupported(what: String, folder: &Path) -> CatalogError {
    CatalogError::Unsupported {
        what,
        path: PathBuf::from(folder),
    }
}
