//! What the tensors of Wan's transformer are called in every dialect.

use super::*;
use crate::testing::table;

#[test]
fn every_name_of_a_block_is_translated() {
    for (ours, theirs) in table(
        "self_attn.q.weight -> attn1.to_q.weight
         self_attn.norm_k.weight -> attn1.norm_k.weight
         cross_attn.o.bias -> attn2.to_out.0.bias
         cross_attn.k_img.weight -> attn2.add_k_proj.weight
         cross_attn.v_img.bias -> attn2.add_v_proj.bias
         cross_attn.norm_k_img.weight -> attn2.norm_added_k.weight
         norm3.bias -> norm2.bias
         ffn.0.weight -> ffn.net.0.proj.weight
         ffn.2.bias -> ffn.net.2.bias
         modulation -> scale_shift_table",
    ) {
        let found = TransformerKeys::bare(true).file_key(&format!("blocks.11.{ours}"));
        assert_eq!(found, format!("blocks.11.{theirs}"));
    }
}

#[test]
fn names_outside_of_blocks_are_translated() {
    for (ours, theirs) in table(
        "patch_embedding.weight -> patch_embedding.weight
         head.head.bias -> proj_out.bias
         head.modulation -> scale_shift_table
         time_projection.1.weight -> condition_embedder.time_proj.weight
         text_embedding.2.bias -> condition_embedder.text_embedder.linear_2.bias
         img_emb.proj.4.bias -> condition_embedder.image_embedder.norm2.bias
         img_emb.emb_pos -> condition_embedder.image_embedder.pos_embed",
    ) {
        assert_eq!(TransformerKeys::bare(true).file_key(ours), theirs);
    }
}

#[test]
fn a_dialect_is_found_behind_every_prefix_and_in_nothing_else() {
    for prefix in WanTransformerConfig::PREFIXES {
        for (second, is_diffusers) in [
            ("time_projection.1.weight", false),
            ("condition_embedder.time_proj.weight", true),
        ] {
            let names = ["patch_embedding.weight", second].map(|n| format!("{prefix}{n}"));
            let keys = TransformerKeys::detect(|key| names.contains(&key.to_owned())).unwrap();
            assert_eq!((keys.prefix, keys.is_diffusers), (*prefix, is_diffusers));
            assert_eq!(keys.file_key("time_projection.1.weight"), names[1]);
        }
    }
    let lone = TransformerKeys::detect(|key| key == "patch_embedding.weight");
    assert_eq!(lone, None);
}
