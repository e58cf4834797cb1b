//! Form: values of the widgets and arguments, and their conversion to a request.
//!
//! Checks everything that needs no file; images and folders are checked where they are opened. Sizes and frame counts
//! that a model cannot make become the nearest valid ones, with a notice; everything else invalid is an error.

mod choices;
mod controls;
mod guidance;
mod inputs;
mod jobs;
mod literal;
mod outpaint;
mod pictures;
mod prompt_loras;
mod ranges;
mod second_pass;
mod sections;
mod seed;
mod snap;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    DtypeChoice, GenerateRequest, GridAxis, PartialSampling, PreviewChoice, PromptPicture,
    ResizeMode, SamplingOptions, SecondPass, SectionOrder, StepCache,
};
use crate::media::ClipInfo;
use crate::memory::MemoryOptions;
use crate::model::ComponentOverrides;
use crate::model::{ModelSpec, SamplingPreset};
use crate::presets::PresetValues;

pub use choices::{ASPECTS, ChosenLora, ChosenPicture, DEFAULT_SECS, SizeChoice, is_of_aspect};
pub use controls::FormControl;
pub use inputs::{MAX_PROMPT_PICTURES, PROMPT_STRENGTHS};
pub use jobs::{ExpandedJobs, jobs_of};
pub use literal::LiteralPrompt;
pub use outpaint::margins_for;
pub(crate) use prompt_loras::tag_sentences;
pub(crate) use ranges::wrong_shift;
pub use seed::{SeedChoice, SeedMode, random_seed};

/// Values of the widgets and arguments, not yet checked. `None` means the default of the model.
///
/// The window keeps its images and settings separately, and fills them in before it requests jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateForm {
    pub model: Option<String>,
    pub prompt: String,
    /// True if each line of the prompt is a separate job.
    pub is_one_a_line: bool,
    /// Text that is not expanded, see [`Self::unedited_prompt`].
    #[serde(skip_serializing_if = "is_default")]
    pub literal_prompt: Option<LiteralPrompt>,
    pub negative_prompt: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub literal_negative: Option<LiteralPrompt>,
    pub loras: Vec<ChosenLora>,
    #[serde(skip_serializing_if = "is_default")]
    pub image: Option<StartPicture>,
    #[serde(skip_serializing_if = "is_default")]
    pub last_image: Option<StartPicture>,
    /// Video to extend; takes the place of the start image.
    #[serde(skip_serializing_if = "is_default")]
    pub extend: Option<SourceClip>,
    /// A clip, or for one frame a picture, that the new one is made of, as far as the strength says.
    #[serde(skip_serializing_if = "is_default")]
    pub source_clip: Option<SourceClip>,
    /// A clip in the start picture's place is made anew where the model could continue it, too. Only the window asks.
    #[serde(skip_serializing_if = "is_default")]
    pub remakes_clip: bool,
    /// Mask of the start image: white is regenerated, black is kept.
    #[serde(skip_serializing_if = "is_default")]
    pub mask: Option<StartPicture>,
    /// Keeps unmasked pixels exactly, also in inpainting models.
    #[serde(skip_serializing_if = "is_default")]
    pub keeps_unmasked: bool,
    /// Reference images, in the order in which a prompt counts them.
    #[serde(skip_serializing_if = "is_default")]
    pub references: Vec<StartPicture>,
    #[serde(skip_serializing_if = "is_default")]
    pub controls: Vec<FormControl>,
    #[serde(skip_serializing_if = "is_default")]
    pub prompt_pictures: Vec<ChosenPicture>,
    /// Stretched where absent, as diffusers does; cropped where the size is one of a few for its aspect.
    pub fit: Option<ResizeMode>,
    /// Id of one of the model's presets, which provides values that this form does not set.
    #[serde(skip_serializing_if = "is_default")]
    pub preset: Option<String>,
    pub size: SizeChoice,
    /// Used when the size is custom.
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// Off if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub second_pass: Option<SecondPass>,
    pub num_frames: Option<u32>,
    /// Of a clip that is made in sections.
    pub secs: Option<f64>,
    /// As many as another clip had; wins over seconds and frames.
    #[serde(skip_serializing_if = "is_default")]
    pub num_sections: Option<u32>,
    /// Latent frames of a section.
    #[serde(skip_serializing_if = "is_default")]
    pub window: Option<u32>,
    pub section_order: Option<SectionOrder>,
    /// Every step is computed when absent.
    pub step_cache: Option<StepCache>,
    pub fps: Option<f64>,
    pub batch_size: Option<u32>,
    #[serde(flatten)]
    pub sampling: PartialSampling,
    /// Values before a preset was applied.
    pub before_preset: Option<Box<PresetValues>>,
    /// Edge of the VAE's tiles in pixels; whole frames when absent.
    pub vae_tile: Option<u32>,
    /// Seed of the first result.
    pub seed: u64,
    /// Text of the seed's field while it is no number.
    #[serde(skip_serializing_if = "is_default")]
    pub typed_seed: Option<String>,
    pub seed_mode: SeedMode,
    #[serde(skip_serializing_if = "is_default")]
    pub max_sequence_length: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub memory: MemoryOptions,
    #[serde(skip_serializing_if = "is_default")]
    pub preview: PreviewChoice,
    #[serde(skip_serializing_if = "is_default")]
    pub dtype: DtypeChoice,
    #[serde(skip_serializing_if = "is_default")]
    pub capture: Option<PathBuf>,
    /// The file to write, or one of its kind.
    #[serde(skip_serializing_if = "is_default")]
    pub out: PathBuf,
    #[serde(skip_serializing_if = "is_default")]
    pub sidecar: bool,
    /// The settings that are varied, one or two, each with its values: a job for each cell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<GridAxis>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A start or end picture and its size as the user sees it (after EXIF rotation).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartPicture {
    pub path: PathBuf,
    pub width: u32,
    pub height: u32,
}

/// A clip that is given, and what is known of it without decoding it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceClip {
    pub path: PathBuf,
    pub info: ClipInfo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InputMedia {
    Clip(SourceClip),
    Picture(StartPicture),
}

impl InputMedia {
    pub fn path(&self) -> &Path {
        match self {
            Self::Picture(picture) => &picture.path,
            Self::Clip(clip) => &clip.path,
        }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Self::Picture(picture) => (picture.width, picture.height),
            Self::Clip(clip) => (clip.info.width, clip.info.height),
        }
    }

    pub fn file_name(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The argument's name without dashes, also the field's in the app.
    pub field: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormNotice {
    /// As [`FieldError::field`].
    pub field: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedForm {
    pub request: GenerateRequest,
    pub notices: Vec<FormNotice>,
}

#[derive(Default)]
struct FormProblems {
    errors: Vec<FieldError>,
    notices: Vec<FormNotice>,
}

impl FormProblems {
    fn fail(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.errors.push(FieldError { field, message });
    }

    fn note(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.notices.push(FormNotice { field, message });
    }
}

impl GenerateForm {
    /// The request that this form asks of this model, or all that is wrong with it.
    pub fn validate(&self, spec: &ModelSpec) -> Result<ValidatedForm, Vec<FieldError>> {
        let mut found = FormProblems::default();
        let spec = &*sections::in_order(self, spec);
        let preset = self.chosen_preset(spec, &mut found);
        let first = snap::size(self, spec, &mut found);
        let sections = sections::choose(self, spec, &mut found);
        let num_frames = match &sections {
            Some(sections) => sections.num_frames(),
            None => snap::frames(self, spec, &mut found),
        };
        inputs::check(self, spec, num_frames, &mut found);
        pictures::check(self, spec, &mut found);
        let controls = controls::settle(self, spec, &mut found);
        if let Some(typed) = &self.typed_seed {
            found.fail("seed", seed::wrong(typed));
        }
        let defaults = SamplingOptions {
            shift: spec.defaults.shift_at(first.0, first.1),
            ..spec.defaults.sampling
        };
        let wish = preset.map_or(self.sampling, |preset| self.sampling.or(preset.sampling));
        let mut sampling = wish.over(defaults);
        guidance::settle(self, spec, &mut sampling, &mut found);
        sampling.dynamic_shift = ranges::dynamic_shift(self, spec, &mut found);
        sampling.strength = pictures::strength(self, spec, sampling.num_steps, &mut found);
        if sampling.strength.is_some() && sampling.start_step > 0 {
            let why = "The start step is not used: the strength says where to begin";
            found.note("start-step", why);
            sampling.start_step = 0;
        }
        let (second_pass, (width, height)) =
            second_pass::settle(self, spec, first, &sampling, &mut found);
        let negative_prompt = self.negative_prompt.as_ref();
        let template = |literal: &LiteralPrompt| literal.template.clone();
        let request = GenerateRequest {
            model: spec.id.clone(),
            family: spec.family,
            files: spec.files.clone(),
            companions: ComponentOverrides::default(),
            latent_rgb: spec.latent_rgb.clone(),
            preview: self.preview,
            image_role: spec.image_role,
            prompt: self.prompt.clone(),
            prompt_template: self.unedited_prompt().map(template),
            negative_prompt: negative_prompt
                .unwrap_or(&spec.defaults.negative_prompt)
                .clone(),
            negative_prompt_template: self.unedited_negative().map(template),
            image: self.image.as_ref().map(|image| image.path.clone()),
            last_image: self.last_image.as_ref().map(|image| image.path.clone()),
            extend: self.extend.as_ref().map(|clip| clip.path.clone()),
            source_clip: self.source_clip.as_ref().map(|clip| clip.path.clone()),
            mask: self.mask.as_ref().map(|mask| mask.path.clone()),
            keeps_unmasked: self.keeps_unmasked && self.mask.is_some(),
            references: self.references.iter().map(|it| it.path.clone()).collect(),
            controls,
            prompt_pictures: self
                .prompt_pictures
                .iter()
                .map(PromptPicture::from)
                .collect(),
            fit: self.fit.unwrap_or_else(|| snap::own_fit(self, spec)),
            width,
            height,
            second_pass,
            num_frames,
            sections,
            fps: self.effective_fps(spec, &mut found),
            batch_size: self.batch_size.unwrap_or(1),
            sampling,
            seed: self.seed,
            vae_tile: self.vae_tile,
            memory: self.memory,
            max_sequence_length: self.sequence_length(spec, &mut found),
            loras: choices::loras(self, spec, preset, sampling.num_steps, &mut found),
            step_cache: sections::step_cache(self, spec, &mut found),
            dtype: self.dtype,
            capture: self.capture.clone(),
            out: self.out.clone(),
            is_out_automatic: false,
            sidecar: self.sidecar,
            grid: None,
        };
        ranges::check(&request, spec, &mut found);
        prompt_loras::note(&request, &mut found);
        if found.errors.is_empty() {
            let notices = found.notices;
            Ok(ValidatedForm { request, notices })
        } else {
            Err(found.errors)
        }
    }

    /// The tokens that are read, for the families that can read fewer.
    fn sequence_length(&self, spec: &ModelSpec, found: &mut FormProblems) -> Option<u32> {
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

    fn chosen_preset<'a>(
        &self,
        spec: &'a ModelSpec,
        found: &mut FormProblems,
    ) -> Option<&'a SamplingPreset> {
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
            found.fail("preset", format!("there is no preset {wanted:?} ({known})"));
        }
        preset
    }

    /// The clip that gives the new one its rate and, where nothing else says it, its shape.
    pub(in crate::job) fn leading_clip(&self) -> Option<&SourceClip> {
        self.extend.as_ref().or(self.source_clip.as_ref())
    }

    /// A clip's rate and length as the model gets it.
    pub(in crate::job) fn info_for(&self, clip: &SourceClip, spec: &ModelSpec) -> ClipInfo {
        clip.info.for_model(self.fps_for(spec))
    }

    /// The rate: as given, else that of a clip that is extended or made anew where it is even, else the model's default.
    fn effective_fps(&self, spec: &ModelSpec, found: &mut FormProblems) -> f64 {
        // A picture has none.
        let clip = self.leading_clip().filter(|clip| !clip.info.is_uneven);
        let clip = clip.map(|clip| clip.info.fps);
        match (self.fps, clip.filter(|fps| *fps > 0.0)) {
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

#[cfg(test)]
mod tests;
