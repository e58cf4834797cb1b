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

use safelight_core::networks::{QwenImageTransformerConfig, QwenImageTransformerKeys, ZERO_TIME};
use tch::{Device, Kind, Tensor};

use super::trunk::Trunk;
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{Linear, Norm, Rope, TokenRows, angles_at, layer_norm};
use crate::step_cache::{Shortcut, Skip};
use crate::streams::{EPS, MakeResiduals, Tokens};
use crate::weights::{Weights, WeightsError};

const ROPE_THETA: f64 = 10000.0;

pub struct QwenImageTransformer {
    trunk: Trunk,
    /// Scale and shift of the last norm.
    last_modulation: Linear,
    last: Linear,
    config: QwenImageTransformerConfig,
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
        let dim = config.dim();
        let last = w / "final_layer";
        // All steps' are made at once.
        let modulation = &last.seldom() / "adaLN_modulation" / 1;
        Ok(Self {
            trunk: Trunk::new(config, w)?,
            last_modulation: Linear::new(dim, 2 * dim, &modulation)?,
            last: Linear::new(dim, config.in_channels, &(&last / "linear"))?,
            config: config.clone(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(QwenImageTransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.trunk.blocks.count()
    }

    pub fn config(&self) -> &QwenImageTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.trunk.kind()
    }

    pub fn device(&self) -> Device {
        self.trunk.device()
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
        let txt = self.trunk.text(prompt_embeds);
        Context {
            rope: self.rope(txt.size()[1], &grids, pictures),
            txt,
            seen: seen.map(|seen| seen.to_device(self.device()).to_kind(self.kind())),
        }
    }

    /// How many of so many pictures may be asked for at once.
    pub fn at_once(&self, pictures: i64, has_references: bool) -> i64 {
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more; what is
        // told tokens differently lies apart for one picture alone.
        let is_apart = has_references && self.config.zero_cond_t;
        if self.device() == Device::Cpu || is_apart {
            1
        } else {
            pictures
        }
    }

    /// The turns of the tokens of texts and then of pictures, with what they see. Rows and columns of a picture count
    /// from its middle, pictures from 0, and a text goes on behind the largest half of an edge, in all axes alike.
    pub(super) fn rope(&self, text: i64, grids: &[[i64; 2]], pictures: i64) -> Rope {
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
        Rope::of_turns(&angles.cos(), &angles.sin(), self.device())
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<Modulations> {
        // What references are told comes last.
        let zero = self.config.zero_cond_t.then_some(0.0);
        let times: Vec<f32> = timesteps.iter().copied().chain(zero).collect();
        let told = self.trunk.told(&times);
        let blocks = self.trunk.modulations(&told);
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
        self.forward_cached(img, modulations, context, Shortcut::default(), hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_controlled(img, modulations, context, (shortcut, None), hooks)
    }

    /// The same with what ControlNets add behind the blocks.
    pub fn forward_controlled(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        (shortcut, controls): (Shortcut<'_>, MakeResiduals<'_>),
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
            if i == self.trunk.blocks.count() {
                last
            } else {
                Norm::modulated(rows(i), 0)
            }
        };
        let mut xs = self.embed(img, context, &tokens);
        let mut normed = layer_norm(&xs, &next(0), EPS);
        let mut skip = Skip::of(shortcut);
        let mut known = skip.start(&tokens.of_img(&xs), &tokens.of_img(&normed));
        let residuals = match controls.filter(|_| known.is_none()) {
            Some(make) => Some(make()?),
            None => None,
        };
        let num_blocks = self.trunk.blocks.count();
        for (i, block) in self.trunk.blocks.double().iter().enumerate() {
            if known.is_some() {
                break;
            }
            hooks.go_on(Site::Block)?;
            // The last pass of a block is also the first of the next one.
            normed = if skip.leaves_out(i) {
                layer_norm(&xs, &next(i + 1), EPS)
            } else {
                let rope = &context.rope;
                block.forward(&mut xs, normed, rows(i), &next(i + 1), &tokens, rope)
            };
            if i == 0 {
                known = skip.first(&tokens.of_img(&xs));
            }
            if let Some(residuals) = &residuals
                && residuals.add_double(i, num_blocks, &mut tokens.of_img(&xs))
            {
                normed = layer_norm(&xs, &next(i + 1), EPS);
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

    /// Texts and pictures one behind the other, with what they see: `(1, L, C)`
    fn embed(&self, img: &Tensor, context: &Context, tokens: &Tokens) -> Tensor {
        let mut img = img.to_device(self.device()).to_kind(self.kind());
        if let Some(seen) = &context.seen {
            let seen = seen.expand([tokens.pictures, -1, -1], false);
            img = Tensor::cat(&[&img, &seen], 1);
        }
        self.trunk.embed(&img, &context.txt, tokens)
    }
}
