//! Whether an autoencoder's file has every tensor that its config asks for: both halves, of the flat form of
//! Wan 2.1 and of the residual one of Wan 2.2, in the authors' names or diffusers'.
//!
//! Mirrors the networks in the engine's `vae/wan`; what else lies in the file is not looked at.

use super::vae_header::VaeKeys;
use crate::catalog::CatalogError;
use crate::catalog::configs::WanVaeConfig;
use crate::catalog::weights::WeightSet;

pub(super) fn check_vae(weights: &WeightSet, cfg: &WanVaeConfig) -> Result<(), CatalogError> {
    let check = Check {
        weights,
        keys: VaeKeys::likely(weights).unwrap_or(VaeKeys::DIFFUSERS),
        cfg,
    };
    let first = cfg.dim_mult.first().copied().unwrap_or(1);
    let last = cfg.dim_mult.last().copied().unwrap_or(1);
    let moments = 2 * cfg.z_dim;
    check.conv3d("quant_conv", moments, moments, [1; 3])?;
    check.conv3d("post_quant_conv", cfg.z_dim, cfg.z_dim, [1; 3])?;

    let widest = cfg.base_dim * last;
    check.conv3d("encoder.conv_in", cfg.base_dim, cfg.in_channels, [3; 3])?;
    check.levels(Half::Encoder)?;
    check.middle(Half::Encoder, widest)?;
    check.gamma(&check.named("encoder.norm_out"), widest, 3)?;
    check.conv3d("encoder.conv_out", moments, widest, [3; 3])?;

    let widest = cfg.decoder_dim() * last;
    let narrowest = cfg.decoder_dim() * first;
    check.conv3d("decoder.conv_in", widest, cfg.z_dim, [3; 3])?;
    check.middle(Half::Decoder, widest)?;
    check.levels(Half::Decoder)?;
    check.gamma(&check.named("decoder.norm_out"), narrowest, 3)?;
    check.conv3d("decoder.conv_out", cfg.out_channels, narrowest, [3; 3])
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Encoder,
    Decoder,
}

/// What a level is made of: residual blocks with or without attention, and the step to the next level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Block,
    Step,
}

/// One level of either half.
struct Level {
    number: usize,
    /// Its first part where all levels' parts are one list.
    first_part: u64,
    input: u64,
    output: u64,
    num_blocks: u64,
    /// Whether attention follows each residual block.
    has_attention: bool,
    /// The step to the next level: whether it changes time too, and the width behind it.
    step: Option<(bool, u64)>,
}

struct Check<'a> {
    weights: &'a WeightSet,
    keys: VaeKeys<'a>,
    cfg: &'a WanVaeConfig,
}

impl Check<'_> {
    fn encoder_levels(&self) -> Vec<Level> {
        let cfg = self.cfg;
        let (mut input, mut first_part, mut scale) = (cfg.base_dim, 0, 1.0);
        let mut levels = Vec::new();
        for (number, mult) in cfg.dim_mult.iter().enumerate() {
            let output = cfg.base_dim * mult;
            // diffusers does not look at it in the residual form.
            let has_attention = !cfg.is_residual && cfg.attn_scales.contains(&scale);
            let step = cfg.temperal_downsample.get(number);
            levels.push(Level {
                number,
                first_part,
                input,
                output,
                num_blocks: cfg.num_res_blocks,
                has_attention,
                step: step.map(|&time| (time, output)),
            });
            first_part += cfg.num_res_blocks * (1 + u64::from(has_attention)) + 1;
            input = output;
            scale /= 2.0;
        }
        levels
    }

    fn decoder_levels(&self) -> Vec<Level> {
        let cfg = self.cfg;
        let last = cfg.dim_mult.last().copied().unwrap_or(1);
        let (mut input, mut first_part) = (cfg.decoder_dim() * last, 0);
        let mut levels = Vec::new();
        let mut steps = cfg.temperal_downsample.iter().rev();
        for (number, mult) in cfg.dim_mult.iter().rev().enumerate() {
            let output = cfg.decoder_dim() * mult;
            // Without a shortcut around the level, its step halves the width too.
            let next = if cfg.is_residual { output } else { output / 2 };
            let step = steps.next().map(|&time| (time, next));
            levels.push(Level {
                number,
                first_part,
                input,
                output,
                num_blocks: cfg.num_res_blocks + 1,
                has_attention: false,
                step,
            });
            first_part += cfg.num_res_blocks + 2;
            input = step.map_or(output, |(_, next)| next);
        }
        levels
    }

    fn levels(&self, half: Half) -> Result<(), CatalogError> {
        let levels = match half {
            Half::Encoder => self.encoder_levels(),
            Half::Decoder => self.decoder_levels(),
        };
        for level in levels {
            let part = |index: u64, kind: PartKind| {
                let flat = level.first_part + index;
                let is_residual = self.cfg.is_residual;
                self.keys
                    .level_part(half, level.number, (flat, index), kind, is_residual)
            };
            let parts_per_block = 1 + u64::from(level.has_attention);
            for block in 0..level.num_blocks {
                let input = if block == 0 {
                    level.input
                } else {
                    level.output
                };
                let index = block * parts_per_block;
                self.residual(&part(index, PartKind::Block), input, level.output)?;
                if level.has_attention {
                    self.attention(&part(index + 1, PartKind::Block), level.output)?;
                }
            }
            if let Some((changes_time, next)) = level.step {
                let step = part(level.num_blocks * parts_per_block, PartKind::Step);
                let width = level.output;
                self.linear(&format!("{step}.resample.1"), &[next, width, 3, 3])?;
                if changes_time {
                    let doubled = if half == Half::Encoder { 1 } else { 2 };
                    let shape = [doubled * width, width, 3, 1, 1];
                    self.linear(&format!("{step}.time_conv"), &shape)?;
                }
            }
        }
        Ok(())
    }

    fn middle(&self, half: Half, width: u64) -> Result<(), CatalogError> {
        let [before, attention, after] = self.keys.middle(half);
        self.residual(&before, width, width)?;
        self.attention(&attention, width)?;
        self.residual(&after, width, width)
    }

    fn residual(&self, block: &str, input: u64, output: u64) -> Result<(), CatalogError> {
        let [norm1, conv1, norm2, conv2, shortcut] = self.keys.residual_parts();
        self.gamma(&format!("{block}.{norm1}"), input, 3)?;
        self.linear(&format!("{block}.{conv1}"), &[output, input, 3, 3, 3])?;
        self.gamma(&format!("{block}.{norm2}"), output, 3)?;
        self.linear(&format!("{block}.{conv2}"), &[output, output, 3, 3, 3])?;
        if input == output {
            return Ok(());
        }
        self.linear(&format!("{block}.{shortcut}"), &[output, input, 1, 1, 1])
    }

    fn attention(&self, block: &str, width: u64) -> Result<(), CatalogError> {
        self.gamma(&format!("{block}.norm"), width, 2)?;
        self.linear(&format!("{block}.to_qkv"), &[3 * width, width, 1, 1])?;
        self.linear(&format!("{block}.proj"), &[width, width, 1, 1])
    }

    /// A convolution outside the levels, by diffusers' name.
    fn conv3d(
        &self,
        name: &str,
        output: u64,
        input: u64,
        [t, h, w]: [u64; 3],
    ) -> Result<(), CatalogError> {
        self.linear(&self.named(name), &[output, input, t, h, w])
    }

    /// The file's name of what lies outside the levels, by diffusers' name.
    fn named(&self, name: &str) -> String {
        let key = self.keys.file_key(&format!("{name}."));
        key.trim_end_matches('.').to_owned()
    }

    /// A weight of this shape and its bias.
    fn linear(&self, name: &str, shape: &[u64]) -> Result<(), CatalogError> {
        self.weights.expect(&format!("{name}.weight"), shape)?;
        self.weights.expect(&format!("{name}.bias"), &shape[..1])
    }

    /// A norm's scale with so many empty axes behind it.
    fn gamma(&self, norm: &str, width: u64, trailing: usize) -> Result<(), CatalogError> {
        let shape = [&[width][..], &vec![1; trailing]].concat();
        self.weights.expect(&format!("{norm}.gamma"), &shape)
    }
}
