//! CLIP text transformer: first text encoder of Flux, second of HunyuanVideo (CLIP-L), both of SDXL (CLIP-L and OpenCLIP
//! bigG).
//!
//! Reads the names of `transformers`' `CLIPTextModel` below any prefix, with or without its projection; the other parts
//! of a whole CLIP are ignored. Has no dropout.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::clip_text::USUAL_PREFIX;
use safelight_core::networks::{ClipConfig, ClipKind, ClipTextConfig, ClipTextKeys};
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

pub struct ClipTextStates {
    /// Hidden states before the last layers, without the final norm: `(B, L, C)`
    pub hidden: Tensor,
    /// The projected last hidden state where each text ends, `(B, P)`, of an encoder with a projection.
    pub projected: Option<Tensor>,
}

/// Row of an embedding in place of a token's.
pub struct EmbeddedRow {
    pub text: i64,
    pub position: i64,
    /// `(C)`
    pub row: Tensor,
}

pub struct ClipTextEncoder {
    token_embedding: Tensor,
    position_embedding: Tensor,
    layers: ClipTower,
    final_layer_norm: LayerNorm,
    /// `(C, P)`
    projection: Option<Tensor>,
    eos_token_id: i64,
}

impl ClipTextEncoder {
    /// Reads a CLIP, from a file that may hold other components too. `config` has been read, or is as sound.
    pub fn new<K: ClipKind>(config: &ClipConfig<K>, w: &Weights) -> Result<Self, WeightsError> {
        let keys = ClipTextKeys::detect::<K>(&w.keys()).unwrap_or_default();
        let is_open_clip = keys.is_open_clip;
        let w = &w.translated(move |name| keys.file_key(name));
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, length) = (config.hidden_size, config.max_position_embeddings);
        let projection = K::IS_PROJECTED.then(|| {
            let name = "text_projection.weight";
            let width = config.pooled_width();
            if is_open_clip {
                w.tensor(name, &[dim, width])
            } else {
                Ok(w.tensor(name, &[width, dim])?.tr())
            }
        });
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
            projection: projection.transpose()?,
            eos_token_id: config.eos_token_id,
        })
    }

    /// Keys of the file that a CLIP text model does not have. Other parts of a whole CLIP are expected; anything
    /// outside its prefix is ignored.
    pub fn unexpected_keys<K: ClipKind>(weights: &Weights) -> Vec<String> {
        let others = [
            "text_projection",
            "vision_model.",
            "visual_projection.",
            "logit_scale",
        ];
        let keys = ClipTextKeys::detect::<K>(&weights.keys()).unwrap_or_default();
        let whole = keys.prefix.trim_end_matches(USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
    }

    /// `ids`: `(B, L)` integers, not more than there are positions; padding is read like any token, but nothing
    /// looks ahead -> the embeddings; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, hooks: &dyn Hooks) -> Option<ClipTextEmbeds> {
        let ids = ids.to_device(self.token_embedding.device());
        let xs = self.embed(&ids, &[]);
        let ahead = ahead(&xs);
        let xs = self
            .layers
            .forward(xs, 0, Some(&ahead), FaultSite::Text, hooks)?;
        let last_hidden_state = self.final_layer_norm.forward_as_kind(&xs);
        Some(ClipTextEmbeds {
            pooler_output: self.at_ends(&last_hidden_state, &ids),
            last_hidden_state,
        })
    }

    /// States before the last `skipped` layers of texts as in [`Self::forward`], with `rows` at some positions; `None`
    /// when cancelled.
    pub fn states(
        &self,
        ids: &Tensor,
        rows: &[EmbeddedRow],
        skipped: usize,
        hooks: &dyn Hooks,
    ) -> Option<ClipTextStates> {
        let ids = ids.to_device(self.token_embedding.device());
        let xs = self.embed(&ids, rows);
        let ahead = ahead(&xs);
        let hidden = self
            .layers
            .forward(xs, skipped, Some(&ahead), FaultSite::Text, hooks)?;
        let projected = self.projection.as_ref().map(|projection| {
            let last = self.layers.last(&hidden, skipped, Some(&ahead));
            let last = self.final_layer_norm.forward_as_kind(&last);
            self.at_ends(&last, &ids).matmul(projection)
        });
        Some(ClipTextStates { hidden, projected })
    }

    /// Token and position embeddings: `(B, L)` to `(B, L, C)`
    fn embed(&self, ids: &Tensor, rows: &[EmbeddedRow]) -> Tensor {
        let (_, length) = ids.size2().expect("ids have two dimensions");
        assert!(
            length <= self.position_embedding.size()[0],
            "the tokenizer cuts texts to the positions there are"
        );
        let xs = Tensor::embedding(&self.token_embedding, ids, -1, false, false);
        for EmbeddedRow {
            text,
            position,
            row,
        } in rows
        {
            xs.select(0, *text).select(0, *position).copy_(row);
        }
        xs + self.position_embedding.narrow(0, 0, length)
    }

    /// State of the end token of each text: `(B, L, C)` to `(B, C)`
    fn at_ends(&self, states: &Tensor, ids: &Tensor) -> Tensor {
        let index = self.ends(ids).view([-1, 1, 1]);
        let index = index.expand([-1, 1, states.size()[2]], false);
        states.gather(1, &index, false).squeeze_dim(1)
    }

    /// Position of the end token of each text: `(B, L)` to `(B)`.
    fn ends(&self, ids: &Tensor) -> Tensor {
        let mark = match self.eos_token_id {
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

/// Mask that hides later tokens, added to the scores of states `(B, L, C)`: `(L, L)`
fn ahead(xs: &Tensor) -> Tensor {
    let length = xs.size()[1];
    Tensor::full(
        [length, length],
        f64::NEG_INFINITY,
        (xs.kind(), xs.device()),
    )
    .triu(1)
}
