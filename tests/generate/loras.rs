//! LoRAs of one command: they change the result, travel with it, and are refused when they are for another model.

use std::path::PathBuf;

use safelight_core::formats::weights::WeightSet;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::common::tiny_model;
use crate::generate::prelude::*;

fn write(path: &Path, tensors: &[(String, Vec<usize>)]) -> PathBuf {
    let wave = |count: usize| (0..count).map(|i| (i as f32 * 0.7).sin() * 0.3);
    let bytes = |shape: &[usize]| wave(shape.iter().product()).flat_map(f32::to_le_bytes);
    let bytes = tensors.iter().map(|(_, shape)| bytes(shape).collect());
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (name, view.unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
    path.to_owned()
}

fn pair(layer: &str, rank: usize, output: usize, input: usize) -> [(String, Vec<usize>); 2] {
    [
        (format!("{layer}.lora_A.weight"), vec![rank, input]),
        (format!("{layer}.lora_B.weight"), vec![output, rank]),
    ]
}

/// A LoRA for every attention of the tiny model, and one more layer that it does not have.
fn lora(home: &Home, name: &str, rank: usize) -> PathBuf {
    let model = WeightSet::open(&tiny_model().join("transformer")).unwrap();
    let mut tensors = Vec::new();
    for (key, entry) in &model.tensors {
        let layer = key.strip_suffix(".weight");
        let Some(layer) = layer.filter(|key| key.contains(".to_")) else {
            continue;
        };
        let [output, input] = [entry.shape[0] as usize, entry.shape[1] as usize];
        tensors.extend(pair(&format!("transformer.{layer}"), rank, output, input));
    }
    let unknown = "transformer.blocks.77.attn1.to_q";
    tensors.extend(pair(unknown, rank, 8, 8));
    write(&home.path().join(name), &tensors)
}

fn made(home: &Home, command: &mut Command, name: &str) -> (Vec<Value>, RgbPixels) {
    let output = run(command);
    assert_finished(&output);
    let image = media::open_rgb(&home.path().join(name)).unwrap();
    (events(&output), image)
}

fn image(home: &Home, arguments: &[&str], name: &str) -> (Vec<Value>, RgbPixels) {
    let mut command = home.generate();
    command.args(["--frames", "1", "--out", name]);
    made(home, command.args(arguments), name)
}

#[test]
fn loras_change_the_result_report_used_keys_and_are_reused_on_repeat() {
    let home = Home::new();
    let path = lora(&home, "style.safetensors", 4);
    lora(&home, "other.safetensors", 2);
    let (_, plain) = image(&home, &[], "plain.png");
    let (_, none) = image(&home, &["--lora", "style.safetensors:0"], "none.png");
    assert_eq!(plain, none);
    let one = ["--lora", "style.safetensors:0.8"];
    let two = [&one[..], &["--lora", "other.safetensors:-0.5"]].concat();
    let (told, changed) = image(&home, &two, "changed.png");
    assert_ne!(plain, changed);
    let (_, one) = image(&home, &one, "one.png");
    assert!(one != changed && one != plain);

    let of_lora: Vec<&Value> = told.iter().filter(|it| it["event"] == "lora").collect();
    assert_eq!(of_lora.len(), 2);
    let keys = of_lora[0]["keys"].as_u64().unwrap();
    assert_eq!(of_lora[0]["applied"].as_u64(), Some(keys - 2));
    let unknown = of_lora[0]["unknown"][0].as_str().unwrap();
    assert!(unknown.contains("blocks.77"), "{unknown}");
    assert_eq!(of_lora[1]["strength"], -0.5);

    let again = |name: &str| made(&home, &mut home.repeat("changed.png", name), name);
    let says_changed = |told: &[Value]| {
        let mut texts = told.iter().filter_map(|event| event["message"].as_str());
        texts.any(|text| text.contains("this LoRA has changed"))
    };
    let (told, repeated) = again("again.png");
    assert_eq!(repeated, changed);
    assert!(!says_changed(&told));
    lora(&home, "style.safetensors", 3);
    let (told, _) = again("third.png");
    assert!(says_changed(&told));
    fs::remove_file(path).unwrap();
    let output = run(&mut home.repeat("changed.png", "x.png"));
    assert_failed(&output, 3, "style.safetensors");
}

#[test]
fn a_lora_for_another_model_ends_the_job_before_it_begins() {
    let home = Home::new();
    let single = "transformer.single_transformer_blocks.0.attn.to_q";
    let flux = pair(single, 4, 96, 96);
    let large = pair("diffusion_model.blocks.0.self_attn.q", 4, 5120, 5120);
    let unknown = pair("encoder.something", 4, 8, 8);
    let with = |name: &str| run(home.generate().args(["--lora", name, "--out", "x.mp4"]));
    for (tensors, words) in [
        (flux, "Flux"),
        (large, "another size of Wan"),
        (unknown, "this LoRA does not fit the model"),
    ] {
        write(&home.path().join("x.safetensors"), &tensors);
        let output = with("x.safetensors");
        assert_failed(&output, 3, words);
        assert!(events_of(&output, "stage").is_empty());
        assert!(!home.path().join("x.mp4").exists() && home.job_folders().is_empty());
    }
    assert_failed(&with("nowhere.safetensors"), 3, "");
}

#[test]
fn inspect_shows_a_loras_card() {
    let home = Home::new();
    let path = lora(&home, "style.safetensors", 4);
    let output = run(home.safelight().arg("inspect").arg(&path));
    let text = assert_says(
        &output.stdout,
        "a LoRA for|rank 4|safelight generate --lora",
    );
    assert_eq!(output.status.code(), Some(0), "{text}");
    let output = run(home.safelight().arg("inspect").arg(&path).arg("--json"));
    let card: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(card["lora"]["ranks"], serde_json::json!([4]));
}
