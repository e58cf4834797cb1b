//! ControlNets of SDXL: read whole, and other forms named and refused.

use serde_json::json;

use super::own;
use crate::families::sdxl;
use crate::model::ControlKind;
use crate::networks::{NetworkConfig as _, SdxlControlConfig, SdxlUnetConfig};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::testing::published::{
    assert_is_read, assert_needs_all, assert_no_control_network, control_network, edited,
};

/// xinsir's union of six types.
const UNION: &str = "controlnet union";

/// A ControlNet of one type: a union without what unions have besides.
fn plain_control() -> Shapes {
    let of_unions = [
        "task_embedding",
        "spatial_ch_projs",
        "transformer_layes",
        "control_add",
    ];
    let mut shapes = own(UNION);
    shapes.retain(|key, _| !of_unions.iter().any(|start| key.starts_with(start)));
    shapes
}

#[test]
fn headers_of_controlnets_plain_and_union_are_read_without_unused_keys() {
    let promax = edited(own(UNION), "task_embedding", &[8, 320]);
    let promax = edited(
        promax,
        "control_add_embedding.linear_1.weight",
        &[1280, 2048],
    );
    for (shapes, label, types, kinds) in [
        (plain_control(), "SDXL ControlNet", None, 0),
        (own(UNION), "SDXL ControlNet Union", Some(6), 8),
        (promax, "SDXL ControlNet Union", Some(8), 10),
    ] {
        let config: SdxlControlConfig = assert_is_read(&shapes, label);
        assert_eq!(config.num_control_type, types);
        assert_eq!(config.blocks, SdxlUnetConfig::default());
        assert_eq!(
            config.conditioning_embedding_out_channels,
            [16, 32, 96, 256]
        );
        let found = control_network(&shapes);
        assert_eq!((found.family, found.label), (sdxl::FAMILY, label));
        assert_eq!((found.kinds.len(), found.takes_masks), (kinds, false));
    }
    let is_looked_at = |key: &str| !key.contains("down_blocks") && !key.contains("mid_block.");
    assert_needs_all::<SdxlControlConfig>(&own(UNION), is_looked_at);
}

#[test]
fn a_union_must_be_told_the_kind_of_its_control_image_and_has_a_number_for_it() {
    use ControlKind::{Depth, Edges, Gray, Inpaint, Normals, Pose, Scribble, Segments, Tile};
    let union = control_network(&own(UNION));
    let problem = |kind| union.problem(sdxl::FAMILY, kind, false);
    assert!(problem(None).unwrap().contains("must be told"));
    assert!(problem(Some(Tile)).unwrap().contains("not tile"));
    for (kind, number) in [
        (Pose, 0),
        (Depth, 1),
        (Scribble, 2),
        (Edges, 3),
        (Normals, 4),
        (Segments, 5),
        (Tile, 6),
        (Inpaint, 7),
    ] {
        assert_eq!(sdxl::control::type_number(kind), Some(number));
    }
    assert_eq!(sdxl::control::type_number(Gray), None);
}

#[test]
fn config_json_of_a_controlnet_agrees_with_its_header() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("diffusion_pytorch_model.safetensors");
    write(&file, &own(UNION), "F16");
    let bare = SdxlControlConfig::read(&file).unwrap();
    // As xinsir's, whose class is called otherwise in diffusers.
    let config = json!({
        "_class_name": "ControlNetModel_Union", "_diffusers_version": "0.20.0.dev0", "act_fn": "silu",
        "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "attention_head_dim": [5, 10, 20],
        "block_out_channels": [320, 640, 1280], "conditioning_channels": 3,
        "conditioning_embedding_out_channels": [16, 32, 96, 256], "cross_attention_dim": 2048,
        "controlnet_conditioning_channel_order": "rgb", "global_pool_conditions": false, "in_channels": 4,
        "num_control_type": 6, "projection_class_embeddings_input_dim": 2816, "transformer_layers_per_block": [1, 2, 10],
        "use_linear_projection": true,
    });
    write_json(&root.path().join("config.json"), &config);
    assert_eq!(SdxlControlConfig::read(root.path()).unwrap(), bare);
}

#[test]
fn controlnets_in_other_forms_are_named_and_refused() {
    let of = |keys: &[(&str, &[u64])]| {
        let pairs = keys.iter();
        let pairs = pairs.map(|(key, shape)| ((*key).to_owned(), shape.to_vec()));
        pairs.collect::<Shapes>()
    };
    let hint: (&str, &[u64]) = ("input_hint_block.0.weight", &[16, 3, 3, 3]);
    let label: (&str, &[u64]) = ("label_emb.0.0.weight", &[1280, 2816]);
    let layer = "lllite_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q.down.0.weight";
    for (shapes, part) in [
        (
            of(&[hint, label, ("lora_controlnet", &[])]),
            "a control LoRA",
        ),
        (of(&[hint, label]), "Stability's code"),
        (of(&[(layer, &[64, 640])]), "ControlNet-LLLite"),
        (
            edited(
                plain_control(),
                "controlnet_cond_embedding.conv_in.weight",
                &[16, 4, 3, 3],
            ),
            "conditioning_channels",
        ),
    ] {
        assert_no_control_network(&shapes, part);
    }
}
