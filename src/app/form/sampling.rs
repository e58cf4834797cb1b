//! How noise becomes a clip, as the form's widgets hold it: what presets set.

use safelight_core::catalog::{ModelSpec, Preset};
use safelight_core::job::{Sampler, SigmaSchedule};
use serde::{Deserialize, Serialize};

use crate::app::form::FormState;

/// How noise becomes a clip: what a preset sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    num_steps: u32,
    start_step: u32,
    end_step: Option<u32>,
    guidance_scale: f64,
    guidance_scale_2: f64,
    shift: Option<f64>,
    sampler: Sampler,
    #[serde(default)]
    sigma_schedule: SigmaSchedule,
}

impl Sampling {
    /// The model's own values.
    pub(super) fn of_model(spec: &ModelSpec) -> Self {
        let defaults = &spec.defaults;
        Self {
            num_steps: defaults.num_steps,
            start_step: 0,
            end_step: None,
            guidance_scale: defaults.guidance_scale,
            guidance_scale_2: defaults.guidance_scale_2.unwrap_or(defaults.guidance_scale),
            shift: defaults.shift,
            sampler: defaults.sampler,
            sigma_schedule: SigmaSchedule::default(),
        }
    }

    pub(super) fn of_preset(preset: &Preset, spec: &ModelSpec) -> Self {
        Self {
            num_steps: preset.num_steps,
            start_step: 0,
            end_step: None,
            guidance_scale: preset.guidance_scale,
            guidance_scale_2: preset.guidance_scale,
            shift: preset.shift.or(spec.defaults.shift),
            sampler: preset.sampler,
            sigma_schedule: SigmaSchedule::default(),
        }
    }
}

impl FormState {
    fn sampling(&self) -> Sampling {
        Sampling {
            num_steps: self.num_steps,
            start_step: self.start_step,
            end_step: self.end_step,
            guidance_scale: self.guidance_scale,
            guidance_scale_2: self.guidance_scale_2,
            shift: self.shift,
            sampler: self.sampler,
            sigma_schedule: self.sigma_schedule,
        }
    }

    pub(super) fn set_sampling(&mut self, sampling: Sampling) {
        // Written out: a new field has to be thought of here too.
        Sampling {
            num_steps: self.num_steps,
            start_step: self.start_step,
            end_step: self.end_step,
            guidance_scale: self.guidance_scale,
            guidance_scale_2: self.guidance_scale_2,
            shift: self.shift,
            sampler: self.sampler,
            sigma_schedule: self.sigma_schedule,
        } = sampling;
    }

    /// The preset whose values the form has.
    pub fn preset<'a>(&self, spec: &'a ModelSpec) -> Option<&'a Preset> {
        let sampling = self.sampling();
        spec.presets
            .iter()
            .find(|preset| Sampling::of_preset(preset, spec) == sampling)
    }

    /// Takes a preset's values, and keeps those that stood before for [`Self::undo_preset`].
    pub fn apply_preset(&mut self, preset: &Preset, spec: &ModelSpec) {
        if self.before_preset.is_none() && self.preset(spec).is_none() {
            self.before_preset = Some(self.sampling());
        }
        self.set_sampling(Sampling::of_preset(preset, spec));
    }

    /// The values that stood before the preset, or the model's own when it came with the form.
    pub fn undo_preset(&mut self, spec: &ModelSpec) {
        let before = self.before_preset.take();
        self.set_sampling(before.unwrap_or_else(|| Sampling::of_model(spec)));
    }
}
