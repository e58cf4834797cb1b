//! The transformers' configs and schemas: against what diffusers wrote, and against each other.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::Dtype;
use serde_json::{Value, json};

use crate::formats::weights::{TensorEntry, TensorType, WeightSet};
use crate::networks::*;

/// Name → shape.
type Shapes = BTreeMap<String, Vec<u64>>;

fn shapes_of(schema: Vec<TensorSpec>) -> Shapes {
    let count = schema.len();
    let named = schema.into_iter().map(|tensor| (tensor.name, tensor.shape));
    let shapes: Shapes = named.collect();
    assert_eq!(shapes.len(), count, "a name stands twice");
    shapes
}

/// A header with these tensors.
fn weights_of(schema: Vec<TensorSpec>) -> WeightSet {
    let entry = |shape| TensorEntry {
        dtype: TensorType::Plain(Dtype::BF16),
        shape,
        bytes: 0,
        file: 0,
    };
    let shapes = shapes_of(schema).into_iter();
    WeightSet {
        tensors: shapes.map(|(name, shape)| (name, entry(shape))).collect(),
        ..WeightSet::default()
    }
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
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan/variants");
    let manifest = fs::read(home.join("weights.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest.variants.len(), 6);
    for (variant, parts) in &manifest.variants {
        let config = WanTransformerConfig::read(&home.join(variant).join("transformer")).unwrap();
        let [authors, diffusers] = wan_keys();
        let written = &manifest.sets[parts["transformer"]];
        let known = shapes_of(config.tensors_in(diffusers));
        assert_eq!(&known, written, "{variant}");
        let translated = shapes_of(config.tensors_in(authors));
        let translated = translated.into_iter();
        let translated: Shapes = translated
            .map(|(name, shape)| (diffusers.file_key(&name), shape))
            .collect();
        assert_eq!(&translated, written, "{variant}");
    }
}

#[test]
fn a_header_says_the_config_that_its_tensors_come_from_in_every_dialect() {
    let wan = WanTransformerConfig {
        in_channels: 36,
        image_dim: Some(1280),
        added_kv_proj_dim: Some(5120),
        pos_embed_seq_len: Some(514),
        num_layers: 3,
        ..WanTransformerConfig::default()
    };
    for keys in wan_keys() {
        let weights = weights_of(wan.tensors_in(keys));
        assert_eq!(
            WanTransformerConfig::of_header(&weights, None),
            Ok(wan.clone())
        );
        let control = WanTransformerConfig {
            num_layers: 10,
            vace_layers: vec![0, 5],
            ..WanTransformerConfig::default()
        };
        let weights_of_control = weights_of(control.tensors_in(keys));
        let found = WanTransformerConfig::of_header(&weights_of_control, None);
        assert_eq!(found, Ok(control));
        let authors = json!({"vace_layers": [0, 7]});
        let found = WanTransformerConfig::of_header(&weights_of_control, Some(&authors));
        assert_eq!(found.unwrap().vace_layers, [0, 7]);
        let authors = json!({"num_heads": 80});
        let found = WanTransformerConfig::of_header(&weights, Some(&authors)).unwrap();
        assert_eq!(
            (found.num_attention_heads, found.attention_head_dim),
            (80, 64)
        );
    }
    for guidance_embeds in [true, false] {
        let flux = FluxTransformerConfig {
            in_channels: 384,
            out_channels: Some(64),
            guidance_embeds,
            ..FluxTransformerConfig::default()
        };
        for keys in flux_keys() {
            let weights = weights_of(flux.tensors_in(keys));
            assert_eq!(
                FluxTransformerConfig::of_header(&weights, None),
                Ok(flux.clone())
            );
        }
        let framepack = FramePackTransformerConfig {
            guidance_embeds,
            mlp_ratio: 3.0,
            ..FramePackTransformerConfig::default()
        };
        for keys in framepack_keys() {
            let weights = weights_of(framepack.tensors_in(keys));
            let found = FramePackTransformerConfig::of_header(&weights, None);
            assert_eq!(found, Ok(framepack.clone()));
        }
    }
}

#[test]
fn what_becomes_of_a_tensor_is_the_same_in_every_dialect() {
    let flux = flux_keys().map(|keys| {
        let config = FluxTransformerConfig::default();
        config.tensors_in(keys)
    });
    let framepack = framepack_keys().map(|keys| {
        let config = FramePackTransformerConfig::default();
        config.tensors_in(keys)
    });
    let wan = wan_keys().map(|keys| WanTransformerConfig::default().tensors_in(keys));
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
    for (schema, name, role, keeps_f32) in [
        (
            &flux[0],
            "double_blocks.18.img_mod.lin.weight",
            TensorRole::Modulation,
            false,
        ),
        (
            &flux[0],
            "time_in.in_layer.weight",
            TensorRole::Matrix,
            true,
        ),
        (
            &flux[0],
            "single_blocks.7.linear1.bias",
            TensorRole::Fixed,
            false,
        ),
        (
            &framepack[1],
            "double_blocks.18.img_mod.linear.weight",
            TensorRole::Modulation,
            false,
        ),
        (&framepack[2], "proj_out.weight", TensorRole::Matrix, true),
        (
            &framepack[2],
            "clean_x_embedder.proj_4x.weight",
            TensorRole::Fixed,
            false,
        ),
        (&wan[0], "patch_embedding.weight", TensorRole::Fixed, false),
        (
            &wan[0],
            "blocks.3.self_attn.q.weight",
            TensorRole::Matrix,
            false,
        ),
        (&wan[1], "blocks.3.norm2.weight", TensorRole::Fixed, true),
        (&wan[1], "scale_shift_table", TensorRole::Fixed, true),
    ] {
        let own = |tensor: &&TensorSpec| {
            let bare = tensor.name.strip_prefix("model.diffusion_model.");
            bare.unwrap_or(&tensor.name) == name
        };
        let tensor = schema.iter().find(own).unwrap();
        assert_eq!((tensor.role, tensor.keeps_f32), (role, keeps_f32), "{name}");
    }
}

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
    type Counts = (fn(&Value) -> String, &'static [&'static str]);
    let networks: [Counts; 9] = [
        (refusal::<WanTransformerConfig>, &["num_layers"]),
        (
            refusal::<FluxTransformerConfig>,
            &["num_layers", "num_single_layers"],
        ),
        (
            refusal::<FramePackTransformerConfig>,
            &["num_layers", "num_single_layers", "num_refiner_layers"],
        ),
        (
            refusal::<ChromaTransformerConfig>,
            &["num_layers", "num_single_layers", "approximator_layers"],
        ),
        (
            refusal::<Flux2TransformerConfig>,
            &["num_layers", "num_single_layers"],
        ),
        (refusal::<QwenImageTransformerConfig>, &["num_layers"]),
        (
            refusal::<ZImageTransformerConfig>,
            &["n_layers", "n_refiner_layers"],
        ),
        (
            refusal::<Krea2TransformerConfig>,
            &[
                "num_layers",
                "num_layerwise_text_blocks",
                "num_refiner_text_blocks",
            ],
        ),
        (refusal::<QwenVisionConfig>, &["depth"]),
    ];
    for (refusal, keys) in networks {
        for key in keys {
            let expected = format!("expected a {key} between 1 and 1000, found 1048576: FILE");
            assert_eq!(refusal(&json!({ *key: 1 << 20 })), expected);
        }
    }
}

#[test]
fn numbers_that_no_such_network_can_have_are_named() {
    type Refusal = fn(&Value) -> String;
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
        (framepack, "qk_norm", json!("layer_norm")),
        (framepack, "rope_theta", json!(0.0)),
        (framepack, "mlp_ratio", json!(64.0)),
        (framepack, "image_condition_type", json!("token_replace")),
    ] {
        let text = refusal(&json!({ key: value }));
        let is_sentence = text.starts_with("expected ") && text.contains(", found ");
        assert!(is_sentence && text.contains(key), "{key}: {text}");
    }
    // What a config leaves out is what every published file has.
    let silent: FramePackTransformerConfig = serde_json::from_value(json!({})).unwrap();
    assert!(silent.has_image_proj && silent.check().is_ok());
}

#[test]
fn a_scheduler_is_read_with_the_defaults_of_diffusers_or_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler_config.json");
    let read = |config: Value, read: fn(&Path) -> Result<SchedulerConfig, _>| {
        fs::write(&path, config.to_string()).unwrap();
        read(folder.path()).map_err(|err: crate::model::CatalogError| err.to_string())
    };
    let (euler, any) = (
        SchedulerConfig::read_flow_match_euler as fn(&Path) -> _,
        SchedulerConfig::read_with_fixed_shift as fn(&Path) -> _,
    );
    let of_euler = |key: &str, value: Value| json!({"_class_name": "FlowMatchEulerDiscreteScheduler", key: value});
    let of_unipc = |key: &str, value: Value| {
        json!({
            "_class_name": "UniPCMultistepScheduler", "prediction_type": "flow_prediction",
            "use_flow_sigmas": true, "flow_shift": 5.0, key: value,
        })
    };
    let dynamic = of_euler("use_dynamic_shifting", json!(true));
    assert!(read(dynamic.clone(), euler).unwrap().use_dynamic_shifting);
    assert_eq!(
        read(of_unipc("steps_offset", json!(0)), any),
        Ok(SchedulerConfig::of_wan())
    );
    for (config, reader, part) in [
        (dynamic, any, "use_dynamic_shifting"),
        (
            of_unipc("steps_offset", json!(0)),
            euler,
            "found 'UniPCMultistepScheduler'",
        ),
        (
            of_unipc("use_flow_sigmas", json!(false)),
            any,
            "use_flow_sigmas",
        ),
        (
            of_unipc("prediction_type", json!("epsilon")),
            any,
            "found epsilon",
        ),
        (of_unipc("solver_order", json!(9)), any, "solver_order"),
        (of_unipc("solver_type", json!("bh1")), any, "sigma of 0"),
        (of_unipc("flow_shift", json!(-1.0)), any, "flow_shift"),
        (
            of_euler("use_karras_sigmas", json!(true)),
            euler,
            "use_karras_sigmas",
        ),
        (
            of_euler("shift_terminal", json!(1.5)),
            euler,
            "shift_terminal",
        ),
        (
            of_euler("shift_terminal", json!(0.1)),
            any,
            "shift_terminal",
        ),
        (
            of_unipc("shift_terminal", json!(0.1)),
            any,
            "shift_terminal",
        ),
        (
            of_euler("base_image_seq_len", json!(4096)),
            euler,
            "base_image_seq_len",
        ),
        (
            of_euler("time_shift_type", json!("cubic")),
            euler,
            "found cubic",
        ),
        (
            json!({"_class_name": "DDIMScheduler"}),
            any,
            "found 'DDIMScheduler'",
        ),
    ] {
        let text = read(config, reader).unwrap_err();
        let is_sentence = text.starts_with("expected ") && text.contains(", found ");
        assert!(is_sentence && text.contains(part), "{part}: {text}");
    }
}
