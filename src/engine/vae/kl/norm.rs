//! Group norm over whole images, of which only a band may be at hand: statistics are apart from their use.
//!
//! Statistics and the norm itself are computed in f32 whatever comes in, and rounded once.
//! For contiguous f32 images on the CPU each takes one pass over memory. libtorch has a group norm for channels innermost
//! there, but sums up all pixels one after the other: at 512 × 512 its variance is off by a ten-thousandth.

use safelight_loops::statistics::{BlockStatistics, ScaleShift};
use tch::{Device, Kind, Tensor};

use crate::kernels;
use crate::vae::slices::{floats, run_all, shared};
use crate::weights::{Weights, WeightsError};

/// Of autoencoders.
const EPS: f64 = 1e-6;

/// Pixels that halves on the CPU are made f32 of at a time.
const MAX_WIDENED_PIXELS: i64 = 1 << 18;

/// Mean and variance of each channel over some pixels, both `(C)` in f32.
#[derive(Debug)]
pub(crate) struct ChannelMoments {
    pixels: i64,
    mean: Tensor,
    variance: Tensor,
}

impl Clone for ChannelMoments {
    fn clone(&self) -> Self {
        Self {
            pixels: self.pixels,
            mean: self.mean.shallow_clone(),
            variance: self.variance.shallow_clone(),
        }
    }
}

impl ChannelMoments {
    /// `xs`: `(1, h, W, C)`, contiguous or rows of what is
    pub(in crate::vae) fn from_pixels(xs: &Tensor) -> Self {
        let xs = xs.contiguous();
        let size = xs.size();
        let (pixels, channels) = (size[1] * size[2], size[3]);
        if let Device::Cuda(_) = xs.device() {
            let (mean, variance) = kernels::channel_moments(&xs);
            return Self {
                pixels,
                mean,
                variance,
            };
        }
        let parts = xs.view([-1, channels]).split(MAX_WIDENED_PIXELS, 0);
        let parts = parts.iter().map(|part| {
            let blocks = block_moments(&part.to_kind(Kind::Float));
            Self::pooled(&blocks.means, &blocks.variances, &blocks.pixels)
        });
        Self::joined(&parts.collect::<Vec<_>>())
    }

    /// Of all pixels of `parts`, of which there is one at least.
    pub(in crate::vae) fn joined(parts: &[Self]) -> Self {
        let stacked =
            |of: fn(&Self) -> &Tensor| Tensor::stack(&parts.iter().map(of).collect::<Vec<_>>(), 0);
        let pixels: Vec<usize> = parts.iter().map(|part| part.pixels as usize).collect();
        Self::pooled(
            &stacked(|part| &part.mean),
            &stacked(|part| &part.variance),
            &pixels,
        )
    }

    /// `means`, `variances`: `(parts, C)`, each over the `pixels` of one part
    fn pooled(means: &Tensor, variances: &Tensor, pixels: &[usize]) -> Self {
        let total: usize = pixels.iter().sum();
        let shares: Vec<f32> = pixels
            .iter()
            .map(|&pixels| (pixels as f64 / total as f64) as f32)
            .collect();
        // Nothing waits for so few numbers on their way to a GPU.
        let shares = Tensor::from_slice(&shares);
        let shares = shares.to_device_(means.device(), Kind::Float, true, false);
        let shares = shares.unsqueeze(1);
        let weighted = |xs: &Tensor| (xs * &shares).sum_dim_intlist(0, false, Kind::Float);
        let mean = weighted(means);
        let spread = (means - &mean).square();
        Self {
            pixels: total as i64,
            variance: weighted(&(variances + spread)),
            mean,
        }
    }

    /// Moments of each channel's group, repeated for each channel.
    fn of_groups(&self, groups: i64) -> Self {
        let channels = self.mean.numel() as i64;
        let grouped = |xs: &Tensor| xs.view([groups, channels / groups]);
        let averaged = |xs: &Tensor| xs.mean_dim([1_i64].as_slice(), true, Kind::Float);
        let means = grouped(&self.mean);
        let mean = averaged(&means);
        let variance = averaged(&(grouped(&self.variance) + (means - &mean).square()));
        let spread = |xs: &Tensor| {
            let xs = xs.expand([groups, channels / groups], false);
            xs.reshape([channels])
        };
        Self {
            pixels: self.pixels,
            mean: spread(&mean),
            variance: spread(&variance),
        }
    }
}

/// Mean and deviation of groups of channels over the image.
#[derive(Debug)]
pub(crate) struct GroupNorm {
    weight: Tensor,
    bias: Tensor,
    groups: i64,
    eps: f64,
}

impl GroupNorm {
    pub(in crate::vae) fn new(w: &Weights, dim: i64, groups: i64) -> Result<Self, WeightsError> {
        Self::with_eps(w, dim, groups, EPS)
    }

    pub(crate) fn with_eps(
        w: &Weights,
        dim: i64,
        groups: i64,
        eps: f64,
    ) -> Result<Self, WeightsError> {
        let w = w.with_kind(Kind::Float);
        Ok(Self {
            weight: w.tensor("weight", &[dim])?,
            bias: w.tensor("bias", &[dim])?,
            groups,
            eps,
        })
    }

    /// `xs`: `(B, H, W, C)`, whole images without `moments`, else `(1, h, W, C)`, a part of the image that has these.
    /// Returns the same shape in separate memory.
    pub(crate) fn forward(&self, xs: &Tensor, moments: Option<&ChannelMoments>) -> Tensor {
        self.normalized(xs, moments, None, false)
    }

    /// Norm and SiLU. `lacking`: what has yet to be added to each channel, `(C)` in f32, which `moments` lack too.
    pub(crate) fn activate(
        &self,
        xs: &Tensor,
        moments: Option<&ChannelMoments>,
        lacking: Option<&Tensor>,
    ) -> Tensor {
        self.normalized(xs, moments, lacking, true)
    }

    fn normalized(
        &self,
        xs: &Tensor,
        moments: Option<&ChannelMoments>,
        lacking: Option<&Tensor>,
        with_silu: bool,
    ) -> Tensor {
        if xs.size()[0] > 1 {
            let each = xs.split(1, 0).into_iter();
            let each = each.map(|xs| self.normalized(&xs, None, lacking, with_silu));
            return Tensor::cat(&each.collect::<Vec<_>>(), 0);
        }
        let xs = xs.contiguous();
        let mut moments = match moments {
            Some(moments) => moments.clone(),
            None => ChannelMoments::from_pixels(&xs),
        };
        if let Some(lacking) = lacking {
            // The image's own stay as they are.
            moments.mean = &moments.mean + lacking;
        }
        let moments = moments.of_groups(self.groups);
        // With statistics known for each channel, a group norm is one factor and one summand for each.
        let scale = &self.weight * (moments.variance + self.eps).rsqrt();
        let mean = match lacking {
            Some(lacking) => moments.mean - lacking,
            None => moments.mean,
        };
        let shift = &self.bias - mean * &scale;
        if xs.device() == Device::Cpu && xs.kind() == Kind::Float {
            scaled(&xs, &scale, &shift, with_silu)
        } else {
            kernels::scaled_channels(&xs, &scale, &shift, with_silu)
        }
    }
}

/// Numbers whose statistics are taken together: they stay in a core's own cache while they are read twice.
const NUMBERS_PER_BLOCK: usize = 32 * 1024;

/// Mean and variance of each channel in blocks of pixels.
pub(super) struct BlockMoments {
    /// Both `(blocks, C)`
    pub(super) means: Tensor,
    pub(super) variances: Tensor,
    pub(super) pixels: Vec<usize>,
}

/// `xs`: `(…, C)`, of one pixel at least
pub(super) fn block_moments(xs: &Tensor) -> BlockMoments {
    let channels = channels_of(xs);
    let total = xs.numel() / channels;
    let per_block = (NUMBERS_PER_BLOCK / channels).max(1);
    let blocks = total.div_ceil(per_block);
    let options = (Kind::Float, Device::Cpu);
    let [means, variances] =
        [(); 2].map(|()| Tensor::zeros([blocks as i64, channels as i64], options));
    let pass = BlockStatistics {
        xs: floats(xs),
        channels,
        per_block,
        means: shared(&means),
        variances: shared(&variances),
    };
    run_all(&pass, blocks, 1);
    let pixels = (0..blocks).map(|block| per_block.min(total - block * per_block));
    BlockMoments {
        pixels: pixels.collect(),
        means,
        variances,
    }
}

fn channels_of(xs: &Tensor) -> usize {
    xs.size()
        .last()
        .map_or(1, |&channels| channels.max(1) as usize)
}

/// `xs` · `scale` + `shift`, then SiLU if wanted. `xs`: `(…, C)`, `scale`, `shift`: `(C)` → the size of `xs`
pub(super) fn scaled(xs: &Tensor, scale: &Tensor, shift: &Tensor, with_silu: bool) -> Tensor {
    let out = xs.empty_like();
    let channels = channels_of(xs);
    let (count, grain) = (xs.numel() / channels, (NUMBERS_PER_BLOCK / channels).max(1));
    let pass = ScaleShift {
        xs: floats(xs),
        scale: floats(scale),
        shift: floats(shift),
        with_silu,
        out: shared(&out),
    };
    run_all(&pass, count, grain);
    out
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{ChannelMoments, EPS, GroupNorm};
    use crate::closeness::distance;

    const GROUPS: i64 = 3;

    fn norm(channels: i64) -> GroupNorm {
        let options = (Kind::Float, Device::Cpu);
        GroupNorm {
            weight: Tensor::linspace(0.5, 1.5, channels, options),
            bias: Tensor::linspace(-1.0, 1.0, channels, options),
            groups: GROUPS,
            eps: EPS,
        }
    }

    /// Far from zero, where squares of large numbers would cancel: `(1, height, width, channels)` in f64
    fn image(height: i64, width: i64, channels: i64) -> Tensor {
        let places = Tensor::arange(height * width * channels, (Kind::Double, Device::Cpu));
        let xs = (places * 0.37).sin() + 20.0;
        xs.view([1, height, width, channels])
    }

    fn expected(xs: &Tensor, norm: &GroupNorm) -> Tensor {
        let [weight, bias] = [&norm.weight, &norm.bias].map(|xs| xs.to_kind(Kind::Double));
        let xs = xs.permute([0, 3, 1, 2]).contiguous();
        let ys = xs.group_norm(GROUPS, Some(&weight), Some(&bias), EPS, false);
        ys.permute([0, 2, 3, 1])
    }

    #[test]
    fn a_large_image_far_from_zero_is_normalized_as_in_double_precision() {
        let norm = norm(6);
        let xs = image(311, 307, 6);
        let found = norm.forward(&xs.to_kind(Kind::Float), None);
        let off = distance(&found, &expected(&xs, &norm));
        assert!(off < 2e-6, "{off}");
        let found = norm.activate(&xs.to_kind(Kind::Float), None, None);
        let off = distance(&found, &expected(&xs, &norm).silu());
        assert!(off < 2e-6, "{off}");
    }

    #[test]
    fn deferred_bias_is_included_in_norm_and_activation() {
        let norm = norm(6);
        let xs = image(13, 9, 6);
        let lacking = Tensor::linspace(-3.0, 2.0, 6, (Kind::Float, Device::Cpu));
        let bare = (&xs - &lacking).to_kind(Kind::Float);
        let expected = expected(&xs, &norm).silu();
        for moments in [None, Some(ChannelMoments::from_pixels(&bare))] {
            let found = norm.activate(&bare, moments.as_ref(), Some(&lacking));
            let off = distance(&found, &expected);
            assert!(off < 1e-5, "{off}");
        }
    }

    #[test]
    fn statistics_of_parts_are_those_of_the_image() {
        let norm = norm(6);
        let xs = image(23, 9, 6);
        let float = xs.to_kind(Kind::Float);
        let parts = float.split_with_sizes([1, 10, 12], 1);
        let moments: Vec<ChannelMoments> = parts.iter().map(ChannelMoments::from_pixels).collect();
        let joined = ChannelMoments::joined(&moments);
        let found = parts.iter().map(|part| norm.forward(part, Some(&joined)));
        let found = Tensor::cat(&found.collect::<Vec<_>>(), 1);
        let off = distance(&found, &expected(&xs, &norm));
        assert!(off < 2e-6, "{off}");
    }

    #[test]
    fn an_image_of_one_color_becomes_the_bias() {
        let norm = norm(6);
        for kind in [Kind::Float, Kind::BFloat16] {
            let xs = Tensor::full([1, 4, 5, 6], 3.0, (kind, Device::Cpu));
            let found = norm.forward(&xs, None).to_kind(Kind::Float);
            let expected = norm.bias.expand([1, 4, 5, 6], false);
            assert!(found.allclose(&expected, 0.0, 4e-3, false), "{kind:?}");
        }
    }
}
