//! Facts about a model beyond its configs, in layers that may each be incomplete.

use serde::Deserialize;

use crate::model::{
    LatentRgb, ModelDefaults, PartialSampling, SamplingPreset, SizeLimits, SmallShift,
};

/// Description of a model beyond its configs. Each layer may leave anything out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ModelMetadata {
    pub name: Option<String>,
    pub description: Option<String>,
    #[serde(alias = "license")]
    pub licence: Option<String>,
    pub defaults: PartialDefaults,
    pub limits: PartialLimits,
    pub example_prompts: Option<Vec<String>>,
    pub latent_rgb: Option<LatentRgb>,
    pub presets: Option<Vec<SamplingPreset>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartialDefaults {
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub num_frames: Option<u32>,
    pub fps: Option<f64>,
    #[serde(flatten)]
    pub sampling: PartialSampling,
    pub small_shift: Option<SmallShift>,
    pub negative_prompt: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartialLimits {
    pub max_pixels: Option<u64>,
    pub max_frames: Option<u32>,
    pub fixed_size: Option<bool>,
}

/// A layer over another: each named field where it has any, else that of the other.
macro_rules! layered {
    ($over:ident, $below:ident: $($field:ident),+) => {
        Self { $($field: $over.$field.or($below.$field),)+ ..$below }
    };
}

impl ModelMetadata {
    /// Returns these values with those of `over` in their place where it has any.
    pub(super) fn overlaid(mut self, over: Self) -> Self {
        self.defaults = self.defaults.overlaid(over.defaults);
        self.limits = self.limits.overlaid(&over.limits);
        layered!(over, self: name, description, licence, example_prompts, latent_rgb, presets)
    }
}

impl PartialDefaults {
    pub(super) fn overlaid(mut self, over: Self) -> Self {
        // A stated shift holds at every size, unless a small one is stated, too.
        self.small_shift = self.small_shift.filter(|_| over.sampling.shift.is_none());
        self.sampling = over.sampling.or(self.sampling);
        layered!(over, self: width, height, num_frames, fps, small_shift, negative_prompt)
    }

    /// These over `base`.
    pub(super) fn over(self, base: ModelDefaults) -> ModelDefaults {
        ModelDefaults {
            width: self.width.unwrap_or(base.width),
            height: self.height.unwrap_or(base.height),
            num_frames: self.num_frames.unwrap_or(base.num_frames),
            fps: self.fps.unwrap_or(base.fps),
            sampling: self.sampling.over(base.sampling),
            small_shift: self.small_shift.or(base.small_shift),
            negative_prompt: self.negative_prompt.unwrap_or(base.negative_prompt),
        }
    }
}

impl PartialLimits {
    fn overlaid(self, over: &Self) -> Self {
        Self {
            max_pixels: over.max_pixels.or(self.max_pixels),
            max_frames: over.max_frames.or(self.max_frames),
            fixed_size: over.fixed_size.or(self.fixed_size),
        }
    }

    /// These within `base`: a catalogue can narrow what the configs allow, never widen it.
    pub(super) fn within(&self, base: SizeLimits) -> SizeLimits {
        SizeLimits {
            max_pixels: self.max_pixels.unwrap_or(u64::MAX).min(base.max_pixels),
            max_frames: self.max_frames.unwrap_or(u32::MAX).min(base.max_frames),
            fixed_size: self.fixed_size.unwrap_or(base.fixed_size),
            ..base
        }
    }
}
