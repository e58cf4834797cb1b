//! Wan VACE from names and shapes alone: every tensor of the published files, and how they are told from others. Wan's
//! other models are tested with the catalogue and the library.

use super::FAMILY;
use crate::catalog::IdentityCard;
use crate::model::{ControlBy, ModelSpec};
use crate::networks::WanTransformerConfig;
use crate::testing::made_up::{Shapes, comfy_tree, write};
use crate::testing::published::{assert_published, shapes_of};

/// One of the files in `tests/fixtures/headers/wan.json`.
fn own(name: &str) -> Shapes {
    shapes_of("wan", name)
}

fn published(size: &str) -> WanTransformerConfig {
    let large = WanTransformerConfig {
        vace_layers: (0..40).step_by(5).collect(),
        ..WanTransformerConfig::default()
    };
    match size {
        "14B" => large,
        _ => WanTransformerConfig {
            num_attention_heads: 12,
            ffn_dim: 8960,
            num_layers: 30,
            vace_layers: (0..30).step_by(2).collect(),
            ..large
        },
    }
}

#[test]
fn no_tensor_of_a_published_vace_is_missing_or_unexpected_in_any_dialect() {
    // Without it nobody can tell in whose names a file is.
    let tells = "time_projection.1.weight";
    for (size, numbers) in [("1.3B", 2_153_972_032), ("14B", 17_337_592_896)] {
        let all = ["", " diffusers"].map(|dialect| own(&format!("vace {size}{dialect}")));
        let is_looked_at = |key: &str| !key.contains("blocks.1") && key != tells;
        assert_published(&all, &published(size), numbers, is_looked_at);
    }
}

#[test]
fn a_file_with_control_blocks_is_a_vace_that_takes_videos_masks_and_references() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("diffusion_models/some_vace.safetensors");
    write(&place, &own("vace 1.3B"), "F16");
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!((spec.family, &spec.variant[..]), (FAMILY, "VACE"));
    assert!(spec.files.takes_control);
    let takes = spec.limits.controls;
    assert_eq!((takes.by, takes.most), (ControlBy::Layers, 1));
    assert!(takes.takes_videos && takes.takes_masks && !takes.is_required);
    assert_eq!(spec.limits.max_references, 4);
    let card = IdentityCard::read(&place).unwrap();
    assert!(card.what.contains("Wan 2.1 VACE 1.3B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
}

#[test]
fn two_experts_with_control_blocks_are_one_model() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let folder = models.join("diffusion_models");
    let name = |side: &str| folder.join(format!("wan2.2_fun_vace_{side}_noise_14B.safetensors"));
    let high = write(&name("high"), &own("vace 14B"), "F16");
    let alone = ModelSpec::open(&high).unwrap_err().to_string();
    assert!(alone.contains("VACE-A14B") && alone.contains("low"));
    let low = write(&name("low"), &own("vace 14B"), "F16");
    let spec = ModelSpec::open(&high).unwrap();
    assert_eq!(&spec.variant[..], "VACE-A14B");
    assert_eq!(spec.files.transformer_2, Some(low));
    assert_eq!(spec.files.boundary_ratio, Some(0.875));
}
