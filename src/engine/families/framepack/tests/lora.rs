//! LoRAs in the names that files have, against the same update in the weights themselves.

use safelight_core::job::LoraChoice;

use super::*;

const STRENGTH: f64 = 0.8;

/// Layers in diffusers' names, and how HunyuanVideo's authors call the matrix that they are rows of.
const LAYERS: [(&str, &str, f64); 4] = [
    (
        "transformer_blocks.1.attn.to_out.0",
        "double_blocks.1.img_attn_proj",
        1.0,
    ),
    (
        "transformer_blocks.0.ff_context.net.2",
        "double_blocks.0.txt_mlp.fc2",
        0.5,
    ),
    (
        "single_transformer_blocks.1.proj_out",
        "single_blocks.1.linear2",
        0.75,
    ),
    (
        "context_embedder.token_refiner.refiner_blocks.0.ff.net.0.proj",
        "txt_in.individual_token_refiner.blocks.0.mlp.fc1",
        1.0,
    ),
];

const RANK: i64 = 3;

/// Both factors of a layer's update: `(rank, in)` and `(out, rank)`.
fn factors(layer: &str, size: &[i64]) -> [Tensor; 2] {
    [
        made_up(&format!("down.{layer}"), &[RANK, size[1]]),
        made_up(&format!("up.{layer}"), &[size[0], RANK]),
    ]
}

/// The fixture's weights with the updates in them.
fn merged() -> Vec<(String, Tensor)> {
    let mut tensors = tensors("tiny");
    for (layer, _, alpha) in LAYERS {
        let own = format!("{layer}.weight");
        let (_, weight) = tensors.iter_mut().find(|(key, _)| *key == own).unwrap();
        let [down, up] = factors(layer, &weight.size());
        *weight = &*weight + up.matmul(&down) * (STRENGTH * alpha);
    }
    tensors
}

/// A file of the updates, with alphas, and what the network answers with it.
fn answer_with(name: &str, keys: impl Fn(&str, &str) -> [String; 3]) -> Tensor {
    let (folder, weights) = write(&tensors("tiny"), Kind::Float);
    let mut file = Vec::new();
    for (layer, authors, alpha) in LAYERS {
        let size = weights.shape_of(&format!("{layer}.weight")).unwrap();
        let [down, up] = factors(layer, &size);
        let [down_key, up_key, alpha_key] = keys(layer, authors);
        file.extend([(down_key, down), (up_key, up)]);
        file.push((alpha_key, Tensor::from(alpha * RANK as f64)));
    }
    let path = folder.path().join(name);
    Tensor::write_safetensors(&file, &path).unwrap();
    let lora = LoraChoice {
        path,
        strength: STRENGTH,
        strength_2: None,
    };
    let weights = with_loras(&weights, &[lora]).unwrap();
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    cases()["original"].ask("original", &transformer)
}

#[test]
fn loras_of_diffusers_musubi_and_the_authors_act_like_the_same_change_of_the_weights() {
    let (_folder, weights) = write(&merged(), Kind::Float);
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    let expected = cases()["original"].ask("original", &transformer);
    assert!(distance(&expected, &answer("original")) > 0.01);
    let peft = answer_with("peft.safetensors", |layer, _| {
        ["lora_A.weight", "lora_B.weight", "alpha"].map(|end| format!("transformer.{layer}.{end}"))
    });
    assert_close("peft", &peft, &expected, 1e-5);
    let authors = answer_with("authors.safetensors", |_, authors| {
        ["lora_A.weight", "lora_B.weight", "alpha"]
            .map(|end| format!("diffusion_model.{authors}.{end}"))
    });
    assert_close("authors", &authors, &expected, 1e-5);
    let musubi = answer_with("musubi.safetensors", |layer, _| {
        let layer = layer.replace('.', "_");
        ["lora_down.weight", "lora_up.weight", "alpha"]
            .map(|end| format!("lora_unet_{layer}.{end}"))
    });
    assert_close("musubi", &musubi, &expected, 1e-5);
}
