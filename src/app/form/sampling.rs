//! How noise becomes a clip, as the form's widgets hold it: the larger part of what presets set.

use safelight_core::job::{Sampler, SigmaSchedule};
use safelight_core::model::{Guidance, ModelSpec};
use safelight_core::presets::PresetValues;
use serde::{Deserialize, Serialize};

use crate::app::form::{FormState, has_two_experts};

/// How noise becomes a clip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    num_steps: u32,
    start_step: u32,
    end_step: Option<u32>,
    guidance_scale: f64,
    guidance_scale_2: f64,
    shift: Option<f64>,
    sampler: Sampler,
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

    /// With a preset's values over it, as far as they mean something to the model.
    pub(super) fn with(mut self, values: &PresetValues, spec: &ModelSpec) -> Self {
        self.num_steps = values.steps.unwrap_or(self.num_steps);
        self.start_step = values.start_step.unwrap_or(self.start_step);
        if let Some(end) = values.end_step {
            self.end_step = (end > 0).then_some(end);
        }
        if spec.guidance != Guidance::None {
            self.guidance_scale = values.guidance.unwrap_or(self.guidance_scale);
        }
        if has_two_experts(spec) {
            self.guidance_scale_2 = values.guidance_2.unwrap_or(self.guidance_scale_2);
        }
        if let Some(shift) = values.shift {
            self.shift = (shift > 0.0).then_some(shift);
        }
        self.sampler = values.sampler.unwrap_or(self.sampler);
        self.sigma_schedule = values.schedule.unwrap_or(self.sigma_schedule);
        self
    }
}

impl FormState {
    pub(super) fn sampling(&self) -> Sampling {
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
}
