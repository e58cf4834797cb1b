//! Choices of a form: size, LoRAs, and values with a default by the model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{FormProblems, GenerateForm, LiteralPrompt, StartImage};
use crate::job::{
    GenerateRequest, JobOptions, LoraChoice, OfGrid, PartialSampling, PreviewChoice, PromptImage,
    SamplingOptions, SectionOrder,
};
use crate::memory::MemoryOptions;
use crate::model::{GuidanceMode, ImageRole, InputUse, ModelSpec, SamplingPreset};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeChoice {
    /// The model's own; with a start image, its aspect where the model can make that.
    #[default]
    Auto,
    /// The model's own, also with a start image of another aspect.
    Own,
    /// About the model's area in this aspect.
    Aspect(u32, u32),
    /// By the form's width and height; one that is absent follows from the other.
    Custom,
}

/// The aspects that are offered, across and down, with their names.
pub const ASPECTS: [(u32, u32, &str); 9] = [
    (1, 1, "Square"),
    (4, 3, "Landscape"),
    (3, 2, "Photo"),
    (16, 9, "Wide"),
    (21, 9, "Cinema"),
    (3, 4, "Portrait"),
    (2, 3, "Tall photo"),
    (9, 16, "Tall"),
    (9, 21, "Tower"),
];

/// Shapes that differ by less have one name: edges are rounded to what a model makes.
const SAME_ASPECT: f64 = 0.04;

/// Returns whether a size has this aspect ratio, up to rounded edges.
pub fn is_of_aspect((width, height): (u32, u32), (across, down): (u32, u32)) -> bool {
    let aspect = |across: u32, down: u32| f64::from(across.max(1)) / f64::from(down.max(1));
    (aspect(width, height) / aspect(across, down)).ln().abs() <= SAME_ASPECT
}

/// Default duration of a video made in sections.
pub const DEFAULT_SECS: f64 = 5.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenImage {
    #[serde(flatten)]
    pub image: StartImage,
    /// 1 as the model was trained.
    pub strength: f64,
}

impl From<&ChosenImage> for PromptImage {
    fn from(chosen: &ChosenImage) -> Self {
        Self {
            path: chosen.image.path.clone(),
            strength: chosen.strength,
        }
    }
}

/// A LoRA of the form, which may be switched off and stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenLora {
    pub path: PathBuf,
    pub is_on: bool,
    /// 1 as trained.
    pub strength: f64,
    /// Strength in the low-noise expert, if it differs.
    pub strength_2: Option<f64>,
}

impl ChosenLora {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            is_on: true,
            strength: 1.0,
            strength_2: None,
        }
    }

    /// File name without its extension.
    pub fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or(self.path.as_os_str());
        stem.to_string_lossy().into_owned()
    }
}

impl From<&LoraChoice> for ChosenLora {
    fn from(lora: &LoraChoice) -> Self {
        Self {
            strength: lora.strength,
            strength_2: lora.strength_2,
            ..Self::new(lora.path.clone())
        }
    }
}

impl From<&ChosenLora> for LoraChoice {
    fn from(chosen: &ChosenLora) -> Self {
        Self {
            path: chosen.path.clone(),
            strength: chosen.strength,
            strength_2: chosen.strength_2,
        }
    }
}

impl GenerateForm {
    /// The model's own values for everything: an empty form.
    pub fn clear_to(&mut self, spec: &ModelSpec) {
        *self = Self::default();
        self.reset_to(spec);
        self.seed = super::random_seed();
    }

    /// The model's own values for everything but the prompt, the LoRAs, the seed and the grid.
    pub fn reset_to(&mut self, spec: &ModelSpec) {
        let old = std::mem::take(self);
        *self = Self {
            model: Some(spec.id.clone()),
            prompt: old.prompt,
            literal_prompt: old.literal_prompt,
            is_one_a_line: old.is_one_a_line,
            loras: old.loras,
            negative_prompt: Some(spec.defaults.negative_prompt.clone()),
            fit: old.fit,
            // Models differ in much, but the requested duration applies to all.
            secs: old.secs,
            sampling: PartialSampling {
                shift: spec.defaults.sampling.shift,
                ..PartialSampling::default()
            },
            seed: old.seed,
            typed_seed: old.typed_seed,
            seed_mode: old.seed_mode,
            grid: old.grid,
            ..Self::default()
        };
    }

    /// Only what the window shows for this model, with an answer to everything that it asks there.
    #[must_use]
    pub fn as_shown(mut self, spec: &ModelSpec) -> Self {
        let makes_images = spec.family.makes_images;
        let has_sections = spec.section_order.is_some();
        self.sampling.shift.take_if(|_| !spec.family.has_shift);
        let negative = self.negative_prompt.take();
        let is_empty = negative.as_ref().is_none_or(|text| text.trim().is_empty());
        let is_idle = is_empty && spec.guidance != GuidanceMode::Cfg;
        self.negative_prompt = negative.filter(|_| self.is_guided(spec) && !is_idle);
        // A video that is changed says itself how long it is.
        let default_frames = self
            .inputs
            .source_video
            .is_none()
            .then(|| self.num_frames_for(spec));
        let num_frames = self.num_frames.or(default_frames);
        self.num_frames = num_frames.filter(|_| !makes_images && !has_sections);
        self.secs = has_sections.then(|| self.secs_or_default());
        self.section_order = self.section_order.filter(|_| has_sections);
        let caches = (spec.family.step_caches)(&spec.variant);
        self.options.step_cache = self
            .options
            .step_cache
            .filter(|it| caches.contains(&it.kind));
        self.second_pass = self.second_pass.filter(|_| spec.has_second_pass());
        let has_rate = makes_images || self.inputs.video().is_some();
        self.fps = (!has_rate).then(|| self.fps_for(spec));
        self.sampling = self.sampling.for_model(spec);
        if !self.is_guided(spec) {
            self.sampling.guidance_range = None;
            let guider = self.sampling.guider;
            self.sampling.guider = guider.filter(|guider| !guider.needs_negative());
        }
        self.show_controls(spec.limits.controls);
        let has_base = self.inputs.image.is_some() && spec.image_role != ImageRole::FirstFrame;
        if !has_base && self.inputs.source_video.is_none() {
            self.sampling.strength = None;
        }
        (self.num_sections, self.window) = (None, None);
        self.options.max_sequence_length = None;
        self.fit = self.fit.or(Some(super::ResizeMode::Crop));
        if !spec.has_two_experts() {
            for lora in &mut self.loras {
                lora.strength_2 = None;
            }
        }
        self
    }

    pub fn sampling_for(&self, spec: &ModelSpec) -> SamplingOptions {
        self.sampling.over(spec.defaults.sampling)
    }

    pub fn num_frames_for(&self, spec: &ModelSpec) -> u32 {
        self.num_frames.unwrap_or(spec.defaults.num_frames)
    }

    pub fn fps_for(&self, spec: &ModelSpec) -> f64 {
        self.fps.unwrap_or(spec.defaults.fps)
    }

    pub fn secs_or_default(&self) -> f64 {
        self.secs.unwrap_or(DEFAULT_SECS)
    }

    pub fn is_guided(&self, spec: &ModelSpec) -> bool {
        let sampling = self.sampling_for(spec);
        sampling.is_guided(spec.guidance == GuidanceMode::Cfg, &spec.files)
    }

    /// True if a source video is regenerated rather than continued.
    pub fn changes_video(&self, spec: &ModelSpec) -> bool {
        spec.video_strength().is_some() && (self.remakes_video || !spec.can_extend())
    }

    /// Support of an end image with this form: with sections it depends on their order.
    pub fn end_image(&self, spec: &ModelSpec) -> InputUse {
        let chosen = self.section_order.filter(|_| spec.section_order.is_some());
        chosen.map_or(spec.end_image, SectionOrder::end_image)
    }

    /// Returns whether the result is an image rather than a video. A model of images makes one by default.
    pub fn makes_image(&self, spec: &ModelSpec) -> bool {
        let is_one = self.num_frames == Some(1) && spec.section_order.is_none();
        is_one || spec.family.makes_images
    }

    /// Given width and height, or those of a chosen aspect ratio.
    pub(super) fn edges(&self, spec: &ModelSpec) -> (Option<u32>, Option<u32>) {
        match self.size {
            SizeChoice::Auto => (None, None),
            SizeChoice::Own => (Some(spec.defaults.width), Some(spec.defaults.height)),
            SizeChoice::Aspect(across, down) => {
                let aspect = f64::from(across) / f64::from(down.max(1));
                let (width, height) = spec.size_for_aspect(aspect);
                (Some(width), Some(height))
            }
            SizeChoice::Custom => (self.width, self.height),
        }
    }

    /// The size that a result would have, for what is shown of it, with a start image of this size.
    pub fn shown_size(&self, spec: &ModelSpec, source: Option<(u32, u32)>) -> (u32, u32) {
        let (width, height) = self.edges(spec);
        let (own_width, own_height) = match source {
            Some((width, height)) => {
                spec.size_for_aspect(f64::from(width) / f64::from(height.max(1)))
            }
            None => (spec.defaults.width, spec.defaults.height),
        };
        (width.unwrap_or(own_width), height.unwrap_or(own_height))
    }

    pub fn set_size(&mut self, (width, height): (u32, u32)) {
        self.size = SizeChoice::Custom;
        (self.width, self.height) = (Some(width), Some(height));
    }

    /// Says a custom size by the name that it has: the model's own or the image's, or that of an aspect. `source`
    /// is the size of the start image.
    pub fn name_size(&mut self, spec: &ModelSpec, source: Option<(u32, u32)>) {
        let Some(size) = self
            .width
            .zip(self.height)
            .filter(|_| self.size == SizeChoice::Custom)
        else {
            return;
        };
        let aspects = ASPECTS.map(|(across, down, _)| SizeChoice::Aspect(across, down));
        let owns = [SizeChoice::Auto, SizeChoice::Own];
        let mut named = owns.into_iter().chain(aspects);
        let named = named.find(|choice| {
            let form = Self {
                size: *choice,
                ..Self::default()
            };
            let is_offered = *choice == SizeChoice::Auto || !spec.limits.fixed_size;
            is_offered && form.shown_size(spec, source) == size
        });
        if let Some(choice) = named {
            self.size = choice;
            (self.width, self.height) = (None, None);
        }
    }

    pub fn acting_loras(&self) -> impl Iterator<Item = &ChosenLora> {
        self.loras.iter().filter(|lora| lora.is_on)
    }

    /// Keeps the part of the schedule that is made within it, when there are fewer steps now.
    pub fn settle_part(&mut self, spec: &ModelSpec) {
        let num_steps = self.sampling_for(spec).num_steps;
        let sampling = &mut self.sampling;
        sampling.end_step = sampling.end_step.filter(|end| *end < num_steps);
        let last = sampling.end_step.unwrap_or(num_steps).saturating_sub(1);
        sampling.start_step = sampling.start_step.map(|start| start.min(last));
    }

    /// Takes over the corrected values of a checked form.
    pub fn settle(&mut self, request: &GenerateRequest) {
        if self.num_frames.is_some() {
            self.num_frames = Some(request.num_frames);
        }
        if self.size == SizeChoice::Custom {
            self.set_size(request.stated_size());
        }
    }
}

/// Everything as it was for an earlier result, its LoRAs and its seed included, which stays. Its images are only
/// named: whoever wants them opens them.
impl From<&GenerateRequest> for GenerateForm {
    fn from(request: &GenerateRequest) -> Self {
        // The prompts of a result are expanded; a contact sheet has those of its grid's form.
        let is_expanded = !matches!(request.grid, Some(OfGrid::Sheet(_)));
        let literal = |text: &String, template: &Option<String>| {
            let own = is_expanded.then_some(text);
            Some(LiteralPrompt {
                text: text.clone(),
                template: template.as_ref().or(own)?.clone(),
            })
        };
        let mut form = Self {
            model: Some(request.model.clone()),
            prompt: request.prompt.clone(),
            literal_prompt: literal(&request.prompt, &request.prompt_template),
            negative_prompt: Some(request.negative_prompt.clone()),
            literal_negative: literal(&request.negative_prompt, &request.negative_prompt_template),
            loras: request.loras.iter().map(ChosenLora::from).collect(),
            remakes_video: request.source_video.is_some(),
            keeps_unmasked: request.keeps_unmasked,
            fit: Some(request.fit),
            num_frames: Some(request.num_frames),
            secs: request.sections.map(|sections| sections.secs()),
            num_sections: request.sections.map(|sections| sections.count),
            window: request.sections.map(|sections| sections.window),
            section_order: request.sections.map(|sections| sections.order),
            second_pass: request.hires_fix(),
            fps: Some(request.fps),
            batch_size: Some(request.batch_size),
            sampling: request.sampling.into(),
            seed: request.seed,
            seed_mode: super::SeedMode::Fixed,
            options: JobOptions {
                memory: MemoryOptions::default(),
                preview: PreviewChoice::default(),
                // Results of versions without weights were made without.
                prompt_weights: Some(request.options.prompt_weights.unwrap_or_default()),
                capture: None,
                hosts: Vec::new(),
                sidecar: false,
                ..request.options.clone()
            },
            // A cell is one result; its sheet is all of them.
            grid: match &request.grid {
                Some(OfGrid::Sheet(axes)) => axes.clone(),
                Some(OfGrid::Cell { .. }) | None => Vec::new(),
            },
            ..Self::default()
        };
        form.set_size(request.stated_size());
        form
    }
}

/// Enabled LoRAs, with their authors' strength if a preset of theirs is chosen and no strength is set. Notes a few-step
/// LoRA while the steps are not set.
pub(super) fn loras(
    form: &GenerateForm,
    spec: &ModelSpec,
    chosen: Option<&SamplingPreset>,
    num_steps: u32,
    found: &mut FormProblems,
) -> Vec<LoraChoice> {
    let acting = form.acting_loras().map(|chosen_lora| {
        let mut lora = LoraChoice::from(chosen_lora);
        let Some(preset) = spec.preset_for(&lora.path) else {
            return lora;
        };
        if let Some(strength) = preset.lora_strength
            && chosen.is_some_and(|chosen| chosen.id == preset.id)
            && lora.strength == 1.0
        {
            lora.strength = strength;
        }
        if let Some(steps) = preset.sampling.num_steps.filter(|steps| *steps != num_steps) {
            let text = format!(
                    "The LoRA {} was made for {steps} steps: the preset {} ({}) sets them with all that goes with them",
                    chosen_lora.name(),
                    preset.name,
                    preset.id
                );
            found.note("lora", text);
        }
        lora
    });
    acting.collect()
}
