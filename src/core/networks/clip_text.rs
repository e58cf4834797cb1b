//! CLIP's text transformer (CLIP-L): the first text encoder of Flux, and the second of FramePack; and the layers that CLIP's
//! vision transformer and SigLIP's are made of too.
//!
//! Names are those of `transformers` after any prefix. Has no projection.

use crate::networks::prelude::*;

const TOKENS: &str = "embeddings.token_embedding.weight";
const POSITIONS: &str = "embeddings.position_embedding.weight";
pub(super) const FIRST_LAYER: &str = "encoder.layers.0.mlp.fc1.weight";
/// By which its files are known.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "clip" "text_encoder" "a CLIP text encoder" as Clip: TOKENS, FIRST_LAYER;
};

/// Prefix of the names in published files.
pub const USUAL_PREFIX: &str = "text_model.";
/// Width of one head in every published CLIP.
const HEAD_DIM: i64 = 64;
const MODEL_TYPE: &str = "clip_text_model";

network_config! {
    /// `text_encoder/config.json`, with the defaults of `transformers`.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ClipTextConfig {
        pub model_type: String = String::new(),
        pub vocab_size: i64 = 49408 => dim(TOKENS, 0),
        pub hidden_size: i64 = 512 => dim(TOKENS, 1),
        pub intermediate_size: i64 = 2048 => dim(FIRST_LAYER, 0),
        pub num_hidden_layers: i64 = 12 => count("encoder.layers.{}.mlp.fc1.weight"),
        pub num_attention_heads: i64 = 8 => size(),
        pub max_position_embeddings: i64 = 77 => dim(POSITIONS, 0),
        pub layer_norm_eps: f64 = 1e-5 => epsilon(),
        pub hidden_act: ClipActivation = ClipActivation::QuickGelu,
        pub eos_token_id: i64 = 49407,
    }
}

impl NetworkConfig for ClipTextConfig {
    const PART: Option<&'static str> = Some("text_config");

    fn is_described_by(config: &Value) -> bool {
        is_of_type(config, MODEL_TYPE)
    }

    /// Numbers that shapes do not show are those of CLIP-L.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix(&weights.names()).ok_or_else(|| not_a("CLIP text encoder", weights))?;
        let file_key = |name: &str| format!("{prefix}{name}");
        let found = Self::of_declared(&NamedShapes::new(weights, &file_key))?;
        Ok(Self {
            num_attention_heads: heads(found.hidden_size, HEAD_DIM)?,
            eos_token_id: Self::WRONG_EOS,
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        check_model_type(MODEL_TYPE, &self.model_type)?;
        self.check_declared()?;
        self.layers().check_heads()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(prefix(&weights.names()).unwrap_or(USUAL_PREFIX))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = prefix(&weights.names()).unwrap_or(USUAL_PREFIX);
        self.layers().check_last(weights, prefix)
    }
}

impl ClipTextConfig {
    /// The `eos_token_id` of old configs, wrong in all of them: the text ends at its largest id.
    pub const WRONG_EOS: i64 = 2;

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

    pub fn schema(&self, prefix: &str) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        schema.add(
            TOKENS,
            &[self.vocab_size, self.hidden_size],
            TensorRole::Table,
        );
        let positions = [self.max_position_embeddings, self.hidden_size];
        schema.add(POSITIONS, &positions, TensorRole::Fixed);
        self.layers().add_to(&mut schema);
        schema.in_f32(|schema| schema.norm("final_layer_norm", self.hidden_size));
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}

/// Prefix of the names of a file's text transformer, `text_model.` included; `None` where there is none.
pub fn prefix<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
    let prefix = prefix_before(keys.clone(), &[TOKENS])?;
    let first_layer = format!("{prefix}{FIRST_LAYER}");
    keys.clone().any(|key| key == first_layer).then_some(prefix)
}

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

    /// Adds every tensor of the layers. Norms are computed in f32.
    pub(super) fn add_to(&self, schema: &mut Schema) {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        schema.blocks("encoder.layers", self.num_hidden_layers, |schema| {
            for projection in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                schema.linear(&format!("self_attn.{projection}"), hidden, hidden);
            }
            schema.linear("mlp.fc1", inner, hidden);
            schema.linear("mlp.fc2", hidden, inner);
            schema.in_f32(|schema| {
                schema.norm("layer_norm1", hidden);
                schema.norm("layer_norm2", hidden);
            });
        });
    }

    /// Checks that a file has no more layers than the config says.
    pub(super) fn check_last(&self, weights: &WeightSet, prefix: &str) -> Result<(), CatalogError> {
        let layers = self.num_hidden_layers;
        weights.no_more_layers(&format!("{prefix}encoder.layers.{layers}."), layers)
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
