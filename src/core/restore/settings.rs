//! Settings of another program's file.

use serde::Serialize;
use serde_json::Value;

use super::controls::RestoredControl;
use super::loras::RestoredLora;
use super::names::short;
use super::{fields, names};
use crate::job::prompt::{BracketUse, PromptWeights};
use crate::job::{SamplerKind, SecondPass, SectionOrder, SigmaSchedule, StepCache};
use crate::model::ModelFamily;

/// Settings of another program's file; `None` where it does not say them, or where they mean nothing here.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ForeignSettings {
    pub tool: String,
    /// Node of a workflow that saves this result, such as "Save Image (node 9)"; `None` of other files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// `None` where the file has none, or one that could not be read.
    pub prompt: Option<String>,
    pub negative_prompt: Option<String>,
    pub prompt_weights: PromptWeights,
    /// Sentence on the prompt that could not be read, while no other text of the file has it.
    #[serde(skip)]
    pub unread_prompt: Option<String>,
    /// Sentence on the size that could not be read.
    #[serde(skip)]
    pub unread_size: Option<String>,
    /// The file may have another size than was generated.
    #[serde(skip)]
    pub is_resized: bool,
    /// The model's file or name, as the program calls it; with two experts that for high noise.
    pub model: Option<String>,
    /// The expert for low noise.
    pub model_2: Option<String>,
    /// As the program wrote it, mostly the beginning of a SHA-256.
    pub model_hash: Option<String>,
    /// `None` where the file says it by a name alone.
    pub family: Option<ModelFamily>,
    pub seed: Option<u64>,
    /// Its seed is -1: a new one each time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_random_seed: bool,
    pub num_steps: Option<u32>,
    pub sampler: Option<SamplerKind>,
    pub sigma_schedule: Option<SigmaSchedule>,
    /// Classifier-free guidance, by two passes.
    pub cfg_scale: Option<f64>,
    /// CFG scale of the low-noise expert.
    pub cfg_scale_2: Option<f64>,
    /// Guidance that distilled models embed.
    pub distilled_guidance: Option<f64>,
    pub shift: Option<f64>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub num_frames: Option<u32>,
    pub fps: Option<f64>,
    pub secs: Option<f64>,
    /// Denoising strength.
    pub strength: Option<f64>,
    pub section_order: Option<SectionOrder>,
    /// Latent frames of a section.
    pub window: Option<u32>,
    pub step_cache: Option<StepCache>,
    pub loras: Vec<RestoredLora>,
    pub second_pass: Option<SecondPass>,
    pub controls: Vec<RestoredControl>,
    /// Layer of CLIP that was read, counted from the end: 1 is the last one.
    pub clip_skip: Option<f64>,
    /// Names of the embeddings (textual inversions) that A1111 found in the prompts.
    pub embeddings: Vec<String>,
    /// It was made from an image or video, which is not in the file.
    pub from_image: bool,
    /// A sentence for each setting that cannot be used.
    pub notes: Vec<String>,
}

impl ForeignSettings {
    pub(super) fn of(tool: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether no setting was found.
    pub(super) fn is_empty(&self) -> bool {
        let nothing = Self {
            output: self.output.clone(),
            from_image: self.from_image,
            notes: self.notes.clone(),
            unread_prompt: self.unread_prompt.clone(),
            unread_size: self.unread_size.clone(),
            is_resized: self.is_resized,
            ..Self::of(&self.tool)
        };
        *self == nothing
    }

    /// Takes a seed, or notes one that is larger than seeds are here; returns whether it is either.
    pub(super) fn take_seed(&mut self, value: &Value) -> bool {
        self.seed = fields::seed(value);
        self.has_random_seed = fields::number(value) == Some(-1.0);
        let too_large = fields::too_large_seed(value);
        let is_known = self.seed.is_some() || self.has_random_seed || too_large.is_some();
        if let Some(seed) = too_large {
            self.note(format!(
                "Its seed, {seed}, is too large: seeds go up to {}. The form keeps its own",
                u64::MAX
            ));
        }
        is_known
    }

    pub(super) fn add_embedding(&mut self, name: &str) {
        const MOST: usize = 32;
        let name = short(name.trim());
        if self.embeddings.len() < MOST && !self.embeddings.contains(&name) {
            self.embeddings.push(name);
        }
    }

    /// Returns whether words of its prompts have weights.
    pub fn has_weights(&self) -> bool {
        let texts = [&self.prompt, &self.negative_prompt];
        let brackets = match self.prompt_weights {
            PromptWeights::Off => BracketUse::Text,
            PromptWeights::Comfy => BracketUse::Weights,
            PromptWeights::A1111 => BracketUse::A1111,
        };
        texts.into_iter().flatten().any(|text| {
            let parts = brackets.parts(text);
            parts.iter().any(|part| part.weight != 1.0)
        })
    }

    /// Returns whether more than words and a seed were found.
    pub(super) fn says_how(&self) -> bool {
        self.num_steps.is_some() || self.cfg_scale.is_some() || self.distilled_guidance.is_some()
    }

    /// Takes over a hires fix, or names it. `described` is what made it, `differences` its settings that differ from
    /// those of the first pass.
    pub(super) fn add_second_pass(
        &mut self,
        scale: Option<f64>,
        strength: f64,
        described: &str,
        differences: &str,
    ) {
        let scales = SecondPass::SCALES;
        match scale {
            Some(scale) if scales.contains(&scale) && self.second_pass.is_none() => {
                self.second_pass = Some(SecondPass { scale, strength });
                if !differences.is_empty() {
                    self.note(format!(
                        "The hires fix had settings of its own: {differences}. Safelight's has those of the first pass"
                    ));
                }
            }
            _ => {
                let scale =
                    scale.map_or_else(|| "an unknown scale".to_owned(), |it| format!("scale {it}"));
                let (least, most) = scales.into_inner();
                self.note(format!(
                    "Another pass at {scale} is not used ({described}): Safelight has one hires fix, at {least} to {most} times the size"
                ));
            }
        }
    }

    /// Takes over the model, the guidance and the LoRAs of the expert for low noise.
    pub(super) fn take_second_expert(&mut self, second: Self) {
        self.cfg_scale_2 = second.cfg_scale;
        self.add_notes(second.notes);
        self.model_2 = second.model;
        self.shift = self.shift.or(second.shift);
        for lora in &mut self.loras {
            lora.strength_2 = Some(0.0);
        }
        for lora in second.loras {
            self.add_lora(RestoredLora {
                strength: 0.0,
                strength_2: Some(lora.strength),
                ..lora
            });
        }
    }

    /// Steps that run: those that the strength leaves.
    pub(super) fn run_steps(&self) -> Option<u32> {
        Some(run_steps(self.num_steps?, self.strength.unwrap_or(1.0)))
    }

    pub fn take_sampler(&mut self, name: &str) {
        let (sampler, schedule) = names::sampler(name);
        self.sampler = self.sampler.or(sampler);
        self.sigma_schedule = self.sigma_schedule.or(schedule);
        self.note_foreign("sampler", name, sampler.is_some());
        if names::plain(name).starts_with("heunpp") {
            let name = short(name);
            self.note(format!("Safelight has no sampler {name}: Heun is used"));
        }
    }

    /// Takes the names so far as diffusers means them.
    pub(super) fn take_names_of_diffusers(&mut self) {
        self.sampler = self.sampler.map(SamplerKind::of_diffusers);
        self.sigma_schedule = self.sigma_schedule.map(SigmaSchedule::of_diffusers);
    }

    pub fn take_schedule(&mut self, name: &str) {
        let schedule = names::schedule(name);
        self.sigma_schedule = self.sigma_schedule.or(schedule);
        self.note_foreign("schedule", name, schedule.is_some());
    }

    pub(super) fn take_size(&mut self, size: Option<(u32, u32)>) {
        if let Some((width, height)) = size
            && self.width.is_none()
        {
            (self.width, self.height) = (Some(width), Some(height));
        }
    }

    /// Fills what is `None` from another reading of the same file.
    pub(super) fn filled_from(mut self, other: Self) -> Self {
        if self.width.is_none() || self.height.is_none() {
            (self.width, self.height) = (other.width, other.height);
        }
        if self.notes.is_empty() {
            self.notes = other.notes;
        }
        if self.loras.is_empty() {
            self.loras = other.loras;
        } else {
            let others = self.unknown_loras(other.loras);
            if !others.is_empty() {
                let names = RestoredLora::listed(&others);
                self.note(format!(
                    "Another text of the file names LoRAs that are not used: {names}"
                ));
            }
        }
        self.from_image |= other.from_image;
        self.is_resized |= other.is_resized;
        self.has_random_seed |= other.has_random_seed && self.seed.is_none();
        macro_rules! fill {
            ($($field:ident)*) => { $(self.$field = self.$field.or(other.$field);)* };
        }
        if self.controls.is_empty() {
            self.controls = other.controls;
        }
        fill!(prompt negative_prompt unread_prompt unread_size second_pass model model_2 model_hash family seed num_steps sampler);
        fill!(sigma_schedule cfg_scale cfg_scale_2 distilled_guidance shift num_frames fps secs);
        fill!(strength section_order window step_cache);
        self
    }
}

/// Number of the last of all steps that a strength leaves. Strengths are rounded.
pub(super) fn run_steps(num_steps: u32, strength: f64) -> u32 {
    let run = f64::from(num_steps) * strength.clamp(0.0, 1.0) - 0.01;
    run.ceil().max(1.0) as u32
}
