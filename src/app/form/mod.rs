//! What the form's widgets hold, and how it becomes a `GenerateForm`.
//!
//! Checking is `GenerateForm::validate`'s; files are not looked at here.

mod jobs;
mod looks;
mod loras;
mod request;
mod sampling;
mod seed;

use safelight_core::job::{
    Fit, GenerateRequest, Sampler, SectionOrder, SigmaSchedule, StepCache, random_seed,
};
use safelight_core::model::{Guidance, InputUse, ModelSpec};
use serde::{Deserialize, Serialize};

use crate::app::inputs::Sources;
pub(in crate::app) use jobs::MadeJobs;
pub use looks::{ASPECTS, Look, values_of};
pub use loras::ChosenLora;
pub use sampling::Sampling;
pub use seed::SeedMode;

/// How the clip's size was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeChoice {
    /// The model's own; with a start picture, its aspect where the model can make that.
    #[default]
    Auto,
    /// About the model's area in this aspect.
    Aspect(u32, u32),
    Custom,
}

/// How long a clip that is made in sections is at first.
pub const DEFAULT_SECS: f64 = 5.0;

/// What a model makes, in the words of the interface.
pub fn thing_of(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.family.makes_pictures) {
        "picture"
    } else {
        "clip"
    }
}

/// Whether a clip of this form may end on a picture: with sections it goes by their order.
pub fn end_image(form: &FormState, spec: &ModelSpec) -> InputUse {
    let chosen = form.section_order.filter(|_| spec.section_order.is_some());
    chosen.map_or(spec.end_image, SectionOrder::end_image)
}

/// Whether one transformer works on high noise and another on low noise.
pub fn has_two_experts(spec: &ModelSpec) -> bool {
    spec.files.transformer_2.is_some()
}

/// Whether the noise schedule can be shifted by the number of tokens.
pub fn has_dynamic_shift(spec: &ModelSpec) -> bool {
    spec.family.has_dynamic_shift
}

/// Whether a batch is one job; with other models it is several.
pub fn takes_batches(spec: &ModelSpec) -> bool {
    spec.limits.max_batch > 1
}

/// The widgets' values. They belong to one model; another's are set by [`FormState::reset_to`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormState {
    pub model: Option<String>,
    pub prompt: String,
    /// Each line of the prompt is a job of its own.
    pub is_one_a_line: bool,
    pub negative_prompt: String,
    /// What changes the model, in order.
    pub loras: Vec<ChosenLora>,
    pub fit: Fit,
    pub size: SizeChoice,
    /// Used when the size is custom.
    pub width: u32,
    pub height: u32,
    pub num_frames: u32,
    /// In place of frames, for models that make clips section by section.
    pub secs: f64,
    /// The model's own when absent.
    pub section_order: Option<SectionOrder>,
    /// `None`: every step is computed.
    pub step_cache: Option<StepCache>,
    pub fps: f64,
    /// How many to make.
    pub batch_size: u32,
    /// How much of a start picture is made anew, where that means something.
    pub strength: f64,
    pub num_steps: u32,
    /// The first step that is made, from 0.
    pub start_step: u32,
    /// The step before which the schedule is left; the end when absent.
    pub end_step: Option<u32>,
    pub guidance_scale: f64,
    /// The low-noise expert's, where there is one.
    pub guidance_scale_2: f64,
    /// Classifier-free guidance, where the other one is something else; 1 is off.
    pub true_cfg_scale: f64,
    pub shift: Option<f64>,
    /// Without a shift of the user's: by the number of tokens, whatever the model's scheduler says.
    pub dynamic_shift: bool,
    pub sampler: Sampler,
    pub sigma_schedule: SigmaSchedule,
    /// What stood before a preset was taken over.
    pub before_preset: Option<Look>,
    /// Edge of the VAE's tiles in pixels; whole frames when absent.
    pub vae_tile: Option<u32>,
    /// As typed.
    pub seed: String,
    pub seed_mode: SeedMode,
}

impl Default for FormState {
    fn default() -> Self {
        Self {
            model: None,
            prompt: String::new(),
            is_one_a_line: false,
            negative_prompt: String::new(),
            loras: Vec::new(),
            fit: Fit::Crop,
            size: SizeChoice::Auto,
            width: 0,
            height: 0,
            num_frames: 1,
            secs: DEFAULT_SECS,
            section_order: None,
            step_cache: None,
            fps: 8.0,
            batch_size: 1,
            strength: 1.0,
            num_steps: 1,
            start_step: 0,
            end_step: None,
            guidance_scale: 1.0,
            guidance_scale_2: 1.0,
            true_cfg_scale: 1.0,
            shift: None,
            dynamic_shift: false,
            sampler: Sampler::default(),
            sigma_schedule: SigmaSchedule::default(),
            before_preset: None,
            vae_tile: None,
            seed: random_seed().to_string(),
            seed_mode: SeedMode::default(),
        }
    }
}

impl FormState {
    /// The model's own values for everything but the prompt, the LoRAs and the seed.
    pub fn reset_to(&mut self, spec: &ModelSpec) {
        let defaults = &spec.defaults;
        *self = Self {
            model: Some(spec.id.clone()),
            prompt: std::mem::take(&mut self.prompt),
            is_one_a_line: self.is_one_a_line,
            loras: std::mem::take(&mut self.loras),
            negative_prompt: defaults.negative_prompt.clone(),
            fit: self.fit,
            size: SizeChoice::Auto,
            width: defaults.width,
            height: defaults.height,
            num_frames: defaults.num_frames,
            // Models differ in many things, and the wish for a length in none.
            secs: self.secs,
            fps: defaults.fps,
            strength: defaults.strength.unwrap_or(1.0),
            seed: std::mem::take(&mut self.seed),
            seed_mode: self.seed_mode,
            ..Self::default()
        };
        self.set_sampling(Sampling::of_model(spec));
    }

    /// Everything as it was for an earlier clip, its LoRAs and its seed included, which stays.
    pub fn take_over(&mut self, request: &GenerateRequest) {
        *self = Self {
            model: Some(request.model.clone()),
            prompt: request.prompt.clone(),
            is_one_a_line: false,
            loras: request.loras.iter().map(ChosenLora::from).collect(),
            negative_prompt: request.negative_prompt.clone(),
            fit: request.fit,
            size: SizeChoice::Custom,
            width: request.width,
            height: request.height,
            num_frames: request.num_frames,
            secs: request
                .sections
                .map_or(DEFAULT_SECS, |sections| sections.secs()),
            section_order: request.sections.map(|sections| sections.order),
            step_cache: request.step_cache,
            fps: request.fps,
            batch_size: request.batch_size,
            strength: request.strength.unwrap_or(1.0),
            num_steps: request.num_steps,
            start_step: request.start_step,
            end_step: request.end_step,
            guidance_scale: request.guidance_scale,
            guidance_scale_2: request.low_guidance_scale(),
            true_cfg_scale: request.true_cfg_scale.unwrap_or(1.0),
            shift: request.shift,
            dynamic_shift: request.dynamic_shift,
            sampler: request.sampler,
            sigma_schedule: request.sigma_schedule,
            before_preset: None,
            vae_tile: request.vae_tile,
            seed: request.seed.to_string(),
            seed_mode: SeedMode::Fixed,
        };
    }

    /// The width and height that a size choice stands for; `None` leaves it to the model.
    pub fn size(&self, spec: &ModelSpec) -> Option<(u32, u32)> {
        match self.size {
            SizeChoice::Auto => None,
            SizeChoice::Aspect(across, down) => {
                Some(spec.size_for_aspect(f64::from(across) / f64::from(down.max(1))))
            }
            SizeChoice::Custom => Some((self.width, self.height)),
        }
    }

    /// The size that a clip would have, for what is shown of it.
    pub fn shown_size(&self, spec: &ModelSpec, sources: Sources<'_>) -> (u32, u32) {
        self.size(spec).unwrap_or_else(|| match sources.size() {
            Some((width, height)) => {
                spec.size_for_aspect(f64::from(width) / f64::from(height.max(1)))
            }
            None => (spec.defaults.width, spec.defaults.height),
        })
    }

    /// Whether a negative prompt counts in any step.
    pub fn is_guided(&self, spec: &ModelSpec) -> bool {
        match spec.guidance {
            Guidance::Cfg => {
                self.guidance_scale > 1.0 || (has_two_experts(spec) && self.guidance_scale_2 > 1.0)
            }
            Guidance::Distilled | Guidance::None => self.true_cfg_scale > 1.0,
        }
    }

    /// Keeps the part of the schedule that is made within it, when there are fewer steps now.
    pub fn settle_part(&mut self) {
        self.end_step = self.end_step.filter(|end| *end < self.num_steps);
        let end = self.end_step.unwrap_or(self.num_steps);
        self.start_step = self.start_step.min(end.saturating_sub(1));
    }

    /// Takes over what a checked form was changed to.
    pub fn settle(&mut self, request: &GenerateRequest) {
        self.num_frames = request.num_frames;
        if self.size == SizeChoice::Custom {
            (self.width, self.height) = (request.width, request.height);
        }
    }
}
