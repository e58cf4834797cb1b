//! Models that lie there and cannot be used: what each needs, and what a fetch would bring.

use std::fs;

use crate::catalog::{ModelCatalog, ModelProblem, UnusableModel};
use crate::settings::Settings;
use crate::testing::made_up::{T2V_1_3B, comfy_tree, transformer, vae, wan_in, write};
use crate::testing::pipelines::{catalog_in, user};

/// The only model that cannot be used when the parts of one are hidden.
fn one_without(parts: &[&str], name: &str) -> UnusableModel {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let file = format!("diffusion_models/{name}.safetensors");
    let place = wan_in(&models, &file, T2V_1_3B);
    for part in parts {
        fs::remove_dir_all(models.join(part)).unwrap();
    }
    let unusable = catalog_in(&[&models]).unusable();
    let [one] = <[UnusableModel; 1]>::try_from(unusable).expect("one model is here");
    assert_eq!((one.name.as_str(), &one.path), (name, &place));
    one
}

#[test]
fn incomplete_known_model_offers_to_download_its_missing_components() {
    let one = one_without(&["vae"], "wan2.1_t2v_1.3B_fp16");
    assert_eq!(one.ailment, ModelProblem::Incomplete);
    assert!(one.needs[0].example.starts_with("wan_2.1_vae.safetensors"));
    let fetch = one.fetch.expect("the catalogue knows it");
    let names: Vec<_> = fetch.to_fetch().map(|source| &source.name).collect();
    assert_eq!(names, ["wan_2.1_vae.safetensors"]);
}

#[test]
fn incomplete_unknown_model_offers_to_download_its_missing_components() {
    let one = one_without(&["vae", "text_encoders"], "my_own_tune_v7");
    assert_eq!(one.needs.len(), 2, "{:?}", one.needs);
    let fetch = one.fetch.expect("the files are known");
    assert_eq!(fetch.id, one.path.display().to_string());
    let mut names: Vec<_> = fetch.to_fetch().map(|source| &source.name[..]).collect();
    names.sort_unstable();
    let text = "umt5_xxl_fp8_e4m3fn_scaled.safetensors";
    assert_eq!(names, [text, "wan_2.1_vae.safetensors"]);
}

#[test]
fn a_model_beside_another_models_parts_is_named_and_its_part_is_missing() {
    let (root, paths) = user();
    let models = comfy_tree(&root.path().join("models"));
    let place = models.join("diffusion_models/my_tune-Q4_K_M.safetensors");
    write(&place, &transformer(T2V_1_3B), "F16");
    // The autoencoder here is that of Wan 2.2.
    let folder = models.join("vae");
    for entry in fs::read_dir(&folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    write(&folder.join("other_vae.safetensors"), &vae(48), "F16");
    let mut settings = Settings::default();
    settings.models.folders = vec![models];
    let unusable = ModelCatalog::load(&paths, &settings).unusable();
    let [one] = <[UnusableModel; 1]>::try_from(unusable).expect("one model is here");
    assert_eq!((one.name.as_str(), &one.path), ("my_tune-Q4_K_M", &place));
    assert_eq!(one.ailment, ModelProblem::Incomplete);
    assert!(one.summary.contains("is missing"), "{}", one.summary);
    assert!(!one.summary.contains("other_vae"), "{}", one.summary);
}

#[test]
fn models_that_share_a_damaged_part_are_each_named_by_their_transformer() {
    let (root, paths) = user();
    let models = comfy_tree(&root.path().join("models"));
    for name in ["first", "second"] {
        let place = models.join(format!("diffusion_models/{name}.safetensors"));
        write(&place, &transformer(T2V_1_3B), "F16");
    }
    for entry in fs::read_dir(models.join("vae")).unwrap() {
        fs::write(entry.unwrap().path(), [0; 16]).unwrap();
    }
    let mut settings = Settings::default();
    settings.models.folders = vec![models];
    let unusable = ModelCatalog::load(&paths, &settings).unusable();
    let names: Vec<&str> = unusable.iter().map(|model| model.name.as_str()).collect();
    assert!(
        names.contains(&"first") && names.contains(&"second"),
        "{names:?}"
    );
}

#[test]
fn a_damaged_file_is_named_and_nothing_is_offered_that_would_not_help() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path();
    fs::create_dir_all(models.join("diffusion_models")).unwrap();
    let place = models.join("diffusion_models/broken.gguf");
    fs::write(&place, b"GGUF and then nothing").unwrap();
    let unusable = catalog_in(&[models]).unusable();
    assert_eq!(unusable.len(), 1, "{unusable:?}");
    assert_eq!(unusable[0].ailment, ModelProblem::Broken);
    assert_eq!((unusable[0].needs.len(), &unusable[0].fetch), (0, &None));
    assert!(!unusable[0].summary.is_empty());
}
