//! What the transformer's files may look like: names of keys, prefixes, and configurations.

use super::*;
use crate::families::tests::table;

/// Those of `diffusers` from `names` on, as one tensor.
fn fused(tensors: &mut BTreeMap<String, Tensor>, target: &str, names: &[String]) {
    for leaf in ["weight", "bias"] {
        let parts: Vec<Tensor> = names
            .iter()
            .map(|name| tensors.remove(&format!("{name}.{leaf}")).unwrap())
            .collect();
        tensors.insert(format!("{target}.{leaf}"), Tensor::cat(&parts, 0));
    }
}

/// The fixture under the names of HunyuanVideo's authors, written the other way round than `keys.rs`.
pub(super) fn authors(config: &str) -> Vec<(String, Tensor)> {
    let mut all: BTreeMap<String, Tensor> = tensors(config).into_iter().collect();
    for i in 0..2 {
        let of = |start: String, names: [&str; 3]| names.map(|name| format!("{start}{name}"));
        let attn = format!("transformer_blocks.{i}.attn.");
        let to = ["to_q", "to_k", "to_v"];
        let added = ["add_q_proj", "add_k_proj", "add_v_proj"];
        let double = format!("double_blocks.{i}");
        fused(
            &mut all,
            &format!("{double}.img_attn_qkv"),
            &of(attn.clone(), to),
        );
        fused(
            &mut all,
            &format!("{double}.txt_attn_qkv"),
            &of(attn, added),
        );
        let refiner = format!("context_embedder.token_refiner.refiner_blocks.{i}.attn.");
        let target = format!("txt_in.individual_token_refiner.blocks.{i}.self_attn_qkv");
        fused(&mut all, &target, &of(refiner, to));
        let single = format!("single_transformer_blocks.{i}.");
        let mut parts = of(format!("{single}attn."), to).to_vec();
        parts.push(format!("{single}proj_mlp"));
        fused(&mut all, &format!("single_blocks.{i}.linear1"), &parts);
    }
    for leaf in ["weight", "bias"] {
        let key = format!("norm_out.linear.{leaf}");
        let halves = all[&key].chunk(2, 0);
        all.insert(key, Tensor::cat(&[&halves[1], &halves[0]], 0));
    }
    let renamed = all
        .into_iter()
        .map(|(key, tensor)| (authors_name(&key), tensor));
    renamed.collect()
}

fn authors_name(key: &str) -> String {
    let mut name = key.to_owned();
    for (theirs, ours) in table(
        "context_embedder.time_text_embed.timestep_embedder.linear_1 -> txt_in.t_embedder.mlp.0
         context_embedder.time_text_embed.timestep_embedder.linear_2 -> txt_in.t_embedder.mlp.2
         context_embedder.time_text_embed.text_embedder -> txt_in.c_embedder
         context_embedder.proj_in -> txt_in.input_embedder
         context_embedder.token_refiner.refiner_blocks -> txt_in.individual_token_refiner.blocks
         time_text_embed.timestep_embedder.linear_1 -> time_in.mlp.0
         time_text_embed.timestep_embedder.linear_2 -> time_in.mlp.2
         time_text_embed.guidance_embedder.linear_1 -> guidance_in.mlp.0
         time_text_embed.guidance_embedder.linear_2 -> guidance_in.mlp.2
         time_text_embed.text_embedder.linear_1 -> vector_in.in_layer
         time_text_embed.text_embedder.linear_2 -> vector_in.out_layer
         single_transformer_blocks. -> single_blocks.
         transformer_blocks. -> double_blocks.
         x_embedder.proj. -> img_in.proj.
         clean_img_in. -> clean_x_embedder.
         norm1_context.linear -> txt_mod.linear
         ff_context.net.0.proj -> txt_mlp.fc1
         ff_context.net.2 -> txt_mlp.fc2
         attn.norm_added_q -> txt_attn_q_norm
         attn.norm_added_k -> txt_attn_k_norm
         attn.to_add_out -> txt_attn_proj
         norm_out.linear -> final_layer.adaLN_modulation.1",
    ) {
        name = name.replace(theirs, ours);
    }
    if name.starts_with("double_blocks") {
        for (theirs, ours) in [
            ("norm1.linear", "img_mod.linear"),
            ("attn.norm_q", "img_attn_q_norm"),
            ("attn.norm_k", "img_attn_k_norm"),
            ("attn.to_out.0", "img_attn_proj"),
            ("ff.net.0.proj", "img_mlp.fc1"),
            ("ff.net.2", "img_mlp.fc2"),
        ] {
            name = name.replace(theirs, ours);
        }
    } else if name.starts_with("single_blocks") {
        for (theirs, ours) in [
            (".norm.linear", ".modulation.linear"),
            ("attn.norm_q", "q_norm"),
            ("attn.norm_k", "k_norm"),
            ("proj_out", "linear2"),
        ] {
            name = name.replace(theirs, ours);
        }
    } else if name.starts_with("txt_in") {
        for (theirs, ours) in [
            ("attn.to_out.0", "self_attn_proj"),
            ("ff.net.0.proj", "mlp.fc1"),
            ("ff.net.2", "mlp.fc2"),
            ("final_layer.adaLN_modulation.1", "adaLN_modulation.1"),
        ] {
            name = name.replace(theirs, ours);
        }
    }
    match name.strip_prefix("proj_out.") {
        Some(leaf) => format!("final_layer.linear.{leaf}"),
        None => name,
    }
}

fn comfy_name(authors: &str) -> String {
    let mut name = authors.to_owned();
    for (theirs, ours) in [
        ("c_embedder.linear_1", "c_embedder.in_layer"),
        ("c_embedder.linear_2", "c_embedder.out_layer"),
        ("er.mlp.0", "er.in_layer"),
        ("er.mlp.2", "er.out_layer"),
        ("_in.mlp.0", "_in.in_layer"),
        ("_in.mlp.2", "_in.out_layer"),
        ("_mod.linear", "_mod.lin"),
        ("modulation.linear", "modulation.lin"),
        ("_attn_qkv", "_attn.qkv"),
        ("_attn_proj", "_attn.proj"),
        ("mlp.fc1", "mlp.0"),
        ("mlp.fc2", "mlp.2"),
        ("_attn_q_norm.weight", "_attn.norm.query_norm.scale"),
        ("_attn_k_norm.weight", "_attn.norm.key_norm.scale"),
        (".q_norm.weight", ".norm.query_norm.scale"),
        (".k_norm.weight", ".norm.key_norm.scale"),
    ] {
        name = name.replace(theirs, ours);
    }
    format!("model.model.{name}")
}

#[test]
fn files_in_the_names_of_the_authors_and_of_comfy_give_the_same_answer() {
    let authors = authors("tiny");
    let comfy = authors.iter();
    let comfy: Vec<_> = comfy
        .map(|(key, tensor)| (comfy_name(key), tensor.shallow_clone()))
        .collect();
    let prefixed = tensors("tiny").into_iter();
    let prefixed: Vec<_> = prefixed
        .map(|(key, tensor)| (format!("model.diffusion_model.{key}"), tensor))
        .collect();
    let case = &cases()["f1"];
    for (name, tensors, sample) in [
        ("authors", authors, "double_blocks.1.img_attn_q_norm.weight"),
        (
            "comfy",
            comfy,
            "model.model.txt_in.c_embedder.in_layer.bias",
        ),
        (
            "prefixed",
            prefixed,
            "model.diffusion_model.norm_out.linear.bias",
        ),
    ] {
        let (_folder, weights) = write(&tensors, Kind::Float);
        assert!(weights.has(sample), "{name}");
        let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
        assert_answer(name, &case.ask("f1", &transformer), "f1");
        assert_eq!(FramePackTransformer::unexpected_keys(&weights), [""; 0]);
    }
}

#[test]
fn a_single_file_says_by_its_shapes_what_its_config_says() {
    let (_folder, weights) = write(&tensors("wide"), Kind::Float);
    let found = FramePackTransformerConfig::read(weights.path()).unwrap();
    assert_eq!(found, config("wide"));
}

#[test]
fn what_is_no_framepack_transformer_is_refused() {
    let without = |start: &str| {
        let mut tensors = tensors("wide");
        tensors.retain(|(key, _)| !key.starts_with(start));
        let (_folder, weights) = write(&tensors, Kind::Float);
        FramePackTransformerConfig::read(weights.path())
            .unwrap_err()
            .to_string()
    };
    assert!(without("image_projection").contains("image_projection.up.weight"));
    assert!(without("x_embedder").contains("x_embedder.proj.weight"));
    let (_folder, weights) = write(&tensors("tiny"), Kind::Float);
    let err = FramePackTransformerConfig::read(weights.path()).unwrap_err();
    assert!(err.to_string().contains("expected heads of 128"), "{err}");
    let folder = tempfile::tempdir().unwrap();
    for (key, value) in [
        ("has_clean_x_embedder", "false"),
        ("patch_size", "3"),
        ("rope_axes_dim", "[2, 6, 6]"),
        ("image_condition_type", "\"token_replace\""),
        ("num_layers", "0"),
    ] {
        let mut json: serde_json::Value = read_json("tiny.json");
        json[key] = serde_json::from_str(value).unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, json.to_string()).unwrap();
        assert!(
            FramePackTransformerConfig::read(folder.path()).is_err(),
            "{key}"
        );
    }
}
