//! The parts that a Chroma transformer needs beside it.

use crate::families::parts::{flux_vae, t5_xxl};
use crate::library::companions::wanted::Wanted;
use crate::model::Component;
use crate::networks::ChromaTransformerConfig;

pub(super) fn parts(transformer: &ChromaTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        flux_vae(transformer.latent_channels()),
        t5_xxl(Component::TextEncoder, transformer.joint_attention_dim),
    ]
}
