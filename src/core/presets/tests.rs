//! Presets of every model, and of the user's file.

use std::fs;

use super::*;
use crate::job::{ChosenLora, SamplerKind, SectionOrder, StepCacheKind};
use crate::model::{PartialSampling, test_spec};
use crate::prompts::PromptEntry;

fn own(name: &str, steps: u32) -> OwnPreset {
    OwnPreset {
        name: name.to_owned(),
        model: Some("flux1-dev".to_owned()),
        values: PresetValues {
            size: Some(PresetSize::Exact(832, 480)),
            sampling: PartialSampling {
                num_steps: Some(steps),
                shift: Some(0.0),
                sampler: Some(SamplerKind::DpmPp2m),
                ..PartialSampling::default()
            },
            step_cache: Some(CacheChoice(Some(StepCacheKind::MagCache.into()))),
            ..PresetValues::default()
        },
        content: PresetContent::default(),
    }
}

#[test]
fn prompts_and_loras_of_a_preset_are_saved_replaced_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("presets.toml");
    let mut with = own("Ink", 20);
    let lora = |name: &str, strength| ChosenLora {
        strength,
        ..ChosenLora::new(name.into())
    };
    with.content = PresetContent {
        prompt: Some(PromptEntry {
            prompt: "a \"red\" boat,\n{ink|oil}".to_owned(),
            negative: "fog".to_owned(),
            ..PromptEntry::default()
        }),
        loras: Some(vec![
            lora("/l/ink.safetensors", 0.8),
            lora("/l/b.safetensors", -1.0),
        ]),
    };
    let save =
        |preset: &OwnPreset| edit(&path, &PresetEdit::Save(Box::new(preset.clone()))).unwrap();
    save(&own("Plain", 10));
    save(&with);
    let loaded = load(&path);
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!(loaded.presets, [own("Plain", 10), with.clone()]);
    assert_eq!(with.content.described(), "the prompts and 2 LoRAs");
    with.content.prompt = None;
    save(&with);
    assert_eq!(load(&path).presets[1], with);
    assert!(!fs::read_to_string(&path).unwrap().contains("{ink|oil}"));
}

#[test]
fn a_draft_is_smaller_and_shorter_and_a_final_is_longer() {
    let mut spec = test_spec();
    spec.limits.fixed_size = false;
    (spec.defaults.width, spec.defaults.height) = (832, 480);
    spec.defaults.sampling.num_steps = 30;
    let steps = QualityPreset::ALL.map(|quality| quality.values(&spec).sampling.num_steps);
    assert_eq!(steps, [Some(15), Some(30), Some(45)]);
    let draft = QualityPreset::Draft.values(&spec);
    assert_eq!(draft.size, Some(PresetSize::Smaller));
    assert_eq!(draft.step_cache, Some(CacheChoice(None)));
    assert_eq!(draft_size(&spec, 832.0 / 480.0), (544, 320));
    let expected = Some(PresetSize::Full);
    assert_eq!(QualityPreset::Final.values(&spec).size, expected);

    spec.section_order = Some(SectionOrder::Original);
    let cache = QualityPreset::Draft.values(&spec).step_cache;
    let kind = cache.and_then(|cache| cache.0).map(|cache| cache.kind);
    assert_eq!(kind, Some(StepCacheKind::TeaCache));
    let cache = QualityPreset::Final.values(&spec).step_cache;
    assert_eq!(cache, Some(CacheChoice(None)));
}

#[test]
fn a_distilled_model_keeps_its_few_steps_in_a_draft_and_one_of_a_fixed_size_its_size() {
    let mut spec = test_spec();
    spec.defaults.sampling.num_steps = 4;
    let draft = QualityPreset::Draft.values(&spec);
    assert_eq!((draft.sampling.num_steps, draft.size), (Some(4), None));
    assert_eq!(draft_size(&spec, 2.0), (256, 256));
}

#[test]
fn presets_are_saved_renamed_changed_and_deleted_and_words_of_the_user_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config/presets.toml");
    let change = |it: PresetEdit| edit(&path, &it).unwrap();
    change(PresetEdit::Save(Box::new(own("First", 20))));
    change(PresetEdit::Save(Box::new(own("Zweites ☂", 30))));
    let loaded = load(&path);
    assert!(
        loaded.error.is_none() && loaded.problems.is_empty(),
        "{loaded:?}"
    );
    assert_eq!(loaded.presets, [own("First", 20), own("Zweites ☂", 30)]);
    let text = own("a", 12).values.described();
    let expected =
        "832 × 480 pixels, 12 steps, the model's own shift, sampler DPM++ 2M, step cache MagCache";
    assert_eq!(text, expected);

    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# Your own presets."), "{text}");
    let commented = text.replace("steps = 20", "steps = 20 # enough\nfuture = 1");
    fs::write(&path, commented).unwrap();
    let loaded = load(&path);
    let problem = loaded.problems.join("");
    assert!(
        problem.contains("\"First\"") && problem.contains("future"),
        "{problem}"
    );
    assert_eq!(loaded.presets.len(), 2);

    change(PresetEdit::Rename {
        from: "First".into(),
        to: " Best ".into(),
    });
    change(PresetEdit::Delete("Zweites ☂".into()));
    let text = fs::read_to_string(&path).unwrap();
    for kept in ["# enough", "name = \"Best\"", "future = 1"] {
        assert!(text.contains(kept) && !text.contains("Zweites"), "{text}");
    }
    change(PresetEdit::Save(Box::new(own("Other", 5))));
    change(PresetEdit::Save(Box::new(own("Other", 6))));
    assert_eq!(load(&path).presets, [own("Best", 20), own("Other", 6)]);
    let rename = PresetEdit::Rename {
        from: "Other".into(),
        to: "Best".into(),
    };
    let err = edit(&path, &rename).unwrap_err().to_string();
    assert!(err.contains("\"Best\" already"), "{err}");
    for name in ["", "  ", "a\nb", &"x".repeat(61)] {
        let save = PresetEdit::Save(Box::new(own(name, 1)));
        assert!(matches!(edit(&path, &save), Err(PresetsError::Name { .. })));
    }
}

#[test]
fn broken_preset_file_is_reported_by_line_and_moved_aside_on_save() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("presets.toml");
    let broken = "[[preset]]\nname = \"mine\"\nsteps = = 3\n";
    fs::write(&path, broken).unwrap();
    let error = load(&path).error.unwrap().to_string();
    assert!(error.starts_with("line 3, column 9"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), broken);
    let save = PresetEdit::Save(Box::new(own("New", 3)));
    let aside = edit(&path, &save).unwrap().unwrap();
    assert_eq!(fs::read_to_string(aside).unwrap(), broken);
    assert_eq!(load(&path).presets, [own("New", 3)]);
}

#[test]
fn presets_of_another_form_are_moved_aside_and_a_change_that_fails_moves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("presets.toml");
    let inline = "# mine\npreset = [{ name = \"x\", steps = 4 }]\n";
    fs::write(&path, inline).unwrap();
    let error = load(&path).error.unwrap().to_string();
    assert!(error.starts_with("line 2, column 10"), "{error}");
    let delete = PresetEdit::Delete("x".into());
    let err = edit(&path, &delete).unwrap_err().to_string();
    assert!(err.contains("there is no preset"), "{err}");
    assert_eq!(fs::read_to_string(&path).unwrap(), inline);
    let save = PresetEdit::Save(Box::new(own("New", 3)));
    let aside = edit(&path, &save).unwrap().unwrap();
    assert_eq!(fs::read_to_string(aside).unwrap(), inline);
    assert_eq!(load(&path).presets, [own("New", 3)]);
}

#[test]
fn a_wrong_preset_is_left_out_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("presets.toml");
    let text = "[[preset]]\nname = 3\n[[preset]]\nname = \"b\"\nsize = \"big\"\n[[preset]]\nname = \"c\"\nsteps = 4\n[[preset]]\nname = \"c\"\n";
    fs::write(&path, text).unwrap();
    let loaded = load(&path);
    let names: Vec<&str> = loaded.presets.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["c"]);
    assert_eq!(loaded.problems.len(), 3, "{:?}", loaded.problems);
    assert!(loaded.problems[1].contains("auto, 16:9 or 832x480"));
}
