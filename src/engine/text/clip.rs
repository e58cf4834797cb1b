//! CLIP text transformer: first text encoder of Flux, second of HunyuanVideo (CLIP-L).
//!
//! Reads the names of `transformers`' `CLIPTextModel` below any prefix; projections and the other parts of a whole CLIP
//! are ignored. Has no projection and no dropout.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::{ClipTextConfig, clip_text};
use tch::{Kind, Tensor};

use crate::encoder_prefix;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{ClipTower, LayerNorm};
use crate::weights::{Weights, WeightsError};

pub struct ClipTextEmbeds {
    /// `(B, L, C)`
    pub last_hidden_state: Tensor,
    /// The last hidden state where each text ends: `(B, C)`
    pub pooler_output: Tensor,
}

pub struct ClipTextEncoder {
    token_embedding: Tensor,
    position_embedding: Tensor,
    layers: ClipTower,
    final_layer_norm: LayerNorm,
    config: ClipTextConfig,
}

impl ClipTextEncoder {
    /// Reads a CLIP, from a file that may hold other components too. `config` has been read, or is as sound.
    pub fn new(config: &ClipTextConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &encoder_prefix::behind(prefix(w), w);
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, length) = (config.hidden_size, config.max_position_embeddings);
        Ok(Self {
            token_embedding: embeddings
                .tensor("token_embedding.weight", &[config.vocab_size, dim])?,
            position_embedding: embeddings.tensor("position_embedding.weight", &[length, dim])?,
            layers: ClipTower::new(&config.layers(), w)?,
            final_layer_norm: LayerNorm::new(
                dim,
                config.layer_norm_eps,
                &(w / "final_layer_norm"),
            )?,
            config: config.clone(),
        })
    }

    /// Keys of the file that a CLIP text model does not have. Other parts of a whole CLIP are expected; anything
    /// outside its prefix is ignored.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_projection",
            "vision_model.",
            "visual_projection.",
            "logit_scale",
        ];
        let whole = prefix(weights).trim_end_matches(clip_text::USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
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
        let xs = Tensor::embedding(&self.token_embedding, &ids, -1, false, false)
            + self.position_embedding.narrow(0, 0, length);
        let ahead = Tensor::full([length, length], f64::NEG_INFINITY, (xs.kind(), device)).triu(1);
        let xs = self
            .layers
            .forward(xs, 0, Some(&ahead), FaultSite::Text, hooks)?;
        let last_hidden_state = self.final_layer_norm.forward_as_kind(&xs);
        let ends = self.ends(&ids);
        let index = ends.view([-1, 1, 1]);
        let index = index.expand([-1, 1, self.config.hidden_size], false);
        Some(ClipTextEmbeds {
            pooler_output: last_hidden_state.gather(1, &index, false).squeeze_dim(1),
            last_hidden_state,
        })
    }

    /// Position of the end token of each text: `(B, L)` to `(B)`.
    fn ends(&self, ids: &Tensor) -> Tensor {
        let mark = match self.config.eos_token_id {
            ClipTextConfig::WRONG_EOS => ids.eq_tensor(&ids.amax([-1_i64].as_slice(), true)),
            id => ids.eq(id),
        };
        // The first of the marks; the beginning where there is none.
        let marks = mark.to_kind(Kind::Int64);
        let first = marks.cumsum(-1, Kind::Int64).eq(1).logical_and(&mark);
        let positions = Tensor::arange(ids.size()[1], (Kind::Int64, ids.device()));
        (first.to_kind(Kind::Int64) * positions).sum_dim_intlist(-1, false, Kind::Int64)
    }
}

/// Prefix of the names, including `text_model.`.
fn prefix(w: &Weights) -> &str {
    clip_text::prefix(&w.keys()).unwrap_or(clip_text::USUAL_PREFIX)
}
