//! Form: values of the widgets and arguments, and their conversion to a request.
//!
//! Checks everything that needs no file; images and folders are checked where they are opened. Sizes and frame counts
//! that a model cannot make become the nearest valid ones, with a notice; everything else invalid is an error.

mod choices;
mod controls;
mod guidance;
mod images;
mod inputs;
mod jobs;
mod literal;
mod outpaint;
mod problems;
mod prompt_loras;
mod ranges;
mod second_pass;
mod sections;
mod seed;
mod snap;
mod values;

use std::collections::BTreeMap;

use super::{GenerateRequest, JobOptions, PromptImage, ResizeMode, SamplingOptions};
use crate::media::VideoInfo;
use crate::model::{ComponentOverrides, ModelSpec, SamplingPreset};

pub use choices::{ASPECTS, ChosenImage, ChosenLora, DEFAULT_SECS, SizeChoice, is_of_aspect};
pub use controls::FormControl;
pub use inputs::{FormInputs, MAX_PROMPT_IMAGES, PROMPT_STRENGTHS};
pub use jobs::{ExpandedJobs, jobs_of};
pub use literal::LiteralPrompt;
pub use outpaint::margins_for;
use problems::FormProblems;
pub use problems::{FieldError, FormNotice};
pub(crate) use prompt_loras::tag_sentences;
pub(crate) use ranges::wrong_shift;
pub use seed::{SeedChoice, SeedMode, random_seed};
pub use values::{GenerateForm, InputMedia, SourceVideo, StartImage};

#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedForm {
    pub request: GenerateRequest,
    pub notices: Vec<FormNotice>,
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
        images::check(self, spec, &mut found);
        let controls = controls::settle(self, spec, &mut found);
        if let Some(typed) = &self.typed_seed {
            found.fail("seed", seed::wrong(typed));
        }
        let defaults = SamplingOptions {
            shift: spec.defaults.shift_at(first.0, first.1),
            ..spec.defaults.sampling
        };
        let requested = preset.map_or(self.sampling, |preset| self.sampling.or(preset.sampling));
        let mut sampling = requested.over(defaults);
        guidance::settle(self, spec, &mut sampling, &mut found);
        sampling.dynamic_shift = ranges::dynamic_shift(self, spec, &mut found);
        sampling.strength = images::strength(self, spec, sampling.num_steps, &mut found);
        if sampling.strength.is_some() && sampling.start_step > 0 {
            let why = "The start step is not used: the strength says where to begin";
            found.note("start-step", why);
            sampling.start_step = 0;
        }
        let (second_pass, (width, height)) =
            second_pass::settle(self, spec, first, &sampling, &mut found);
        let negative_prompt = self.negative_prompt.as_ref();
        let template = |literal: &LiteralPrompt| literal.template.clone();
        let inputs = &self.inputs;
        let path = |image: &StartImage| image.path.clone();
        let path_of_video = |video: &SourceVideo| video.path.clone();
        let request = GenerateRequest {
            model: spec.id.clone(),
            computer: spec.computer.clone(),
            copies: BTreeMap::new(),
            family: spec.family,
            files: spec.files.clone(),
            companions: ComponentOverrides::default(),
            latent_rgb: spec.latent_rgb.clone(),
            image_role: spec.image_role,
            prompt: self.prompt.clone(),
            prompt_template: self.unedited_prompt().map(template),
            negative_prompt: negative_prompt
                .unwrap_or(&spec.defaults.negative_prompt)
                .clone(),
            negative_prompt_template: self.unedited_negative().map(template),
            image: inputs.image.as_ref().map(path),
            last_image: inputs.last_image.as_ref().map(path),
            extend: inputs.extend.as_ref().map(path_of_video),
            source_video: inputs.source_video.as_ref().map(path_of_video),
            mask: inputs.mask.as_ref().map(path),
            keeps_unmasked: self.keeps_unmasked && inputs.mask.is_some(),
            references: inputs.references.iter().map(path).collect(),
            controls,
            prompt_images: inputs.prompt_images.iter().map(PromptImage::from).collect(),
            embeddings: Vec::new(),
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
            options: JobOptions {
                max_sequence_length: self.sequence_length(spec, &mut found),
                step_cache: sections::step_cache(self, spec, &mut found),
                ..self.options.clone()
            },
            loras: choices::loras(self, spec, preset, sampling.num_steps, &mut found),
            out: self.out.clone(),
            is_out_automatic: self.is_out_automatic,
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
        if is_fixed && self.options.max_sequence_length.is_some() {
            let why = format!(
                "The number of tokens is not used: {} always reads as many as it can",
                spec.name
            );
            found.note("max-sequence-length", why);
            return None;
        }
        self.options.max_sequence_length
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

    /// A video's rate and length as the model gets it.
    pub(in crate::job) fn info_for(&self, video: &SourceVideo, spec: &ModelSpec) -> VideoInfo {
        video.info.for_model(self.fps_for(spec))
    }

    /// The rate: as given, else that of a video that is extended or made anew where it is even, else the model's default.
    fn effective_fps(&self, spec: &ModelSpec, found: &mut FormProblems) -> f64 {
        // An image has none.
        let video = self.inputs.video().filter(|video| !video.info.is_uneven);
        let video = video.map(|video| video.info.fps);
        match (self.fps, video.filter(|fps| *fps > 0.0)) {
            _ if spec.family.makes_images => spec.defaults.fps,
            (Some(fps), _) => fps,
            (None, Some(fps)) => {
                let usable = fps.clamp(*ranges::FPS.start(), *ranges::FPS.end());
                if usable != fps {
                    let text =
                        format!("The frame rate was changed from the video's {fps:.3} to {usable}");
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
