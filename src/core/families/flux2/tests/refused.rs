//! Relatives of klein, and configs that no model has: named and refused.

use serde_json::json;

use super::{own, tree, write_folder};
use crate::families::flux::tests::files::edited;
use crate::model::{CatalogError, ModelSpec};
use crate::testing::made_up::write;
use crate::testing::pipelines::write_json;

#[test]
fn models_like_klein_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let with = |key: &str| edited(own("transformer 4b"), key, &[3072, 256]);
    let place = models.join("diffusion_models/x.safetensors");
    let kv = models.join("diffusion_models/flux-2-klein-9b-kv.safetensors");
    for (place, shapes, part) in [
        (&place, with("guidance_in.in_layer.weight"), "FLUX.2 dev"),
        (&place, with("control_img_in.weight"), "FLUX.2 ControlNet"),
        (&place, with("something_new.weight"), "something_new"),
        (&kv, own("transformer 9b"), "FLUX.2 klein KV"),
    ] {
        write(place, &shapes, "BF16");
        let err = ModelSpec::open(place).unwrap_err();
        assert!(
            matches!(err, CatalogError::Unsupported { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    for (class, part) in [
        (
            "Flux2Pipeline",
            "only its smaller relatives FLUX.2 klein 4B and 9B",
        ),
        ("Flux2KleinKVPipeline", "FLUX.2 klein KV"),
        ("Flux2SomethingPipeline", "Flux2SomethingPipeline"),
    ] {
        let folder = root.path().join(class);
        write_json(
            &folder.join("model_index.json"),
            &json!({"_class_name": class}),
        );
        let err = ModelSpec::open(&folder).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        assert!(err.to_string().contains(part), "{err}");
    }
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("model");
    write_folder(&folder, true);
    let place = folder.join("transformer/config.json");
    let published: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&place).unwrap()).unwrap();
    for (key, value, part) in [
        ("patch_size", json!(2), "patch_size"),
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("in_channels", json!(126), "in_channels"),
        (
            "axes_dims_rope",
            json!([32, 32, 32, 33]),
            "axes_dims_rope of 4 even numbers",
        ),
        ("mlp_ratio", json!(0.0), "mlp_ratio"),
        ("rope_theta", json!(0), "rope_theta"),
        ("eps", json!(1e-5), "eps"),
        (
            "timestep_guidance_channels",
            json!(128),
            "timestep_guidance_channels",
        ),
        ("num_layers", json!(4), "4 layers"),
        ("guidance_embeds", json!(true), "FLUX.2 dev"),
        ("quantization_config", json!({}), "quantised"),
    ] {
        let mut config = published.clone();
        config[key] = value;
        write_json(&place, &config);
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
    }
}
