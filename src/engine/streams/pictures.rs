//! The transformer of FLUX.1 and of what was made of it, but for what makes modulations: the way of texts and pictures
//! into one sequence, the turns of its tokens, and the way out.
//!
//! Fields have the original names. Shapes: as in [`streams`](super).

use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Device, Kind, Tensor};

use super::blocks::layer;
use super::{EPS, MakeResiduals, Modulations, Pass, Streams, Tokens, add_norm};
use crate::hooks::Hooks;
use crate::nn::{Linear, Norm, Rope, layer_norm};
use crate::step_cache::{Shortcut, Skip};
use crate::weights::{Weights, WeightsError};

pub struct PictureStreams {
    entry: Entry,
    streams: Streams,
    sizes: Sizes,
}

/// The way of texts and pictures into one sequence.
pub struct Entry {
    img_in: Linear,
    txt_in: Linear,
    dim: i64,
    kind: Kind,
    device: Device,
}

impl Entry {
    /// `input` and `text`: numbers of a picture's token and of a text's; `w`: by the authors' names.
    pub fn new(
        shape: &StreamShape,
        input: i64,
        text: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            img_in: layer(shape, input, shape.dim, &(w / "img_in"))?,
            txt_in: layer(shape, text, shape.dim, &(w / "txt_in"))?,
            dim: shape.dim,
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// A text as the blocks read it: `(1, T, text)` -> `(1, T, C)`
    pub fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        self.txt_in.forward(&prompt.contiguous())
    }

    /// Texts and pictures one behind the other: `img`: `(B, I, input)`, `txt`: `(1, T, C)` -> `(1, L, C)`
    pub fn embed(&self, img: &Tensor, txt: &Tensor, tokens: &Tokens) -> Tensor {
        let img = img.to_device(self.device).to_kind(self.kind);
        let xs = Tensor::empty([1, tokens.count(), self.dim], (self.kind, self.device));
        let mut texts = tokens.of_txt(&xs).view([tokens.pictures, -1, self.dim]);
        texts.copy_(&txt.expand_as(&texts));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}

/// Numbers of a token on the way in and out, and of a head.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Of a picture's token.
    pub input: i64,
    /// Of a text's.
    pub text: i64,
    /// Of a picture's token that the model gives back.
    pub output: i64,
    /// How many numbers of a head turn with each of a token's ids.
    pub axes: Vec<i64>,
    /// The base of their frequencies.
    pub theta: f64,
}

impl PictureStreams {
    /// `shift_and_scale`: which vectors of the final modulation they are; `w`: by the authors' names.
    pub fn new(
        shape: &StreamShape,
        sizes: Sizes,
        shift_and_scale: (i64, i64),
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let last = &(w / "final_layer");
        Ok(Self {
            entry: Entry::new(shape, sizes.input, sizes.text, w)?,
            streams: Streams::new(shape, sizes.output, shift_and_scale, w, last)?,
            sizes,
        })
    }

    pub fn kind(&self) -> Kind {
        self.streams.kind()
    }

    pub fn device(&self) -> Device {
        self.streams.device()
    }

    pub fn num_blocks(&self) -> usize {
        self.streams.num_blocks()
    }

    /// A text as the blocks read it: `(1, T, text)` -> `(1, T, C)`
    pub fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        self.entry.text(prompt_embeds)
    }

    /// The turns of all tokens of `pictures`, in their order: `txt_ids`: `(T, ids)`, `img_ids`: `(I, ids)`, those of one
    /// picture, whole numbers from 0.
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, pictures: i64) -> Rope {
        let ids = [txt_ids, img_ids].map(|ids| ids.repeat([pictures, 1]));
        let Sizes { axes, theta, .. } = &self.sizes;
        Rope::of_ids(&Tensor::cat(&ids, 0), axes, *theta, self.device())
    }

    /// `img`: `(B, I, input)`, `txt`: what [`text`](Self::text) gave, `bias`: added to the scores of one picture and its
    /// text, `(1, 1, T + I, T + I)`, `rope`: what [`rope`](Self::rope) gave for as many, `shortcut`: its cache
    /// of one picture, where there is one, `controls`: what ControlNets add -> `(B, I, output)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        (txt, bias): (&Tensor, Option<&Tensor>),
        rope: &Rope,
        (shortcut, controls): (Shortcut<'_>, MakeResiduals<'_>),
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let tokens = Tokens {
            bias: bias.map(Tensor::shallow_clone),
            ..Tokens::of(img, txt)
        };
        let mut xs = self.entry.embed(img, txt, &tokens);
        let pass = Pass::new(
            self.streams.blocks(),
            &modulations.blocks,
            &tokens,
            rope,
            shortcut.without,
            hooks,
        );
        let mut normed = pass.start(&xs);
        let mut skip = Skip::of(shortcut);
        let mut known = skip.start(&tokens.of_img(&xs), &tokens.of_img(&normed));
        let residuals = match controls.filter(|_| known.is_none()) {
            Some(make) => Some(make()?),
            None => None,
        };
        for i in 0..pass.num_double() {
            if known.is_some() {
                break;
            }
            normed = pass.block(i, &mut xs, normed)?;
            if i == 0 {
                known = skip.first(&tokens.of_img(&xs));
            }
            if let Some(residuals) = &residuals {
                normed = pass.add_behind_double(i, residuals, &xs, normed);
            }
        }
        let count = tokens.img.1;
        let velocity = if let Some(hidden) = known {
            let norm = |norm: &Norm<'_>| layer_norm(&hidden, norm, EPS);
            self.streams.finish(count, modulations, norm)
        } else {
            let own = |xs: &Tensor| tokens.of_img(xs);
            let ys = pass.single(&mut xs, normed, residuals.as_deref(), own)?;
            let mut img = tokens.of_img(&xs);
            let own = [(0, count)];
            self.streams.finish(count, modulations, |norm| {
                let normed = add_norm(&mut img, &ys, pass.last_gate(&own), 2, norm);
                skip.end(&img);
                normed
            })
        };
        Some(velocity.view([tokens.pictures, -1, self.sizes.output]))
    }
}
