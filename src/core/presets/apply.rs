//! Presets and forms: applying a preset's values, comparing them, and reading them from a form.
//!
//! Values without meaning for the model are skipped.

use super::{CacheChoice, PresetSize, PresetValues, draft_size};
use crate::job::{ASPECTS, GenerateForm, PartialSampling, SizeChoice};
use crate::model::{ModelSpec, SamplingPreset};

impl PresetValues {
    /// Values of one of the model's presets.
    pub fn of_model(preset: &SamplingPreset, spec: &ModelSpec) -> Self {
        let sampling = PartialSampling {
            true_cfg_scale: preset.sampling.true_cfg_scale,
            strength: preset.sampling.strength,
            ..preset.sampling.over(spec.defaults.sampling).spelled_out()
        };
        Self {
            sampling,
            ..Self::default()
        }
    }
}

impl GenerateForm {
    /// Takes a preset's values, and keeps those that stood before for [`Self::undo_preset`]. `source` is the size of
    /// the start image.
    pub fn apply_preset(
        &mut self,
        values: &PresetValues,
        spec: &ModelSpec,
        source: Option<(u32, u32)>,
    ) {
        if self.before_preset.is_none() {
            self.before_preset = Some(Box::new(self.values(spec)));
        }
        self.apply(values, spec, source);
    }

    /// The values that stood before the preset, or the model's own when it came with the form.
    pub fn undo_preset(&mut self, spec: &ModelSpec) {
        match self.before_preset.take() {
            Some(before) => self.apply(&before, spec, None),
            None => {
                self.sampling = PartialSampling {
                    shift: spec.defaults.sampling.shift,
                    true_cfg_scale: self.sampling.true_cfg_scale,
                    strength: self.sampling.strength,
                    dynamic_shift: self.sampling.dynamic_shift,
                    ..PartialSampling::default()
                };
            }
        }
    }

    pub fn has_values(
        &self,
        values: &PresetValues,
        spec: &ModelSpec,
        source: Option<(u32, u32)>,
    ) -> bool {
        let mut with = self.clone();
        with.apply(values, spec, source);
        with.values(spec) == self.values(spec)
    }

    /// Values of a new preset from the form.
    pub fn values(&self, spec: &ModelSpec) -> PresetValues {
        let makes_videos = !spec.family.makes_images;
        let has_sections = spec.section_order.is_some();
        PresetValues {
            size: (!spec.limits.fixed_size).then(|| match self.size {
                SizeChoice::Own => PresetSize::Exact(spec.defaults.width, spec.defaults.height),
                _ => self.preset_size(),
            }),
            frames: (makes_videos && !has_sections).then(|| self.num_frames_for(spec)),
            seconds: has_sections.then(|| self.secs_or_default()),
            fps: makes_videos.then(|| self.fps_for(spec)),
            sampling: PartialSampling {
                shift: self.sampling.shift.or(Some(0.0)),
                ..self.sampling_for(spec).spelled_out()
            }
            .for_model(spec),
            step_cache: (!(spec.family.step_caches)(&spec.variant).is_empty())
                .then_some(CacheChoice(self.options.step_cache)),
            vae_tile: self.options.vae_tile.or(Some(0)),
        }
    }

    fn preset_size(&self) -> PresetSize {
        match self.size {
            SizeChoice::Auto => PresetSize::Auto,
            SizeChoice::Aspect(across, down) => PresetSize::Aspect(across, down),
            SizeChoice::Own | SizeChoice::Custom => {
                let (width, height) = (self.width, self.height);
                PresetSize::Exact(width.unwrap_or_default(), height.unwrap_or_default())
            }
        }
    }

    fn apply(&mut self, values: &PresetValues, spec: &ModelSpec, source: Option<(u32, u32)>) {
        if let Some(size) = values.size.filter(|_| !spec.limits.fixed_size) {
            self.resize(size, spec, source);
        }
        let makes_videos = !spec.family.makes_images;
        let has_sections = spec.section_order.is_some();
        if makes_videos && !has_sections {
            self.num_frames = values.frames.or(self.num_frames);
        }
        if makes_videos {
            self.fps = values.fps.or(self.fps);
        }
        if has_sections {
            self.secs = values.seconds.or(self.secs);
        }
        if let Some(CacheChoice(cache)) = values.step_cache {
            let caches = (spec.family.step_caches)(&spec.variant);
            self.options.step_cache = cache.filter(|it| caches.contains(&it.kind));
        }
        if let Some(tile) = values.vae_tile {
            self.options.vae_tile = (tile > 0).then_some(tile);
        }
        let dynamic_shift = self.sampling.dynamic_shift;
        let mut sampling = values.sampling.for_model(spec).or(self.sampling);
        sampling.end_step = sampling.end_step.filter(|end| *end > 0);
        sampling.shift = sampling.shift.filter(|shift| *shift > 0.0);
        sampling.dynamic_shift = dynamic_shift;
        self.sampling = sampling;
        self.settle_part(spec);
    }

    fn resize(&mut self, size: PresetSize, spec: &ModelSpec, source: Option<(u32, u32)>) {
        match size {
            PresetSize::Auto => self.size = SizeChoice::Auto,
            PresetSize::Aspect(across, down) => self.size = SizeChoice::Aspect(across, down),
            PresetSize::Exact(width, height) => self.set_size((width, height)),
            // A size of one's own stays: it was chosen for more than its quality.
            PresetSize::Full => {
                if let Some(choice) = self.drafted(spec, source) {
                    self.size = choice;
                } else if let Some(edges) = self.draft_edges(spec) {
                    // The image is missing, or the custom size was another one.
                    self.set_size(spec.size_for_aspect(aspect_of(edges)));
                }
            }
            PresetSize::Smaller => {
                let custom = self.custom_edges();
                let aspect =
                    custom.map_or_else(|| aspect_of_choice(self.size, spec, source), aspect_of);
                let draft = draft_size(spec, aspect);
                let is_small = custom.is_some_and(|edges| pixels(edges) <= pixels(draft));
                let is_draft =
                    self.draft_edges(spec).is_some() || self.drafted(spec, source).is_some();
                if !is_small && !is_draft {
                    self.set_size(draft);
                }
            }
        }
    }

    fn custom_edges(&self) -> Option<(u32, u32)> {
        let edges = self.width.zip(self.height);
        edges.filter(|_| self.size == SizeChoice::Custom)
    }

    /// The size, where it is the draft of some aspect. Its own aspect is a little off, as its edges are rounded.
    fn draft_edges(&self, spec: &ModelSpec) -> Option<(u32, u32)> {
        let edges = self.custom_edges()?;
        let aspect = aspect_of(edges);
        let draft = draft_size(spec, aspect);
        let is_near = |own: u32, draft: u32| own.abs_diff(draft) <= spec.limits.size_multiple;
        let is_draft = draft != spec.size_for_aspect(aspect)
            && is_near(edges.0, draft.0)
            && is_near(edges.1, draft.1);
        is_draft.then_some(edges)
    }

    /// The choice whose draft the size is.
    fn drafted(&self, spec: &ModelSpec, source: Option<(u32, u32)>) -> Option<SizeChoice> {
        let edges = self.custom_edges()?;
        let aspects = ASPECTS.map(|(across, down, _)| SizeChoice::Aspect(across, down));
        let mut choices = [SizeChoice::Auto].into_iter().chain(aspects);
        choices.find(|choice| draft_size(spec, aspect_of_choice(*choice, spec, source)) == edges)
    }
}

fn aspect_of((width, height): (u32, u32)) -> f64 {
    f64::from(width) / f64::from(height.max(1))
}

fn pixels((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

fn aspect_of_choice(choice: SizeChoice, spec: &ModelSpec, source: Option<(u32, u32)>) -> f64 {
    match choice {
        SizeChoice::Aspect(across, down) => aspect_of((across, down)),
        SizeChoice::Own => aspect_of((spec.defaults.width, spec.defaults.height)),
        SizeChoice::Auto | SizeChoice::Custom => {
            aspect_of(source.unwrap_or((spec.defaults.width, spec.defaults.height)))
        }
    }
}
