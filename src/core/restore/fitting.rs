//! Form for a chosen model from another program's settings: the numbers that it uses, and a sentence for each that it
//! does not.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::{ForeignSettings, RestoredLora, run_steps};
use crate::fitting::fitting_test;
use crate::job::{
    ChosenLora, ControlSettings, GenerateForm, PartialSampling, SecondPass, SeedMode, WINDOW,
};
use crate::library::FoundControl;
use crate::model::{ControlBy, GuidanceMode, ModelSpec};

/// Programs that set CFG apart from the guidance that a model embeds. In files of others one scale is either.
const SPLIT_GUIDANCE: [&str; 8] = [
    "ComfyUI",
    "Forge",
    "FramePack",
    "FramePack Studio",
    "InvokeAI",
    "stable-diffusion.cpp",
    "SwarmUI",
    "Wan2GP",
];

/// Seconds of a video that is made in sections.
const SECS: (f64, f64) = (1.0, 120.0);

impl ForeignSettings {
    /// Forgets what only models of one family use: numbers, and LoRAs, which are named.
    pub fn forget_family(&mut self) {
        (self.num_steps, self.shift) = (None, None);
        (self.cfg_scale, self.cfg_scale_2) = (None, None);
        self.distilled_guidance = None;
        (self.sampler, self.sigma_schedule) = (None, None);
        (self.section_order, self.window, self.step_cache) = (None, None, None);
        let loras = std::mem::take(&mut self.loras);
        if !loras.is_empty() {
            let names = RestoredLora::listed(&loras);
            self.note(format!(
                "Its LoRAs, which are for that family, are left out: {names}"
            ));
        }
    }

    /// The form for this model with LoRAs among these files, the settings of its controls, and what was left out.
    pub fn fit_to(
        &self,
        spec: &ModelSpec,
        lora_files: &[PathBuf],
        networks: &[FoundControl],
    ) -> (GenerateForm, Vec<ControlSettings>, Vec<String>) {
        let (mut form, mut notes) = self.form_for(spec);
        let mut chosen = self.clone();
        let fits = fitting_test(spec.family, &spec.files);
        notes.extend(chosen.choose_loras(lora_files, &fits));
        let (found, missing) = chosen.find_loras(lora_files);
        form.loras = found.iter().map(ChosenLora::from).collect();
        notes.extend(Self::without_loras(&missing));
        let (controls, missing) = self.find_controls(spec, networks);
        notes.extend(missing);
        (form, controls, notes)
    }

    /// The form for this model, and what was left out. The seed, where there was one, is in it.
    pub fn form_for(&self, spec: &ModelSpec) -> (GenerateForm, Vec<String>) {
        let (mut notes, mut odd) = (self.notes.clone(), Vec::new());
        let steps = self.num_steps.map(f64::from);
        let steps = within("number of steps", steps, 1.0..=1000.0, &mut odd);
        let shift = self.shift.filter(|_| spec.family.has_shift);
        if let (Some(own), None) = (self.shift, shift) {
            odd.push(format!(
                "Its shift, {own}, is not used: {} has none",
                spec.name
            ));
        }
        let mut form = GenerateForm {
            sampling: PartialSampling {
                num_steps: self.num_steps.filter(|_| steps.is_some()),
                shift: within("shift", shift, 0.01..=100.0, &mut odd),
                sampler: self.sampler,
                sigma_schedule: self.sigma_schedule,
                ..PartialSampling::default()
            },
            seed: self.seed.unwrap_or_default(),
            seed_mode: self.seed.map_or(SeedMode::Random, |_| SeedMode::Fixed),
            ..GenerateForm::default()
        };
        // The other program has expanded it already.
        form.set_literal_prompt(self.prompt.clone().unwrap_or_default());
        form.options.prompt_weights = Some(self.prompt_weights);
        notes.extend(self.prompt_notes(spec.family));
        self.guide(&mut form, spec, &mut odd);
        self.measure(&mut form, spec, &mut notes);
        self.time(&mut form, spec, &mut notes);
        self.refine(&mut form, spec, &mut notes);
        let strength = within("denoising strength", self.strength, 0.001..=1.0, &mut odd);
        if spec.defaults.sampling.strength.is_some() {
            form.sampling.strength = strength.map(|it| self.exact_strength(it, spec));
        } else if let Some(strength) = strength.filter(|it| *it < 1.0) {
            form.sampling.num_steps = form.sampling.num_steps.and_then(|_| self.run_steps());
            notes.push(format!(
                "Its denoising strength, {strength}, is not used: {} has none",
                spec.name
            ));
        }
        notes.append(&mut odd);
        (form, notes)
    }

    /// The strength at which the model runs as many steps as were run.
    fn exact_strength(&self, strength: f64, spec: &ModelSpec) -> f64 {
        let of_run = |all: u32| {
            let run = run_steps(all, strength);
            let exact = f64::from(run) / f64::from(all) * 1e4;
            let mut near = [strength, exact.floor() / 1e4, exact.ceil() / 1e4].into_iter();
            near.find(|it| spec.family.first_step(all, *it) + run == all)
        };
        self.num_steps.and_then(of_run).unwrap_or(strength)
    }

    /// The guidances, each where the model has it.
    fn guide(&self, form: &mut GenerateForm, spec: &ModelSpec, notes: &mut Vec<String>) {
        let mut within = |number| within("guidance", number, 0.0..=100.0, notes);
        let mut cfg = within(self.cfg_scale);
        let mut distilled = within(self.distilled_guidance);
        let low = within(self.cfg_scale_2);
        if spec.guidance != GuidanceMode::Cfg
            && distilled.is_none()
            && !SPLIT_GUIDANCE.contains(&self.tool.as_str())
            && let Some(scale) = cfg.filter(|cfg| *cfg > 1.0)
        {
            (cfg, distilled) = (None, Some(scale));
            let name = &spec.name;
            notes.push(if spec.guidance == GuidanceMode::Distilled {
                format!("Its CFG scale, {scale}, is used as the distilled guidance of {name}, which the file does not name apart")
            } else {
                format!("Its CFG scale, {scale}, is not used: {name} takes no guidance")
            });
        }
        let sampling = &mut form.sampling;
        match spec.guidance {
            GuidanceMode::Cfg => {
                let low = low.or(cfg);
                sampling.guide_experts(cfg, low.filter(|_| spec.has_two_experts()));
            }
            GuidanceMode::Distilled => {
                sampling.guidance_scale = distilled;
                sampling.true_cfg_scale = cfg;
            }
            GuidanceMode::None => sampling.true_cfg_scale = cfg,
        }
        // An empty one means none where it acts, and nothing elsewhere.
        let acts = spec.guidance == GuidanceMode::Cfg || cfg.is_some_and(|cfg| cfg > 1.0);
        let negative = self.negative_prompt.clone();
        if let Some(negative) = negative.filter(|text| acts || !text.trim().is_empty()) {
            form.set_literal_negative(negative);
        }
    }

    /// The size, as far as the model can make it.
    fn measure(&self, form: &mut GenerateForm, spec: &ModelSpec, notes: &mut Vec<String>) {
        let (Some(width), Some(height)) = (self.width, self.height) else {
            return;
        };
        let limits = &spec.limits;
        let pixels = u64::from(width) * u64::from(height);
        let own = (spec.defaults.width, spec.defaults.height);
        let is_large = pixels > limits.max_pixels || width.max(height) > limits.max_edge;
        let size = if limits.fixed_size {
            own
        } else if is_large {
            spec.size_for_aspect(f64::from(width) / f64::from(height.max(1)))
        } else {
            (width, height)
        };
        if size != (width, height) {
            notes.push(format!(
                "Its size, {width} × {height}, is none that {} makes: {} × {} is used",
                spec.name, size.0, size.1
            ));
        }
        if !limits.fixed_size {
            form.set_size(size);
        }
    }

    /// The hires fix, and the control images that the model cannot take.
    fn refine(&self, form: &mut GenerateForm, spec: &ModelSpec, notes: &mut Vec<String>) {
        let name = &spec.name;
        if let Some(pass) = self.second_pass {
            let (width, height) = form
                .width
                .zip(form.height)
                .unwrap_or((spec.defaults.width, spec.defaults.height));
            let edge = f64::from(width.max(height)) * pass.scale;
            let pixels = f64::from(width) * f64::from(height) * pass.scale * pass.scale;
            let limits = &spec.limits;
            let why = if !spec.has_second_pass() {
                "has none"
            } else if edge > f64::from(limits.max_edge) || pixels > limits.max_pixels as f64 {
                "does not make results as large"
            } else {
                let strength = self.exact_strength(pass.strength, spec);
                form.second_pass = Some(SecondPass { strength, ..pass });
                ""
            };
            if form.second_pass.is_none() {
                notes.push(format!(
                    "Its hires fix at scale {} and denoising strength {} is not used: {name} {why}",
                    pass.scale, pass.strength
                ));
            }
        }
        let (takes, given) = (spec.limits.controls, self.controls.len());
        if given > 0 && !takes.is_possible() {
            notes.push(format!("{name} takes no control images: leave them out"));
        } else if given > takes.most as usize {
            notes.push(format!(
                "{name} takes at most {} control images, and there were {given}",
                takes.most
            ));
        } else if given > 0 && takes.by != ControlBy::Networks {
            notes.push(format!(
                "{name} takes control images without a ControlNet: add them alone"
            ));
        }
    }

    /// The length and the rate.
    fn time(&self, form: &mut GenerateForm, spec: &ModelSpec, notes: &mut Vec<String>) {
        if spec.family.makes_images {
            if self.num_frames.is_some_and(|frames| frames > 1) || self.secs.is_some() {
                notes.push(format!("It is a video, and {} makes images", spec.name));
            }
            return;
        }
        let fps = within("frame rate", self.fps, 1.0..=240.0, notes);
        form.fps = fps;
        let rate = fps.unwrap_or(spec.defaults.fps);
        if spec.section_order.is_some() {
            let frames = self.num_frames.map(|frames| f64::from(frames) / rate);
            let secs = self.secs.or(frames).filter(|secs| secs.is_finite());
            form.secs = secs.map(|secs| secs.clamp(SECS.0, SECS.1));
            form.section_order = self.section_order;
            let window = self.window.map(f64::from);
            form.window = within("section length", window, 2.0..=32.0, notes)
                .map(|window| window as u32)
                .filter(|window| *window != WINDOW);
            form.options.step_cache = self.step_cache;
            return;
        }
        let of_secs = self.secs.map(|secs| (secs * rate).round().max(1.0) as u32);
        let Some(frames) = self.num_frames.or(of_secs) else {
            return;
        };
        let most = spec.limits.max_frames;
        if frames > most {
            notes.push(format!(
                "Its length, {frames} frames, is more than {} makes at once: {most} are made",
                spec.name
            ));
        }
        form.num_frames = Some(frames.clamp(1, most.max(1)));
    }
}

/// Of our own request for a model that is not here: the settings that every model has.
impl From<&crate::job::GenerateRequest> for ForeignSettings {
    fn from(request: &crate::job::GenerateRequest) -> Self {
        let sections = request.sections;
        Self {
            prompt: Some(request.prompt.clone()),
            negative_prompt: Some(request.negative_prompt.clone()),
            prompt_weights: request.options.prompt_weights.unwrap_or_default(),
            model: Some(request.model.clone()),
            family: Some(request.family),
            seed: Some(request.seed),
            width: Some(request.stated_size().0),
            height: Some(request.stated_size().1),
            num_frames: sections.is_none().then_some(request.num_frames),
            secs: sections.map(|sections| sections.secs()),
            section_order: sections.map(|sections| sections.order),
            window: sections.map(|sections| sections.window),
            step_cache: request.options.step_cache,
            fps: Some(request.fps),
            strength: request.sampling.strength,
            second_pass: request.hires_fix(),
            loras: request.loras.iter().map(RestoredLora::from).collect(),
            from_image: request.has_start() || request.source_video.is_some(),
            ..Self::of("Safelight")
        }
    }
}

/// A number that can be meant; another is named in `notes`.
fn within(
    name: &str,
    number: Option<f64>,
    range: RangeInclusive<f64>,
    notes: &mut Vec<String>,
) -> Option<f64> {
    let number = number?;
    if range.contains(&number) {
        return Some(number);
    }
    let (least, most) = range.into_inner();
    notes.push(format!(
        "Its {name}, {number}, is not used: it must be from {least} to {most}"
    ));
    None
}
