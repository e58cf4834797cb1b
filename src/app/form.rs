//! What the form's widgets hold, and how it becomes a [`GenerateForm`].
//!
//! Checking is `GenerateForm::validate`'s; files are not looked at here.

use std::path::PathBuf;

use safelight_core::catalog::{Guidance, InputUse, ModelSpec, Preset};
use safelight_core::job::{
    FieldError, Fit, GenerateForm, GenerateRequest, Sampler, SectionOrder, SigmaSchedule,
    StepCache, Validated, random_seed,
};
use safelight_core::settings::Settings;
use serde::{Deserialize, Serialize};

use super::inputs::Sources;

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
const DEFAULT_SECS: f64 = 5.0;

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
    fn of_model(spec: &ModelSpec) -> Self {
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

    fn of_preset(preset: &Preset, spec: &ModelSpec) -> Self {
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

/// What a model makes, in the words of the interface.
pub fn thing_of(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.family.makes_pictures()) {
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
    pub negative_prompt: String,
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
    pub sampler: Sampler,
    pub sigma_schedule: SigmaSchedule,
    /// What stood before a preset was taken over.
    pub before_preset: Option<Sampling>,
    /// Edge of the VAE's tiles in pixels; whole frames when absent.
    pub vae_tile: Option<u32>,
    /// As typed.
    pub seed: String,
    pub is_seed_locked: bool,
}

impl Default for FormState {
    fn default() -> Self {
        Self {
            model: None,
            prompt: String::new(),
            negative_prompt: String::new(),
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
            sampler: Sampler::default(),
            sigma_schedule: SigmaSchedule::default(),
            before_preset: None,
            vae_tile: None,
            seed: random_seed().to_string(),
            is_seed_locked: false,
        }
    }
}

impl FormState {
    /// The model's own values for everything but the prompt and the seed.
    pub fn reset_to(&mut self, spec: &ModelSpec) {
        let defaults = &spec.defaults;
        *self = Self {
            model: Some(spec.id.clone()),
            prompt: std::mem::take(&mut self.prompt),
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
            is_seed_locked: self.is_seed_locked,
            ..Self::default()
        };
        self.set_sampling(Sampling::of_model(spec));
    }

    /// Everything as it was for an earlier clip, its seed included and locked.
    pub fn take_over(&mut self, request: &GenerateRequest) {
        *self = Self {
            model: Some(request.model.clone()),
            prompt: request.prompt.clone(),
            negative_prompt: request.negative_prompt.clone(),
            fit: request.fit,
            size: SizeChoice::Custom,
            width: request.width,
            height: request.height,
            num_frames: request.num_frames,
            secs: request.sections.map_or(DEFAULT_SECS, |sections| {
                // Exactly as many sections come of it again.
                f64::from(sections.count * sections.frames_a_section()) / 30.0
            }),
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
            sampler: request.sampler,
            sigma_schedule: request.sigma_schedule,
            before_preset: None,
            vae_tile: request.vae_tile,
            seed: request.seed.to_string(),
            is_seed_locked: true,
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

    fn set_sampling(&mut self, sampling: Sampling) {
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

    /// The request that the form stands for with what it changes, or all that is wrong with it.
    ///
    /// An empty prompt means the model's first example, which the prompt field shows as its hint. A
    /// clip that is gone on from keeps its rate.
    pub fn to_request(
        &self,
        spec: &ModelSpec,
        sources: Sources<'_>,
        settings: &Settings,
    ) -> Result<Validated, Vec<FieldError>> {
        let size = self.size(spec);
        let seed = self.seed.trim().parse::<u64>();
        let makes_pictures = spec.family.makes_pictures();
        let has_sections = spec.section_order.is_some();
        let has_strength = spec.defaults.strength.is_some() && sources.image.is_some();
        let form = GenerateForm {
            prompt: self.effective_prompt(spec).to_owned(),
            negative_prompt: self.wanted_negative(spec),
            image: sources.image.cloned(),
            last_image: sources.last_image.cloned(),
            extend: sources.extend.cloned(),
            mask: sources.mask.cloned(),
            strength: has_strength.then_some(self.strength),
            fit: Some(self.fit),
            preset: None,
            width: size.map(|(width, _)| width),
            height: size.map(|(_, height)| height),
            num_frames: (!makes_pictures && !has_sections).then_some(self.num_frames),
            secs: has_sections.then_some(self.secs),
            section_order: self.section_order.filter(|_| has_sections),
            step_cache: self.step_cache.filter(|_| has_sections),
            fps: (!makes_pictures && sources.extend.is_none()).then_some(self.fps),
            batch_size: takes_batches(spec).then_some(self.batch_size),
            num_steps: Some(self.num_steps),
            guidance_scale: (spec.guidance != Guidance::None).then_some(self.guidance_scale),
            true_cfg_scale: (spec.guidance != Guidance::Cfg).then_some(self.true_cfg_scale),
            guidance_scale_2: has_two_experts(spec).then_some(self.guidance_scale_2),
            start_step: Some(self.start_step),
            end_step: self.end_step,
            vae_tile: self.vae_tile,
            memory: settings.memory.choice(),
            shift: self.shift,
            sampler: Some(self.sampler),
            sigma_schedule: self.sigma_schedule,
            seed: seed.clone().unwrap_or_default(),
            dtype: settings.runtime.dtype,
            capture: None,
            out: PathBuf::from("result").with_extension(self.extension(spec, settings)),
            sidecar: settings.output.sidecar,
            ..GenerateForm::default()
        };
        let mut checked = form.validate(spec);
        if seed.is_err() {
            let err = FieldError {
                field: "seed",
                message: format!(
                    "expected a whole number from 0 to {} as the seed, found {:?}",
                    u64::MAX,
                    self.seed
                ),
            };
            match &mut checked {
                Ok(_) => checked = Err(vec![err]),
                Err(errors) => errors.push(err),
            }
        }
        checked
    }

    /// The negative prompt where it is shown; an empty one says nothing to a model without one of its own.
    fn wanted_negative(&self, spec: &ModelSpec) -> Option<String> {
        let text = &self.negative_prompt;
        let is_idle = spec.guidance != Guidance::Cfg && text.trim().is_empty();
        (self.is_guided(spec) && !is_idle).then(|| text.clone())
    }

    /// What will be asked for: the prompt, or the hint while there is none.
    pub fn effective_prompt<'a>(&'a self, spec: &'a ModelSpec) -> &'a str {
        if self.prompt.trim().is_empty() {
            spec.example_prompts.first().map_or("", String::as_str)
        } else {
            &self.prompt
        }
    }

    /// The kind of file: a picture for a single frame, else what the settings say.
    pub fn extension(&self, spec: &ModelSpec, settings: &Settings) -> String {
        let is_picture = self.num_frames == 1 && spec.section_order.is_none();
        if is_picture || spec.family.makes_pictures() {
            "png".to_owned()
        } else {
            settings.output.format.clone()
        }
    }
}
