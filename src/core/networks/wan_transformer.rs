//! Wan's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their shapes.
//!
//! All published variants of Wan 2.1 and 2.2 are configs of it; VACE, Animate and others with parts of their own are
//! not. Readers ask with the authors' names.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{Renaming, count, heads, not_a, sizes};
use super::{NetworkConfig, Role, Schema, TensorSpec, check_layers, check_sizes, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// Width of one head in every published file.
const HEAD_DIM: i64 = 128;
/// How queries and keys are normalised in all of them.
const QK_NORM: &str = "rms_norm_across_heads";

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct WanTransformerConfig {
        /// Latents that make one token: over time, height and width.
        pub patch_size: [i64; 3] = [1, 2, 2],
        pub num_attention_heads: i64 = 40,
        pub attention_head_dim: i64 = HEAD_DIM,
        pub in_channels: i64 = 16,
        pub out_channels: i64 = 16,
        /// Width of the text's embeddings.
        pub text_dim: i64 = 4096,
        /// Width of the sinusoids of timesteps.
        pub freq_dim: i64 = 256,
        /// Width inside the feed-forward layers.
        pub ffn_dim: i64 = 13824,
        pub num_layers: i64 = 40,
        pub cross_attn_norm: bool = true,
        pub qk_norm: Option<String> = Some(QK_NORM.to_owned()),
        pub eps: f64 = 1e-6,
        /// Places along each axis.
        pub rope_max_seq_len: i64 = 1024,
        /// Width of the image encoder's embeddings, in models that read them.
        pub image_dim: Option<i64> = None,
        pub added_kv_proj_dim: Option<i64> = None,
        /// Places of the embeddings of two pictures together.
        pub pos_embed_seq_len: Option<i64> = None,
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for WanTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("WanTransformer3DModel")
    }

    /// The authors' own config says how many heads there are.
    fn of_header(weights: &WeightSet, authors: Option<&Value>) -> Result<Self, String> {
        let keys = TransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Wan transformer", weights))?;
        let key = |name: &str| keys.file_key(name);
        let size = |name: &str| sizes::<2>(weights, &key(name));
        let [dim, in_channels, pt, ph, pw] = sizes(weights, &key("patch_embedding.weight"))?;
        let num_heads = authors.and_then(|config| config.get("num_heads")?.as_i64());
        let heads = heads_of(dim, num_heads)?;
        let [image_dim] =
            sizes(weights, &key("img_emb.proj.0.weight")).map_or([None], |s: [i64; 1]| s.map(Some));
        let [head, _] = size("head.head.weight")?;
        let patch = pt.saturating_mul(ph).saturating_mul(pw);
        if head % patch != 0 {
            return Err(format!(
                "expected head.head.weight with a multiple of {patch} rows, found {head}"
            ));
        }
        Ok(Self {
            patch_size: [pt, ph, pw],
            num_attention_heads: heads,
            attention_head_dim: dim / heads,
            in_channels,
            out_channels: head / patch,
            text_dim: size("text_embedding.0.weight")?[1],
            freq_dim: size("time_embedding.0.weight")?[1],
            ffn_dim: size("blocks.0.ffn.0.weight")?[0],
            num_layers: count(weights, |n| key(&format!("blocks.{n}.ffn.0.weight"))),
            cross_attn_norm: weights.has(&key("blocks.0.norm3.weight")),
            image_dim,
            added_kv_proj_dim: size("blocks.0.cross_attn.k_img.weight").ok().map(|s| s[1]),
            pos_embed_seq_len: sizes::<3>(weights, &key("img_emb.emb_pos"))
                .ok()
                .map(|s| s[1]),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("num_attention_heads", self.num_attention_heads),
            ("attention_head_dim", self.attention_head_dim),
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("text_dim", self.text_dim),
            ("freq_dim", self.freq_dim),
            ("ffn_dim", self.ffn_dim),
            ("rope_max_seq_len", self.rope_max_seq_len),
            ("image_dim", self.image_dim.unwrap_or(1)),
            ("added_kv_proj_dim", self.added_kv_proj_dim.unwrap_or(1)),
            ("pos_embed_seq_len", self.pos_embed_seq_len.unwrap_or(1)),
        ])?;
        check_layers(&[("num_layers", self.num_layers)])?;
        Err(if self.patch_size.iter().any(|n| !(1..=64).contains(n)) {
            format!(
                "expected a patch_size of three numbers between 1 and 64, found {:?}",
                self.patch_size
            )
        } else if self.freq_dim < 2 {
            format!("expected a freq_dim of at least 2, found {}", self.freq_dim)
        } else if self.attention_head_dim % 2 != 0 || self.attention_head_dim < 6 {
            format!(
                "expected an even attention_head_dim of at least 6, for three axes of positions, found {}",
                self.attention_head_dim
            )
        } else if self.qk_norm.as_deref() != Some(QK_NORM) {
            let found = self.qk_norm.as_deref().unwrap_or("none");
            format!("expected the qk_norm {QK_NORM}, found {found}")
        } else {
            return self.check_pictures();
        })
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, TransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = TransformerKeys::of(|key| weights.has(key));
        let next = keys.file_key(&format!("blocks.{}.", self.num_layers));
        weights.no_more_layers(&next, self.num_layers)
    }
}

/// How many heads there are, by the authors' config or by their published width.
fn heads_of(dim: i64, num_heads: Option<i64>) -> Result<i64, String> {
    match num_heads {
        Some(heads) if heads > 0 && dim % heads == 0 => Ok(heads),
        Some(heads) => Err(format!(
            "expected a num_heads that divides the width {dim}, found {heads}"
        )),
        None => heads(dim, HEAD_DIM),
    }
}

impl WanTransformerConfig {
    fn check_pictures(&self) -> Result<(), String> {
        if self.image_dim.is_some() != self.added_kv_proj_dim.is_some() {
            return Err(
                "expected image_dim and added_kv_proj_dim together, found one of them".to_owned(),
            );
        }
        let dim = self.dim();
        if let Some(found) = self.added_kv_proj_dim.filter(|added| *added != dim) {
            return Err(format!(
                "expected an added_kv_proj_dim of {dim}, the width, found {found}"
            ));
        }
        match self.pos_embed_seq_len.filter(|places| places % 2 != 0) {
            Some(found) => Err(format!(
                "expected an even pos_embed_seq_len, for two pictures, found {found}"
            )),
            None => Ok(()),
        }
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// Channels of the given pictures' latents and their mask, which stand beside the noise.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels
    }

    /// Numbers of one token that the model gives back.
    pub fn token_numbers(&self) -> i64 {
        self.out_channels * self.patch_size.iter().product::<i64>()
    }

    /// How many numbers of a head turn with time, height and width.
    pub fn rope_dims(&self) -> [i64; 3] {
        let plane = 2 * (self.attention_head_dim / 6);
        [self.attention_head_dim - 2 * plane, plane, plane]
    }

    /// Whether the tensors of two transformers have the same names and shapes.
    pub fn is_same_shape(&self, other: &Self) -> bool {
        let sizes = |config: &Self| {
            [
                config.dim(),
                config.in_channels,
                config.out_channels,
                config.text_dim,
                config.ffn_dim,
                config.num_layers,
                config.image_dim.unwrap_or(0),
            ]
        };
        sizes(self) == sizes(other) && self.patch_size == other.patch_size
    }
}

/// What single files put before a transformer's names.
const TRANSFORMER_PREFIXES: [&str; 5] = [
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "model.",
    "transformer.",
];
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

impl TransformerKeys {
    /// The dialect of a file, by whether it has a key; `None` for what is no Wan transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        TRANSFORMER_PREFIXES.into_iter().find_map(|prefix| {
            let has = |key: &str| has(&format!("{prefix}{key}"));
            if !has("patch_embedding.weight") {
                return None;
            }
            let is_diffusers = has("condition_embedder.time_proj.weight");
            (is_diffusers || has("time_projection.1.weight")).then_some(Self {
                prefix,
                is_diffusers,
            })
        })
    }

    /// The same, where what is no Wan transformer counts as one in diffusers' names: the first key that is asked for
    /// says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self {
            prefix: "",
            is_diffusers: true,
        })
    }

    /// The file's name of the tensor that the authors call `original`.
    pub fn file_key(self, original: &str) -> String {
        let key = if self.is_diffusers {
            DIFFUSERS.apply(original)
        } else {
            original.to_owned()
        };
        format!("{}{key}", self.prefix)
    }
}

pub fn schema(config: &WanTransformerConfig, keys: TransformerKeys) -> Vec<TensorSpec> {
    let dim = config.dim();
    let [pt, ph, pw] = config.patch_size;
    let mut schema = Schema::default();
    schema.conv("patch_embedding", &[dim, config.in_channels, pt, ph, pw]);
    schema.in_f32(|schema| {
        schema.linear("time_embedding.0", dim, config.freq_dim);
        schema.linear("time_embedding.2", dim, dim);
    });
    schema.linear("time_projection.1", 6 * dim, dim);
    schema.linear("text_embedding.0", dim, config.text_dim);
    schema.linear("text_embedding.2", dim, dim);
    if let Some(image_dim) = config.image_dim {
        schema.in_f32(|schema| {
            schema.norm("img_emb.proj.0", image_dim);
            schema.norm("img_emb.proj.4", dim);
        });
        schema.linear("img_emb.proj.1", image_dim, image_dim);
        schema.linear("img_emb.proj.3", dim, image_dim);
        if let Some(places) = config.pos_embed_seq_len {
            schema.add("img_emb.emb_pos", &[1, places, image_dim], Role::Fixed);
        }
    }
    for block in 0..config.num_layers {
        add_block(&mut schema, &format!("blocks.{block}"), config);
    }
    schema.in_f32(|schema| schema.add("head.modulation", &[1, 2, dim], Role::Fixed));
    schema.linear("head.head", config.token_numbers(), dim);
    schema.renamed(|name| keys.file_key(name))
}

fn add_block(schema: &mut Schema, block: &str, config: &WanTransformerConfig) {
    let dim = config.dim();
    for attention in ["self_attn", "cross_attn"] {
        let name = |part: &str| format!("{block}.{attention}.{part}");
        for part in ["q", "k", "v", "o"] {
            schema.linear(&name(part), dim, dim);
        }
        for part in ["norm_q", "norm_k"] {
            schema.vector(&format!("{}.weight", name(part)), dim);
        }
    }
    if let Some(added) = config.added_kv_proj_dim {
        schema.linear(&format!("{block}.cross_attn.k_img"), dim, added);
        schema.linear(&format!("{block}.cross_attn.v_img"), dim, added);
        schema.vector(&format!("{block}.cross_attn.norm_k_img.weight"), dim);
    }
    schema.linear(&format!("{block}.ffn.0"), config.ffn_dim, dim);
    schema.linear(&format!("{block}.ffn.2"), dim, config.ffn_dim);
    schema.in_f32(|schema| {
        if config.cross_attn_norm {
            schema.norm(&format!("{block}.norm3"), dim);
        }
        let modulation = format!("{block}.modulation");
        schema.add(modulation, &[1, 6, dim], Role::Fixed);
    });
}

/// `blocks.0.self_attn.q.weight` -> `blocks.0.attn1.to_q.weight`
const DIFFUSERS: Renaming = Renaming {
    outside: &[
        (
            "text_embedding.0.",
            "condition_embedder.text_embedder.linear_1.",
        ),
        (
            "text_embedding.2.",
            "condition_embedder.text_embedder.linear_2.",
        ),
        (
            "time_embedding.0.",
            "condition_embedder.time_embedder.linear_1.",
        ),
        (
            "time_embedding.2.",
            "condition_embedder.time_embedder.linear_2.",
        ),
        ("time_projection.1.", "condition_embedder.time_proj."),
        (
            "img_emb.proj.0.",
            "condition_embedder.image_embedder.norm1.",
        ),
        (
            "img_emb.proj.1.",
            "condition_embedder.image_embedder.ff.net.0.proj.",
        ),
        (
            "img_emb.proj.3.",
            "condition_embedder.image_embedder.ff.net.2.",
        ),
        (
            "img_emb.proj.4.",
            "condition_embedder.image_embedder.norm2.",
        ),
        (
            "img_emb.emb_pos",
            "condition_embedder.image_embedder.pos_embed",
        ),
        ("head.head.", "proj_out."),
        ("head.modulation", "scale_shift_table"),
    ],
    list: ("blocks", "blocks"),
    inside: &[
        ("modulation", "scale_shift_table"),
        ("norm3.", "norm2."),
        ("ffn.0.", "ffn.net.0.proj."),
        ("ffn.2.", "ffn.net.2."),
        ("self_attn.q.", "attn1.to_q."),
        ("self_attn.k.", "attn1.to_k."),
        ("self_attn.v.", "attn1.to_v."),
        ("self_attn.o.", "attn1.to_out.0."),
        ("self_attn.", "attn1."),
        ("cross_attn.q.", "attn2.to_q."),
        ("cross_attn.k.", "attn2.to_k."),
        ("cross_attn.v.", "attn2.to_v."),
        ("cross_attn.o.", "attn2.to_out.0."),
        ("cross_attn.k_img.", "attn2.add_k_proj."),
        ("cross_attn.v_img.", "attn2.add_v_proj."),
        ("cross_attn.norm_k_img.", "attn2.norm_added_k."),
        ("cross_attn.", "attn2."),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_block_is_translated() {
        for (ours, theirs) in [
            ("self_attn.q.weight", "attn1.to_q.weight"),
            ("self_attn.norm_k.weight", "attn1.norm_k.weight"),
            ("cross_attn.o.bias", "attn2.to_out.0.bias"),
            ("cross_attn.k_img.weight", "attn2.add_k_proj.weight"),
            ("cross_attn.v_img.bias", "attn2.add_v_proj.bias"),
            ("cross_attn.norm_k_img.weight", "attn2.norm_added_k.weight"),
            ("norm3.bias", "norm2.bias"),
            ("ffn.0.weight", "ffn.net.0.proj.weight"),
            ("ffn.2.bias", "ffn.net.2.bias"),
            ("modulation", "scale_shift_table"),
        ] {
            let found = DIFFUSERS.apply(&format!("blocks.11.{ours}"));
            assert_eq!(found, format!("blocks.11.{theirs}"));
        }
    }

    #[test]
    fn names_outside_of_blocks_are_translated() {
        let embedder = "condition_embedder";
        for (ours, theirs) in [
            ("patch_embedding.weight", "patch_embedding.weight".into()),
            ("head.head.bias", "proj_out.bias".into()),
            ("head.modulation", "scale_shift_table".into()),
            (
                "time_projection.1.weight",
                format!("{embedder}.time_proj.weight"),
            ),
            (
                "text_embedding.2.bias",
                format!("{embedder}.text_embedder.linear_2.bias"),
            ),
            (
                "img_emb.proj.4.bias",
                format!("{embedder}.image_embedder.norm2.bias"),
            ),
            (
                "img_emb.emb_pos",
                format!("{embedder}.image_embedder.pos_embed"),
            ),
        ] {
            assert_eq!(DIFFUSERS.apply(ours), theirs);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix_and_in_nothing_else() {
        for prefix in TRANSFORMER_PREFIXES {
            for (second, is_diffusers) in [
                ("time_projection.1.weight", false),
                ("condition_embedder.time_proj.weight", true),
            ] {
                let names = ["patch_embedding.weight", second].map(|n| format!("{prefix}{n}"));
                let keys = TransformerKeys::detect(|key| names.contains(&key.to_owned())).unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
                assert_eq!(keys.file_key("time_projection.1.weight"), names[1]);
            }
        }
        let lone = TransformerKeys::detect(|key| key == "patch_embedding.weight");
        assert_eq!(lone, None);
    }
}
