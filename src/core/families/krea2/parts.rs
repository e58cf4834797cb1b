//! The parts that a Krea 2 transformer needs beside it.

use super::LANGUAGE;
use crate::families::parts::{picture_wan_vae, qwen3_vl_4b};
use crate::library::companions::wanted::Wanted;
use crate::networks::Krea2TransformerConfig;

pub(super) fn parts(transformer: &Krea2TransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        picture_wan_vae(transformer.latent_channels()),
        qwen3_vl_4b(LANGUAGE, transformer.text_hidden_dim, "text_hidden_dim"),
    ]
}
