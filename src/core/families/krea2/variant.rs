//! Turbo and Raw, whose tensors are the same: what tells them apart.

use crate::families::files::Hints;
use crate::library::names::model_words;
use crate::model::choices::Sampler;
use crate::model::facts::Schedule;

/// What Turbo's schedule is shifted by whatever the size of a picture: `exp(1.15)`, as in diffusers' pipeline.
pub(super) const TURBO_SHIFT: f64 = 3.158_192_909_689_767;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// Distilled to few steps without guidance.
    Turbo,
    /// With real guidance, and a shift that goes with the size.
    Raw,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Turbo => "Turbo",
            Self::Raw => "Raw",
        }
    }

    /// What the pipeline of a folder says, else the first name that says anything: `krea2_raw_bf16`, `Krea-2-Base`.
    /// Turbo where none does, as most of what is made of the two is.
    pub fn of(hints: &Hints<'_>) -> Self {
        match hints.is_distilled {
            Some(true) => Self::Turbo,
            Some(false) => Self::Raw,
            None => {
                let mut said = hints.names.iter().filter_map(|name| Self::said_by(name));
                said.next().unwrap_or(Self::Turbo)
            }
        }
    }

    fn said_by(name: &str) -> Option<Self> {
        let words = model_words(name);
        let has = |word: &str| words.iter().any(|own| own == word);
        if name.to_lowercase().contains("turbo") {
            Some(Self::Turbo)
        } else if has("raw") || has("base") {
            Some(Self::Raw)
        } else {
            None
        }
    }

    /// What a model of this kind has for a default; `own`: of its scheduler's folder.
    pub fn schedule(self, own: Option<Schedule>) -> Option<Schedule> {
        match self {
            Self::Turbo => Some(Schedule {
                sampler: Sampler::Euler,
                shift: Some(TURBO_SHIFT),
            }),
            Self::Raw => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_says_the_variant_and_names_where_it_does_not() {
        let of = |is_distilled, names: &[&str]| {
            Variant::of(&Hints {
                class: None,
                is_distilled,
                names,
            })
        };
        assert_eq!(of(Some(false), &["Krea-2-Turbo"]), Variant::Raw);
        assert_eq!(of(Some(true), &["krea2_raw"]), Variant::Turbo);
        for (names, variant) in [
            (["krea2_turbo_fp8_scaled", ""], Variant::Turbo),
            (["krea2_raw_bf16", ""], Variant::Raw),
            (["Krea-2-Raw-Q8_0", ""], Variant::Raw),
            (["krea2_base_fp8", ""], Variant::Raw),
            (["krea2Turbo18For_v2", "raw"], Variant::Turbo),
            (["drawings_v3", "diffusion_models"], Variant::Turbo),
            (["transformer", "Krea-2-Raw"], Variant::Raw),
        ] {
            assert_eq!(of(None, &names), variant, "{names:?}");
        }
        assert!((TURBO_SHIFT - 1.15_f64.exp()).abs() < 1e-14);
    }
}
