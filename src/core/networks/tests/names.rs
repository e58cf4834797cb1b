//! Names of the transformers' tensors in the files of every program, and the marks that show whose names a file has.

use crate::networks::dialects::TensorKeys;
use crate::networks::*;
use crate::testing::table;

/// Readers' names -> diffusers'.
fn assert_renamed<T: TransformerConfig>(rows: &str) {
    let [own, diffusers] = [false, true].map(TensorKeys::<T>::bare);
    for (ours, theirs) in table(rows) {
        assert_eq!(diffusers.file_key(ours), theirs);
        if !own.dialect.renames() {
            assert_eq!(own.file_key(ours), ours);
        }
    }
}

#[test]
fn names_are_those_of_diffusers_files() {
    // No file has the last name: its parts are requested instead.
    assert_renamed::<FluxTransformerConfig>(
        "img_in.weight -> x_embedder.weight
         guidance_in.out_layer.bias -> time_text_embed.guidance_embedder.linear_2.bias
         double_blocks.12.txt_attn.qkv.v.bias -> transformer_blocks.12.attn.add_v_proj.bias
         double_blocks.1.img_attn.norm.key_norm.scale -> transformer_blocks.1.attn.norm_k.weight
         double_blocks.0.txt_mlp.2.weight -> transformer_blocks.0.ff_context.net.2.weight
         single_blocks.37.linear1.mlp.weight -> single_transformer_blocks.37.proj_mlp.weight
         single_blocks.3.linear2.weight -> single_transformer_blocks.3.proj_out.weight
         final_layer.linear.bias -> proj_out.bias
         single_blocks.3.linear1.weight -> single_transformer_blocks.3.linear1.weight",
    );
    assert_renamed::<Flux2TransformerConfig>(
        "img_in.weight -> x_embedder.weight
         txt_in.weight -> context_embedder.weight
         time_in.out_layer.weight -> time_guidance_embed.timestep_embedder.linear_2.weight
         double_stream_modulation_txt.lin.weight -> double_stream_modulation_txt.linear.weight
         double_blocks.4.txt_attn.qkv.v.weight -> transformer_blocks.4.attn.add_v_proj.weight
         double_blocks.1.img_attn.norm.key_norm.scale -> transformer_blocks.1.attn.norm_k.weight
         double_blocks.0.txt_mlp.0.weight -> transformer_blocks.0.ff_context.linear_in.weight
         double_blocks.0.img_mlp.2.weight -> transformer_blocks.0.ff.linear_out.weight
         single_blocks.19.linear1.weight -> single_transformer_blocks.19.attn.to_qkv_mlp_proj.weight
         single_blocks.3.linear2.weight -> single_transformer_blocks.3.attn.to_out.weight
         final_layer.linear.weight -> proj_out.weight",
    );
    assert_renamed::<ChromaTransformerConfig>(
        "txt_in.weight -> context_embedder.weight
         final_layer.linear.bias -> proj_out.bias
         distilled_guidance_layer.in_proj.bias -> distilled_guidance_layer.in_proj.bias
         distilled_guidance_layer.layers.4.out_layer.weight -> distilled_guidance_layer.layers.4.linear_2.weight
         distilled_guidance_layer.norms.0.scale -> distilled_guidance_layer.norms.0.weight
         single_blocks.37.linear1.mlp.weight -> single_transformer_blocks.37.proj_mlp.weight",
    );
    assert_renamed::<QwenImageTransformerConfig>(
        "img_in.weight -> img_in.weight
         txt_norm.weight -> txt_norm.weight
         time_in.out_layer.bias -> time_text_embed.timestep_embedder.linear_2.bias
         double_blocks.59.txt_attn.qkv.v.bias -> transformer_blocks.59.attn.add_v_proj.bias
         double_blocks.0.img_attn.norm.key_norm.scale -> transformer_blocks.0.attn.norm_k.weight
         double_blocks.1.img_mod.lin.weight -> transformer_blocks.1.img_mod.1.weight
         double_blocks.1.txt_mod.lin.bias -> transformer_blocks.1.txt_mod.1.bias
         double_blocks.0.img_mlp.0.weight -> transformer_blocks.0.img_mlp.net.0.proj.weight
         double_blocks.0.txt_mlp.2.weight -> transformer_blocks.0.txt_mlp.net.2.weight
         final_layer.linear.bias -> proj_out.bias
         final_layer.adaLN_modulation.1.weight -> norm_out.linear.weight",
    );
    assert_renamed::<ZImageTransformerConfig>(
        "x_embedder.bias -> all_x_embedder.2-1.bias
         final_layer.adaLN_modulation.1.weight -> all_final_layer.2-1.adaLN_modulation.1.weight
         layers.29.attention.qkv.v.weight -> layers.29.attention.to_v.weight
         noise_refiner.1.attention.q_norm.weight -> noise_refiner.1.attention.norm_q.weight
         context_refiner.0.attention.out.weight -> context_refiner.0.attention.to_out.0.weight
         layers.3.feed_forward.w2.weight -> layers.3.feed_forward.w2.weight
         cap_embedder.1.bias -> cap_embedder.1.bias
         x_pad_token -> x_pad_token",
    );
    assert_renamed::<ZImageControlConfig>(
        "control_x_embedder.bias -> control_all_x_embedder.2-1.bias
         control_layers.14.attention.qkv.v.weight -> control_layers.14.attention.to_v.weight
         control_noise_refiner.1.attention.out.weight -> control_noise_refiner.1.attention.to_out.0.weight
         control_layers.0.before_proj.weight -> control_layers.0.before_proj.weight",
    );
    assert_renamed::<WanTransformerConfig>(
        "blocks.11.self_attn.q.weight -> blocks.11.attn1.to_q.weight
         blocks.11.self_attn.norm_k.weight -> blocks.11.attn1.norm_k.weight
         blocks.11.cross_attn.o.bias -> blocks.11.attn2.to_out.0.bias
         blocks.11.cross_attn.k_img.weight -> blocks.11.attn2.add_k_proj.weight
         blocks.11.cross_attn.v_img.bias -> blocks.11.attn2.add_v_proj.bias
         blocks.11.cross_attn.norm_k_img.weight -> blocks.11.attn2.norm_added_k.weight
         blocks.11.norm3.bias -> blocks.11.norm2.bias
         blocks.11.ffn.0.weight -> blocks.11.ffn.net.0.proj.weight
         blocks.11.ffn.2.bias -> blocks.11.ffn.net.2.bias
         blocks.11.modulation -> blocks.11.scale_shift_table
         patch_embedding.weight -> patch_embedding.weight
         head.head.bias -> proj_out.bias
         head.modulation -> scale_shift_table
         time_projection.1.weight -> condition_embedder.time_proj.weight
         text_embedding.2.bias -> condition_embedder.text_embedder.linear_2.bias
         img_emb.proj.4.bias -> condition_embedder.image_embedder.norm2.bias
         img_emb.emb_pos -> condition_embedder.image_embedder.pos_embed",
    );
    assert_renamed::<FramePackTransformerConfig>(
        "double_blocks.3.txt_attn.qkv.bias -> transformer_blocks.3.txt_attn.qkv.bias
         double_blocks.3.img_attn.qkv.q.weight -> transformer_blocks.3.attn.to_q.weight
         single_blocks.12.linear1.mlp.bias -> single_transformer_blocks.12.proj_mlp.bias
         single_blocks.12.norm.key_norm.scale -> single_transformer_blocks.12.attn.norm_k.weight
         txt_in.individual_token_refiner.blocks.1.norm2.weight -> context_embedder.token_refiner.refiner_blocks.1.norm2.weight
         txt_in.individual_token_refiner.blocks.1.adaLN_modulation.1.bias -> context_embedder.token_refiner.refiner_blocks.1.norm_out.linear.bias
         txt_in.c_embedder.out_layer.weight -> context_embedder.time_text_embed.text_embedder.linear_2.weight
         img_in.proj.weight -> x_embedder.proj.weight
         clean_x_embedder.proj_4x.weight -> clean_x_embedder.proj_4x.weight",
    );
    assert_renamed::<Krea2TransformerConfig>(
        "first.bias -> img_in.bias
         tmlp.2.weight -> time_embed.linear_2.weight
         txtmlp.0.scale -> txt_in.norm.weight
         txtmlp.3.bias -> txt_in.linear_2.bias
         blocks.27.attn.heads.v.weight -> transformer_blocks.27.attn.to_v.weight
         txtfusion.refiner_blocks.1.attn.heads.gate.weight -> text_fusion.refiner_blocks.1.attn.to_gate.weight
         txtfusion.layerwise_blocks.0.postnorm.scale -> text_fusion.layerwise_blocks.0.norm2.weight
         blocks.3.mlp.down.weight -> transformer_blocks.3.ff.down.weight
         last.modulation.lin -> final_layer.scale_shift_table",
    );
}

#[test]
fn names_are_those_of_the_authors_files_where_readers_have_others() {
    let hunyuan = FramePackTransformerKeys::all().nth(1).unwrap();
    for (ours, theirs) in table(
        "double_blocks.3.txt_attn.qkv.bias -> double_blocks.3.txt_attn_qkv.bias
         single_blocks.12.norm.key_norm.scale -> single_blocks.12.k_norm.weight
         txt_in.individual_token_refiner.blocks.1.norm2.weight -> txt_in.individual_token_refiner.blocks.1.norm2.weight
         txt_in.c_embedder.out_layer.weight -> txt_in.c_embedder.linear_2.weight
         img_in.proj.weight -> img_in.proj.weight",
    ) {
        assert_eq!(hunyuan.file_key(ours), theirs);
    }
    let krea = Krea2TransformerKeys::bare(false);
    for (ours, theirs) in table(
        "first.bias -> first.bias
         blocks.27.attn.heads.v.weight -> blocks.27.attn.wv.weight
         txtfusion.refiner_blocks.1.attn.heads.gate.weight -> txtfusion.refiner_blocks.1.attn.gate.weight",
    ) {
        assert_eq!(krea.file_key(ours), theirs);
    }
}

/// Asserts that each dialect is detected by its marks after every prefix.
fn assert_found<T: TransformerConfig>() {
    assert_eq!(TensorKeys::<T>::detect(|_| false), None);
    for (prefix, dialect) in T::PREFIXES
        .iter()
        .flat_map(|prefix| T::DIALECTS.iter().map(move |dialect| (prefix, dialect)))
    {
        let marks = dialect
            .marks
            .iter()
            .flat_map(|(least, marks)| &marks[..*least]);
        let names: Vec<String> = marks.map(|mark| format!("{prefix}{mark}")).collect();
        let keys = TensorKeys::<T>::detect(|key| names.contains(&key.to_owned())).unwrap();
        assert_eq!(
            (keys.prefix, keys.is_diffusers),
            (*prefix, dialect.is_diffusers)
        );
        assert!(names.iter().all(|name| name.starts_with(keys.prefix)));
    }
}

#[test]
fn key_layout_is_detected_with_any_prefix_and_not_in_related_models() {
    assert_found::<AnimaTransformerConfig>();
    assert_found::<WanTransformerConfig>();
    assert_found::<FluxTransformerConfig>();
    assert_found::<Flux2TransformerConfig>();
    assert_found::<Flux3TransformerConfig>();
    assert_found::<ChromaTransformerConfig>();
    assert_found::<FramePackTransformerConfig>();
    assert_found::<Krea2TransformerConfig>();
    assert_found::<QwenImageTransformerConfig>();
    assert_found::<ZImageTransformerConfig>();
    let detects = |keys: &[&str]| {
        let has = |key: &str| keys.contains(&key);
        [
            TransformerKeys::detect(has).is_some(),
            Flux2TransformerKeys::detect(has).is_some(),
            QwenImageTransformerKeys::detect(has).is_some(),
            ZImageTransformerKeys::detect(has).is_some(),
        ]
    };
    for relative in [
        &["patch_embedding.weight"][..],
        &["img_in.weight", "single_blocks.0.modulation.lin.weight"],
        &["txt_norm.weight"],
        // Lumina 2's.
        &[
            "x_embedder.weight",
            "final_layer.linear.weight",
            "layers.0.attention.qkv.weight",
        ],
    ] {
        assert_eq!(detects(relative), [false; 4], "{relative:?}");
    }
}
