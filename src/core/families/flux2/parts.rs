//! The parts that a FLUX.2 transformer needs beside it.

use std::path::Path;

use super::LANGUAGE;
use crate::families::files::is_one_of;
use crate::families::parts::{qwen3_4b, qwen3_8b};
use crate::library::companions::wanted::{Wanted, fits_transformer};
use crate::model::Component;
use crate::model::facts::TransformerShape;
use crate::networks::PartKind;
use crate::networks::{Flux2TransformerConfig, KlVaeConfig, NetworkConfig as _};

/// What to get where the autoencoder is missing or wrong.
pub(super) const FLUX2_VAE: &str = "flux2-vae.safetensors from Comfy-Org/flux2-dev";

/// Hidden states of the text encoder that stand side by side.
pub(super) const STATES: i64 = 3;
/// The width of the larger of the two text encoders.
const WIDTH_OF_8B: i64 = 4096;

pub(super) fn parts(transformer: &Flux2TransformerConfig) -> Vec<Wanted<'_>> {
    let width = transformer.joint_attention_dim / STATES;
    let qwen = if width < WIDTH_OF_8B {
        qwen3_4b
    } else {
        qwen3_8b
    };
    vec![
        flux2_vae(transformer.latent_channels()),
        qwen(LANGUAGE, width, "joint_attention_dim / 3"),
    ]
}

/// The published transformer of such a shape, of which there are two sizes.
pub(super) fn published(shape: TransformerShape) -> Flux2TransformerConfig {
    let small = Flux2TransformerConfig::klein_4b();
    if shape.heads <= small.num_attention_heads {
        small
    } else {
        Flux2TransformerConfig::klein_9b()
    }
}

/// Whether a place holds this part of the published model with such a transformer.
pub(super) fn is_published(component: Component, shape: TransformerShape, place: &Path) -> bool {
    let is_wide = component != Component::Vae || is_published_vae(place);
    is_wide && is_one_of(&parts(&published(shape)), component, place)
}

pub(super) fn is_published_vae(place: &Path) -> bool {
    let published = KlVaeConfig::of_thirty_two_channels().block_out_channels;
    KlVaeConfig::read(place).is_ok_and(|config| config.block_out_channels == published)
}

/// The autoencoder with normed latents of `expected` channels.
fn flux2_vae(expected: i64) -> Wanted<'static> {
    Wanted {
        component: Component::Vae,
        part: PartKind::KlVae,
        what: format!("a FLUX.2 VAE ({expected} latent channels)"),
        kind: "a FLUX.2 VAE",
        example: FLUX2_VAE,
        usual: &[
            "flux2-vae",
            "flux2_vae",
            "full_encoder_small_decoder",
            "vae",
        ],
        word: "flux2",
        is_in: KlVaeConfig::is_in,
        fits: Box::new(move |weights, place| {
            let config = KlVaeConfig::read(place)?;
            let found = config.latent_channels;
            let fits = expected == found && config.is_normed();
            let what = format!("a FLUX.2 VAE ({expected} latent channels)");
            fits_transformer(fits, &what, FLUX2_VAE, place, || {
                format!("one with {found} latent channels")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}
