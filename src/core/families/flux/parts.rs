//! The parts that a Flux transformer needs beside it.

use crate::families::parts::{clip_l, flux_vae, t5_xxl};
use crate::library::companions::wanted::Wanted;
use crate::model::Component;
use crate::networks::FluxTransformerConfig;

pub(super) fn parts(transformer: &FluxTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        flux_vae(transformer.latent_channels()),
        clip_l(Component::TextEncoder, transformer.pooled_projection_dim),
        t5_xxl(Component::TextEncoder2, transformer.joint_attention_dim),
    ]
}
