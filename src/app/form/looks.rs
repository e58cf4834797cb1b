//! What presets set of the form: taking one over, telling whether it stands there, and keeping what stood before.

use safelight_core::job::{SigmaSchedule, StepCache};
use safelight_core::model::{Guidance, ModelSpec, Preset};
use safelight_core::presets::{CacheChoice, PresetSize, PresetValues, draft_size};
use serde::{Deserialize, Serialize};

use crate::app::form::{FormState, Sampling, SizeChoice, has_two_experts};
use crate::app::inputs::Sources;

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

/// Everything that presets set, as it stands in the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    size: SizeChoice,
    /// Meant where the size is custom.
    edges: (u32, u32),
    num_frames: u32,
    secs: f64,
    fps: f64,
    sampling: Sampling,
    true_cfg_scale: f64,
    strength: f64,
    step_cache: Option<StepCache>,
    vae_tile: Option<u32>,
}

/// What one of the model's own presets sets.
pub fn values_of(preset: &Preset, spec: &ModelSpec) -> PresetValues {
    PresetValues {
        steps: Some(preset.num_steps),
        start_step: Some(0),
        end_step: Some(0),
        guidance: Some(preset.guidance_scale),
        guidance_2: Some(preset.guidance_scale),
        shift: Some(preset.shift.or(spec.defaults.shift).unwrap_or(0.0)),
        sampler: Some(preset.sampler),
        schedule: Some(SigmaSchedule::default()),
        ..PresetValues::default()
    }
}

impl Look {
    /// With a preset's values over it, as far as they mean something to the model.
    fn with(&self, values: &PresetValues, spec: &ModelSpec, sources: Sources<'_>) -> Self {
        let mut look = *self;
        if let Some(size) = values.size.filter(|_| !spec.limits.fixed_size) {
            look.resize(size, spec, sources);
        }
        let makes_clips = !spec.family.makes_pictures;
        let has_sections = spec.section_order.is_some();
        fn put<T>(own: &mut T, found: Option<T>) {
            if let Some(found) = found {
                *own = found;
            }
        }
        let frames = values.frames.filter(|_| makes_clips && !has_sections);
        put(&mut look.num_frames, frames);
        put(&mut look.secs, values.seconds.filter(|_| has_sections));
        put(&mut look.fps, values.fps.filter(|_| makes_clips));
        let cache = values.step_cache.filter(|_| has_sections);
        put(&mut look.step_cache, cache.map(|CacheChoice(cache)| cache));
        let tile = values.vae_tile.map(|tile| (tile > 0).then_some(tile));
        put(&mut look.vae_tile, tile);
        let real = values.true_cfg.filter(|_| spec.guidance != Guidance::Cfg);
        put(&mut look.true_cfg_scale, real);
        let strength = values.strength;
        put(
            &mut look.strength,
            strength.filter(|_| spec.defaults.strength.is_some()),
        );
        look.sampling = look.sampling.with(values, spec);
        look
    }

    fn resize(&mut self, size: PresetSize, spec: &ModelSpec, sources: Sources<'_>) {
        match size {
            PresetSize::Auto => self.size = SizeChoice::Auto,
            PresetSize::Aspect(across, down) => self.size = SizeChoice::Aspect(across, down),
            PresetSize::Exact(width, height) => {
                self.size = SizeChoice::Custom;
                self.edges = (width, height);
            }
            // A size of one's own stays: it was chosen for more than its quality.
            PresetSize::Full => {
                if let Some(choice) = self.drafted(spec, sources) {
                    self.size = choice;
                } else if self.is_draft(spec) {
                    // Of a picture that is not here any more, or of another size of one's own.
                    self.edges = spec.size_for_aspect(aspect_of(self.edges));
                }
            }
            PresetSize::Smaller => {
                let is_custom = self.size == SizeChoice::Custom;
                let aspect = match self.size {
                    SizeChoice::Custom => aspect_of(self.edges),
                    choice => aspect_of_choice(choice, spec, sources),
                };
                let draft = draft_size(spec, aspect);
                let is_small = is_custom && pixels(self.edges) <= pixels(draft);
                if !is_small && !self.is_draft(spec) && self.drafted(spec, sources).is_none() {
                    self.edges = draft;
                    self.size = SizeChoice::Custom;
                }
            }
        }
    }

    /// Whether the size is the draft of some aspect. Its own aspect is a little off, as its edges are rounded.
    fn is_draft(&self, spec: &ModelSpec) -> bool {
        let aspect = aspect_of(self.edges);
        let draft = draft_size(spec, aspect);
        let is_near = |own: u32, draft: u32| own.abs_diff(draft) <= spec.limits.size_multiple;
        self.size == SizeChoice::Custom
            && draft != spec.size_for_aspect(aspect)
            && is_near(self.edges.0, draft.0)
            && is_near(self.edges.1, draft.1)
    }

    /// The choice whose draft the size is.
    fn drafted(&self, spec: &ModelSpec, sources: Sources<'_>) -> Option<SizeChoice> {
        let aspects = ASPECTS.map(|(across, down, _)| SizeChoice::Aspect(across, down));
        let choices = [SizeChoice::Auto].into_iter().chain(aspects);
        let is_custom = self.size == SizeChoice::Custom;
        choices
            .filter(|_| is_custom)
            .find(|choice| draft_size(spec, aspect_of_choice(*choice, spec, sources)) == self.edges)
    }
}

fn aspect_of((width, height): (u32, u32)) -> f64 {
    f64::from(width) / f64::from(height.max(1))
}

fn pixels((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

fn aspect_of_choice(choice: SizeChoice, spec: &ModelSpec, sources: Sources<'_>) -> f64 {
    match choice {
        SizeChoice::Aspect(across, down) => aspect_of((across, down)),
        SizeChoice::Auto | SizeChoice::Custom => {
            let own = (spec.defaults.width, spec.defaults.height);
            aspect_of(sources.size().unwrap_or(own))
        }
    }
}

impl FormState {
    fn look(&self) -> Look {
        let is_custom = self.size == SizeChoice::Custom;
        Look {
            size: self.size,
            edges: if is_custom {
                (self.width, self.height)
            } else {
                (0, 0)
            },
            num_frames: self.num_frames,
            secs: self.secs,
            fps: self.fps,
            sampling: self.sampling(),
            true_cfg_scale: self.true_cfg_scale,
            strength: self.strength,
            step_cache: self.step_cache,
            vae_tile: self.vae_tile,
        }
    }

    fn set_look(&mut self, look: Look) {
        // Written out: a new field has to be thought of here too.
        let Look {
            size,
            edges,
            num_frames,
            secs,
            fps,
            sampling,
            true_cfg_scale,
            strength,
            step_cache,
            vae_tile,
        } = look;
        self.size = size;
        if size == SizeChoice::Custom {
            (self.width, self.height) = edges;
        }
        (self.num_frames, self.secs, self.fps) = (num_frames, secs, fps);
        self.set_sampling(sampling);
        self.true_cfg_scale = true_cfg_scale;
        self.strength = strength;
        self.step_cache = step_cache;
        self.vae_tile = vae_tile;
    }

    /// Whether the form has a preset's values.
    pub fn has_values(
        &self,
        values: &PresetValues,
        spec: &ModelSpec,
        sources: Sources<'_>,
    ) -> bool {
        let look = self.look();
        let mut with = look.with(values, spec, sources);
        if with.size != SizeChoice::Custom {
            with.edges = look.edges;
        }
        with == look
    }

    /// Takes a preset's values, and keeps those that stood before for [`Self::undo_preset`].
    pub fn apply_values(&mut self, values: &PresetValues, spec: &ModelSpec, sources: Sources<'_>) {
        let look = self.look();
        let with = look.with(values, spec, sources);
        if self.before_preset.is_none() {
            self.before_preset = Some(look);
        }
        self.set_look(with);
        self.settle_part();
    }

    /// The values that stood before the preset, or the model's own when it came with the form.
    pub fn undo_preset(&mut self, spec: &ModelSpec) {
        match self.before_preset.take() {
            Some(before) => self.set_look(before),
            None => self.set_sampling(Sampling::of_model(spec)),
        }
    }

    /// What a preset of the form as it is sets.
    pub fn values(&self, spec: &ModelSpec) -> PresetValues {
        let makes_clips = !spec.family.makes_pictures;
        let has_sections = spec.section_order.is_some();
        let size = match self.size {
            SizeChoice::Auto => PresetSize::Auto,
            SizeChoice::Aspect(across, down) => PresetSize::Aspect(across, down),
            SizeChoice::Custom => PresetSize::Exact(self.width, self.height),
        };
        PresetValues {
            size: (!spec.limits.fixed_size).then_some(size),
            frames: (makes_clips && !has_sections).then_some(self.num_frames),
            seconds: has_sections.then_some(self.secs),
            fps: makes_clips.then_some(self.fps),
            steps: Some(self.num_steps),
            start_step: Some(self.start_step),
            end_step: Some(self.end_step.unwrap_or(0)),
            guidance: (spec.guidance != Guidance::None).then_some(self.guidance_scale),
            guidance_2: has_two_experts(spec).then_some(self.guidance_scale_2),
            true_cfg: (spec.guidance != Guidance::Cfg).then_some(self.true_cfg_scale),
            shift: Some(self.shift.unwrap_or(0.0)),
            sampler: Some(self.sampler),
            schedule: Some(self.sigma_schedule),
            strength: spec.defaults.strength.map(|_| self.strength),
            step_cache: has_sections.then_some(CacheChoice(self.step_cache)),
            vae_tile: Some(self.vae_tile.unwrap_or(0)),
        }
    }
}
