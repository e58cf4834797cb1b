//! Parsing of a LoRA file's keys: the layer, in the naming of its tool, and the part of that layer's update.
//!
//! Independent of models: `table` has the layers.

use crate::formats::weights::WeightSet;
use crate::formats::weights::keys::is_aside;

/// A part of one layer's update. In order of the names that the tools give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoraTensorKind {
    /// `(rank, in)`
    Down,
    /// `(out, rank)`
    Up,
    /// Bias of `Up`: `(out)`
    UpBias,
    /// Between the two, for convolutions.
    Mid,
    Alpha,
    /// The norms of the rows of the changed matrix: `(out)`, `(out, 1)` or of its columns `(1, in)`
    DoraScale,
    /// Difference that is added to the tensor itself.
    Diff,
    DiffBias,
    /// Difference of the `modulation` next to the layers.
    DiffModulation,
    HadaW1A,
    HadaW1B,
    HadaW2A,
    HadaW2B,
    LokrW1,
    LokrW1A,
    LokrW1B,
    LokrW2,
    LokrW2A,
    LokrW2B,
    /// Replacement of the tensor.
    Set,
    /// Width of the matrix for ComfyUI, which the update's own shape gives, too.
    Reshape,
    /// Cores of convolutions and singular values, which are not supported.
    Unsupported,
}

/// Names of parts. They may be followed by an adapter's name, `weight` or `bias`.
const WORDS: [(&str, LoraTensorKind); 23] = [
    ("lora_down", LoraTensorKind::Down),
    ("lora_up", LoraTensorKind::Up),
    ("lora_mid", LoraTensorKind::Mid),
    ("lora_A", LoraTensorKind::Down),
    ("lora_B", LoraTensorKind::Up),
    ("lora_E", LoraTensorKind::Unsupported),
    ("lora_magnitude_vector", LoraTensorKind::DoraScale),
    ("dora_scale", LoraTensorKind::DoraScale),
    ("hada_w1_a", LoraTensorKind::HadaW1A),
    ("hada_w1_b", LoraTensorKind::HadaW1B),
    ("hada_w2_a", LoraTensorKind::HadaW2A),
    ("hada_w2_b", LoraTensorKind::HadaW2B),
    ("hada_t1", LoraTensorKind::Unsupported),
    ("hada_t2", LoraTensorKind::Unsupported),
    ("lokr_w1", LoraTensorKind::LokrW1),
    ("lokr_w1_a", LoraTensorKind::LokrW1A),
    ("lokr_w1_b", LoraTensorKind::LokrW1B),
    ("lokr_w2", LoraTensorKind::LokrW2),
    ("lokr_w2_a", LoraTensorKind::LokrW2A),
    ("lokr_w2_b", LoraTensorKind::LokrW2B),
    ("lokr_t2", LoraTensorKind::Unsupported),
    ("set_weight", LoraTensorKind::Set),
    ("reshape_weight", LoraTensorKind::Reshape),
];

/// Ends of keys.
const ENDS: [(&str, LoraTensorKind); 15] = [
    (".alpha", LoraTensorKind::Alpha),
    (".diff", LoraTensorKind::Diff),
    (".diff_b", LoraTensorKind::DiffBias),
    (".diff_m", LoraTensorKind::DiffModulation),
    (".w_norm", LoraTensorKind::Diff),
    (".b_norm", LoraTensorKind::DiffBias),
    (".lora.down.weight", LoraTensorKind::Down),
    (".lora.up.weight", LoraTensorKind::Up),
    (".lora_linear_layer.down.weight", LoraTensorKind::Down),
    (".lora_linear_layer.up.weight", LoraTensorKind::Up),
    ("_lora.down.weight", LoraTensorKind::Down),
    ("_lora.up.weight", LoraTensorKind::Up),
    (".bias_diff", LoraTensorKind::DiffBias),
    (".lora.alpha", LoraTensorKind::Alpha),
    ("_lora.alpha", LoraTensorKind::Alpha),
];

/// Parts of keys that only adapters of other kinds have, and the kind.
const UNSUPPORTED: [(&str, &str); 21] = [
    (".oft_blocks", "OFT"),
    (".oft_diag", "OFT"),
    (".oft_R", "OFT"),
    (".boft_", "BOFT"),
    (".on_input", "(IA)^3"),
    (".ia3_l", "(IA)^3"),
    (".a1.weight", "GLoRA"),
    (".b1.weight", "GLoRA"),
    (".glora_", "GLoRA"),
    (".vera_lambda_", "VeRA"),
    (".hra_u", "HRA"),
    (".bone_", "Bone"),
    (".fourierft_", "FourierFT"),
    (".lora_E", "AdaLoRA"),
    (".randlora_", "RandLoRA"),
    (".shira_", "SHiRA"),
    (".c3a_kernel", "C3A"),
    (".waveft_", "WaveFT"),
    (".road_theta", "RoAd"),
    (".lambda_layer", "T-LoRA"),
    (".ln_tuning_layers", "LN tuning"),
];

/// The kind of a file that is an adapter of a kind that Safelight does not support, as a noun phrase.
pub(crate) fn unsupported_adapter(weights: &WeightSet) -> Option<String> {
    let (name, shape) = weights.tensors.iter().find_map(|(key, entry)| {
        let found = UNSUPPORTED.iter().find(|(part, _)| key.contains(part));
        found.map(|(_, name)| (*name, &entry.shape))
    })?;
    // LyCORIS has one name for the blocks of both; BOFT has a list of them for each factor.
    let name = if name == "OFT" && shape.len() == 4 {
        "BOFT"
    } else {
        name
    };
    Some(format!(
        "{name}, which Safelight does not support (LoRA, LoHa, LoKr, DoRA and full differences are supported)"
    ))
}

/// XLabs' layers: their own names stay, as `table` knows them.
const XLABS: [&str; 6] = [
    ".qkv_lora",
    ".qkv_lora1",
    ".qkv_lora2",
    ".proj_lora",
    ".proj_lora1",
    ".proj_lora2",
];

/// Norms of queries and keys, which control LoRAs of FLUX.1 contain as a whole in addition to their updates: the
/// authors' names, and diffusers'.
const NORMS: [(&str, &str); 6] = [
    (".scale", ".query_norm"),
    (".scale", ".key_norm"),
    (".weight", ".attn.norm_q"),
    (".weight", ".attn.norm_k"),
    (".weight", ".attn.norm_added_q"),
    (".weight", ".attn.norm_added_k"),
];

/// The layer of a norm that is there whole.
pub(crate) fn whole_norm(key: &str) -> Option<&str> {
    let mut norms = NORMS.iter();
    norms.find_map(|(end, norm)| key.strip_suffix(end).filter(|layer| layer.ends_with(norm)))
}

/// The layer's name as the file has it, and the part; `None` for what no LoRA tool writes.
pub fn split(key: &str) -> Option<(&str, LoraTensorKind)> {
    if is_aside(key) {
        return None;
    }
    for (end, leaf) in [
        (".down.weight", LoraTensorKind::Down),
        (".up.weight", LoraTensorKind::Up),
    ] {
        if let Some(layer) = key.strip_suffix(end)
            && XLABS.iter().any(|name| layer.ends_with(name))
        {
            return Some((layer, leaf));
        }
    }
    let whole = ENDS
        .iter()
        .filter_map(|(end, leaf)| Some((key.strip_suffix(end)?, *leaf)))
        // The longest end, which leaves the shortest name.
        .min_by_key(|(layer, _)| layer.len());
    whole.or_else(|| split_at_word(key))
}

fn split_at_word(key: &str) -> Option<(&str, LoraTensorKind)> {
    let mut start = key.len();
    // At most an adapter's name and `weight` follow the word.
    for behind in 0..3 {
        let dot = key[..start].rfind('.')?;
        let word = key[dot + 1..start].split('.').next().unwrap_or_default();
        if let Some((_, leaf)) = WORDS.iter().find(|(known, _)| *known == word) {
            let rest = &key[start..];
            let last = rest.rsplit('.').next().unwrap_or_default();
            let is_bias = last == "bias";
            let is_sound = behind < 2 || last == "weight" || is_bias;
            let leaf = match leaf {
                LoraTensorKind::Up if is_bias => LoraTensorKind::UpBias,
                _ if is_bias => LoraTensorKind::Unsupported,
                leaf => *leaf,
            };
            return is_sound.then_some((&key[..dot], leaf));
        }
        start = dot;
    }
    None
}

/// Network of a layer by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoraScope {
    Transformer,
    TextEncoder,
}

/// Prefixes of layers of text encoders.
const TEXT_PREFIXES: [&str; 22] = [
    "lora_te1_",
    "lora_te2_",
    "lora_te3_",
    "lora_te_",
    "text_encoders.clip_l.transformer.",
    "text_encoders.clip_g.transformer.",
    "text_encoders.t5xxl.transformer.",
    "text_encoders.umt5xxl.transformer.",
    "text_encoders.qwen3_4b.transformer.",
    "text_encoders.qwen3_8b.transformer.",
    "text_encoders.qwen25_7b.transformer.",
    "text_encoders.",
    "text_encoder_1.",
    "text_encoder_2.",
    "text_encoder_3.",
    "text_encoder.",
    "clip_l.transformer.",
    "clip_g.transformer.",
    "t5xxl.transformer.",
    "clip_l.",
    "clip_g.",
    "t5xxl.",
];
/// Beginnings of names that only text encoders have, without a prefix.
const TEXT_NAMES: [&str; 3] = ["text_model.", "encoder.layers.", "encoder.block."];
/// Prefixes of layers of a transformer, which may follow each other.
const PREFIXES: [&str; 16] = [
    "base_model.model.",
    "pipe.",
    "module.",
    "_orig_mod.",
    "denoiser.",
    "dit.",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
    "lora_unet_",
    "lora_transformer_",
    "lycoris_",
    "unet.",
    "model.",
    "net.",
    "_",
];

/// Network of a layer's name.
pub fn scope(layer: &str) -> LoraScope {
    let layer = layer.strip_prefix("base_model.model.").unwrap_or(layer);
    let mut starts = TEXT_PREFIXES.iter().chain(&TEXT_NAMES);
    if starts.any(|start| layer.starts_with(start)) {
        LoraScope::TextEncoder
    } else {
        LoraScope::Transformer
    }
}

/// Returns true if the name of a text encoder's layer says that the encoder is the second.
pub fn is_of_second_encoder(layer: &str) -> bool {
    let layer = layer.strip_prefix("base_model.model.").unwrap_or(layer);
    let layer = layer.strip_prefix("text_encoders.").unwrap_or(layer);
    ["lora_te2_", "text_encoder_2.", "clip_g."]
        .iter()
        .any(|start| layer.starts_with(start))
}

/// The names that a layer may have in a table: with dots as underscores and without the part before, longest
/// first. A name before a dot is cut for certain: `transformer.blocks` is no `transformer_blocks`. Names with
/// underscores alone cannot be cut safely, so all cuts are tried.
pub fn candidates(layer: &str) -> Vec<String> {
    let prefixes = || TEXT_PREFIXES.iter().chain(&PREFIXES);
    let mut bare = layer;
    while let Some(rest) = prefixes()
        .filter(|prefix| prefix.ends_with('.'))
        .find_map(|prefix| bare.strip_prefix(prefix))
    {
        bare = rest;
    }
    let mut found = vec![bare];
    let mut next = 0;
    while let Some(&name) = found.get(next) {
        next += 1;
        for prefix in prefixes() {
            if let Some(rest) = name.strip_prefix(prefix)
                && !found.contains(&rest)
                && found.len() < 16
            {
                found.push(rest);
            }
        }
    }
    found.into_iter().map(normal).collect()
}

/// One spelling for the names of all tools.
pub fn normal(name: &str) -> String {
    name.replace(".processor.to_", ".to_").replace('.', "_")
}

/// Returns true if only LoRAs have such a key.
pub(crate) fn is_of_lora(key: &str) -> bool {
    let tells = |leaf| {
        !matches!(
            leaf,
            LoraTensorKind::Alpha
                | LoraTensorKind::Diff
                | LoraTensorKind::DiffBias
                | LoraTensorKind::Set
                | LoraTensorKind::Unsupported
        )
    };
    split(key).is_some_and(|(_, leaf)| tells(leaf))
}

/// Returns true if a key holds the change of a whole tensor, as LyCORIS' full training writes it.
pub(crate) fn is_difference(key: &str) -> bool {
    let leaf = split(key).map(|(_, leaf)| leaf);
    matches!(leaf, Some(LoraTensorKind::Diff | LoraTensorKind::DiffBias))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tools_names_come_apart() {
        for (key, parts) in crate::testing::table(
            "lora_unet_a_b.lora_down.weight -> lora_unet_a_b Down
             lora_unet_a_b.alpha -> lora_unet_a_b Alpha
             transformer.a.0.lora_A.weight -> transformer.a.0 Down
             a.q.lora_B.default.weight -> a.q Up
             a.q.lora_B.default -> a.q Up
             a.q.lora_B -> a.q Up
             a.q.lora_B.bias -> a.q UpBias
             a.processor.to_q_lora.up.weight -> a.processor.to_q Up
             a.to_q.lora.down.weight -> a.to_q Down
             a.lora_linear_layer.up.weight -> a Up
             a.lora_magnitude_vector.default.weight -> a DoraScale
             a.lora_magnitude_vector -> a DoraScale
             a.lokr_w2_b -> a LokrW2B
             a.norm.diff -> a.norm Diff
             a.diff_b -> a DiffBias
             blocks.3.diff_m -> blocks.3 DiffModulation
             double_blocks.0.processor.qkv_lora1.down.weight -> double_blocks.0.processor.qkv_lora1 Down
             img_in.reshape_weight -> img_in Reshape
             a.query_norm.scale.set_weight -> a.query_norm.scale Set",
        ) {
            let (layer, leaf) = split(key).unwrap();
            assert_eq!(format!("{layer} {leaf:?}"), parts, "{key}");
        }
        for key in " . lora_A blocks.0.self_attn.q.weight a.lora_A.b.c.weight".split(' ') {
            assert_eq!(split(key), None, "{key}");
        }
    }

    #[test]
    fn known_prefixes_are_stripped_from_lora_layer_names() {
        let has = |layer: &str, name: &str| candidates(layer).iter().any(|found| found == name);
        for (layer, name) in crate::testing::table(
            "lora_unet_double_blocks_0_img_attn_qkv -> double_blocks_0_img_attn_qkv
             lora_unet__blocks_0_ffn_0 -> blocks_0_ffn_0
             base_model.model.transformer.blocks.0.ffn.0 -> blocks_0_ffn_0
             transformer.transformer_blocks.0.attn.to_q -> transformer_blocks_0_attn_to_q
             lycoris_transformer_blocks_0_attn_to_q -> transformer_blocks_0_attn_to_q
             lora_te1_text_model_encoder_layers_0_mlp_fc1 -> text_model_encoder_layers_0_mlp_fc1
             transformer_blocks.0.attn.processor.to_q -> transformer_blocks_0_attn_to_q",
        ) {
            assert!(has(layer, name), "{layer}");
        }
        // diffusers' Wan is no model with `transformer_blocks`.
        assert!(!has(
            "transformer.blocks.0.attn1.to_q",
            "transformer_blocks_0_attn1_to_q"
        ));
        assert_eq!(scope("lora_te_text_model_x"), LoraScope::TextEncoder);
        assert_eq!(scope("transformer.text_encoder_x"), LoraScope::Transformer);
    }
}
