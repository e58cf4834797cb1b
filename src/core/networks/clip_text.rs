//! CLIP's text transformers: CLIP-L, the first text encoder of Flux and SDXL and the second of FramePack; OpenCLIP's bigG,
//! the second of SDXL; and the layers that CLIP's vision transformer and SigLIP's are made of too.
//!
//! Readers ask with the names of `transformers`, with queries, keys and values below `self_attn`; [`ClipTextKeys`] has the
//! file's.

use std::fmt;
use std::marker::PhantomData;

use crate::model::PartKind;
use crate::networks::prelude::*;

const TOKENS: &str = "embeddings.token_embedding.weight";
const POSITIONS: &str = "embeddings.position_embedding.weight";
pub(super) const FIRST_LAYER: &str = "encoder.layers.0.mlp.fc1.weight";
const PROJECTION: &str = "text_projection.weight";
/// By which its files are known.
pub(super) const KINDS: &[DetectionRule] = &[
    DetectionRule {
        size: Some((TOKENS, 1, 1280)),
        part: Some(PartKind::Clip),
        ..DetectionRule::new(
            "clip",
            "text_encoder",
            "a CLIP-G text encoder",
            &[TOKENS, FIRST_LAYER],
        )
    },
    DetectionRule {
        part: Some(PartKind::Clip),
        ..DetectionRule::new(
            "clip",
            "text_encoder",
            "a CLIP text encoder",
            &[TOKENS, FIRST_LAYER],
        )
    },
];

/// Prefix of the names in published files.
pub const USUAL_PREFIX: &str = "text_model.";
/// Width of one head in every published CLIP.
const HEAD_DIM: i64 = 64;
const MODEL_TYPE: &str = "clip_text_model";

/// Differences between the kinds of text transformers.
pub trait ClipKind: Clone + fmt::Debug {
    /// The network in sentences.
    const NAME: &'static str;
    const ACTIVATION: ClipActivation;
    /// The state where a text ends goes through a projection, and files may have OpenCLIP's names.
    const IS_PROJECTED: bool;
}

pub type ClipTextConfig = ClipConfig<ClipL>;

/// The kind of [`ClipTextConfig`].
#[derive(Clone, Copy, Debug)]
pub enum ClipL {}

impl ClipKind for ClipL {
    const NAME: &'static str = "CLIP text encoder";
    const ACTIVATION: ClipActivation = ClipActivation::QuickGelu;
    const IS_PROJECTED: bool = false;
}

pub type ClipGTextConfig = ClipConfig<ClipG>;

/// The kind of [`ClipGTextConfig`].
#[derive(Clone, Copy, Debug)]
pub enum ClipG {}

impl ClipKind for ClipG {
    const NAME: &'static str = "CLIP-G text encoder";
    const ACTIVATION: ClipActivation = ClipActivation::Gelu;
    const IS_PROJECTED: bool = true;
}

network_config! {
    /// `text_encoder/config.json`, with the defaults of `transformers`.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default, bound = "")]
    pub struct ClipConfig<K: ClipKind> {
        pub model_type: String = String::new(),
        pub vocab_size: i64 = 49408 => dim(TOKENS, 0),
        pub hidden_size: i64 = 512 => dim(TOKENS, 1),
        pub intermediate_size: i64 = 2048 => dim(FIRST_LAYER, 0),
        pub num_hidden_layers: i64 = 12 => count("encoder.layers.{}.mlp.fc1.weight"),
        pub num_attention_heads: i64 = 8 => size(),
        pub max_position_embeddings: i64 = 77 => dim(POSITIONS, 0),
        pub layer_norm_eps: f64 = 1e-5 => epsilon(),
        pub hidden_act: ClipActivation = K::ACTIVATION,
        pub eos_token_id: i64 = 49407,
        /// Width of the projected state; that of the others when absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub projection_dim: Option<i64> = None => size(),
        #[serde(skip)]
        pub kind: PhantomData<K> = PhantomData,
    }
}

impl<K: ClipKind> NetworkConfig for ClipConfig<K> {
    const PART: Option<&'static str> = Some("text_config");

    fn is_described_by(config: &Value) -> bool {
        is_of_type(config, MODEL_TYPE)
    }

    /// Numbers that shapes do not show are those of the published network.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = ClipTextKeys::detect::<K>(&weights.names());
        let keys = keys.ok_or_else(|| not_a(K::NAME, weights))?;
        let file_key = |name: &str| keys.file_key(name);
        let header = NamedShapes::new(weights, &file_key);
        let found = Self::of_declared(&header)?;
        let projection_dim = if K::IS_PROJECTED {
            Some(header.dim(PROJECTION, usize::from(keys.is_open_clip))?)
        } else {
            None
        };
        Ok(Self {
            num_attention_heads: heads(found.hidden_size, HEAD_DIM)?,
            eos_token_id: Self::WRONG_EOS,
            projection_dim,
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        check_model_type(MODEL_TYPE, &self.model_type)?;
        self.check_declared()?;
        self.layers().check_heads()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(&Self::keys(weights))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let layers = self.num_hidden_layers;
        // The end of the name is only there for the translation.
        let next = format!("encoder.layers.{layers}.");
        weights.no_more_layers(&Self::keys(weights).file_key(&next), layers)
    }
}

impl<K: ClipKind> ClipConfig<K> {
    /// The `eos_token_id` of old configs, wrong in all of them: the text ends at its largest id.
    pub const WRONG_EOS: i64 = 2;

    /// Names of such a network in a file; the usual ones where it has none, so that the first missing name is reported.
    fn keys(weights: &WeightSet) -> ClipTextKeys {
        ClipTextKeys::detect::<K>(&weights.names()).unwrap_or_default()
    }

    pub fn layers(&self) -> ClipLayers {
        ClipLayers {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            layer_norm_eps: self.layer_norm_eps,
            hidden_act: self.hidden_act,
        }
    }

    /// Width of the pooled text.
    pub fn pooled_width(&self) -> i64 {
        self.projection_dim
            .filter(|_| K::IS_PROJECTED)
            .unwrap_or(self.hidden_size)
    }

    pub fn schema(&self, keys: &ClipTextKeys) -> Vec<TensorSpec> {
        let hidden = self.hidden_size;
        let mut schema = Schema::default();
        schema.add(TOKENS, &[self.vocab_size, hidden], TensorRole::Table);
        let positions = [self.max_position_embeddings, hidden];
        schema.add(POSITIONS, &positions, TensorRole::Fixed);
        self.layers().add_to(&mut schema, keys.is_open_clip);
        schema.in_f32(|schema| schema.norm("final_layer_norm", hidden));
        if K::IS_PROJECTED {
            let mut shape = [self.pooled_width(), hidden];
            if keys.is_open_clip {
                shape.reverse();
            }
            schema.add(PROJECTION, &shape, TensorRole::Fixed);
        }
        schema.renamed(|name| keys.file_key(name))
    }
}

/// Names of a CLIP's text transformer in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipTextKeys {
    /// With `text_model.`, where the file has that.
    pub prefix: String,
    /// OpenCLIP's names: queries, keys and values are one matrix, and the projection is `(in, out)`.
    pub is_open_clip: bool,
}

impl Default for ClipTextKeys {
    fn default() -> Self {
        Self {
            prefix: USUAL_PREFIX.to_owned(),
            is_open_clip: false,
        }
    }
}

impl ClipTextKeys {
    /// `None` where a file has no text transformer of a kind. A checkpoint may have one of each kind.
    pub fn detect<'a, K: ClipKind>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        let found = |is_open_clip: bool| {
            let mut found = Self {
                prefix: String::new(),
                is_open_clip,
            };
            let prefix = prefix_before(keys.clone(), &[&found.file_key(TOKENS)])?;
            prefix.clone_into(&mut found.prefix);
            let has = |name: &str| {
                let name = found.file_key(name);
                keys.clone().any(|key| key == name)
            };
            (has(FIRST_LAYER) && (!K::IS_PROJECTED || has(PROJECTION))).then_some(found)
        };
        let open_clip = || found(true).filter(|_| K::IS_PROJECTED);
        open_clip().or_else(|| found(false))
    }

    /// The file's name of the tensor that readers call `name`.
    pub fn file_key(&self, name: &str) -> String {
        let prefix = &*self.prefix;
        if self.is_open_clip {
            return format!(
                "{prefix}{}",
                renamed(name, &[OPEN_CLIP], &[OPEN_CLIP_OUTER])
            );
        }
        if name == PROJECTION {
            let whole = prefix.strip_suffix(USUAL_PREFIX).unwrap_or(prefix);
            return format!("{whole}{name}");
        }
        format!("{prefix}{name}")
    }
}

const LAYERS: BlockList = BlockList::shared("encoder.layers");
const OPEN_CLIP: BlockList = LAYERS.named(
    "transformer.resblocks",
    &[names! {
        "self_attn.weight" => "attn.in_proj_weight",
        "self_attn.bias" => "attn.in_proj_bias",
        "self_attn.out_proj" => "attn.out_proj",
        "mlp.fc1" => "mlp.c_fc",
        "mlp.fc2" => "mlp.c_proj",
        "layer_norm1" => "ln_1",
        "layer_norm2" => "ln_2",
    }],
);
const OPEN_CLIP_OUTER: &[NamePair] = names! {
    "embeddings.token_embedding" => "token_embedding",
    "embeddings.position_embedding.weight" => "positional_embedding",
    "final_layer_norm" => "ln_final",
    "text_projection.weight" => "text_projection",
};

/// Activation between a layer's two products, as `hidden_act` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClipActivation {
    #[serde(rename = "gelu")]
    Gelu,
    #[serde(rename = "gelu_pytorch_tanh", alias = "gelu_new", alias = "gelu_fast")]
    GeluTanh,
    #[serde(rename = "quick_gelu")]
    QuickGelu,
}

/// The numbers of the layers.
#[derive(Clone, Copy, Debug)]
pub struct ClipLayers {
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: ClipActivation,
}

impl ClipLayers {
    pub(super) fn check_heads(&self) -> Result<(), String> {
        ensure!(
            self.hidden_size % self.num_attention_heads == 0,
            "expected a hidden_size that num_attention_heads divides, found {} and {} heads",
            self.hidden_size,
            self.num_attention_heads
        );
        Ok(())
    }

    /// Adds every tensor of the layers. Norms are computed in f32. `is_fused`: queries, keys and values are one matrix.
    pub(super) fn add_to(&self, schema: &mut Schema, is_fused: bool) {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        schema.blocks(LAYERS.own, self.num_hidden_layers, |schema| {
            if is_fused {
                schema.linear("self_attn", 3 * hidden, hidden);
            } else {
                for projection in ["q_proj", "k_proj", "v_proj"] {
                    schema.linear(&format!("self_attn.{projection}"), hidden, hidden);
                }
            }
            schema.linear("self_attn.out_proj", hidden, hidden);
            schema.linear("mlp.fc1", inner, hidden);
            schema.linear("mlp.fc2", hidden, inner);
            schema.in_f32(|schema| {
                schema.norm("layer_norm1", hidden);
                schema.norm("layer_norm2", hidden);
            });
        });
    }
}

/// Returns whether a `config.json` has this kind of `model_type`, by the part before its first `_`.
pub(super) fn is_of_type(config: &Value, expected: &str) -> bool {
    model_type(config).is_some_and(|found| found.starts_with(kind_of(expected)))
}

/// Checks the `model_type` of a config, where it has one, in the same way.
pub(super) fn check_model_type(expected: &str, found: &str) -> Result<(), String> {
    ensure!(
        found.is_empty() || found.starts_with(kind_of(expected)),
        "expected the model_type {expected}, found {found}"
    );
    Ok(())
}

fn kind_of(model_type: &str) -> &str {
    model_type
        .split_once('_')
        .map_or(model_type, |(kind, _)| kind)
}
