//! The parts beside a transformer that several families need, and how a part is told to be as wide as it must be.
//!
//! Which parts a family's transformer needs is in its own folder.

use std::path::Path;

use crate::library::companions::wanted::{
    TokenizerForm, Wanted, WantedTokenizer, fits_transformer,
};
use crate::model::{CatalogError, Component};
use crate::networks::PartKind;
use crate::networks::{ClipTextConfig, NetworkConfig as _, clip_text};

/// The file to get where a CLIP-L is missing or wrong.
const CLIP_L: &str = "clip_l.safetensors from comfyanonymous/flux_text_encoders";

/// The CLIP-L that gives a transformer the pooled text, of `width` numbers.
pub(super) fn clip_l(component: Component, width: i64) -> Wanted<'static> {
    let is_first = component == Component::TextEncoder;
    Wanted {
        component,
        part: PartKind::Clip,
        what: "a CLIP-L text encoder".to_owned(),
        kind: "a CLIP text encoder",
        example: CLIP_L,
        usual: if is_first {
            &["clip_l", "text_encoder"]
        } else {
            &["clip_l", "text_encoder_2"]
        },
        word: "clip",
        is_in: |weights| clip_text::prefix(&weights.names()).is_some(),
        fits: Box::new(move |weights, place| {
            let config = ClipTextConfig::read(place)?;
            let what = ["a CLIP text encoder", "hidden_size"];
            let widths = [width, config.hidden_size];
            check_width(what, "pooled_projection_dim", widths, CLIP_L, place)?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of CLIP",
            example: if is_first {
                "the folder tokenizer that was published with this text encoder"
            } else {
                "the folder tokenizer_2 that was published with this text encoder"
            },
            folders: if is_first {
                &[
                    "tokenizer",
                    "clip-l",
                    "clip-vit-large-patch14",
                    "tokenizers/clip-l",
                ]
            } else {
                &[
                    "tokenizer_2",
                    "clip-l",
                    "clip-vit-large-patch14",
                    "tokenizers/clip-l",
                ]
            },
            bundled: Some("clip-l"),
            form: TokenizerForm::Pairs,
            vocab_size: |place| Ok(ClipTextConfig::read(place)?.vocab_size),
        }),
    }
}

/// Checks that an encoder is as wide as the transformer's config says. `what`: a noun phrase, and what its config calls
/// the width; `by`: what the transformer's does; `widths`: expected and found.
pub(super) fn check_width(
    [what, key]: [&str; 2],
    by: &str,
    [expected, found]: [i64; 2],
    example: &'static str,
    place: &Path,
) -> Result<(), CatalogError> {
    let what = format!("{what} with a {key} of {expected}, the transformer's {by}");
    fits_transformer(expected == found, &what, example, place, || {
        format!("one of {found}")
    })
}
