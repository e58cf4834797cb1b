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

/// Complete and partial sampling options of one list of fields: values that every model has, then optional ones.
macro_rules! sampling_options {
    (
        values { $($(#[$of_value:meta])* $value:ident: $value_type:ty,)+ }
        options { $($(#[$of_option:meta])* $option:ident: $option_type:ty,)+ }
    ) => {
        /// Sampling options, complete.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct SamplingOptions {
            $($(#[$of_value])* pub $value: $value_type,)+
            $(
                $(#[$of_option])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $option: Option<$option_type>,
            )+
            /// True if the shift depends on the number of tokens although the model's scheduler has a fixed one.
            /// Excludes `shift`.
            #[serde(default, skip_serializing_if = "is_default")]
            pub dynamic_shift: bool,
        }

        /// Sampling options with defaults left out. `None` means the default of the model.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct PartialSampling {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $value: Option<$value_type>,
            )+
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $option: Option<$option_type>,
            )+
            #[serde(skip_serializing_if = "is_default")]
            pub dynamic_shift: bool,
        }

        impl From<SamplingOptions> for PartialSampling {
            fn from(all: SamplingOptions) -> Self {
                Self {
                    $($value: Some(all.$value),)+
                    $($option: all.$option,)+
                    dynamic_shift: all.dynamic_shift,
                }
            }
        }

        impl PartialSampling {
            /// These, and `other` where they leave something open.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                let mut all = Self {
                    $($value: self.$value.or(other.$value),)+
                    $($option: self.$option.or(other.$option),)+
                    dynamic_shift: self.dynamic_shift || (other.dynamic_shift && self.shift.is_none()),
                };
                all.shift = all.shift.filter(|_| self.shift.is_some() || !self.dynamic_shift);
                all
            }

            /// These, and `base` where they leave something open. Whoever states one guidance alone means both experts.
            pub fn over(self, mut base: SamplingOptions) -> SamplingOptions {
                if self.guidance_scale.is_some() {
                    base.guidance_scale_2 = None;
                }
                let all = self.or(base.into());
                SamplingOptions {
                    $($value: all.$value.unwrap_or(base.$value),)+
                    $($option: all.$option,)+
                    dynamic_shift: all.dynamic_shift,
                }
            }
        }
    };
}

sampling_options! {
    values {
        num_steps: u32,
        /// The first step of the schedule that is made, counted from 0.
        #[serde(default)]
        start_step: u32,
        /// Guidance scale in the family's sense: classifier-free in Wan (two passes per step above 1), the embedded value
        /// of a distilled model in Flux and FramePack.
        guidance_scale: f64,
        /// Guider of the guided steps.
        #[serde(default, skip_serializing_if = "is_default")]
        guider: Guider,
        #[serde(default, skip_serializing_if = "is_default")]
        guidance_range: GuidanceRange,
        sampler: SamplerKind,
        #[serde(default)]
        sigma_schedule: SigmaSchedule,
    }
    options {
        /// The step before which the schedule is left; what noise is left then stays. The end when absent.
        end_step: u32,
        /// The low-noise expert's guidance; that of the high-noise one when absent.
        guidance_scale_2: f64,
        /// Classifier-free guidance of models whose `guidance_scale` is another thing; two passes a step when above 1.
        true_cfg_scale: f64,
        /// The schedule's shift; the model's own when absent, which in families that shift by the number of tokens is
        /// that (Flux dev, FramePack).
        shift: f64,
        /// Denoising strength of a start image, 0 to 1, for models that start from a noised image.
        strength: f64,
    }
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
