//! The transformers' configs and schemas: against what diffusers wrote, and against each other.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::formats::weights::WeightSet;
use crate::networks::*;
use crate::testing::made_up::{Shapes, header, renamed, shapes_of};
use crate::testing::{fixture, json_fixture, table};

fn weights_of(schema: Vec<TensorSpec>) -> WeightSet {
    header(&shapes_of(schema))
}

fn wan_keys() -> [TransformerKeys; 2] {
    [false, true].map(TransformerKeys::bare)
}

fn flux_keys() -> [FluxTransformerKeys; 2] {
    [false, true]
        .map(|is_diffusers| FluxTransformerKeys::behind("model.diffusion_model.", is_diffusers))
}

/// ComfyUI's, HunyuanVideo's and diffusers'.
fn framepack_keys() -> [FramePackTransformerKeys; 3] {
    let mut keys: Vec<_> = FramePackTransformerKeys::all().collect();
    keys.reverse();
    keys.try_into().unwrap()
}

#[test]
fn the_schema_of_every_wan_names_exactly_the_tensors_that_diffusers_wrote() {
    #[derive(serde::Deserialize)]
    struct Manifest {
        /// Variant → component → which of the sets.
        variants: BTreeMap<String, BTreeMap<String, usize>>,
        sets: Vec<Shapes>,
    }
    let manifest: Manifest = json_fixture("wan/variants/weights.json");
    assert_eq!(manifest.variants.len(), 6);
    for (variant, parts) in &manifest.variants {
        let config =
            WanTransformerConfig::read(&fixture("wan/variants").join(variant).join("transformer"))
                .unwrap();
        let [authors, diffusers] = wan_keys();
        let written = &manifest.sets[parts["transformer"]];
        let known = shapes_of(diffusers.tensors(&config));
        assert_eq!(&known, written, "{variant}");
        let translated = shapes_of(authors.tensors(&config));
        let translated = renamed(&translated, |name| diffusers.file_key(name));
        assert_eq!(&translated, written, "{variant}");
    }
}

#[test]
fn transformer_config_is_read_from_the_header_in_every_key_layout() {
    let wan = WanTransformerConfig {
        in_channels: 36,
        image_dim: Some(1280),
        added_kv_proj_dim: Some(5120),
        pos_embed_seq_len: Some(514),
        num_layers: 3,
        ..WanTransformerConfig::default()
    };
    for keys in wan_keys() {
        let weights = weights_of(keys.tensors(&wan));
        let found = WanTransformerConfig::of_header(&weights, None);
        assert_eq!(found, Ok(wan.clone()));
        let control = WanTransformerConfig {
            num_layers: 10,
            vace_layers: vec![0, 5],
            ..WanTransformerConfig::default()
        };
        let weights_of_control = weights_of(keys.tensors(&control));
        let found = WanTransformerConfig::of_header(&weights_of_control, None);
        assert_eq!(found, Ok(control));
        let authors = json!({"vace_layers": [0, 7]});
        let found = WanTransformerConfig::of_header(&weights_of_control, Some(&authors));
        assert_eq!(found.unwrap().vace_layers, [0, 7]);
        let authors = json!({"num_heads": 80});
        let found = WanTransformerConfig::of_header(&weights, Some(&authors)).unwrap();
        let heads = (found.num_attention_heads, found.attention_head_dim);
        assert_eq!(heads, (80, 64));
    }
    for guidance_embeds in [true, false] {
        let flux = FluxTransformerConfig {
            in_channels: 384,
            out_channels: Some(64),
            guidance_embeds,
            ..FluxTransformerConfig::default()
        };
        for keys in flux_keys() {
            let weights = weights_of(keys.tensors(&flux));
            let found = FluxTransformerConfig::of_header(&weights, None);
            assert_eq!(found, Ok(flux.clone()));
        }
        let framepack = FramePackTransformerConfig {
            guidance_embeds,
            mlp_ratio: 3.0,
            ..FramePackTransformerConfig::default()
        };
        for keys in framepack_keys() {
            let weights = weights_of(keys.tensors(&framepack));
            let found = FramePackTransformerConfig::of_header(&weights, None);
            assert_eq!(found, Ok(framepack.clone()));
        }
    }
}

#[test]
fn tensor_roles_and_precision_are_the_same_in_every_key_layout() {
    let flux = flux_keys().map(|keys| {
        let config = FluxTransformerConfig::default();
        keys.tensors(&config)
    });
    let framepack = framepack_keys().map(|keys| {
        let config = FramePackTransformerConfig::default();
        keys.tensors(&config)
    });
    let wan = wan_keys().map(|keys| keys.tensors(&WanTransformerConfig::default()));
    for dialects in [&flux[..], &framepack, &wan] {
        let tally = |schema: &[TensorSpec]| {
            let mut numbers = BTreeMap::new();
            for tensor in schema {
                let kind = format!("{:?} {}", tensor.role, tensor.keeps_f32);
                *numbers.entry(kind).or_insert(0) += tensor.shape.iter().product::<u64>();
            }
            numbers
        };
        for schema in dialects {
            assert_eq!(tally(schema), tally(&dialects[0]));
        }
    }
    use TensorRole::{Fixed, Matrix, Modulation};
    let [flux, hunyuan, diffusers] = [&flux[0], &framepack[1], &framepack[2]];
    for (schema, name, role, keeps_f32) in [
        (
            flux,
            "double_blocks.18.img_mod.lin.weight",
            Modulation,
            false,
        ),
        (flux, "time_in.in_layer.weight", Matrix, true),
        (flux, "single_blocks.7.linear1.bias", Fixed, false),
        (
            hunyuan,
            "double_blocks.18.img_mod.linear.weight",
            Modulation,
            false,
        ),
        (diffusers, "proj_out.weight", Matrix, true),
        (diffusers, "clean_x_embedder.proj_4x.weight", Fixed, false),
        (&wan[0], "patch_embedding.weight", Fixed, false),
        (&wan[0], "blocks.3.self_attn.q.weight", Matrix, false),
        (&wan[1], "blocks.3.norm2.weight", Fixed, true),
        (&wan[1], "scale_shift_table", Fixed, true),
    ] {
        let own = |tensor: &&TensorSpec| {
            let bare = tensor.name.strip_prefix("model.diffusion_model.");
            bare.unwrap_or(&tensor.name) == name
        };
        let tensor = schema.iter().find(own).unwrap();
        assert_eq!((tensor.role, tensor.keeps_f32), (role, keeps_f32), "{name}");
    }
}

type Refusal = fn(&Value) -> String;

/// What reading a folder with this config says is wrong.
fn refusal<T: NetworkConfig + std::fmt::Debug>(config: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let text = T::read(folder.path()).unwrap_err().to_string();
    text.replace(&path.display().to_string(), "FILE")
}

#[test]
fn a_config_of_a_million_layers_is_refused_in_one_sentence() {
    let check = |refusal: Refusal, keys: &str| {
        for key in keys.split(' ') {
            let expected = format!("expected a {key} between 1 and 1000, found 1048576: FILE");
            assert_eq!(refusal(&json!({ key: 1 << 20 })), expected);
        }
    };
    let (blocks, both) = ("num_layers", "num_layers num_single_layers");
    check(refusal::<WanTransformerConfig>, blocks);
    check(refusal::<AnimaTransformerConfig>, blocks);
    check(refusal::<QwenImageTransformerConfig>, blocks);
    check(refusal::<FluxTransformerConfig>, both);
    check(refusal::<Flux2TransformerConfig>, both);
    check(refusal::<Flux3TransformerConfig>, both);
    check(refusal::<FramePackTransformerConfig>, both);
    check(refusal::<FramePackTransformerConfig>, "num_refiner_layers");
    check(refusal::<ChromaTransformerConfig>, both);
    check(refusal::<ChromaTransformerConfig>, "approximator_layers");
    check(
        refusal::<ZImageTransformerConfig>,
        "n_layers n_refiner_layers",
    );
    check(refusal::<Krea2TransformerConfig>, blocks);
    let of_text = "num_layerwise_text_blocks num_refiner_text_blocks";
    check(refusal::<Krea2TransformerConfig>, of_text);
    check(refusal::<QwenVisionConfig>, "depth");
}

#[test]
fn numbers_that_no_such_network_can_have_are_named() {
    let wan: Refusal = refusal::<WanTransformerConfig>;
    let flux: Refusal = refusal::<FluxTransformerConfig>;
    let framepack: Refusal = refusal::<FramePackTransformerConfig>;
    for (refusal, key, value) in [
        (wan, "attention_head_dim", json!(7)),
        (wan, "freq_dim", json!(1)),
        (wan, "qk_norm", json!(null)),
        (wan, "added_kv_proj_dim", json!(5120)),
        (wan, "pos_embed_seq_len", json!(257)),
        (flux, "out_channels", json!(62)),
        (flux, "axes_dims_rope", json!([-2, 66, 64])),
        (flux, "axes_dims_rope", json!([16, 56, 54])),
        (flux, "axes_dims_rope", json!([15, 57, 56])),
        (flux, "num_layers", json!(0)),
        (flux, "num_single_layers", json!(0)),
        (flux, "num_attention_heads", json!(9_000_000)),
        (flux, "patch_size", json!(2)),
        (flux, "out_channels", json!(128)),
        (framepack, "patch_size", json!(3)),
        (framepack, "rope_axes_dim", json!([2, 6, 6])),
        (framepack, "has_clean_x_embedder", json!(false)),
        (framepack, "num_layers", json!(0)),
        (framepack, "qk_norm", json!("layer_norm")),
        (framepack, "rope_theta", json!(0.0)),
        (framepack, "mlp_ratio", json!(64.0)),
        (framepack, "image_condition_type", json!("token_replace")),
    ] {
        let text = refusal(&json!({ key: value }));
        let is_sentence = text.starts_with("expected ") && text.contains(", found ");
        assert!(is_sentence, "{key}: {text}");
        let holds = text.contains(key.trim_start_matches("has_"));
        assert!(holds, "{key}: {text}");
    }
    // What a config leaves out is what every published file has.
    let silent: FramePackTransformerConfig = serde_json::from_value(json!({})).unwrap();
    assert!(silent.has_image_proj && silent.check().is_ok());
}

#[test]
fn a_scheduler_is_read_with_the_defaults_of_diffusers_or_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler_config.json");
    let read = |row: &str| {
        let [reader, class, key, value] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let value: Value = serde_json::from_str(value).unwrap();
        let mut config = match class {
            "UniPCMultistep" => json!({
                "prediction_type": "flow_prediction", "use_flow_sigmas": true, "flow_shift": 5.0, key: value,
            }),
            _ => json!({ key: value }),
        };
        config["_class_name"] = format!("{class}Scheduler").into();
        fs::write(&path, config.to_string()).unwrap();
        let found = match reader {
            "any" => SchedulerConfig::read_with_fixed_shift(folder.path()),
            _ => SchedulerConfig::read_flow_match_euler(folder.path()),
        };
        found.map_err(|err| err.to_string())
    };
    let dynamic = read("euler FlowMatchEulerDiscrete use_dynamic_shifting true");
    assert!(dynamic.unwrap().use_dynamic_shifting);
    let wan = read("any UniPCMultistep steps_offset 0");
    assert_eq!(wan, Ok(SchedulerConfig::of_wan()));
    // The reader, the class, a key and its value; what the sentence says.
    for (row, part) in table(
        "any FlowMatchEulerDiscrete use_dynamic_shifting true -> use_dynamic_shifting
         euler DDIM shift 3 -> found 'DDIMScheduler'
         any DDIM shift 3 -> found 'DDIMScheduler'
         euler UniPCMultistep steps_offset 0 -> found 'UniPCMultistepScheduler'
         any UniPCMultistep use_flow_sigmas false -> use_flow_sigmas
         any UniPCMultistep prediction_type \"epsilon\" -> found epsilon
         any UniPCMultistep solver_order 9 -> solver_order
         any UniPCMultistep solver_type \"bh1\" -> sigma of 0
         any UniPCMultistep flow_shift -1.0 -> flow_shift
         any UniPCMultistep shift_terminal 0.1 -> shift_terminal
         any FlowMatchEulerDiscrete shift_terminal 0.1 -> shift_terminal
         euler FlowMatchEulerDiscrete shift_terminal 1.5 -> shift_terminal
         euler FlowMatchEulerDiscrete use_karras_sigmas true -> use_karras_sigmas
         euler FlowMatchEulerDiscrete base_image_seq_len 4096 -> base_image_seq_len
         euler FlowMatchEulerDiscrete max_image_seq_len 256 -> image_seq_len
         euler FlowMatchEulerDiscrete shift 0.0 -> shift
         euler FlowMatchEulerDiscrete time_shift_type \"cubic\" -> found cubic",
    ) {
        let text = read(row).unwrap_err();
        let is_sentence = text.starts_with("expected ") && text.contains(", found ");
        assert!(is_sentence && text.contains(part), "{row}: {text}");
    }
}
