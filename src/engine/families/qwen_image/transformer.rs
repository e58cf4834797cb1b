//! Qwen-Image's transformer: text and picture in one sequence, with weights of their own in all blocks.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_qwenimage.py`). The blocks are Flux's double
//! ones, of [`streams`](crate::streams), whose names the fields have.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `B` × `T` of text and then `B` × `I` of pictures; `C` width.

use safelight_core::networks::stream_blocks::SINUSOIDS;
use safelight_core::networks::{QwenImageTransformerConfig, QwenImageTransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{
    Linear, Norm, RmsNorm, Rope, TokenRows, angles_at, layer_norm, scaled_timestep_embedding,
};
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
}

/// What the blocks are told of one timestep.
pub struct Modulations {
    /// Of each block, text first: `(2, 6, C)`
    blocks: Vec<Tensor>,
    /// Scale and shift: `(1, 2, C)`
    last: Tensor,
}

impl QwenImageTransformer {
    /// `w`: the file's own names, behind any prefix of [`QwenImageTransformerKeys`].
    pub fn new(config: &QwenImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = QwenImageTransformerKeys::of(|key| w.has(key));
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
    /// are asked for at once
    pub fn context(&self, prompt_embeds: &Tensor, grid: [i64; 2], pictures: i64) -> Context {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        let txt = self.txt_norm.forward(&prompt.contiguous());
        Context {
            rope: self.rope(txt.size()[1], grid, pictures),
            txt: self.txt_in.forward(&txt),
        }
    }

    /// The turns of the tokens of texts and then of pictures. Rows and columns of a picture count from its middle, and
    /// a text goes on behind the larger half of them, in all axes alike.
    fn rope(&self, text: i64, [rows, columns]: [i64; 2], pictures: i64) -> Rope {
        let f32s = (Kind::Float, Device::Cpu);
        let centred = |count: i64| Tensor::arange_start(count / 2 - count, count / 2, f32s);
        let own = |values: &Tensor| values.expand([rows, columns], false).reshape([-1]);
        let picture = [
            Tensor::zeros([rows * columns], f32s),
            own(&centred(rows).view([-1, 1])),
            own(&centred(columns)),
        ];
        let first = (rows / 2).max(columns / 2);
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
        let times = Tensor::from_slice(&times.collect::<Vec<f32>>()).to_device(self.device);
        let sinusoids = scaled_timestep_embedding(&times, TIME_FACTOR, SINUSOIDS);
        let told = self.time_in.forward(&sinusoids).silu().to_kind(self.kind);
        let blocks = self.told.iter().map(|layers| layers.forward(&told));
        let blocks: Vec<Tensor> = blocks.collect();
        let last = self.last_modulation.forward(&told);
        let dim = self.config.dim();
        (0..timesteps.len() as i64)
            .map(|i| Modulations {
                // u n (m c) -> u m c
                blocks: blocks
                    .iter()
                    .map(|all| all.select(1, i).view([2, 6, dim]))
                    .collect(),
                last: last.get(i).view([1, 2, dim]),
            })
            .collect()
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, `context`: made for such pictures -> velocity, as
    /// large and in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let (pictures, count, _) = img.size3().expect("tokens have three dimensions");
        let txt_len = pictures * context.txt.size()[1];
        let tokens = Tokens {
            txt: (0, txt_len),
            img: (txt_len, pictures * count),
            pictures,
            bias: None,
        };
        let halves = [tokens.txt, tokens.img];
        let rows = |i: usize| TokenRows {
            values: &modulations.blocks[i],
            ranges: &halves,
        };
        let whole = [(0, tokens.count())];
        // diffusers has the scale first.
        let last = Norm::Modulated {
            rows: TokenRows {
                values: &modulations.last,
                ranges: &whole,
            },
            shift: 1,
            scale: 0,
        };
        let next = |i: usize| {
            if i == self.blocks.len() {
                last
            } else {
                Norm::modulated(rows(i), 0)
            }
        };
        let mut xs = self.embed(img, context, &tokens);
        let mut normed = layer_norm(&xs, &next(0), EPS);
        for (i, block) in self.blocks.iter().enumerate() {
            hooks.go_on(Site::Block)?;
            // The last pass of a block is also the first of the next one.
            let rope = &context.rope;
            normed = block.forward(&mut xs, normed, rows(i), &next(i + 1), &tokens, rope);
        }
        let velocity = self.last.forward(&tokens.of_img(&normed));
        Some(velocity.to_kind(Kind::Float).view([pictures, count, -1]))
    }

    /// Texts and pictures one behind the other: `(1, L, C)`
    fn embed(&self, img: &Tensor, context: &Context, tokens: &Tokens) -> Tensor {
        let img = img.to_device(self.device).to_kind(self.kind);
        let dim = self.config.dim();
        let xs = Tensor::empty([1, tokens.count(), dim], (self.kind, self.device));
        let mut txt = tokens.of_txt(&xs).view([tokens.pictures, -1, dim]);
        txt.copy_(&context.txt.expand_as(&txt));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}
