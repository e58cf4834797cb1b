//! What the widgets and arguments hold, and how it becomes a request.
//!
//! Checks everything that can be known without opening a file; pictures and folders are checked
//! where they are opened. Sizes and numbers of frames that a model cannot make become the nearest
//! that it can, with a notice; everything else that is wrong is an error.

mod guidance;
mod inputs;
mod pictures;
mod prompts;
mod ranges;
mod sections;
mod snap;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;

use super::{
    DtypeChoice, Fit, GenerateRequest, Lora, PreviewChoice, Sampler, SectionOrder, SigmaSchedule,
    StepCache,
};
use crate::library::Companions;
use crate::media::ClipInfo;
use crate::memory::MemoryChoice;
use crate::model::{ModelSpec, Preset};

pub(crate) use ranges::wrong_shift;

/// A wish, not yet checked. `None` means the model's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateForm {
    /// What was written, until [`GenerateForm::expand_prompts`] has made of it what is read.
    pub prompt: String,
    /// What was written, once `prompt` is made of it; the same where nothing is to be made of that.
    pub prompt_template: Option<String>,
    /// As `prompt`.
    pub negative_prompt: Option<String>,
    /// As `prompt_template`.
    pub negative_prompt_template: Option<String>,
    pub image: Option<StartPicture>,
    pub last_image: Option<StartPicture>,
    /// A clip to go on from; stands in the start picture's place.
    pub extend: Option<SourceClip>,
    /// Which part of the picture is made anew: white is, black stays.
    pub mask: Option<StartPicture>,
    pub strength: Option<f64>,
    /// Stretched where absent, as diffusers does; cropped where the size is one of a few for its aspect.
    pub fit: Option<Fit>,
    /// The id of one of the model's presets: its values stand where this form has none.
    pub preset: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub num_frames: Option<u32>,
    /// Of a clip that is made in sections.
    pub secs: Option<f64>,
    /// As many as another clip had; wins over seconds and frames.
    pub num_sections: Option<u32>,
    /// Latent frames of a section.
    pub window: Option<u32>,
    pub section_order: Option<SectionOrder>,
    /// Every step is computed when absent.
    pub step_cache: Option<StepCache>,
    pub fps: Option<f64>,
    pub batch_size: Option<u32>,
    pub num_steps: Option<u32>,
    pub guidance_scale: Option<f64>,
    pub true_cfg_scale: Option<f64>,
    pub guidance_scale_2: Option<f64>,
    pub start_step: Option<u32>,
    pub end_step: Option<u32>,
    pub vae_tile: Option<u32>,
    pub memory: MemoryChoice,
    pub shift: Option<f64>,
    /// By the number of tokens, whatever the model's scheduler says.
    pub dynamic_shift: bool,
    pub sampler: Option<Sampler>,
    pub sigma_schedule: SigmaSchedule,
    pub seed: u64,
    pub max_sequence_length: Option<u32>,
    pub loras: Vec<Lora>,
    pub preview: PreviewChoice,
    pub dtype: DtypeChoice,
    pub capture: Option<PathBuf>,
    pub out: PathBuf,
    pub sidecar: bool,
}

/// A start or end picture and its size as the user sees it (after EXIF rotation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPicture {
    pub path: PathBuf,
    pub width: u32,
    pub height: u32,
}

/// A clip to go on from, and what is known of it without decoding it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceClip {
    pub path: PathBuf,
    pub info: ClipInfo,
}

/// One thing that is wrong with a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The argument's name without dashes, also the field's in the app.
    pub field: &'static str,
    /// One sentence with what was expected and found.
    pub message: String,
}

/// One thing that is done differently than the form says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// As [`FieldError::field`].
    pub field: &'static str,
    /// One sentence with what it was, what it is now, and why.
    pub message: String,
}

/// A request, and what it does differently than the form says.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    pub request: GenerateRequest,
    pub notices: Vec<Notice>,
}

/// What has been found while a form is checked.
#[derive(Default)]
struct Findings {
    errors: Vec<FieldError>,
    notices: Vec<Notice>,
}

impl Findings {
    fn fail(&mut self, field: &'static str, message: String) {
        self.errors.push(FieldError { field, message });
    }

    fn note(&mut self, field: &'static str, message: String) {
        self.notices.push(Notice { field, message });
    }
}

impl GenerateForm {
    /// The request that this form asks of this model, or all that is wrong with it.
    pub fn validate(&self, spec: &ModelSpec) -> Result<Validated, Vec<FieldError>> {
        let mut found = Findings::default();
        let spec = &*sections::in_order(self, spec);
        let preset = self.chosen_preset(spec, &mut found);
        let (width, height) = snap::size(self, spec, &mut found);
        let sections = sections::choose(self, spec, &mut found);
        let num_frames = match &sections {
            Some(sections) => sections.num_frames(),
            None => snap::frames(self, spec, &mut found),
        };
        inputs::check(self, spec, num_frames, &mut found);
        pictures::check(self, spec, &mut found);
        let guidance = guidance::choose(self, spec, preset, &mut found);
        let num_steps = self
            .num_steps
            .or_else(|| preset.map(|preset| preset.num_steps))
            .unwrap_or(spec.defaults.num_steps);
        let strength = pictures::strength(self, spec, num_steps, &mut found);
        let request = GenerateRequest {
            model: spec.id.clone(),
            family: spec.family,
            files: spec.files.clone(),
            companions: Companions::default(),
            latent_rgb: spec.latent_rgb.clone(),
            preview: self.preview,
            image_role: spec.image_role,
            prompt: self.prompt.clone(),
            prompt_template: template(self.prompt_template.as_ref(), &self.prompt),
            negative_prompt: guidance.negative_prompt,
            negative_prompt_template: template(
                self.negative_prompt_template.as_ref(),
                self.negative_prompt.as_deref().unwrap_or_default(),
            ),
            image: self.image.as_ref().map(|image| image.path.clone()),
            last_image: self.last_image.as_ref().map(|image| image.path.clone()),
            extend: self.extend.as_ref().map(|clip| clip.path.clone()),
            mask: self.mask.as_ref().map(|mask| mask.path.clone()),
            strength,
            fit: self.fit.unwrap_or_else(|| snap::own_fit(self, spec)),
            width,
            height,
            num_frames,
            sections,
            fps: self.effective_fps(spec, &mut found),
            batch_size: self.batch_size.unwrap_or(1),
            num_steps,
            guidance_scale: guidance.guidance_scale,
            true_cfg_scale: guidance.true_cfg_scale,
            guidance_scale_2: guidance.guidance_scale_2,
            start_step: self.effective_start(strength, &mut found),
            end_step: self.end_step,
            vae_tile: self.vae_tile,
            memory: self.memory,
            shift: self
                .shift
                .or_else(|| preset.and_then(|preset| preset.shift))
                .or_else(|| spec.defaults.shift_at(width, height))
                .filter(|_| !self.dynamic_shift || self.shift.is_some()),
            dynamic_shift: ranges::dynamic_shift(self, spec, &mut found),
            sampler: self
                .sampler
                .or_else(|| preset.map(|preset| preset.sampler))
                .unwrap_or(spec.defaults.sampler),
            sigma_schedule: self.sigma_schedule,
            seed: self.seed,
            max_sequence_length: self.sequence_length(spec, &mut found),
            loras: self.loras.clone(),
            step_cache: sections::step_cache(self, spec, &mut found),
            dtype: self.dtype,
            capture: self.capture.clone(),
            out: self.out.clone(),
            sidecar: self.sidecar,
        };
        ranges::check(&request, spec, &mut found);
        if found.errors.is_empty() {
            let notices = found.notices;
            Ok(Validated { request, notices })
        } else {
            Err(found.errors)
        }
    }

    /// Where a strength says where to begin, nothing else does.
    fn effective_start(&self, strength: Option<f64>, found: &mut Findings) -> u32 {
        let start = self.start_step.unwrap_or(0);
        if strength.is_some() && start > 0 {
            let why = "The start step is not used: the strength says where to begin";
            found.note("start-step", why.to_owned());
            return 0;
        }
        start
    }

    /// The tokens that are read, for the families that can read fewer.
    fn sequence_length(&self, spec: &ModelSpec, found: &mut Findings) -> Option<u32> {
        let is_fixed = (spec.family.token_limit)(spec.guidance).is_none();
        if is_fixed && self.max_sequence_length.is_some() {
            let why = format!(
                "The number of tokens is not used: {} always reads as many as it can",
                spec.name
            );
            found.note("max-sequence-length", why);
            return None;
        }
        self.max_sequence_length
    }

    fn chosen_preset<'a>(&self, spec: &'a ModelSpec, found: &mut Findings) -> Option<&'a Preset> {
        let wanted = self.preset.as_deref()?;
        let preset = spec.presets.iter().find(|preset| preset.id == wanted);
        if preset.is_none() {
            let ids: Vec<&str> = spec
                .presets
                .iter()
                .map(|preset| preset.id.as_str())
                .collect();
            let known = match &ids[..] {
                [] => format!("{} has none", spec.name),
                _ => format!("{} has {}", spec.name, ids.join(", ")),
            };
            found.fail(
                "preset",
                format!("expected the name of a preset ({known}), found {wanted:?}"),
            );
        }
        preset
    }

    /// The rate: as given, else that of the clip that is extended, else the model's default.
    fn effective_fps(&self, spec: &ModelSpec, found: &mut Findings) -> f64 {
        let clip = self.extend.as_ref().map(|clip| clip.info.fps);
        match (self.fps, clip) {
            _ if spec.family.makes_pictures => spec.defaults.fps,
            (Some(fps), _) => fps,
            (None, Some(fps)) => {
                let usable = fps.clamp(ranges::FPS.0, ranges::FPS.1);
                if usable != fps {
                    let text =
                        format!("The frame rate was changed from the clip's {fps:.3} to {usable}");
                    found.note("fps", text);
                }
                usable
            }
            (None, None) => spec.defaults.fps,
        }
    }
}

/// What a request keeps of a prompt's template: nothing where that is the prompt itself.
fn template(template: Option<&String>, prompt: &str) -> Option<String> {
    template.filter(|written| *written != prompt).cloned()
}

/// A seed that nobody chose; short enough to be read out and typed again.
pub fn random_seed() -> u64 {
    // Each `RandomState` has keys of its own: no crate is needed for one number.
    RandomState::new().build_hasher().finish() % 1_000_000_000
}

#[cfg(test)]
mod tests;
