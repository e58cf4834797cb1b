//! FLUX.1's transformer: text and picture in one sequence, first with weights of their own (double blocks), then with
//! common ones (single blocks). dev, schnell and Fill are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names; the blocks are in
//! [`streams`](crate::streams).
//!
//! Shapes: `B` pictures of one text; `L` tokens, `B` × `T` of text and then `B` × `I` of pictures; `C` width.

use safelight_core::networks::{FluxTransformerConfig, FluxTransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::hooks::Hooks;
use crate::nn::{Linear, Rope, axis_angles};
use crate::streams::{Modulations, Pass, Streams, Tokens, add_norm};
use crate::weights::{Weights, WeightsError};

const ROPE_THETA: f64 = 10000.0;

/// What the model multiplies timesteps with, which come divided by it.
const TIME_FACTOR: f32 = 1000.0;

pub struct FluxTransformer {
    img_in: Linear,
    txt_in: Linear,
    streams: Streams,
    config: FluxTransformerConfig,
}

/// A text as the blocks read it, and a guidance: they are the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
    /// What pooled text and guidance add to the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

impl FluxTransformer {
    /// `w`: the file's own names, in any dialect of [`FluxTransformerKeys`].
    pub fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let dim = config.dim();
        Ok(Self {
            img_in: Linear::new(config.in_channels, dim, &(w / "img_in"))?,
            txt_in: Linear::new(config.joint_attention_dim, dim, &(w / "txt_in"))?,
            streams: Streams::new(
                &config.streams(),
                config.out_channels(),
                keys.final_shift_and_scale(),
                w,
                &(w / "final_layer"),
            )?,
            config: config.clone(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FluxTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn config(&self) -> &FluxTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.streams.kind()
    }

    pub fn device(&self) -> Device {
        self.streams.device()
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`, `pooled`: `(1, pooled_projection_dim)`, `distilled_guidance`:
    /// as the user sets it; models that are told none leave it alone
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        pooled: &Tensor,
        distilled_guidance: f64,
    ) -> Context {
        let prompt = prompt_embeds.to_device(self.device()).to_kind(self.kind());
        Context {
            txt: self.txt_in.forward(&prompt.contiguous()),
            vec: self.streams.vec(pooled, distilled_guidance),
        }
    }

    /// The turns of all tokens of `pictures`, in their order: `txt_ids`: `(T, 3)`, `img_ids`: `(I, 3)`, those of one
    /// picture, whole numbers from 0.
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, pictures: i64) -> Rope {
        let [txt_ids, img_ids] = [txt_ids, img_ids].map(|ids| ids.repeat([pictures, 1]));
        let ids = Tensor::cat(&[txt_ids, img_ids], 0).to_kind(Kind::Int64);
        let axes = (0..).zip(self.config.axes_dims_rope).map(|(axis, dim)| {
            let ids = ids.select(1, axis);
            let positions = ids.max().int64_value(&[]) + 1;
            axis_angles(positions, dim, ROPE_THETA).index_select(0, &ids)
        });
        Rope::new(&Tensor::cat(&axes.collect::<Vec<_>>(), 1), self.device())
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32], context: &Context) -> Vec<Modulations> {
        // Divided and multiplied again, as the pipeline and the model do.
        let times = timesteps.iter();
        let times: Vec<f32> = times.map(|t| t / TIME_FACTOR * TIME_FACTOR).collect();
        self.streams
            .modulations(&self.streams.sinusoids(&times), &context.vec)
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, made with the same context, `rope`: what
    /// [`rope`](Self::rope) gave for as many -> velocity, `(B, I, out_channels)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let pictures = img.size()[0];
        let txt_len = pictures * context.txt.size()[1];
        let tokens = Tokens {
            txt: (0, txt_len),
            img: (txt_len, pictures * img.size()[1]),
            pictures,
        };
        let mut xs = self.embed(img, context, &tokens);
        let pass = Pass::new(&self.streams, modulations, &tokens, rope, hooks);
        let mut normed = pass.start(&xs);
        for i in 0..pass.num_double() {
            normed = pass.double(i, &mut xs, normed)?;
        }
        let ys = pass.single(&mut xs, normed, |attended| tokens.of_img(attended))?;
        let mut img = tokens.of_img(&xs);
        let own = [(0, tokens.img.1)];
        let velocity = self.streams.finish(tokens.img.1, modulations, |norm| {
            add_norm(&mut img, &ys, pass.last_gate(&own), 2, norm)
        });
        Some(velocity.view([pictures, -1, self.config.out_channels()]))
    }

    /// Texts and pictures one behind the other: `(1, L, C)`
    fn embed(&self, img: &Tensor, context: &Context, tokens: &Tokens) -> Tensor {
        let img = img.to_device(self.device()).to_kind(self.kind());
        let size = [1, tokens.count(), self.config.dim()];
        let xs = Tensor::empty(size, (self.kind(), self.device()));
        let mut txt = tokens
            .of_txt(&xs)
            .view([tokens.pictures, -1, self.config.dim()]);
        txt.copy_(&context.txt.expand_as(&txt));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}
