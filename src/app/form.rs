//! What the form's widgets hold, and how it becomes a [`GenerateForm`].
//!
//! Checking is `GenerateForm::validate`'s; files are not looked at here.

use std::path::PathBuf;

use safelight_core::catalog::ModelSpec;
use safelight_core::job::{
    FieldError, Fit, GenerateForm, GenerateRequest, Sampler, StartPicture, Validated, random_seed,
};
use safelight_core::settings::Settings;
use serde::{Deserialize, Serialize};

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
    pub fps: f64,
    pub num_steps: u32,
    pub guidance_scale: f64,
    pub shift: Option<f64>,
    pub sampler: Sampler,
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
            fps: 8.0,
            num_steps: 1,
            guidance_scale: 1.0,
            shift: None,
            sampler: Sampler::default(),
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
            fps: defaults.fps,
            num_steps: defaults.num_steps,
            guidance_scale: defaults.guidance_scale,
            shift: defaults.shift,
            sampler: defaults.sampler,
            seed: std::mem::take(&mut self.seed),
            is_seed_locked: self.is_seed_locked,
        };
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
            fps: request.fps,
            num_steps: request.num_steps,
            guidance_scale: request.guidance_scale,
            shift: request.shift,
            sampler: request.sampler,
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

    /// The request that the form stands for with what it changes, or all that is wrong with it.
    ///
    /// An empty prompt means the model's first example, which the prompt field shows as its hint.
    pub fn to_request(
        &self,
        spec: &ModelSpec,
        picture: Option<&StartPicture>,
        settings: &Settings,
    ) -> Result<Validated, Vec<FieldError>> {
        let size = self.size(spec);
        let seed = self.seed.trim().parse::<u64>();
        let form = GenerateForm {
            prompt: self.effective_prompt(spec).to_owned(),
            negative_prompt: Some(self.negative_prompt.clone()),
            image: picture.cloned(),
            last_image: None,
            extend: None,
            fit: self.fit,
            preset: None,
            width: size.map(|(width, _)| width),
            height: size.map(|(_, height)| height),
            num_frames: Some(self.num_frames),
            fps: Some(self.fps),
            num_steps: Some(self.num_steps),
            guidance_scale: Some(self.guidance_scale),
            guidance_scale_2: None,
            start_step: None,
            end_step: None,
            vae_tile: None,
            shift: self.shift,
            sampler: Some(self.sampler),
            seed: seed.clone().unwrap_or_default(),
            dtype: settings.runtime.dtype,
            capture: None,
            out: PathBuf::from("clip").with_extension(self.extension(settings)),
            sidecar: settings.output.sidecar,
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

    /// What will be asked for: the prompt, or the hint while there is none.
    pub fn effective_prompt<'a>(&'a self, spec: &'a ModelSpec) -> &'a str {
        if self.prompt.trim().is_empty() {
            spec.example_prompts.first().map_or("", String::as_str)
        } else {
            &self.prompt
        }
    }

    /// The kind of file: a picture for a single frame, else what the settings say.
    pub fn extension(&self, settings: &Settings) -> String {
        if self.num_frames == 1 {
            "png".to_owned()
        } else {
            settings.output.format.clone()
        }
    }
}
