//! The levels of Wan's autoencoders, and every tensor that is read.
//!
//! Sets apart the flat form of Wan 2.1 and the residual one of Wan 2.2, which the engine builds from the same levels.

use super::{WanVaeConfig, WanVaeKeys};
use crate::networks::schema::{Schema, TensorRole, TensorSpec};
use crate::networks::vae::VaeHalf;

/// One level of the encoder or the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WanVaeLevel {
    half: VaeHalf,
    index: usize,
    /// Its first part in the flat list of Wan 2.1.
    first_part: i64,
    is_residual: bool,
    pub num_blocks: i64,
    pub input: i64,
    pub output: i64,
    /// Width after the step to the next level.
    pub next: i64,
    /// Frames of a chunk, after the first chunk, when they come in.
    pub frames: i64,
    /// Frames that a convolution sees at once.
    pub taps: i64,
    /// The step to the next level, which halves or doubles the edges: whether time too. The last level has none.
    pub step: Option<bool>,
    pub has_attention: bool,
    /// A shortcut without parameters leads around all of it.
    pub has_shortcut: bool,
}

impl WanVaeLevel {
    /// Residual block `number` of this level by the authors' name.
    pub fn block(&self, number: i64) -> String {
        self.part(number * self.parts_per_block())
    }

    /// The attention after a residual block.
    pub fn attention(&self, number: i64) -> String {
        self.part(number * self.parts_per_block() + 1)
    }

    /// The step to the next level.
    pub fn step_name(&self) -> String {
        self.part(self.num_blocks * self.parts_per_block())
    }

    pub fn time_factor(&self) -> i64 {
        if self.step == Some(true) { 2 } else { 1 }
    }

    pub fn space_factor(&self) -> i64 {
        if self.step.is_some() { 2 } else { 1 }
    }

    /// Pixels that a shortcut folds into channels.
    pub(super) fn folded(&self) -> i64 {
        self.time_factor() * self.space_factor() * self.space_factor()
    }

    fn parts_per_block(&self) -> i64 {
        1 + i64::from(self.has_attention)
    }

    /// A part of this level: within the level, or in the flat list of Wan 2.1.
    fn part(&self, number: i64) -> String {
        let (half, list) = match self.half {
            VaeHalf::Encoder => ("encoder", "downsamples"),
            VaeHalf::Decoder => ("decoder", "upsamples"),
        };
        if self.is_residual {
            format!("{half}.{list}.{}.{list}.{number}", self.index)
        } else {
            format!("{half}.{list}.{}", self.first_part + number)
        }
    }

    fn num_parts(&self) -> i64 {
        self.num_blocks * self.parts_per_block() + 1
    }
}

impl WanVaeConfig {
    /// The encoder's levels from pixels to latents.
    pub fn encoder_levels(&self) -> Vec<WanVaeLevel> {
        let (mut input, mut frames, mut scale) = (self.base_dim, Self::ENCODER_FRAMES, 1.0);
        let mut first_part = 0;
        let levels = self.dim_mult.iter().enumerate();
        let levels = levels.map(|(index, factor)| {
            let output = factor * self.base_dim;
            let level = WanVaeLevel {
                half: VaeHalf::Encoder,
                index,
                first_part,
                is_residual: self.is_residual,
                num_blocks: self.num_res_blocks,
                input,
                output,
                next: output,
                frames: frames.max(1),
                taps: self.taps(),
                step: self.temperal_downsample.get(index).copied(),
                // diffusers does not look at it in the residual form.
                has_attention: !self.is_residual && self.attn_scales.contains(&scale),
                has_shortcut: self.is_residual,
            };
            first_part += level.num_parts();
            input = output;
            frames /= level.time_factor();
            scale /= 2.0;
            level
        });
        levels.collect()
    }

    /// The decoder's levels from latents to pixels.
    pub fn decoder_levels(&self) -> Vec<WanVaeLevel> {
        let mut steps = self.temperal_downsample.iter().rev().copied();
        let mut factors = self.dim_mult.iter().rev().enumerate().peekable();
        let widest = factors.peek().map_or(1, |(_, factor)| **factor);
        let (mut input, mut frames) = (widest * self.decoder_dim(), 1);
        let mut first_part = 0;
        let levels = factors.map(|(index, factor)| {
            let output = factor * self.decoder_dim();
            let step = steps.next();
            let level = WanVaeLevel {
                half: VaeHalf::Decoder,
                index,
                first_part,
                is_residual: self.is_residual,
                num_blocks: self.num_res_blocks + 1,
                input,
                output,
                // Without a shortcut around the level, its step halves the width too.
                next: if self.is_residual || step.is_none() {
                    output
                } else {
                    output / 2
                },
                frames,
                taps: self.taps(),
                step,
                // diffusers builds none here, whatever `attn_scales` says.
                has_attention: false,
                has_shortcut: self.is_residual && step.is_some(),
            };
            first_part += level.num_parts();
            input = level.next;
            frames *= level.time_factor();
            level
        });
        levels.collect()
    }

    pub fn schema(&self, half: VaeHalf, keys: &WanVaeKeys) -> Vec<TensorSpec> {
        let keys = keys.of_levels(self);
        let mut table = WanVaeTable {
            schema: Schema::default(),
            taps: self.taps(),
            // diffusers has convolutions of images there.
            is_flat: self.is_rgba() && !keys.is_original,
        };
        match half {
            VaeHalf::Encoder => self.encoder(&mut table),
            VaeHalf::Decoder => self.decoder(&mut table),
        }
        table.schema.renamed(|name| keys.file_key(name))
    }

    fn encoder(&self, table: &mut WanVaeTable) {
        let moments = 2 * self.z_dim;
        table.volume("encoder.conv1", [self.pixel_channels(), self.base_dim], 3);
        let mut widest = self.base_dim;
        for level in self.encoder_levels() {
            table.level(&level);
            widest = level.output;
        }
        table.middle("encoder", widest);
        table.head("encoder", [widest, moments]);
        table.volume("conv1", [moments; 2], 1);
    }

    fn decoder(&self, table: &mut WanVaeTable) {
        let levels = self.decoder_levels();
        let widest = levels
            .first()
            .map_or_else(|| self.decoder_dim(), |it| it.input);
        let narrowest = levels
            .last()
            .map_or_else(|| self.decoder_dim(), |it| it.output);
        table.volume("conv2", [self.z_dim; 2], 1);
        table.volume("decoder.conv1", [self.z_dim, widest], 3);
        table.middle("decoder", widest);
        for level in levels {
            table.level(&level);
        }
        table.head("decoder", [narrowest, self.pixel_channels()]);
    }
}

/// Tensors in the authors' names, as a list that grows. Widths are those in and out.
struct WanVaeTable {
    schema: Schema,
    /// Frames that a convolution sees at once.
    taps: i64,
    /// Without an axis of frames.
    is_flat: bool,
}

impl WanVaeTable {
    /// A convolution over time, height and width.
    fn volume(&mut self, name: &str, [input, output]: [i64; 2], edge: i64) {
        self.conv(name, &[output, input, edge.min(self.taps), edge, edge]);
    }

    /// `shape`: rows, columns, and the kernel's frames, rows and columns
    fn conv(&mut self, name: &str, shape: &[i64; 5]) {
        let [rows, columns, _, height, width] = *shape;
        if self.is_flat {
            self.schema.conv(name, &[rows, columns, height, width]);
        } else {
            self.schema.conv(name, shape);
        }
    }

    /// A norm's scale with a number of empty axes after it.
    fn gamma(&mut self, norm: &str, width: i64, trailing: usize) {
        let shape = [width, 1, 1, 1];
        self.schema.add(
            format!("{norm}.gamma"),
            &shape[..=trailing],
            TensorRole::Fixed,
        );
    }

    fn level(&mut self, level: &WanVaeLevel) {
        let mut input = level.input;
        for number in 0..level.num_blocks {
            self.residual(&level.block(number), [input, level.output]);
            if level.has_attention {
                self.attention(&level.attention(number), level.output);
            }
            input = level.output;
        }
        let Some(changes_time) = level.step else {
            return;
        };
        let (step, width) = (level.step_name(), level.output);
        let (resample, kernel) = (format!("{step}.resample.1"), [level.next, width, 3, 3]);
        match level.half {
            VaeHalf::Encoder => self.schema.conv(&resample, &kernel),
            VaeHalf::Decoder => self.schema.doubling(&resample, &kernel),
        }
        if changes_time {
            // On the way up, two frames of one.
            let frames = match level.half {
                VaeHalf::Encoder => 1,
                VaeHalf::Decoder => 2,
            };
            let shape = [frames * width, width, self.taps, 1, 1];
            self.conv(&format!("{step}.time_conv"), &shape);
        }
    }

    /// The blocks between the levels and the latents.
    fn middle(&mut self, half: &str, width: i64) {
        self.residual(&format!("{half}.middle.0"), [width; 2]);
        self.attention(&format!("{half}.middle.1"), width);
        self.residual(&format!("{half}.middle.2"), [width; 2]);
    }

    fn head(&mut self, half: &str, widths: [i64; 2]) {
        self.gamma(&format!("{half}.head.0"), widths[0], 3);
        self.volume(&format!("{half}.head.2"), widths, 3);
    }

    fn residual(&mut self, block: &str, [input, output]: [i64; 2]) {
        self.gamma(&format!("{block}.residual.0"), input, 3);
        self.volume(&format!("{block}.residual.2"), [input, output], 3);
        self.gamma(&format!("{block}.residual.3"), output, 3);
        self.volume(&format!("{block}.residual.6"), [output; 2], 3);
        if input != output {
            self.volume(&format!("{block}.shortcut"), [input, output], 1);
        }
    }

    fn attention(&mut self, block: &str, width: i64) {
        self.gamma(&format!("{block}.norm"), width, 2);
        self.schema
            .conv(&format!("{block}.to_qkv"), &[3 * width, width, 1, 1]);
        self.schema
            .conv(&format!("{block}.proj"), &[width, width, 1, 1]);
    }
}
