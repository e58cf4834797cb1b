//! Embeddings of a text: the hidden states of a language model, read by an adapter with the ids of a T5 tokenizer.
//!
//! The adapter is `AnimaTextConditioner` of diffusers 0.42.1 for one text without padding. Fields have its names. Weights of
//! words multiply rows of its output, as in ComfyUI; the language model reads the text without them.
//!
//! Shapes: `L` ids of T5, `S` tokens of the language model, `C` width.

use safelight_core::families::anima::{LANGUAGE, PROMPT};
use safelight_core::job::prompt::WeightedText;
use safelight_core::lora::{ANIMA_ADAPTER, Expert};
use safelight_core::networks::dialects::TensorKeys;
use safelight_core::networks::{AnimaAdapterConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::attention::{EPS, HeadNormAttention};
use super::gelu;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{Linear, Mlp, Rope, TokenRmsNorm, angles_at};
use crate::placement::build;
use crate::text::{
    EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, TokenBatch, embeds_of, read_language,
};
use crate::weights::StoredMatrix;
use crate::{EngineError, StageWork, Weights, WeightsError};

const ROPE_THETA: f64 = 10_000.0;

/// Embeddings of all texts of the job.
pub(super) fn adapted_embeds(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let files = &work.request.files;
    embeds_of(work, |texts, work| {
        let plain: Vec<EncodedText> = texts.iter().map(without_weights).collect();
        let how = (LANGUAGE, &PROMPT);
        let states = read_language(&EncoderFiles::first(files), &plain, how, work)?;
        let files = EncoderFiles::second(files)?;
        let config = AnimaAdapterConfig::read(files.home)?;
        let tokenizer = files.tokenizer(PROMPT.room, config.target_vocab_size)?;
        let (place, loras) = (work.place, &work.request.loras);
        let adapter = place.network(files.component, files.home, loras, || {
            let weights = place.open(files.home)?;
            let named = named(&weights);
            let weights = weights.with_loras(loras, Expert::Only, ANIMA_ADAPTER, &named)?;
            let new = |w: &_| TextAdapter::new(&config, w);
            let unexpected = TextAdapter::unexpected_keys;
            build(&weights, files.component, work.hooks, new, unexpected)
        })?;
        let read = texts.iter().zip(states).map(|(text, states)| {
            let tokens = TokenBatch::from_parts(&text.parts, &tokenizer)?;
            if let Some(notice) = tokens.cut_notice(text.role) {
                work.hooks.warn(notice);
            }
            let tokens = tokens.unpadded();
            text.record_tokens(&files, &tokens, work.capture);
            // A text without tokens has a masked one.
            let mask = states.mask()?.to_kind(states.prompt.kind());
            let states = &states.prompt * mask.unsqueeze(-1);
            let embeds = adapter.forward(&tokens, &states, work.hooks);
            let embeds = embeds.ok_or(EngineError::Cancelled)?;
            Ok(TextEmbeds::of_states(embeds.to_device(Device::Cpu)))
        });
        read.collect()
    })
}

/// A text whose words all count the same.
fn without_weights(text: &EncodedText) -> EncodedText {
    let parts = text.parts.iter();
    let plain = parts.map(|part| WeightedText::plain(&part.text));
    EncodedText {
        parts: plain.collect(),
        ..*text
    }
}

/// The adapter's weights by readers' names.
pub(super) fn named(w: &Weights) -> Weights {
    let keys = TensorKeys::<AnimaAdapterConfig>::of(|key| w.has(key));
    w.translated(move |name| keys.file_key(name))
}

pub(super) struct TextAdapter {
    embed: StoredMatrix,
    blocks: Vec<AdapterBlock>,
    out_proj: Linear,
    norm: TokenRmsNorm,
    config: AnimaAdapterConfig,
    kind: Kind,
}

impl TextAdapter {
    /// `w`: the file's own names, in any dialect.
    pub(super) fn new(config: &AnimaAdapterConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &named(w) / "llm_adapter";
        let (dim, target) = (config.model_dim, config.target_dim);
        let blocks =
            (0..config.num_layers).map(|i| AdapterBlock::new(config, &(&w / "blocks" / i)));
        Ok(Self {
            embed: w.table("embed.weight", [config.target_vocab_size, target])?,
            blocks: blocks.collect::<Result<_, _>>()?,
            out_proj: Linear::new(dim, target, &(&w / "out_proj"))?,
            norm: TokenRmsNorm::new(target, EPS, &(&w / "norm"))?,
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// Keys of the file that an adapter does not have; those of the transformer next to it do not count.
    pub(super) fn unexpected_keys(w: &Weights) -> Vec<String> {
        let keys = TensorKeys::<AnimaAdapterConfig>::of(|key| w.has(key));
        let own = if keys.is_diffusers {
            ""
        } else {
            "llm_adapter."
        };
        w.finish_behind(&format!("{}{own}", keys.prefix))
    }

    /// `states`: `(1, S, source_dim)` → `(1, T, target_dim)`, zeros after the text; `None` when cancelled
    pub(super) fn forward(
        &self,
        tokens: &TokenBatch,
        states: &Tensor,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let device = self.embed.device();
        let states = states.to_device(device).to_kind(self.kind);
        let mut xs = self.embed.look_up(&tokens.ids.to_device(device), self.kind);
        let length = xs.size()[1];
        let [rope, of_states] = [length, states.size()[1]].map(|count| {
            let places = Tensor::arange(count, (Kind::Float, Device::Cpu));
            let angles = angles_at(&places, self.config.head_dim(), ROPE_THETA);
            Rope::new(&angles, device)
        });
        for block in &self.blocks {
            hooks.check_cancelled(FaultSite::Text)?;
            xs = block.forward(&xs, &states, [&rope, &of_states]);
        }
        let mut xs = self.norm.forward(&self.out_proj.forward(&xs));
        if let Some(weights) = &tokens.weights {
            let weights = weights.to_device(device).unsqueeze(-1);
            xs = (xs.to_kind(Kind::Float) * weights).to_kind(self.kind);
        }
        let missing = (self.config.min_sequence_length - length).max(0);
        Some(xs.constant_pad_nd([0, 0, 0, missing]))
    }
}

struct AdapterBlock {
    norm_self_attn: TokenRmsNorm,
    self_attn: HeadNormAttention,
    norm_cross_attn: TokenRmsNorm,
    cross_attn: HeadNormAttention,
    norm_mlp: TokenRmsNorm,
    mlp: Mlp,
}

impl AdapterBlock {
    fn new(config: &AnimaAdapterConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.model_dim;
        let norm = |name: &str| TokenRmsNorm::new(dim, EPS, &(w / name));
        let attention = |name: &str, context| {
            let sizes = [dim, context, config.num_attention_heads];
            HeadNormAttention::new(sizes, ("o_proj", EPS), &(w / name))
        };
        Ok(Self {
            norm_self_attn: norm("norm_self_attn")?,
            self_attn: attention("self_attn", dim)?,
            norm_cross_attn: norm("norm_cross_attn")?,
            cross_attn: attention("cross_attn", config.source_dim)?,
            norm_mlp: norm("norm_mlp")?,
            mlp: Mlp::new([dim, config.mlp_dim(), dim], ["0", "2"], &(w / "mlp"))?,
        })
    }

    /// `xs`: `(1, L, C)` → the same; `ropes`: of the ids and of the states
    fn forward(&self, xs: &Tensor, states: &Tensor, ropes: [&Rope; 2]) -> Tensor {
        let ys = self.norm_self_attn.forward(xs);
        let xs = xs + self.self_attn.forward(ys, ropes[0]);
        let ys = self.norm_cross_attn.forward(&xs);
        let xs = xs + self.cross_attn.forward_to(states, &ys, Some(ropes));
        let ys = self.norm_mlp.forward(&xs);
        xs + self.mlp.forward(&ys, gelu)
    }
}
