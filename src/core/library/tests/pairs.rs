//! Two experts of one model: found by either, refused alone, never two of different kinds.

use std::fs;

use crate::model::{CatalogError, ModelSpec};
use crate::testing::made_up::{
    I2V_EXPERT, T2V_1_3B, T2V_14B, comfy_tree, transformer, wan_in, write,
};
use crate::testing::pipelines::catalog_in;
use crate::testing::table;

#[test]
fn experts_find_each_other_from_either_side_in_files_and_folders_of_any_usual_name() {
    let root = tempfile::tempdir().unwrap();
    for (number, (high, low)) in table(
        "wan2.2_i2v_high_noise_14B_fp16 -> wan2.2_i2v_low_noise_14B_fp16
         Wan2_2-I2V-A14B-HIGH_bf16 -> Wan2_2-I2V-A14B-LOW_bf16
         HighNoise/Wan2.2-I2V-HighNoise -> LowNoise/Wan2.2-I2V-LowNoise
         high-noise/model -> low-noise/model
         mix_fp16_H -> mix_fp16_L
         my_h_mix -> my_l_mix
         wan_high_noise_fp16 -> wan_low_noise_bf16",
    )
    .enumerate()
    {
        let models = comfy_tree(&root.path().join(number.to_string()));
        let folder = models.join("diffusion_models");
        let [high, low] =
            [high, low].map(|name| wan_in(&folder, &format!("{name}.safetensors"), I2V_EXPERT));
        for named in [&high, &low] {
            let spec = ModelSpec::open(named).unwrap();
            assert_eq!(spec.files.transformer, high);
            assert_eq!(spec.files.transformer_2.as_ref(), Some(&low));
            assert_eq!((spec.variant.as_str(), &spec.folder), ("I2V-A14B", &high));
        }
    }
}

#[test]
fn a_lone_expert_is_refused_with_the_name_of_the_other() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    for (name, part) in table(
        "wan2.2_t2v_high_noise_14B_fp16 -> wan2.2_t2v_low_noise_14B_fp16.safetensors
         Wan2.2-I2V-LowNoise -> Wan2.2-I2V-HighNoise.safetensors
         Wan2_2-T2V-A14B-HIGH_bf16 -> the low-noise one beside it, Wan2_2-T2V-A14B-LOW_bf16.safetensors, found none
         wan22_t2v_low -> wan22_t2v_high.safetensors
         t2v_14B_LOW -> t2v_14B_HIGH.safetensors
         wan_i2v_HIGH -> wan_i2v_LOW.safetensors
         wan_i2v -> high_noise and low_noise in their names",
    ) {
        let is_image = name.to_lowercase().contains("i2v");
        let dims = if is_image { I2V_EXPERT } else { T2V_14B };
        let path = wan_in(&models, &format!("{name}.safetensors"), dims);
        let err = ModelSpec::open(&path).unwrap_err();
        assert!(matches!(err, CatalogError::Expert { .. }), "{name}: {err}");
        assert!(err.to_string().contains(part), "{name}: {err}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn words_for_a_side_make_no_expert_of_a_text_model_without_the_other_file() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let path = models.join("wan_high_quality.safetensors");
    write(&path, &transformer(T2V_14B), "F16");
    assert_eq!(ModelSpec::open(&path).unwrap().variant, "T2V");
    // The other name with other shapes is another model.
    let other = models.join("wan_low_quality.safetensors");
    write(&other, &transformer(T2V_1_3B), "F16");
    assert_eq!(ModelSpec::open(&path).unwrap().variant, "T2V");
    write(&other, &transformer(T2V_14B), "F16");
    assert_eq!(ModelSpec::open(&path).unwrap().variant, "T2V-A14B");
}

#[test]
fn two_experts_of_different_kinds_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let high = models.join("wan_high_noise.safetensors");
    let low = models.join("wan_low_noise.safetensors");
    write(&high, &transformer(T2V_14B), "F16");
    write(&low, &transformer(I2V_EXPERT), "F16");
    for named in [&high, &low] {
        let err = ModelSpec::open(named).unwrap_err();
        let text = err.to_string();
        assert!(text.contains("same kind") && text.contains("36"), "{text}");
        assert!(text.ends_with("wan_low_noise.safetensors"), "{text}");
    }
}

#[test]
fn the_other_expert_may_lie_in_another_searched_place_and_a_pair_is_one_model() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(&root.path().join("models"));
    let high = models.join("unet/a/wan2.2_t2v_high_noise_14B_fp16.safetensors");
    let low = root
        .path()
        .join("second/wan2.2_t2v_low_noise_14B_fp16.safetensors");
    for path in [&high, &low] {
        write(path, &transformer(T2V_14B), "F16");
    }
    let catalog = catalog_in(&[&models, &root.path().join("second")]);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert_eq!(catalog.available.len(), 1);
    assert_eq!(catalog.available[0].files.transformer_2, Some(low.clone()));
    let spec = catalog.find(&low.to_string_lossy()).unwrap();
    assert_eq!(spec.files, catalog.available[0].files);
}
