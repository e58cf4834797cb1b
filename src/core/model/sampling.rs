//! Sampling options: steps, guidance, shift and sampler, complete or partial.
//!
//! A model's defaults and a request set every value ([`SamplingOptions`]); forms, presets, arguments and files of other
//! programs leave some to the model ([`PartialSampling`]). The form checks the values.

use serde::{Deserialize, Serialize};

use super::choices::{SamplerKind, SigmaSchedule};
use super::{GuidanceMode, GuidanceRange, Guider, ModelFiles, ModelSpec};

/// Skips default values when serialising.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Sampling options, complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplingOptions {
    pub num_steps: u32,
    /// The first step of the schedule that is made, counted from 0.
    #[serde(default)]
    pub start_step: u32,
    /// The step before which the schedule is left; what noise is left then stays. The end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_step: Option<u32>,
    /// Guidance scale in the family's sense: classifier-free in Wan (two passes per step above 1), the embedded value
    /// of a distilled model in Flux and FramePack.
    pub guidance_scale: f64,
    /// The low-noise expert's guidance; that of the high-noise one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale_2: Option<f64>,
    /// Classifier-free guidance of models whose `guidance_scale` is another thing; two passes a step when above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub true_cfg_scale: Option<f64>,
    /// Guider of the guided steps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guider: Guider,
    #[serde(default, skip_serializing_if = "is_default")]
    pub guidance_range: GuidanceRange,
    /// The schedule's shift; the model's own when absent, which in families that shift by the number of tokens is
    /// that (Flux dev, FramePack).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// True if the shift depends on the number of tokens although the model's scheduler has a fixed one. Excludes
    /// `shift`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dynamic_shift: bool,
    pub sampler: SamplerKind,
    #[serde(default)]
    pub sigma_schedule: SigmaSchedule,
    /// Denoising strength of a start image, 0 to 1, for models that start from a noised image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<f64>,
}

/// Sampling options with defaults left out. `None` means the default of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartialSampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale_2: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub true_cfg_scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guider: Option<Guider>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_range: Option<GuidanceRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dynamic_shift: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma_schedule: Option<SigmaSchedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strength: Option<f64>,
}

impl SamplingOptions {
    /// All steps, with one guidance and the plainest of everything else.
    pub fn plain(num_steps: u32, guidance_scale: f64) -> Self {
        Self {
            num_steps,
            guidance_scale,
            ..Self::default()
        }
    }

    pub fn low_guidance_scale(&self) -> f64 {
        self.guidance_scale_2.unwrap_or(self.guidance_scale)
    }

    /// Every value set, as in presets: 0 as an end or a shift means the default of the model.
    pub(crate) fn spelled_out(self) -> PartialSampling {
        PartialSampling {
            end_step: self.end_step.or(Some(0)),
            guidance_scale_2: Some(self.low_guidance_scale()),
            true_cfg_scale: self.true_cfg_scale.or(Some(1.0)),
            shift: self.shift.or(Some(0.0)),
            dynamic_shift: false,
            ..self.into()
        }
    }

    /// Every guidance, by the name of its argument.
    pub(crate) fn guidances(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("guidance", Some(self.guidance_scale)),
            ("guidance-2", self.guidance_scale_2),
            ("true-cfg", self.true_cfg_scale),
        ]
    }

    /// Returns whether any step of a model needs a second pass for the negative prompt.
    pub fn is_guided(&self, guidance_is_cfg: bool, files: &ModelFiles) -> bool {
        if guidance_is_cfg {
            self.guidance_scale > 1.0
                || (files.transformer_2.is_some() && self.low_guidance_scale() > 1.0)
        } else {
            self.true_cfg_scale.is_some_and(|scale| scale > 1.0)
        }
    }
}

impl From<SamplingOptions> for PartialSampling {
    fn from(all: SamplingOptions) -> Self {
        Self {
            num_steps: Some(all.num_steps),
            start_step: Some(all.start_step),
            end_step: all.end_step,
            guidance_scale: Some(all.guidance_scale),
            guidance_scale_2: all.guidance_scale_2,
            true_cfg_scale: all.true_cfg_scale,
            guider: Some(all.guider),
            guidance_range: Some(all.guidance_range),
            shift: all.shift,
            dynamic_shift: all.dynamic_shift,
            sampler: Some(all.sampler),
            sigma_schedule: Some(all.sigma_schedule),
            strength: all.strength,
        }
    }
}

impl PartialSampling {
    /// Keys of `presets.toml` and the names of the values that they are.
    pub(crate) const PRESET_KEYS: [(&str, &str); 5] = [
        ("steps", "num_steps"),
        ("guidance", "guidance_scale"),
        ("guidance_2", "guidance_scale_2"),
        ("true_cfg", "true_cfg_scale"),
        ("schedule", "sigma_schedule"),
    ];

    /// One guidance for each of two experts.
    pub fn guide_experts(&mut self, high: Option<f64>, low: Option<f64>) {
        (self.guidance_scale, self.guidance_scale_2) = (high, low);
    }

    /// These, and `other` where they leave something open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            num_steps: self.num_steps.or(other.num_steps),
            start_step: self.start_step.or(other.start_step),
            end_step: self.end_step.or(other.end_step),
            guidance_scale: self.guidance_scale.or(other.guidance_scale),
            guidance_scale_2: self.guidance_scale_2.or(other.guidance_scale_2),
            true_cfg_scale: self.true_cfg_scale.or(other.true_cfg_scale),
            guider: self.guider.or(other.guider),
            guidance_range: self.guidance_range.or(other.guidance_range),
            shift: self
                .shift
                .or_else(|| other.shift.filter(|_| !self.dynamic_shift)),
            dynamic_shift: self.dynamic_shift || (other.dynamic_shift && self.shift.is_none()),
            sampler: self.sampler.or(other.sampler),
            sigma_schedule: self.sigma_schedule.or(other.sigma_schedule),
            strength: self.strength.or(other.strength),
        }
    }

    /// These, and `base` where they leave something open. Whoever states one guidance alone means both experts.
    pub fn over(self, base: SamplingOptions) -> SamplingOptions {
        let base = SamplingOptions {
            guidance_scale_2: base
                .guidance_scale_2
                .filter(|_| self.guidance_scale.is_none()),
            ..base
        };
        let all = self.or(base.into());
        SamplingOptions {
            num_steps: all.num_steps.unwrap_or(base.num_steps),
            start_step: all.start_step.unwrap_or_default(),
            end_step: all.end_step,
            guidance_scale: all.guidance_scale.unwrap_or(base.guidance_scale),
            guidance_scale_2: all.guidance_scale_2,
            true_cfg_scale: all.true_cfg_scale,
            guider: all.guider.unwrap_or_default(),
            guidance_range: all.guidance_range.unwrap_or_default(),
            shift: all.shift,
            dynamic_shift: all.dynamic_shift,
            sampler: all.sampler.unwrap_or(base.sampler),
            sigma_schedule: all.sigma_schedule.unwrap_or_default(),
            strength: all.strength,
        }
    }

    /// Without what means nothing to a model.
    #[must_use]
    pub fn for_model(mut self, spec: &ModelSpec) -> Self {
        if spec.guidance == GuidanceMode::None {
            self.guidance_scale = None;
        }
        if !spec.has_two_experts() {
            self.guidance_scale_2 = None;
        }
        if spec.guidance == GuidanceMode::Cfg {
            self.true_cfg_scale = None;
        }
        if spec.defaults.sampling.strength.is_none() {
            self.strength = None;
        }
        self.dynamic_shift &= self.shift.is_none() && spec.family.has_dynamic_shift;
        self
    }

    /// Text for people: `12 steps, guidance 3.5, sampler Euler`. 0 as a shift or an end means the default of the model.
    pub fn described(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.num_steps.map(|steps| format!("{steps} steps")));
        let (start, end) = (self.start_step.unwrap_or(0), self.end_step.unwrap_or(0));
        if start > 0 || end > 0 {
            let end = if end == 0 {
                "the end".to_owned()
            } else {
                end.to_string()
            };
            parts.push(format!("steps {start} to {end}"));
        }
        match (self.guidance_scale, self.guidance_scale_2) {
            (Some(high), Some(low)) if high != low => {
                parts.push(format!("guidance {high} and {low}"));
            }
            (Some(guidance), _) => parts.push(format!("guidance {guidance}")),
            _ => {}
        }
        let real = self.true_cfg_scale.filter(|scale| *scale > 1.0);
        parts.extend(real.map(|scale| format!("CFG scale {scale}")));
        let guider = self.guider.filter(|it| *it != Guider::default());
        parts.extend(guider.map(|it| format!("guider {}", it.kind().label())));
        let range = self.guidance_range.unwrap_or_default();
        if range != GuidanceRange::default() {
            parts.push(format!("guidance in {range} of the steps"));
        }
        parts.extend(self.shift.map(|shift| match shift {
            0.0 => "the model's own shift".to_owned(),
            shift => format!("shift {shift}"),
        }));
        parts.extend(self.sampler.map(|it| format!("sampler {}", it.label())));
        parts.extend(
            self.sigma_schedule
                .map(|it| format!("schedule {}", it.label())),
        );
        parts.extend(self.strength.map(|strength| format!("strength {strength}")));
        parts.join(", ")
    }
}
