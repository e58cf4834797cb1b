//! The parts that a Z-Image transformer needs beside it.

use super::LANGUAGE;
use crate::families::parts::{flux_vae, qwen3_4b};
use crate::library::companions::wanted::Wanted;
use crate::networks::ZImageTransformerConfig;

pub(super) fn parts(transformer: &ZImageTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        flux_vae(transformer.in_channels),
        qwen3_4b(LANGUAGE, transformer.cap_feat_dim, "cap_feat_dim"),
    ]
}
