//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

mod position_ids;
mod references;

use super::*;
use crate::families::flux::tests::dialects::NAMES;
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel, renamed, with_halves_swapped};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

/// Names that FLUX.1 does not have.
const OWN_NAMES: &str = "
time_in.in_layer -> time_guidance_embed.timestep_embedder.linear_1
time_in.out_layer -> time_guidance_embed.timestep_embedder.linear_2
guidance_in.in_layer -> time_guidance_embed.guidance_embedder.linear_1
guidance_in.out_layer -> time_guidance_embed.guidance_embedder.linear_2
double_stream_modulation_img.lin -> double_stream_modulation_img.linear
double_stream_modulation_txt.lin -> double_stream_modulation_txt.linear
single_stream_modulation.lin -> single_stream_modulation.linear
double_blocks.N.img_mlp.0 -> transformer_blocks.N.ff.linear_in
double_blocks.N.img_mlp.2 -> transformer_blocks.N.ff.linear_out
double_blocks.N.txt_mlp.0 -> transformer_blocks.N.ff_context.linear_in
double_blocks.N.txt_mlp.2 -> transformer_blocks.N.ff_context.linear_out
single_blocks.N.linear1 -> single_transformer_blocks.N.attn.to_qkv_mlp_proj
single_blocks.N.linear2 -> single_transformer_blocks.N.attn.to_out";

impl<K: Flux2Kind> TinyModel for Flux2Transformer<K> {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of(K::FAMILY.id),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            // Another order of sums, and the frequencies of timesteps: the reference's limit for LoRAs. Guidance is embedded
            // as sines of thousands, where one bit in a frequency shows.
            limits: if K::FAMILY == flux2::FAMILY {
                [1e-5, 3e-5]
            } else {
                [5e-5, 5e-5]
            },
            loras: &["kohya", "aitoolkit", "base_model", "peft"],
            other_loras: &["comfy_alpha"],
            streamed_loras: ["kohya", "comfy_alpha"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.45,
            has_skips: K::FAMILY == flux2::FAMILY,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        with_halves_swapped(renamed(&[NAMES, OWN_NAMES].concat(), diffusers))
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}
