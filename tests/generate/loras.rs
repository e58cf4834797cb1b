//! LoRAs of one command: they change the result, travel with it, and are refused when they are for another model.

use std::path::PathBuf;

use safelight_core::formats::weights::WeightSet;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::common::tiny_model;
use crate::generate::prelude::*;

/// Writes tensors of plain waves.
fn write(path: &Path, tensors: &[(String, Vec<usize>)]) -> PathBuf {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| {
            let count: usize = shape.iter().product();
            let values = (0..count).map(|i| (i as f32 * 0.7).sin() * 0.3);
            values.flat_map(f32::to_le_bytes).collect()
        })
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        (
            name,
            TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap(),
        )
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
    path.to_owned()
}

/// A LoRA for every attention of the tiny model, and one more layer that it does not have.
fn lora(home: &Home, name: &str, rank: usize) -> PathBuf {
    let model = WeightSet::open(&tiny_model().join("transformer")).unwrap();
    let mut tensors = Vec::new();
    for (key, entry) in &model.tensors {
        let Some(layer) = key
            .strip_suffix(".weight")
            .filter(|key| key.contains(".to_"))
        else {
            continue;
        };
        let [output, input] = [entry.shape[0] as usize, entry.shape[1] as usize];
        tensors.push((
            format!("transformer.{layer}.lora_A.weight"),
            vec![rank, input],
        ));
        tensors.push((
            format!("transformer.{layer}.lora_B.weight"),
            vec![output, rank],
        ));
    }
    tensors.push((
        "transformer.blocks.77.attn1.to_q.lora_A.weight".to_owned(),
        vec![rank, 8],
    ));
    tensors.push((
        "transformer.blocks.77.attn1.to_q.lora_B.weight".to_owned(),
        vec![8, rank],
    ));
    write(&home.path().join(name), &tensors)
}

fn picture(home: &Home, arguments: &[&str], name: &str) -> (Vec<Value>, media::Picture) {
    let frames = ["--frames", "1", "--out", name];
    let output = run(home.generate().args(arguments).args(frames));
    assert_eq!(end(&output).1, 0, "{}", end(&output).0);
    let picture = media::open_picture(&home.path().join(name)).unwrap();
    (events(&output), picture)
}

#[test]
fn loras_change_the_result_say_how_much_of_them_is_used_and_travel_with_it() {
    let home = Home::new();
    let path = lora(&home, "style.safetensors", 4);
    lora(&home, "other.safetensors", 2);
    let (_, plain) = picture(&home, &[], "plain.png");
    let (_, none) = picture(&home, &["--lora", "style.safetensors:0"], "none.png");
    assert_eq!(plain, none);
    let two = [
        "--lora",
        "style.safetensors:0.8",
        "--lora",
        "other.safetensors:-0.5",
    ];
    let (told, changed) = picture(&home, &two, "changed.png");
    assert_ne!(plain, changed);
    let (_, one) = picture(&home, &two[..2], "one.png");
    assert!(one != changed && one != plain);

    let of_lora: Vec<&Value> = told
        .iter()
        .filter(|event| event["event"] == "lora")
        .collect();
    assert_eq!(of_lora.len(), 2);
    let keys = of_lora[0]["keys"].as_u64().unwrap();
    assert_eq!(of_lora[0]["applied"].as_u64(), Some(keys - 2));
    assert!(
        of_lora[0]["unknown"][0]
            .as_str()
            .unwrap()
            .contains("blocks.77")
    );
    assert_eq!(of_lora[1]["strength"], -0.5);

    let again = |name: &str| {
        let mut command = home.safelight();
        command.args("generate --json --device cpu --from changed.png".split(' '));
        let output = run(command.args(["--out", name]));
        assert_eq!(end(&output).1, 0, "{}", end(&output).0);
        let picture = media::open_picture(&home.path().join(name)).unwrap();
        (events(&output), picture)
    };
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
    let mut command = home.safelight();
    let output = run(command.args("generate --json --from changed.png --out x.png".split(' ')));
    let (last, code) = end(&output);
    assert_eq!(code, 3, "{last}");
    assert!(
        last["message"]
            .as_str()
            .unwrap()
            .contains("style.safetensors")
    );
}

#[test]
fn a_lora_for_another_model_ends_the_job_before_it_begins() {
    let home = Home::new();
    let tensors = |layer: &str, output, input| {
        [
            (format!("{layer}.lora_A.weight"), vec![4, input]),
            (format!("{layer}.lora_B.weight"), vec![output, 4]),
        ]
    };
    let flux = tensors("transformer.single_transformer_blocks.0.attn.to_q", 96, 96);
    let large = tensors("diffusion_model.blocks.0.self_attn.q", 5120, 5120);
    let unknown = tensors("encoder.something", 8, 8);
    for (tensors, words) in [
        (flux, "Flux"),
        (large, "Wan 14B"),
        (unknown, "this LoRA does not fit the model"),
    ] {
        write(&home.path().join("x.safetensors"), &tensors);
        let output = run(home
            .generate()
            .args(["--lora", "x.safetensors", "--out", "x.mp4"]));
        let (last, code) = end(&output);
        assert_eq!(
            (last["event"].as_str(), code),
            (Some("failed"), 3),
            "{last}"
        );
        assert!(last["message"].as_str().unwrap().contains(words), "{last}");
        assert!(
            events(&output)
                .iter()
                .all(|event| event["event"] != "stage")
        );
        assert!(!home.path().join("x.mp4").exists() && home.job_folders().is_empty());
    }
    let output = run(home
        .generate()
        .args(["--lora", "nowhere.safetensors", "--out", "x.mp4"]));
    assert_eq!(end(&output).1, 3);
}

#[test]
fn inspect_shows_a_loras_card() {
    let home = Home::new();
    let path = lora(&home, "style.safetensors", 4);
    let output = run(home.safelight().arg("inspect").arg(&path));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("a LoRA for") && text.contains("rank 4"),
        "{text}"
    );
    assert!(text.contains("safelight generate --lora"), "{text}");
    let output = run(home.safelight().arg("inspect").arg(&path).arg("--json"));
    let card: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(card["lora"]["ranks"], serde_json::json!([4]));
}
