//! CLIP's text transformer: the first text encoder of Flux, and the second of HunyuanVideo (CLIP-L).
//!
//! Reads the names of `transformers`' `CLIPTextModel`, with or without `text_model.` before them and whatever stands
//! before that; projections and the other parts of a whole CLIP are left alone. Has no projection and no dropout.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use std::path::Path;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::encoder_home;
use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::json;
use crate::nn::{ClipActivation, ClipLayer, ClipLayerConfig, LayerNorm};
use crate::weights::{Weights, WeightsError};

/// By which a file is known.
const TOKENS: &str = "embeddings.token_embedding.weight";
/// The longer name first: a file that has it has the shorter one too.
const ENDS: [&str; 2] = ["text_model.embeddings.token_embedding.weight", TOKENS];

/// Of every published CLIP.
const HEAD_DIM: i64 = 64;

/// The `eos_token_id` of old configs, wrong in all of them: the text ends at its largest id.
const WRONG_EOS: i64 = 2;

/// What `text_encoder/config.json` says, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ClipTextConfig {
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub max_position_embeddings: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: String,
    pub eos_token_id: i64,
}

impl Default for ClipTextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 49408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            layer_norm_eps: 1e-5,
            hidden_act: "quick_gelu".to_owned(),
            eos_token_id: 49407,
        }
    }
}

impl ClipTextConfig {
    /// Reads and checks the numbers of a text encoder, which lies in a folder or in one file.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config = match encoder_home::own_config(place, "clip", "text_config")? {
            Some(config) => config,
            None => Self::from_header(place)?,
        };
        match config.objection() {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    /// The numbers that the shapes in a file show; the rest is as in CLIP-L.
    fn from_header(path: &Path) -> Result<Self, EngineError> {
        let bad = |reason: String| EngineError::Config {
            reason,
            path: path.to_owned(),
        };
        let weights = Weights::open(path, Kind::Float, Device::Cpu)?;
        let w = position(&weights);
        let size = |name: &str| encoder_home::matrix(&w, name, "CLIP");
        let (vocab_size, hidden_size) = size(TOKENS)?;
        let (max_position_embeddings, _) = size("embeddings.position_embedding.weight")?;
        let (intermediate_size, _) = size("encoder.layers.0.mlp.fc1.weight")?;
        if hidden_size % HEAD_DIM != 0 {
            return Err(bad(format!(
                "its width {hidden_size} is not that of a CLIP: only a config.json can say how many heads it has"
            )));
        }
        let layer = |i: i64| format!("encoder.layers.{i}.mlp.fc1.weight");
        Ok(Self {
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers: encoder_home::num_layers(&w, layer),
            num_attention_heads: hidden_size / HEAD_DIM,
            max_position_embeddings,
            eos_token_id: WRONG_EOS,
            ..Self::default()
        })
    }

    /// The numbers of the layers.
    fn layer(&self) -> ClipLayerConfig {
        ClipLayerConfig {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_attention_heads: self.num_attention_heads,
            layer_norm_eps: self.layer_norm_eps,
            activation: ClipActivation::from_name(&self.hidden_act)
                .expect("a config that was read has a known activation"),
        }
    }

    fn objection(&self) -> Option<String> {
        let sizes = [
            self.vocab_size,
            self.hidden_size,
            self.intermediate_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.max_position_embeddings,
        ];
        if sizes.iter().any(|&n| !(1..=1 << 24).contains(&n))
            || !(self.layer_norm_eps.is_finite() && self.layer_norm_eps >= 0.0)
        {
            Some("its sizes make no sense".to_owned())
        } else if self.hidden_size % self.num_attention_heads != 0 {
            Some(format!(
                "its width {} cannot be split between {} heads",
                self.hidden_size, self.num_attention_heads
            ))
        } else if ClipActivation::from_name(&self.hidden_act).is_none() {
            let activation = &self.hidden_act;
            Some(format!("its activation '{activation}' is not CLIP's"))
        } else {
            None
        }
    }
}

/// What the network makes of a prompt.
pub struct ClipTextEmbeds {
    /// `(B, L, C)`
    pub last_hidden_state: Tensor,
    /// The last hidden state where each text ends: `(B, C)`
    pub pooler_output: Tensor,
}

pub struct ClipTextEncoder {
    token_embedding: Tensor,
    position_embedding: Tensor,
    layers: Vec<ClipLayer>,
    final_layer_norm: LayerNorm,
    config: ClipTextConfig,
}

impl ClipTextEncoder {
    /// Reads a CLIP, from a file that may hold other components too. `config` has been read by
    /// [`ClipTextConfig::read`], or is as sound.
    pub fn new(config: &ClipTextConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &position(w);
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, length) = (config.hidden_size, config.max_position_embeddings);
        let layer = config.layer();
        Ok(Self {
            token_embedding: embeddings
                .tensor("token_embedding.weight", &[config.vocab_size, dim])?,
            position_embedding: embeddings.tensor("position_embedding.weight", &[length, dim])?,
            layers: (0..config.num_hidden_layers)
                .map(|i| ClipLayer::new(&layer, &(w / "encoder" / "layers" / i)))
                .collect::<Result<_, _>>()?,
            final_layer_norm: LayerNorm::new(
                dim,
                config.layer_norm_eps,
                &(w / "final_layer_norm"),
            )?,
            config: config.clone(),
        })
    }

    /// The keys of a file that a CLIP should not have. The other parts of a whole CLIP are expected, and what
    /// stands before its names belongs to it alone.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_projection",
            "vision_model.",
            "visual_projection.",
            "logit_scale",
        ];
        encoder_home::left_over(weights, &ENDS, &others)
    }

    /// `ids`: `(B, L)` integers, not more than there are positions; padding is read like any token, but nothing
    /// looks ahead -> the embeddings; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, hooks: &dyn Hooks) -> Option<ClipTextEmbeds> {
        let device = self.token_embedding.device();
        let ids = ids.to_device(device);
        let (_, length) = ids.size2().expect("ids have two dimensions");
        assert!(
            length <= self.config.max_position_embeddings,
            "the tokenizer cuts texts to the positions there are"
        );
        let mut xs = Tensor::embedding(&self.token_embedding, &ids, -1, false, false)
            + self.position_embedding.narrow(0, 0, length);
        let ahead = Tensor::full([length, length], f64::NEG_INFINITY, (xs.kind(), device)).triu(1);
        for layer in &self.layers {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Text);
            xs = layer.forward(&xs, Some(&ahead));
        }
        let last_hidden_state = self.final_layer_norm.forward_as_kind(&xs);
        let ends = self.ends(&ids);
        let index = ends.view([-1, 1, 1]);
        let index = index.expand([-1, 1, self.config.hidden_size], false);
        Some(ClipTextEmbeds {
            pooler_output: last_hidden_state.gather(1, &index, false).squeeze_dim(1),
            last_hidden_state,
        })
    }

    /// Where each text ends: `(B, L)` -> `(B)`
    fn ends(&self, ids: &Tensor) -> Tensor {
        let mark = match self.config.eos_token_id {
            WRONG_EOS => ids.eq_tensor(&ids.amax([-1_i64].as_slice(), true)),
            id => ids.eq(id),
        };
        // The first of the marks; the beginning where there is none.
        let marks = mark.to_kind(Kind::Int64);
        let first = marks.cumsum(-1, Kind::Int64).eq(1).logical_and(&mark);
        let positions = Tensor::arange(ids.size()[1], (Kind::Int64, ids.device()));
        (first.to_kind(Kind::Int64) * positions).sum_dim_intlist(-1, false, Kind::Int64)
    }
}

/// The position from which a CLIP's names count.
fn position(w: &Weights) -> Weights {
    let w = encoder_home::at_key(w, &ENDS);
    if w.has(TOKENS) { w } else { w / "text_model" }
}
