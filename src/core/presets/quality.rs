//! Draft, balanced and final: what each means for a model.

use super::{CacheChoice, PresetSize, PresetValues};
use crate::enum_macros::labelled;
use crate::job::{PartialSampling, StepCacheKind};
use crate::model::{ModelSpec, nearest_multiple};

/// Models with so few steps are distilled to them: fewer give noise.
const FEW_STEPS: u32 = 8;
/// The edges of a draft, as a part of those that the model makes.
const DRAFT_EDGE: f64 = 2.0 / 3.0;
/// Smaller frames show nothing.
const MIN_EDGE_PX: u32 = 192;

labelled! {
    /// Trade-off between quality and time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum QualityPreset {
        Draft = "Draft",
        Balanced = "Balanced",
        Final = "Final",
    }
}

impl QualityPreset {
    /// Sentence on its purpose.
    pub fn note(self) -> &'static str {
        match self {
            Self::Draft => "A quick look, to choose a prompt and a seed by",
            Self::Balanced => "The model's own values",
            Self::Final => "More steps at full size, without shortcuts",
        }
    }

    pub fn values(self, spec: &ModelSpec) -> PresetValues {
        let defaults = spec.defaults.sampling;
        let own = defaults.num_steps;
        let is_distilled = own <= FEW_STEPS;
        let steps = match self {
            Self::Draft if is_distilled => own,
            Self::Draft => own.div_ceil(2).max(FEW_STEPS),
            Self::Balanced => own,
            Self::Final => own + own.div_ceil(2),
        };
        let size = match self {
            Self::Draft => PresetSize::Smaller,
            Self::Balanced | Self::Final => PresetSize::Full,
        };
        // Only if the family has step caches.
        let step_cache = (!(spec.family.step_caches)(&spec.variant).is_empty()).then(|| {
            let has_one = self == Self::Draft && spec.section_order.is_some();
            CacheChoice(has_one.then(|| StepCacheKind::TeaCache.into()))
        });
        PresetValues {
            size: (!spec.limits.fixed_size).then_some(size),
            sampling: PartialSampling {
                num_steps: Some(steps),
                strength: None,
                ..defaults.spelled_out()
            },
            step_cache,
            ..PresetValues::default()
        }
    }
}

/// The size of a draft of an aspect (width / height): smaller than the model's own where it can make that.
pub fn draft_size(spec: &ModelSpec, aspect: f64) -> (u32, u32) {
    let (width, height) = spec.size_for_aspect(aspect);
    if spec.limits.fixed_size {
        return (width, height);
    }
    let multiple = spec.limits.size_multiple;
    let edge = |edge: u32| nearest_multiple(f64::from(edge) * DRAFT_EDGE, multiple);
    let small = (edge(width), edge(height));
    if small.0.min(small.1) < MIN_EDGE_PX {
        (width, height)
    } else {
        small
    }
}
