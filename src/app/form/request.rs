//! How the form becomes a [`GenerateForm`], and is checked.

use std::path::PathBuf;

use safelight_core::job::{FieldError, GenerateForm, Validated};
use safelight_core::model::{Guidance, ModelSpec};
use safelight_core::settings::Settings;

use crate::app::form::{FormState, has_dynamic_shift, has_two_experts, takes_batches};
use crate::app::inputs::Sources;

impl FormState {
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
        let makes_pictures = spec.family.makes_pictures;
        let has_sections = spec.section_order.is_some();
        let has_strength = spec.defaults.strength.is_some() && sources.image.is_some();
        let form = GenerateForm {
            prompt: self.prompts(spec).into_iter().next().unwrap_or_default(),
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
            loras: self.acting_loras(spec),
            shift: self.shift,
            dynamic_shift: self.dynamic_shift && self.shift.is_none() && has_dynamic_shift(spec),
            sampler: Some(self.sampler),
            sigma_schedule: self.sigma_schedule,
            seed: seed.clone().unwrap_or_default(),
            preview: settings.interface.preview,
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

    /// Whether a picture comes of it, and no clip.
    pub fn makes_picture(&self, spec: &ModelSpec) -> bool {
        let is_one = self.num_frames == 1 && spec.section_order.is_none();
        is_one || spec.family.makes_pictures
    }

    /// The kind of file: a picture for a single frame, else what the settings say.
    pub fn extension(&self, spec: &ModelSpec, settings: &Settings) -> String {
        if self.makes_picture(spec) {
            "png".to_owned()
        } else {
            settings.output.format.clone()
        }
    }
}
