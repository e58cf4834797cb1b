//! Every tensor of the parts next to a transformer: what lacks one is refused from the header, not after minutes.

use std::path::Path;

use crate::formats::weights::WeightSet;
use crate::library::tests::parts::NARROW;
use crate::model::{CatalogError, ModelSpec};
use crate::networks::{NetworkConfig as _, WanVaeConfig};
use crate::testing::made_up::{
    I2V_14B, TI2V_5B, clip_vision, comfy_tree, vae, vae_of, wan_in, write,
};
use crate::testing::published::{behind, shapes_of};
use crate::testing::{assert_not_opened, fixture};

/// The first is proved by a file of Qwen-Image's, whose names and shapes diffusers' converter knows.
#[test]
fn the_published_autoencoder_has_the_tensors_of_the_authors() {
    assert_eq!(vae(16), shapes_of("krea2", "qwen_image_vae"));
}

/// Every tensor of both published autoencoders in both dialects, and of either half.
#[test]
fn an_autoencoder_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("vae.safetensors");
    for (channels, num_tensors) in [(16, 194), (48, 196)] {
        for is_original in [true, false] {
            let shapes = vae_of(&WanVaeConfig::published(channels), is_original);
            write(&place, &shapes, "F32");
            let whole = WeightSet::open(&place).unwrap();
            assert_eq!(whole.tensors.len(), num_tensors, "{channels} {is_original}");
            each_tensor_counts(&whole, &place);
        }
    }
}

/// Written by diffusers, so that names and shapes are not this program's own idea of them.
#[test]
fn autoencoders_that_diffusers_wrote_are_whole_and_each_of_their_tensors_is_looked_for() {
    for name in ["flat", "attended", "residual", "shallow"] {
        let folder = fixture("vae").join(name);
        each_tensor_counts(&WeightSet::open(&folder).unwrap(), &folder);
    }
}

fn check_vae(weights: &WeightSet, config: &Path) -> Result<(), CatalogError> {
    WanVaeConfig::read(config)?.check_weights(weights)
}

fn each_tensor_counts(whole: &WeightSet, config: &Path) {
    check_vae(whole, config).unwrap_or_else(|err| panic!("{}: {err}", config.display()));
    for key in whole.tensors.keys() {
        let mut part = whole.clone();
        let mut entry = part.tensors.remove(key).unwrap();
        let text = check_vae(&part, config).unwrap_err().to_string();
        assert!(text.contains(key.as_str()), "{key}: {text}");
        entry.shape[0] += 1;
        part.tensors.insert(key.clone(), entry);
        let text = check_vae(&part, config).unwrap_err().to_string();
        assert!(text.contains(key.as_str()), "{key}: {text}");
    }
}

#[test]
fn vae_with_a_key_prefix_is_found_like_one_without() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    for (prefix, channels, dims, name) in [
        ("vae.", 16, NARROW, "wan_2.1_vae.safetensors"),
        ("first_stage_model.", 48, TI2V_5B, "wan2.2_vae.safetensors"),
        ("model.some.vae.", 16, NARROW, "wan_2.1_vae.safetensors"),
    ] {
        let file = models.join("vae").join(name);
        write(&file, &behind(prefix, &vae(channels)), "F32");
        let place = wan_in(&models, "x.safetensors", dims);
        let spec = ModelSpec::open(&place).unwrap_or_else(|err| panic!("{prefix}: {err}"));
        assert_eq!(spec.files.vae, file, "{prefix}");
    }
}

#[test]
fn an_image_encoder_without_its_last_norm_is_refused_before_anything_loads() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let vision = models.join("clip_vision/clip_vision_h.safetensors");
    let place = wan_in(&models, "x.safetensors", I2V_14B);
    for end in ["weight", "bias"] {
        let mut shapes = clip_vision();
        let key = format!("vision_model.post_layernorm.{end}");
        shapes.remove(&key).unwrap();
        write(&vision, &shapes, "F16");
        assert_not_opened(&place, &[&key]);
    }
}
