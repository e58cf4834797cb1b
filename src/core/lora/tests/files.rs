//! LoRAs as files: against the model of a job, their cards, their strengths, and what is no LoRA at all.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::{flux, wan};
use crate::fitting::{LoraInfo, check};
use crate::job::LoraChoice;
use crate::lora::tests::layers::{Files, KOHYA, RANK, comfy, flux, lora, lora_of, table_of};
use crate::lora::{Expert, LoraFile, LoraPlan, strengths};
use crate::model::ModelFiles;
use crate::testing::made_up::{Shapes, T2V_1_3B, T2V_14B, transformer, write_as};
use crate::testing::random::Random;

#[test]
fn a_file_is_checked_against_the_model_of_a_job_and_what_is_no_lora_is_named() {
    let files = Files::new();
    let model = ModelFiles {
        transformer: files.write("model.safetensors", &transformer(T2V_1_3B)),
        ..ModelFiles::default()
    };
    let good = files.write("good.safetensors", &comfy(T2V_1_3B));
    let checked = check(&[lora(&good)], wan::FAMILY, &model).unwrap();
    assert_eq!(checked[0].coverage.changed_layers, 300);
    assert!(
        checked[0]
            .line()
            .starts_with("good.safetensors: applies to 300 of 300 layers (600 of 600 keys)")
    );
    let err = check(&[lora(&model.transformer)], wan::FAMILY, &model)
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("this is not a LoRA, but") && err.contains("Wan"),
        "{err}"
    );
    let gone = check(
        &[lora(files.0.path().join("gone.safetensors"))],
        wan::FAMILY,
        &model,
    );
    assert!(gone.unwrap_err().to_string().contains("gone.safetensors"));
}

#[test]
fn a_file_of_one_expert_leaves_the_other_alone() {
    let high = |loras: &[LoraChoice]| strengths(loras, Expert::HighNoise);
    let low = |loras: &[LoraChoice]| strengths(loras, Expert::LowNoise);
    let stated = [
        lora("x_high_noise.safetensors"),
        lora("x_LowNoise.safetensors"),
    ];
    assert_eq!(
        (high(&stated), low(&stated)),
        (vec![1.0, 0.0], vec![0.0, 1.0])
    );
    assert_eq!(strengths(&stated, Expert::Only), [1.0, 1.0]);
    // The other name tells what this one is.
    let pair = [lora("a/x.safetensors"), lora("b/x_low_noise.safetensors")];
    assert_eq!((high(&pair), low(&pair)), (vec![1.0, 0.0], vec![0.0, 1.0]));
    let short = [lora("x-HIGH-v2.safetensors"), lora("x-LOW-v2.safetensors")];
    assert_eq!(
        (high(&short), low(&short)),
        (vec![1.0, 0.0], vec![0.0, 1.0])
    );
    let both = [lora("style.safetensors"), lora("x_low_noise.safetensors")];
    assert_eq!((high(&both), low(&both)), (vec![1.0, 0.0], vec![1.0, 1.0]));
    let own = [LoraChoice {
        strength: 0.7,
        strength_2: Some(0.2),
        path: "x.safetensors".into(),
    }];
    assert_eq!((high(&own), low(&own)), (vec![0.7], vec![0.2]));
    // A word that may mean anything means nothing alone.
    let alone = [lora("high_quality.safetensors")];
    assert_eq!((high(&alone), low(&alone)), (vec![1.0], vec![1.0]));
}

#[test]
fn strengths_stand_behind_the_files_name() {
    let parsed = |text: &str| {
        text.parse::<LoraChoice>()
            .map(|lora| (lora.path, lora.strength, lora.strength_2))
    };
    let of = |path: &str, strength, low| Ok((PathBuf::from(path), strength, low));
    assert_eq!(parsed("a.safetensors"), of("a.safetensors", 1.0, None));
    assert_eq!(parsed("a.safetensors:0.5"), of("a.safetensors", 0.5, None));
    assert_eq!(
        parsed("a:b/c.safetensors:-1:.25"),
        of("a:b/c.safetensors", -1.0, Some(0.25))
    );
    assert_eq!(
        parsed("a.safetensors:strong"),
        of("a.safetensors:strong", 1.0, None)
    );
    assert!(parsed(":1").is_err() && parsed("").is_err());
    let said = parsed("style:NaN").unwrap_err();
    assert!(said.starts_with("\"NaN\" is not a strength"), "{said}");
}

#[test]
fn a_card_tells_whose_lora_it_is_and_what_it_was_trained_on() {
    let files = Files::new();
    let mut shapes = lora_of(
        &flux(),
        |layer| layer.contains("qkv"),
        |layer| format!("lora_unet_{}", layer.replace('.', "_")),
        KOHYA,
    );
    shapes.insert(
        "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight".into(),
        vec![8, 768],
    );
    shapes.insert(
        "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_up.weight".into(),
        vec![3072, 8],
    );
    let notes = json!({
        "ss_tag_frequency": r#"{"10_fox": {"red fox": 12, "snow": 3}, "5_more": {"snow": 30}}"#,
        "modelspec.title": "Foxes", "modelspec.trigger_phrase": "f0x style",
    });
    let path = files.0.path().join("fox.safetensors");
    write_as(&path, &shapes, &|_| "BF16", 0, &notes);
    let card = IdentityCard::read(&path).unwrap();
    assert_eq!(
        card.what,
        "a LoRA for Flux, ranks 4 to 8, in the names of kohya"
    );
    assert!(card.problems.is_empty() && card.family == "flux");
    let lora = card.lora.unwrap();
    assert_eq!(lora.trained_words, ["f0x style", "snow", "red fox"]);
    assert_eq!(
        (lora.title.as_deref(), lora.changes_text_encoder),
        (Some("Foxes"), true)
    );

    let path = files.write("wan_high_noise.safetensors", &comfy(T2V_14B));
    let card = LoraInfo::of(&LoraFile::read(&path).unwrap());
    assert_eq!(
        card.text(),
        "a LoRA for Wan 14B, rank 4, in the names of ComfyUI, for the high-noise expert"
    );
}

#[test]
fn a_lora_of_blocks_that_flux_and_hunyuanvideo_share_is_named_for_both_until_a_key_or_note_decides()
{
    let files = Files::new();
    let made_for = |layer: &str, [input, output]: [u64; 2], notes: serde_json::Value| {
        let shapes = Shapes::from([
            (format!("{layer}.lora_A.weight"), vec![RANK, input]),
            (format!("{layer}.lora_B.weight"), vec![output, RANK]),
        ]);
        let path = files.0.path().join("x.safetensors");
        write_as(&path, &shapes, &|_| "BF16", 0, &notes);
        LoraInfo::of(&LoraFile::read(&path).unwrap()).made_for
    };
    let square = [3072; 2];
    for (layer, sizes, expected) in [
        (
            "transformer.transformer_blocks.3.attn.to_q",
            square,
            "Flux or HunyuanVideo",
        ),
        (
            "lora_unet_double_blocks_3_img_attn_proj",
            square,
            "Flux or HunyuanVideo",
        ),
        (
            "diffusion_model.double_blocks.3.img_attn_proj",
            square,
            "HunyuanVideo",
        ),
        (
            "diffusion_model.double_blocks.3.img_attn.proj",
            square,
            "Flux",
        ),
        (
            "lora_unet_double_blocks_3_img_mod_lin",
            [3072, 18_432],
            "Flux",
        ),
        (
            "transformer.single_transformer_blocks.37.proj_out",
            [15_360, 3072],
            "Flux",
        ),
        // Names of one model in the sizes of another.
        (
            "lora_unet_double_blocks_3_img_attn_qkv",
            [4096, 12_288],
            "FLUX.2 klein 9B",
        ),
        (
            "transformer.transformer_blocks.3.attn.to_q",
            [4096; 2],
            "FLUX.2 klein 9B",
        ),
        (
            "diffusion_model.double_blocks.3.img_attn.proj",
            [6144; 2],
            "FLUX.2 dev",
        ),
        (
            "diffusion_model.double_blocks.3.img_attn.proj",
            [64; 2],
            "another model with the layer names of Flux",
        ),
        (
            "diffusion_model.layers.3.attention.qkv",
            [3840, 11_520],
            "Z-Image",
        ),
        (
            "diffusion_model.layers.3.attention.qkv",
            [2304, 3840],
            "Lumina 2",
        ),
        (
            "transformer.layers.3.feed_forward.w1",
            [2304, 9216],
            "Lumina 2",
        ),
        ("diffusion_model.blocks.3.self_attn.q", [3072; 2], "Wan 5B"),
        (
            "lora_te1_text_model_encoder_layers_0_mlp_fc1",
            [768, 3072],
            "a CLIP text encoder",
        ),
        (
            "text_encoder_2.encoder.block.0.layer.0.SelfAttention.q",
            [4096; 2],
            "a T5 text encoder",
        ),
        (
            "text_encoders.qwen3_4b.transformer.model.layers.0.mlp.up_proj",
            [2560, 9728],
            "a language model",
        ),
        (
            "base_model.model.model.layers.0.self_attn.q_proj",
            [2560; 2],
            "a language model",
        ),
    ] {
        assert_eq!(made_for(layer, sizes, json!({})), expected, "{layer}");
    }
    let shared = "transformer.transformer_blocks.3.attn.to_q";
    let note = |text: &str| json!({ "modelspec.architecture": text });
    assert_eq!(
        made_for(shared, square, note("hunyuan-video/lora")),
        "HunyuanVideo"
    );
    assert_eq!(made_for(shared, square, note("flux-1-dev/lora")), "Flux");
}

#[test]
fn a_layer_that_lacks_a_half_of_its_update_is_named_and_not_counted() {
    let files = Files::new();
    let mut shapes = comfy(T2V_1_3B);
    let whole = shapes.len();
    let layer = "diffusion_model.blocks.7.ffn.0";
    shapes.remove(&format!("{layer}.lora_B.weight"));
    let other = "diffusion_model.blocks.8.ffn.0";
    shapes.insert(format!("{other}.lora_B.weight"), vec![8960, RANK + 1]);
    let file = files.read(&shapes);
    let card = LoraInfo::of(&file);
    assert_eq!(card.layers, whole / 2 - 2);
    let notice = format!(
        "layers that do not act: 2 of {}, such as {layer}: a half of it is missing or does not fit the other",
        whole / 2
    );
    assert!(card.notices.contains(&notice), "{:?}", card.notices);
    let table = table_of(wan::lora::NETWORK, &transformer(T2V_1_3B));
    let coverage = LoraPlan::new(&file, &[table]).coverage;
    assert_eq!((coverage.applied, coverage.left_out), (whole - 4, 3));
    assert!(coverage.is_poor() && coverage.to_string().contains(&notice));
}

#[test]
fn the_scaling_that_peft_notes_counts_where_a_layer_has_no_alpha() {
    let files = Files::new();
    let layer = "transformer.transformer_blocks.0.attn.to_q";
    let shapes = Shapes::from([
        (format!("{layer}.lora_A.weight"), vec![RANK, 8]),
        (format!("{layer}.lora_B.weight"), vec![8, RANK]),
    ]);
    let factor = |notes: serde_json::Value| {
        let path = files.0.path().join("x.safetensors");
        write_as(&path, &shapes, &|_| "F32", 0, &notes);
        LoraFile::read(&path).unwrap().factor(layer)
    };
    assert!((factor(json!({})) - 1.0).abs() < 1e-12);
    let note = |text: &str| json!({"lora_adapter_metadata": text});
    assert!(
        (factor(note(r#"{"transformer.r": 4, "transformer.lora_alpha": 2}"#)) - 0.5).abs() < 1e-12
    );
    let pattern = r#"{"transformer.r": 4, "transformer.lora_alpha": 2, "transformer.alpha_pattern": {"attn.to_q": 8}}"#;
    assert!((factor(note(pattern)) - 2.0).abs() < 1e-12);
    let root =
        r#"{"transformer.r": 4, "transformer.lora_alpha": 2, "transformer.use_rslora": true}"#;
    assert!((factor(note(root)) - 1.0).abs() < 1e-12);
    let file = LoraFile::read(&files.0.path().join("x.safetensors")).unwrap();
    let scale = LoraInfo::of(&file).scale.unwrap();
    assert!(scale.ends_with("by its metadata (rsLoRA)"), "{scale}");
    for nonsense in [
        "[]",
        "{",
        r#"{"transformer.r": 0, "transformer.lora_alpha": 2}"#,
        r#"{"transformer": "r"}"#,
    ] {
        assert!((factor(note(nonsense)) - 1.0).abs() < 1e-12, "{nonsense}");
    }
}

/// A piece of a name, sound or unsound.
fn piece(random: &mut Random) -> String {
    let words = [
        "lora_unet_",
        "lora_te1_",
        "transformer",
        "diffusion_model",
        "base_model",
        "model",
        "double_blocks",
        "0",
        "99999999999999999999",
        "img_attn",
        "qkv",
        "lora_A",
        "lora_B",
        "lora_down",
        "lora_up",
        "weight",
        "alpha",
        "diff",
        "diff_b",
        "diff_m",
        "lokr_w1",
        "lokr_w2_a",
        "hada_w1_a",
        "dora_scale",
        "",
        "é",
        "_",
        "default",
    ];
    if random.below(2) == 0 {
        return words[random.below(words.len())].to_owned();
    }
    let letters = b"abcdefghijklmnopqrstuvwxyz_.0123456789";
    let letter = |random: &mut Random| char::from(letters[random.below(letters.len())]);
    (0..random.below(7)).map(|_| letter(random)).collect()
}

#[test]
fn no_names_and_shapes_make_the_matching_panic() {
    let mut random = Random::new(7);
    for _ in 0..256 {
        let mut shapes = Shapes::new();
        for _ in 0..=random.below(23) {
            let pieces: Vec<_> = (0..=random.below(6)).map(|_| piece(&mut random)).collect();
            let sizes = (0..random.below(4)).map(|_| random.below(5) as u64);
            shapes.insert(pieces.join("."), sizes.collect());
        }
        shapes.insert(
            "double_blocks.0.img_attn.qkv.lora_A.weight".into(),
            vec![2, 3],
        );
        let files = Files::new();
        let file = files.read(&shapes);
        let base = Shapes::from([
            ("img_in.weight".to_owned(), vec![3, 3]),
            (
                "double_blocks.0.img_attn.proj.weight".to_owned(),
                vec![3, 3],
            ),
            ("double_blocks.0.img_attn.qkv.weight".to_owned(), vec![9, 3]),
        ]);
        let plan = LoraPlan::new(&file, &[table_of(flux::lora::network(false), &base)]);
        let coverage = &plan.coverage;
        let counted = coverage.applied
            + coverage.unknown.len()
            + coverage.left_out
            + coverage.num_misfits()
            + coverage.pictures
            + coverage.text_encoder;
        assert_eq!(counted, coverage.total, "{shapes:?}");
        assert!(!LoraInfo::of(&file).text().is_empty());
    }
}

#[test]
fn a_file_that_is_cut_off_or_no_weights_is_told_as_any_other() {
    let files = Files::new();
    let path = files.write("x.safetensors", &comfy(T2V_1_3B));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(
        LoraFile::read(&path)
            .unwrap_err()
            .to_string()
            .contains("cut off")
    );
    assert!(LoraFile::read(Path::new("/nowhere/x.safetensors")).is_err());
}
