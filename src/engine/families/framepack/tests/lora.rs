//! LoRAs in the names that files have, against the same update in the weights themselves.

use super::*;
use crate::families::tests::table;
use crate::weights::tests::made_up::lora;

const STRENGTH: f64 = 0.8;

/// Layers in diffusers' names, how HunyuanVideo's authors call the matrix that they are rows of, and alphas.
fn layers() -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let names = table(
        "transformer_blocks.1.attn.to_out.0 -> double_blocks.1.img_attn_proj
         transformer_blocks.0.ff_context.net.2 -> double_blocks.0.txt_mlp.fc2
         single_transformer_blocks.1.proj_out -> single_blocks.1.linear2
         context_embedder.token_refiner.refiner_blocks.0.ff.net.0.proj -> txt_in.individual_token_refiner.blocks.0.mlp.fc1",
    );
    names
        .zip([1.0, 0.5, 0.75, 1.0])
        .map(|((layer, authors), alpha)| (layer, authors, alpha))
}

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
    for (layer, _, alpha) in layers() {
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
    for (layer, authors, alpha) in layers() {
        let size = weights.shape_of(&format!("{layer}.weight")).unwrap();
        let [down, up] = factors(layer, &size);
        let [down_key, up_key, alpha_key] = keys(layer, authors);
        file.extend([(down_key, down), (up_key, up)]);
        file.push((alpha_key, Tensor::from(alpha * RANK as f64)));
    }
    let path = folder.path().join(name);
    Tensor::write_safetensors(&file, &path).unwrap();
    let weights = with_loras(&weights, &[lora(path, STRENGTH)]).unwrap();
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    cases()["original"].ask("original", &transformer)
}

#[test]
fn loras_of_diffusers_musubi_and_the_authors_act_like_the_same_change_of_the_weights() {
    let (_folder, weights) = write(&merged(), Kind::Float);
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    let expected = cases()["original"].ask("original", &transformer);
    assert!(distance(&expected, &answer("original")) > 0.01);
    let peft = ["lora_A.weight", "lora_B.weight", "alpha"];
    let kohya = ["lora_down.weight", "lora_up.weight", "alpha"];
    type Keys<'a> = &'a dyn Fn(&str, &str) -> [String; 3];
    let of_peft: Keys<'_> = &|layer, _| peft.map(|end| format!("transformer.{layer}.{end}"));
    let of_authors: Keys<'_> =
        &|_, authors| peft.map(|end| format!("diffusion_model.{authors}.{end}"));
    let of_musubi: Keys<'_> = &|layer, _| {
        let layer = layer.replace('.', "_");
        kohya.map(|end| format!("lora_unet_{layer}.{end}"))
    };
    for (name, keys) in [
        ("peft.safetensors", of_peft),
        ("authors.safetensors", of_authors),
        ("musubi.safetensors", of_musubi),
    ] {
        assert_close(name, &answer_with(name, keys), &expected, 1e-5);
    }
}
