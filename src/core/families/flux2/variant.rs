//! The four kleins: sizes are told by shapes, and the distilled from the base, whose tensors are the same, by names.

use crate::library::names::model_words;
use crate::networks::Flux2TransformerConfig;

/// Width of the hidden states from which on it is the larger of the two.
const LARGE_FROM: i64 = 4096;

pub(super) const DEV: &str = "a FLUX.2 dev model (get FLUX.2 klein 4B or 9B)";
pub(super) const KV: &str =
    "a FLUX.2 klein KV model, which keeps what it made of reference pictures (get FLUX.2 klein 9B)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    Klein4,
    Klein4Base,
    Klein9,
    Klein9Base,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Klein4 => "klein 4B",
            Self::Klein4Base => "klein 4B base",
            Self::Klein9 => "klein 9B",
            Self::Klein9Base => "klein 9B base",
        }
    }

    /// The variant of a transformer, or the sentence part for one of another kind. `is_distilled`: where the pipeline
    /// says it; otherwise the first of `names` that says `base` does, and what says nothing is distilled, as most of what
    /// people make is.
    pub fn of(
        config: &Flux2TransformerConfig,
        is_distilled: Option<bool>,
        names: &[&str],
    ) -> Result<Self, String> {
        if config.guidance_embeds {
            return Err(DEV.to_owned());
        }
        let has_word = |word: &str| {
            let mut all = names.iter().flat_map(|name| model_words(name));
            all.any(|own| own == word)
        };
        if has_word("kv") {
            return Err(KV.to_owned());
        }
        let is_base = match is_distilled {
            Some(is_distilled) => !is_distilled,
            None => has_word("base"),
        };
        Ok(match (config.dim() >= LARGE_FROM, is_base) {
            (false, false) => Self::Klein4,
            (false, true) => Self::Klein4Base,
            (true, false) => Self::Klein9,
            (true, true) => Self::Klein9Base,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_say_the_size_and_names_the_rest_where_no_pipeline_does() {
        let (small, large) = (
            Flux2TransformerConfig::klein_4b(),
            Flux2TransformerConfig::klein_9b(),
        );
        for (config, is_distilled, name, variant) in [
            (&small, None, "flux-2-klein-4b", Variant::Klein4),
            (
                &small,
                None,
                "flux-2-klein-base-4b-fp8",
                Variant::Klein4Base,
            ),
            (&large, None, "flux-2-klein-9b-Q4_K_M", Variant::Klein9),
            (&large, None, "flux-2-klein-base-9b", Variant::Klein9Base),
            (&small, None, "myFinetune_v2", Variant::Klein4),
            (&small, Some(false), "myFinetune_v2", Variant::Klein4Base),
            (&large, Some(true), "base", Variant::Klein9),
        ] {
            let found = Variant::of(config, is_distilled, &[name, ""]);
            assert_eq!(found, Ok(variant), "{name}");
        }
        let kv = Variant::of(&large, None, &["flux-2-klein-9b-kv", ""]);
        assert_eq!(kv, Err(KV.to_owned()));
        let dev = Variant::of(&Flux2TransformerConfig::default(), None, &[]);
        assert_eq!(dev, Err(DEV.to_owned()));
    }
}
