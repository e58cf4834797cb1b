//! Qwen-Image's transformer: text and picture in one sequence, with weights of their own in all blocks.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_qwenimage.py`). The blocks are Flux's double
//! ones, of [`streams`](crate::streams), whose names the fields have.
//!
//! Models that edit see pictures beside the one that is made: their tokens follow its own, and from 2511 on they are told
//! that there is no noise in them.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `B` × `T` of text and then `B` × (`I` + `R`) of pictures and of what each
//! of them sees; `C` width.

use safelight_core::networks::stream_blocks::SINUSOIDS;
use safelight_core::networks::{QwenImageTransformerConfig, QwenImageTransformerKeys, ZERO_TIME};
use tch::{Device, Kind, Tensor};

use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{
    Linear, Norm, RmsNorm, Rope, TokenRows, angles_at, layer_norm, scaled_timestep_embedding,
};
use crate::step_cache::{CallCache, Skip};
use crate::streams::{DoubleBlock, DoubleModulation, EPS, MlpEmbedder, Tokens};
use crate::weights::{Weights, WeightsError};

const ROPE_THETA: f64 = 10000.0;

/// What the model multiplies timesteps with, which come divided by it.
const TIME_FACTOR: f64 = 1000.0;

pub struct QwenImageTransformer {
    img_in: Linear,
    txt_norm: RmsNorm,
    txt_in: Linear,
    time_in: MlpEmbedder,
    blocks: Vec<DoubleBlock>,
    /// Of each block.
    told: Vec<DoubleModulation>,
    /// Scale and shift of the last norm.
    last_modulation: Linear,
    last: Linear,
    config: QwenImageTransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text as the blocks read it beside pictures of one size; it is the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
    /// Of all tokens of as many pictures as are asked for at once.
    rope: Rope,
    /// What is seen beside each picture: `(1, R, in_channels)`
    seen: Option<Tensor>,
}

/// A picture that is seen beside the one that is made.
pub struct Reference {
    /// `(1, R, in_channels)`
    pub tokens: Tensor,
    /// Rows and columns of them.
    pub grid: [i64; 2],
}

/// What the blocks are told of one timestep.
pub struct Modulations {
    /// Of each block, text first, and what references are told where that is another timestep: `(2 or 3, 6, C)`
    blocks: Vec<Tensor>,
    /// Scale and shift: `(1, 2, C)`
    last: Tensor,
}

impl QwenImageTransformer {
    /// `w`: the file's own names, behind any prefix of [`QwenImageTransformerKeys`].
    pub fn new(config: &QwenImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = QwenImageTransformerKeys::of(|key| w.has(key));
        w.ignore(&format!("{}{ZERO_TIME}", keys.prefix));
        let w = &w.translated(move |name| keys.file_key(name));
        let (dim, text) = (config.dim(), config.joint_attention_dim);
        let time = &w.with_kind(Kind::Float) / "time_in";
        let shape = config.streams();
        let of_blocks = (0..config.num_layers).map(|i| w / "double_blocks" / i);
        let told = of_blocks.clone().map(|w| DoubleModulation::new(dim, &w));
        let blocks = of_blocks.map(|w| DoubleBlock::new(&shape, &w));
        let last = w / "final_layer";
        // All steps' are made at once.
        let modulation = &last.seldom() / "adaLN_modulation" / 1;
        Ok(Self {
            img_in: Linear::new(config.in_channels, dim, &(w / "img_in"))?,
            txt_norm: RmsNorm::new(text, EPS, &(w / "txt_norm"))?,
            txt_in: Linear::new(text, dim, &(w / "txt_in"))?,
            time_in: MlpEmbedder::new(SINUSOIDS, dim, &time)?,
            told: told.collect::<Result<_, _>>()?,
            blocks: blocks.collect::<Result<_, _>>()?,
            last_modulation: Linear::new(dim, 2 * dim, &modulation)?,
            last: Linear::new(dim, config.in_channels, &(&last / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(QwenImageTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn config(&self) -> &QwenImageTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`; `grid`: rows and columns of a picture's tokens; `pictures`: that
    /// are asked for at once, see [`at_once`](Self::at_once)
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        grid: [i64; 2],
        references: &[Reference],
        pictures: i64,
    ) -> Context {
        let grids: Vec<_> = [grid]
            .into_iter()
            .chain(references.iter().map(|seen| seen.grid))
            .collect();
        let tokens: Vec<&Tensor> = references.iter().map(|seen| &seen.tokens).collect();
        let seen = (!tokens.is_empty()).then(|| Tensor::cat(&tokens, 1));
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        let txt = self.txt_norm.forward(&prompt.contiguous());
        Context {
            rope: self.rope(txt.size()[1], &grids, pictures),
            txt: self.txt_in.forward(&txt),
            seen: seen.map(|seen| seen.to_device(self.device).to_kind(self.kind)),
        }
    }

    /// How many of so many pictures may be asked for at once.
    pub fn at_once(&self, pictures: i64, has_references: bool) -> i64 {
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more; what is
        // told tokens differently lies apart for one picture alone.
        let is_apart = has_references && self.config.zero_cond_t;
        if self.device == Device::Cpu || is_apart {
            1
        } else {
            pictures
        }
    }

    /// The turns of the tokens of texts and then of pictures, with what they see. Rows and columns of a picture count
    /// from its middle, pictures from 0, and a text goes on behind the largest half of an edge, in all axes alike.
    fn rope(&self, text: i64, grids: &[[i64; 2]], pictures: i64) -> Rope {
        let f32s = (Kind::Float, Device::Cpu);
        let centred = |count: i64| Tensor::arange_start(count / 2 - count, count / 2, f32s);
        let each = (0..).zip(grids).map(|(number, &[rows, columns])| {
            let own = |values: &Tensor| values.expand([rows, columns], false).reshape([-1]);
            [
                Tensor::full([rows * columns], number, f32s),
                own(&centred(rows).view([-1, 1])),
                own(&centred(columns)),
            ]
        });
        let each: Vec<[Tensor; 3]> = each.collect();
        let picture = [0, 1, 2].map(|axis: usize| {
            let places: Vec<&Tensor> = each.iter().map(|places| &places[axis]).collect();
            Tensor::cat(&places, 0)
        });
        let first = grids.iter().flatten().map(|edge| edge / 2).max();
        let first = first.unwrap_or(0);
        let words = Tensor::arange_start(first, first + text, f32s);
        let axes = picture.iter().zip(self.config.axes_dims_rope);
        let axes = axes.map(|(picture, dim)| {
            let texts = words.repeat([pictures]);
            let places = Tensor::cat(&[texts, picture.repeat([pictures])], 0);
            angles_at(&places, dim, ROPE_THETA)
        });
        let angles = Tensor::cat(&axes.collect::<Vec<_>>(), 1);
        Rope::of_turns(&angles.cos(), &angles.sin(), self.device)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<Modulations> {
        let times = timesteps.iter().map(|t| t / TIME_FACTOR as f32);
        // What references are told comes last.
        let zero = self.config.zero_cond_t.then_some(0.0);
        let times: Vec<f32> = times.chain(zero).collect();
        let times = Tensor::from_slice(&times).to_device(self.device);
        let sinusoids = scaled_timestep_embedding(&times, TIME_FACTOR, SINUSOIDS);
        let told = self.time_in.forward(&sinusoids).silu().to_kind(self.kind);
        let blocks = self.told.iter().map(|layers| layers.forward(&told));
        let blocks: Vec<Tensor> = blocks.collect();
        let last = self.last_modulation.forward(&told);
        let (dim, count) = (self.config.dim(), timesteps.len() as i64);
        let of_block = |all: &Tensor, i: i64| {
            // u n (m c) -> u m c
            let own = all.select(1, i).view([2, 6, dim]);
            if zero.is_none() {
                return own;
            }
            let references = all.get(1).get(count).view([1, 6, dim]);
            Tensor::cat(&[own, references], 0)
        };
        (0..count)
            .map(|i| Modulations {
                blocks: blocks.iter().map(|all| of_block(all, i)).collect(),
                last: last.get(i).view([1, 2, dim]),
            })
            .collect()
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, `context`: made for so many such pictures ->
    /// velocity, as large and in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(img, modulations, context, None, hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        cache: CallCache<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let (pictures, own, _) = img.size3().expect("tokens have three dimensions");
        let seen = context.seen.as_ref().map_or(0, |seen| seen.size()[1]);
        let count = own + seen;
        let txt_len = pictures * context.txt.size()[1];
        let tokens = Tokens {
            txt: (0, txt_len),
            img: (txt_len, pictures * count),
            pictures,
            bias: None,
        };
        let mut ranges = vec![tokens.txt, tokens.img];
        if seen > 0 && self.config.zero_cond_t {
            ranges = vec![tokens.txt, (txt_len, own), (txt_len + own, seen)];
        }
        let told = modulations.blocks.iter();
        let told: Vec<Tensor> = told
            .map(|all| all.narrow(0, 0, ranges.len() as i64))
            .collect();
        let rows = |i: usize| TokenRows {
            values: &told[i],
            ranges: &ranges,
        };
        let [whole, of_img] = [tokens.count(), tokens.img.1].map(|count| [(0, count)]);
        // diffusers has the scale first.
        let [last, last_of_img] = [&whole, &of_img].map(|ranges| Norm::Modulated {
            rows: TokenRows {
                values: &modulations.last,
                ranges,
            },
            shift: 1,
            scale: 0,
        });
        let next = |i: usize| {
            if i == self.blocks.len() {
                last
            } else {
                Norm::modulated(rows(i), 0)
            }
        };
        let mut xs = self.embed(img, context, &tokens);
        let mut normed = layer_norm(&xs, &next(0), EPS);
        let mut skip = Skip::of(cache);
        let mut known = skip.start(&tokens.of_img(&xs), &tokens.of_img(&normed));
        for (i, block) in self.blocks.iter().enumerate() {
            if known.is_some() {
                break;
            }
            hooks.go_on(Site::Block)?;
            // The last pass of a block is also the first of the next one.
            let rope = &context.rope;
            normed = block.forward(&mut xs, normed, rows(i), &next(i + 1), &tokens, rope);
            if i == 0 {
                known = skip.first(&tokens.of_img(&xs));
            }
        }
        let normed = if let Some(hidden) = known {
            layer_norm(&hidden, &last_of_img, EPS)
        } else {
            skip.end(&tokens.of_img(&xs));
            tokens.of_img(&normed)
        };
        let normed = normed.view([pictures, count, -1]);
        let normed = normed.narrow(1, 0, own).contiguous();
        Some(self.last.forward(&normed).to_kind(Kind::Float))
    }

    /// Texts and pictures one behind the other: `(1, L, C)`
    fn embed(&self, img: &Tensor, context: &Context, tokens: &Tokens) -> Tensor {
        let mut img = img.to_device(self.device).to_kind(self.kind);
        if let Some(seen) = &context.seen {
            let seen = seen.expand([tokens.pictures, -1, -1], false);
            img = Tensor::cat(&[&img, &seen], 1);
        }
        let dim = self.config.dim();
        let xs = Tensor::empty([1, tokens.count(), dim], (self.kind, self.device));
        let mut txt = tokens.of_txt(&xs).view([tokens.pictures, -1, dim]);
        txt.copy_(&context.txt.expand_as(&txt));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}
