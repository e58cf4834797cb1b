//! Turbo and Base, whose tensors are the same: what tells them apart.

use crate::library::names::model_words;
use crate::model::facts::Schedule;

/// Turbo's published shift is 3, Base's 6.
const SHIFT_OF_BASE_FROM: f64 = 4.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// Distilled to few steps without guidance.
    Turbo,
    /// With real guidance.
    Base,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Turbo => "Turbo",
            Self::Base => "Base",
        }
    }

    /// What the first of `names` that says anything says: `z_image_turbo_bf16`, `Z-Image-Base`, or the published name of
    /// Base, `z_image` alone. Turbo where none does, as most of what is made of the two is.
    pub fn of_names(names: &[&str]) -> Self {
        let mut said = names.iter().filter_map(|name| Self::said_by(name));
        said.next().unwrap_or(Self::Turbo)
    }

    fn said_by(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let words = model_words(name);
        let is_bare = words == ["image", "z"] || words == ["zimage"];
        if lower.contains("turbo") {
            Some(Self::Turbo)
        } else if lower.contains("base") || is_bare {
            Some(Self::Base)
        } else {
            None
        }
    }

    /// A folder's own scheduler knows better than names.
    #[must_use]
    pub fn by_schedule(self, schedule: Option<Schedule>) -> Self {
        match schedule.and_then(|schedule| schedule.shift) {
            Some(shift) if shift >= SHIFT_OF_BASE_FROM => Self::Base,
            Some(_) => Self::Turbo,
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_variant_and_the_folders_where_it_does_not() {
        for (names, variant) in [
            (["z_image_turbo_bf16", ""], Variant::Turbo),
            (["z_image_bf16", ""], Variant::Base),
            (["z-image-Q8_0", ""], Variant::Base),
            (["zImageBase_v1", ""], Variant::Base),
            (["myFinetune_v2", "z-image-base"], Variant::Base),
            (["myFinetune_v2", "diffusion_models"], Variant::Turbo),
            (["transformer", "Z-Image-Turbo"], Variant::Turbo),
            (["transformer", "Z-Image"], Variant::Base),
        ] {
            assert_eq!(Variant::of_names(&names), variant, "{names:?}");
        }
    }
}
