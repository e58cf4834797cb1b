//! LoRA files on the disk: where they are found, and which of them are for a model.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::fitting::{LoraFit, LoraMatcher, find};
use crate::library::tests::installs::user_with_home;
use crate::lora::tests::layers::comfy;
use crate::model::test_spec;
use crate::settings::{AppPaths, Settings};
use crate::testing::made_up::{T2V_1_3B, T2V_14B, transformer, write, write_as};
use serde_json::json;

fn touch(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "weights").unwrap();
}

fn names(paths: &AppPaths, settings: &Settings) -> Vec<String> {
    let found = find(paths, settings).into_iter();
    found
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn loras_of_every_program_are_found_where_it_keeps_them() {
    let (root, paths, home) = user_with_home();
    touch(&home.join("ComfyUI/models/loras/style/a.safetensors"));
    touch(&home.join("ComfyUI/models/checkpoints/model.safetensors"));
    touch(&home.join("ComfyUI/models/loras/notes.txt"));
    touch(&home.join("Wan2GP/loras_i2v/b.safetensors"));
    fs::create_dir_all(home.join("Wan2GP/ckpts")).unwrap();
    touch(&home.join("stable-diffusion-webui/models/Lora/c.safetensors"));
    fs::create_dir_all(home.join("stable-diffusion-webui/models/VAE")).unwrap();
    let elsewhere = root.path().join("elsewhere");
    touch(&elsewhere.join("d.safetensors"));
    let list = format!("mine:\n  loras: {}\n", elsewhere.display());
    fs::write(home.join("ComfyUI/extra_model_paths.yaml"), list).unwrap();
    assert_eq!(names(&paths, &Settings::default()), ["a", "b", "c", "d"]);
}

#[test]
fn a_folder_of_the_settings_is_searched_by_name_and_a_circle_of_links_ends() {
    let (root, paths, _) = user_with_home();
    let folder = root.path().join("mine");
    touch(&folder.join("boat_lora_v2.safetensors"));
    touch(&folder.join("exploration.safetensors"));
    touch(&folder.join("LoRA/.hidden.safetensors"));
    touch(&folder.join("LoRA/sea.safetensors"));
    symlink(&folder, folder.join("LoRA/again")).unwrap();
    let sea = folder.join("LoRA/sea.safetensors");
    symlink(sea, folder.join("LoRA/z.safetensors")).unwrap();
    let mut settings = Settings::default();
    settings.models.folders = vec![folder];
    assert_eq!(names(&paths, &settings), ["boat_lora_v2", "sea"]);
}

#[test]
fn lora_fit_is_checked_and_mismatches_give_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut spec = test_spec();
    spec.files.transformer = write(&at("model.safetensors"), &transformer(T2V_1_3B), "BF16");
    let fitting = LoraMatcher::of(&spec).unwrap();
    let notes = json!({"modelspec.trigger_phrase": "b0at", "ss_base_model_version": "wan2.1"});
    let good = at("good.safetensors");
    write_as(&good, &comfy(T2V_1_3B), &|_| "BF16", 0, &notes);
    let good = fitting.look(&good);
    assert!(good.fits() && good.name() == "good" && good.bytes > 0);
    let card = good.card.unwrap();
    assert_eq!(card.trained_words, ["b0at"]);
    assert_eq!(card.base_model.as_deref(), Some("wan2.1"));
    let large = fitting.look(&write(&at("large.safetensors"), &comfy(T2V_14B), "BF16"));
    let LoraFit::No(reason) = &large.fit else {
        panic!("it is of another size")
    };
    assert!(reason.contains("Wan 14B"), "{reason}");
    assert!(!reason.contains("large.safetensors") && large.card.is_some());
    let model = fitting.look(&spec.files.transformer);
    assert!(matches!(model.fit, LoraFit::No(reason) if reason.contains("this is not a LoRA")));
    assert!(model.card.is_none());
    let gone = fitting.look(&at("gone.safetensors"));
    assert!(matches!(gone.fit, LoraFit::Gone));
    fs::write(at("short.safetensors"), "x").unwrap();
    let short = fitting.look(&at("short.safetensors"));
    assert!(matches!(short.fit, LoraFit::No(_)));
}
