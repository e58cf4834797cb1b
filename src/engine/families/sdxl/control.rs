//! ControlNets of SDXL: a copy of the U-Net down to its middle that starts from the noise and the pixels of a control image;
//! the output of a layer after each of its states is added to the U-Net's.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet.py`, `controlnet_union.py`), whose pipelines run
//! them for both texts of guidance. In the attention of unions each control image attends to itself alone, there as in
//! ComfyUI, so only values and the output layer are read.
//!
//! Shapes: as in [`blocks`](super::blocks).

use std::path::Path;

use safelight_core::families::sdxl::control::type_number;
use safelight_core::model::ControlKind;
use safelight_core::networks::SdxlControlConfig;
use safelight_core::networks::sdxl_control::{IMAGE, TYPE_BLOCKS, TYPES};
use tch::Tensor;

use super::SdxlUnet;
use super::encoder::{SdxlModulation, UnetContext, UnetEncoder, UnetPass};
use crate::controls::{LoadedControls, unfit};
use crate::nn::{ImageConv, LayerNorm, Linear, Mlp, silu};
use crate::stages::images::{ControlImage, ControlNet};
use crate::step_cache::{BlockSkipper, SkipOptions};
use crate::{EngineError, Hooks, StageWork, Weights, WeightsError};

/// Epsilon of the layer norms of unions.
const EPS: f64 = 1e-5;

pub struct SdxlControl {
    encoder: UnetEncoder,
    /// Layers of pixels, all but the last one with SiLU after them.
    image: Vec<ImageConv>,
    /// One after each skip connection, and one after the middle.
    outputs: Vec<ImageConv>,
    union: Option<ControlTypes>,
    config: SdxlControlConfig,
}

/// Layers of a union for the types of control images.
struct ControlTypes {
    /// `(types, C)`
    embeddings: Tensor,
    blocks: Vec<TypeBlock>,
    projection: Linear,
    add_embedding: Mlp,
    count: i64,
}

/// Attention of a control image to itself, and feed-forward, each after a norm.
struct TypeBlock {
    ln_1: LayerNorm,
    /// Rows of `in_proj` for the values: `(C, C)` and `(C)`
    values: [Tensor; 2],
    out_proj: Linear,
    ln_2: LayerNorm,
    mlp: Mlp,
}

impl TypeBlock {
    fn new(width: i64, w: &Weights) -> Result<Self, WeightsError> {
        let attn = &(w / "attn");
        let weight = attn.tensor("in_proj_weight", &[3 * width, width])?;
        let bias = attn.tensor("in_proj_bias", &[3 * width])?;
        Ok(Self {
            ln_1: LayerNorm::new(width, EPS, &(w / "ln_1"))?,
            values: [weight, bias].map(|all| all.narrow(0, 2 * width, width).copy()),
            out_proj: Linear::new(width, width, &(attn / "out_proj"))?,
            ln_2: LayerNorm::new(width, EPS, &(w / "ln_2"))?,
            mlp: Mlp::new([width, 4 * width, width], ["c_fc", "c_proj"], &(w / "mlp"))?,
        })
    }

    /// `(1, C)` → the same
    fn forward(&self, xs: &Tensor) -> Tensor {
        let [weight, bias] = &self.values;
        let normed = self.ln_1.forward(xs).to_kind(xs.kind());
        let xs = xs + self.out_proj.forward(&normed.linear(weight, Some(bias)));
        let normed = self.ln_2.forward(&xs).to_kind(xs.kind());
        &xs + self
            .mlp
            .forward(&normed, |xs| &xs * (&xs * 1.702).sigmoid())
    }
}

impl ControlTypes {
    fn new(count: i64, config: &SdxlControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (width, time) = (
            config.blocks.block_out_channels[0],
            config.blocks.time_width(),
        );
        let w = &w.seldom();
        let blocks = 0..config.num_trans_layer;
        let blocks = blocks.map(|i| TypeBlock::new(width, &(w / TYPE_BLOCKS / i)));
        let names = ["linear_1", "linear_2"];
        Ok(Self {
            embeddings: w.tensor(TYPES, &[count, width])?,
            blocks: blocks.collect::<Result<_, _>>()?,
            projection: Linear::new(width, width, &(w / "spatial_ch_projs"))?,
            add_embedding: Mlp::new(
                [config.type_width(), time, time],
                names,
                &(w / "control_add_embedding"),
            )?,
            count,
        })
    }

    /// The number of a control type.
    fn number(&self, kind: Option<ControlKind>) -> Result<i64, EngineError> {
        let number = kind
            .and_then(type_number)
            .filter(|number| *number < self.count);
        number.ok_or_else(|| {
            EngineError::request(
                "this union ControlNet must be told which of its kinds the control image shows",
            )
        })
    }

    /// Shift of an embedded image, `(1, H, W, C)`, by its type: `(1, 1, 1, C)`
    fn shift(&self, image: &Tensor, number: i64) -> Tensor {
        let mean = image.mean_dim([1_i64, 2].as_slice(), false, image.kind());
        let mut xs = mean + self.embeddings.narrow(0, number, 1);
        for block in &self.blocks {
            xs = block.forward(&xs);
        }
        self.projection.forward(&xs).view([1, 1, 1, -1])
    }
}

impl SdxlControl {
    /// `w`: the file's own names, which are diffusers'.
    pub fn new(config: &SdxlControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (blocks, widths) = (&config.blocks, &config.conditioning_embedding_out_channels);
        let home = &(w / IMAGE);
        let (first, last) = (widths[0], widths[widths.len() - 1]);
        let mut image = vec![ImageConv::new(
            &(home / "conv_in"),
            [config.conditioning_channels, first],
            3,
            1,
        )?];
        for (i, pair) in widths.windows(2).enumerate() {
            let block = |i: usize| home / "blocks" / i;
            image.push(ImageConv::new(&block(2 * i), [pair[0]; 2], 3, 1)?);
            image.push(ImageConv::new(&block(2 * i + 1), [pair[0], pair[1]], 3, 2)?);
        }
        let width = blocks.block_out_channels[0];
        image.push(ImageConv::new(&(home / "conv_out"), [last, width], 3, 1)?);
        let outputs = blocks.skip_widths().into_iter().enumerate();
        let outputs = outputs.map(|(i, width)| {
            ImageConv::new(&(w / "controlnet_down_blocks" / i), [width; 2], 1, 1)
        });
        let mut outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let middle = blocks.block_out_channels[blocks.block_out_channels.len() - 1];
        let middle = ImageConv::new(&(w / "controlnet_mid_block"), [middle; 2], 1, 1)?;
        outputs.push(middle);
        let union = config.num_control_type;
        let union = union.map(|count| ControlTypes::new(count, config, w));
        Ok(Self {
            encoder: UnetEncoder::new(blocks, w)?,
            image,
            outputs,
            union: union.transpose()?,
            config: config.clone(),
        })
    }

    /// `kind`: of the control image, which unions need; the others: see [`UnetEncoder::context`].
    pub(super) fn context(
        &self,
        text: &Tensor,
        pooled: &Tensor,
        size: [i64; 2],
        kind: Option<ControlKind>,
    ) -> Result<UnetContext, EngineError> {
        let levels = self.encoder.levels();
        let mut context = self.encoder.context(levels, text, pooled, size);
        if let Some(union) = &self.union {
            let number = union.number(kind)?;
            let types: Vec<f32> = (0..union.count)
                .map(|i| if i == number { 1.0 } else { 0.0 })
                .collect();
            let width = self.config.blocks.addition_time_embed_dim;
            let types = self.encoder.sinusoids(&types, width).view([1, -1]);
            context.added += union.add_embedding.forward(&types, silu);
        }
        Ok(context)
    }

    /// Residuals for each skip connection of the U-Net, and for its middle: `(B, H, W, C)`; `None` when cancelled.
    /// `input`: the U-Net's; `image`: see [`ControlNet::embed`]; `time`: embedding of the timestep
    pub(super) fn residuals(
        &self,
        input: &Tensor,
        image: &Tensor,
        (context, time): (&UnetContext, &Tensor),
        hooks: &dyn Hooks,
    ) -> Option<Vec<Tensor>> {
        let time = silu(time + &context.added);
        let modulation = SdxlModulation::of_levels(self.encoder.levels(), &time).remove(0);
        let skip = BlockSkipper::of(SkipOptions::default());
        let mut pass = UnetPass::new(&modulation, context, skip, hooks);
        let embedded = self.encoder.embed(input) + image;
        let (mut states, middle) = self.encoder.forward(embedded, &mut pass)?;
        states.push(middle);
        let states = self.outputs.iter().zip(&states);
        Some(states.map(|(output, xs)| output.forward(xs)).collect())
    }
}

impl ControlNet for SdxlControl {
    type Model = SdxlUnet;
    type Prompt = ();
    /// Embedding of the timestep: `(1, T)`
    type Modulation = Tensor;

    fn load(home: &Path, work: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError> {
        work.control_networks(home, Self::new)
    }

    /// Pixels in 0..1, `(1, 3, H, W)` → `(1, h, w, C)`
    fn embed(&self, model: &SdxlUnet, it: &ControlImage<'_>) -> Result<Tensor, EngineError> {
        let widths = |config: &safelight_core::networks::SdxlUnetConfig| {
            let widths = config.block_out_channels.clone();
            (widths, config.cross_attention_dim, config.pooled_width())
        };
        if widths(&self.config.blocks) != widths(&model.config) {
            let problem = "this ControlNet is for U-Nets of other widths than the model's";
            return Err(unfit(problem, it.input));
        }
        let encoder = &self.encoder;
        let pixels = it.latents.to_device(encoder.device).to_kind(encoder.kind);
        let mut xs = pixels.permute([0, 2, 3, 1]).contiguous();
        for (i, layer) in self.image.iter().enumerate() {
            if i > 0 {
                xs = silu(xs);
            }
            xs = layer.forward(&xs);
        }
        let [_, _, height, width] = it.shape.size()[..] else {
            return Err(EngineError::internal("latents of an image have four axes"));
        };
        if xs.size()[1..3] != [height, width] {
            return Err(EngineError::internal("a control image has another size"));
        }
        if let Some(union) = &self.union {
            let number = union.number(it.input.settings.kind)?;
            xs += union.shift(&xs, number);
        }
        Ok(xs)
    }

    fn modulations(&self, _: &SdxlUnet, timesteps: &[f32], (): &()) -> Vec<Tensor> {
        self.encoder.time(timesteps).split(1, 0)
    }
}
