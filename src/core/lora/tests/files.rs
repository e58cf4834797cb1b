//! LoRAs as files: against the model of a job, their cards, their strengths, and what is no LoRA at all.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::{flux, lora_target, wan};
use crate::fitting::{LoraInfo, check};
use crate::job::LoraChoice;
use crate::lora::tests::layers::{
    Files, KOHYA, PEFT, RANK, comfy, flux, lora, lora_of, one_layer, table_of,
};
use crate::lora::{Expert, LoraFile, LoraPlan, strengths};
use crate::model::ModelFiles;
use crate::testing::made_up::{Shapes, T2V_1_3B, T2V_14B, transformer, write_as};
use crate::testing::random::Random;
use crate::testing::table;

#[test]
fn lora_is_checked_against_the_job_model_and_other_files_are_refused() {
    let files = Files::new();
    let model = ModelFiles {
        transformer: files.write("model.safetensors", &transformer(T2V_1_3B)),
        ..ModelFiles::default()
    };
    let good = files.write("good.safetensors", &comfy(T2V_1_3B));
    let checked = check(&[lora(&good)], wan::FAMILY, &model).unwrap();
    assert_eq!(checked[0].coverage.changed_layers, 300);
    let line = "good.safetensors: applies to 300 of 300 layers (600 of 600 keys)";
    assert!(checked[0].line().starts_with(line));
    let gone = files.0.path().join("gone.safetensors");
    for (place, words) in [
        (&model.transformer, ["this is not a LoRA, but", "Wan"]),
        (&gone, ["gone", ".safetensors"]),
    ] {
        let err = check(&[lora(place)], wan::FAMILY, &model).unwrap_err();
        let text = err.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn a_file_of_one_expert_leaves_the_other_alone() {
    for (names, high, low) in [
        ("x_high_noise x_LowNoise", vec![1.0, 0.0], vec![0.0, 1.0]),
        // The other name tells what this one is.
        ("a/x b/x_low_noise", vec![1.0, 0.0], vec![0.0, 1.0]),
        ("x-HIGH-v2 x-LOW-v2", vec![1.0, 0.0], vec![0.0, 1.0]),
        ("style x_low_noise", vec![1.0, 0.0], vec![1.0, 1.0]),
        // A word that may mean anything means nothing alone.
        ("high_quality", vec![1.0], vec![1.0]),
    ] {
        let loras = names
            .split(' ')
            .map(|name| lora(format!("{name}.safetensors")));
        let loras: Vec<LoraChoice> = loras.collect();
        assert_eq!(strengths(&loras, Expert::HighNoise), high, "{names}");
        assert_eq!(strengths(&loras, Expert::LowNoise), low, "{names}");
        assert_eq!(strengths(&loras, Expert::Only), vec![1.0; loras.len()]);
    }
    let own = [LoraChoice {
        strength: 0.7,
        strength_2: Some(0.2),
        path: "x.safetensors".into(),
    }];
    assert_eq!(strengths(&own, Expert::HighNoise), [0.7]);
    assert_eq!(strengths(&own, Expert::LowNoise), [0.2]);
}

#[test]
fn lora_strengths_are_parsed_after_the_file_name() {
    let parsed = |text: &str| {
        text.parse::<LoraChoice>()
            .map(|lora| (lora.path, lora.strength, lora.strength_2))
    };
    for (text, path, strength, low) in [
        ("a.safetensors", "a.safetensors", 1.0, None),
        ("a.safetensors:0.5", "a.safetensors", 0.5, None),
        (
            "a:b/c.safetensors:-1:.25",
            "a:b/c.safetensors",
            -1.0,
            Some(0.25),
        ),
        ("a.safetensors:strong", "a.safetensors:strong", 1.0, None),
    ] {
        assert_eq!(parsed(text), Ok((PathBuf::from(path), strength, low)));
    }
    assert!(parsed(":1").is_err() && parsed("").is_err());
    let said = parsed("style:NaN").unwrap_err();
    assert!(said.starts_with("\"NaN\" is not a strength"), "{said}");
}

#[test]
fn lora_report_shows_family_layout_rank_and_trained_words() {
    let files = Files::new();
    let mut shapes = lora_of(
        &flux(),
        |layer| layer.contains("qkv"),
        |layer| format!("lora_unet_{}", layer.replace('.', "_")),
        KOHYA,
    );
    let layer = "lora_te1_text_model_encoder_layers_0_mlp_fc1";
    shapes.insert(format!("{layer}.lora_down.weight"), vec![8, 768]);
    shapes.insert(format!("{layer}.lora_up.weight"), vec![3072, 8]);
    let notes = json!({
        "ss_tag_frequency": r#"{"10_fox": {"red fox": 12, "snow": 3}, "5_more": {"snow": 30}}"#,
        "modelspec.title": "Foxes", "modelspec.trigger_phrase": "f0x style",
    });
    let path = files.0.path().join("fox.safetensors");
    write_as(&path, &shapes, &|_| "BF16", 0, &notes);
    let card = IdentityCard::read(&path).unwrap();
    let what = "a LoRA for Flux, ranks 4 to 8, in the names of kohya";
    assert_eq!(card.what, what);
    assert!(card.problems.is_empty() && card.family == "flux");
    let lora = card.lora.unwrap();
    assert_eq!(lora.trained_words, ["f0x style", "snow", "red fox"]);
    let found = (lora.title.as_deref(), lora.changes_text_encoder);
    assert_eq!(found, (Some("Foxes"), true));

    let path = files.write("wan_high_noise.safetensors", &comfy(T2V_14B));
    let card = LoraInfo::of(&LoraFile::read(&path).unwrap());
    let text = "a LoRA for Wan 14B, rank 4, in the names of ComfyUI, for the high-noise expert";
    assert_eq!(card.text(), text);
}

#[test]
fn a_lora_of_blocks_that_flux_and_hunyuanvideo_share_is_named_for_both_until_a_key_or_note_decides()
{
    let files = Files::new();
    let made_for = |layer: &str, sizes: [u64; 2], notes: serde_json::Value| {
        let path = files.0.path().join("x.safetensors");
        let shapes = one_layer(layer, sizes, PEFT);
        write_as(&path, &shapes, &|_| "BF16", 0, &notes);
        LoraInfo::of(&LoraFile::read(&path).unwrap()).made_for
    };
    // Outputs and inputs of a layer.
    for (layer, expected) in table(
        "3072 3072 transformer.transformer_blocks.3.attn.to_q -> Flux or HunyuanVideo
         3072 3072 lora_unet_double_blocks_3_img_attn_proj -> Flux or HunyuanVideo
         3072 3072 diffusion_model.double_blocks.3.img_attn_proj -> HunyuanVideo
         3072 3072 diffusion_model.double_blocks.3.img_attn.proj -> Flux
         18432 3072 lora_unet_double_blocks_3_img_mod_lin -> Flux
         3072 15360 transformer.single_transformer_blocks.37.proj_out -> Flux
         12288 4096 lora_unet_double_blocks_3_img_attn_qkv -> FLUX.2 klein 9B
         4096 4096 transformer.transformer_blocks.3.attn.to_q -> FLUX.2 klein 9B
         6144 6144 diffusion_model.double_blocks.3.img_attn.proj -> FLUX.2 dev
         64 64 diffusion_model.double_blocks.3.img_attn.proj -> another model with the layer names of Flux
         11520 3840 diffusion_model.layers.3.attention.qkv -> Z-Image
         3840 2304 diffusion_model.layers.3.attention.qkv -> Lumina 2
         9216 2304 transformer.layers.3.feed_forward.w1 -> Lumina 2
         3072 3072 diffusion_model.blocks.3.self_attn.q -> Wan 5B
         3072 768 lora_te1_text_model_encoder_layers_0_mlp_fc1 -> a CLIP text encoder
         4096 4096 text_encoder_2.encoder.block.0.layer.0.SelfAttention.q -> a T5 text encoder
         9728 2560 text_encoders.qwen3_4b.transformer.model.layers.0.mlp.up_proj -> a language model
         2560 2560 base_model.model.model.layers.0.self_attn.q_proj -> a language model",
    ) {
        let [outputs, inputs, layer] = layer.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{layer}");
        };
        let sizes = [outputs, inputs].map(|size| size.parse().unwrap());
        assert_eq!(made_for(layer, sizes, json!({})), expected, "{layer}");
    }
    let shared = "transformer.transformer_blocks.3.attn.to_q";
    for (note, expected) in [
        ("hunyuan-video/lora", "HunyuanVideo"),
        ("flux-1-dev/lora", "Flux"),
    ] {
        let notes = json!({ "modelspec.architecture": note });
        assert_eq!(made_for(shared, [3072; 2], notes), expected);
    }
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
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
    let coverage = LoraPlan::new(&file, &[table]).coverage;
    assert_eq!((coverage.applied, coverage.left_out), (whole - 4, 3));
    assert!(coverage.is_poor() && coverage.to_string().contains(&notice));
}

/// A piece of a name, sound or unsound.
fn piece(random: &mut Random) -> String {
    let words = "lora_unet_ lora_te1_ transformer diffusion_model base_model model double_blocks 0 \
                 99999999999999999999 img_attn qkv lora_A lora_B lora_down lora_up weight alpha diff diff_b \
                 diff_m lokr_w1 lokr_w2_a hada_w1_a dora_scale é _ default ";
    let words: Vec<&str> = words.split(' ').collect();
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
        let key = "double_blocks.0.img_attn.qkv.lora_A.weight";
        shapes.insert(key.to_owned(), vec![2, 3]);
        let files = Files::new();
        let file = files.read(&shapes);
        let mut base = Shapes::from([("img_in.weight".to_owned(), vec![3, 3])]);
        for (part, rows) in [("proj", 3), ("qkv", 9)] {
            let name = format!("double_blocks.0.img_attn.{part}.weight");
            base.insert(name, vec![rows, 3]);
        }
        let plan = LoraPlan::new(&file, &[table_of(lora_target(flux::FAMILY, false), &base)]);
        let coverage = &plan.coverage;
        let counted = coverage.applied
            + coverage.unknown.len()
            + coverage.left_out
            + coverage.num_misfits()
            + coverage.images
            + coverage.text_encoder;
        assert_eq!(counted, coverage.total, "{shapes:?}");
        assert!(!LoraInfo::of(&file).text().is_empty());
    }
}

#[test]
fn truncated_and_missing_lora_files_are_refused() {
    let files = Files::new();
    let path = files.write("x.safetensors", &comfy(T2V_1_3B));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let err = LoraFile::read(&path).unwrap_err();
    assert!(err.to_string().contains("cut off"), "{err}");
    assert!(LoraFile::read(Path::new("/nowhere/x.safetensors")).is_err());
}
