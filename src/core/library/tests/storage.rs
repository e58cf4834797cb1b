//! How weights are stored: fp8 in all its forms is a model, other quantisations are named and refused.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::catalog::{IdentityCard, ModelCatalog};
use crate::formats::weights::header::WeightHeader;
use crate::lora::LoraFile;
use crate::model::{CatalogError, ComponentOverrides, ModelSpec};
use crate::testing::made_up::{
    Dims, Shapes, T2V_1_3B, comfy_tree, transformer, umt5, vae, write, write_as,
};

/// As wide as two heads, so that headers are small.
const NARROW: Dims = Dims {
    dim: 256,
    ffn: 512,
    layers: 3,
    ..T2V_1_3B
};

fn is_scaled(key: &str) -> bool {
    let in_block = key.contains("block");
    let layer = [".q.", ".k.", ".v.", ".o.", "ffn.", ".wi_", ".wo."];
    in_block && key.ends_with(".weight") && layer.iter().any(|part| key.contains(part))
}

/// A file with scales of this name next to every matrix in a block, but for those that `has_scale` leaves out.
fn scaled(shapes: &Shapes, scale: &str, has_scale: impl Fn(&str) -> bool) -> Shapes {
    let mut all = shapes.clone();
    for key in shapes.keys().filter(|key| is_scaled(key)) {
        let layer = key.trim_end_matches(".weight");
        if has_scale(layer) {
            all.insert(format!("{layer}.{scale}"), vec![]);
        }
        if scale == "scale_weight" {
            all.insert(format!("{layer}.scale_input"), vec![]);
        }
    }
    all
}

fn dtype_of(key: &str) -> &'static str {
    match key.rsplit('.').next() {
        Some("scale_weight" | "weight_scale" | "scale_input" | "scaled_fp8") => "F32",
        Some("comfy_quant") => "U8",
        _ if is_scaled(key) => "F8_E4M3",
        _ => "BF16",
    }
}

fn with(mut shapes: Shapes, key: &str, shape: &[u64]) -> Shapes {
    shapes.insert(key.to_owned(), shape.to_vec());
    shapes
}

fn none() -> Value {
    json!({})
}

#[test]
fn a_model_of_fp8_is_a_model_plain_or_with_scales_of_any_name() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("diffusion_models/x.safetensors");
    let plain = write(&place, &transformer(NARROW), "F16");
    let parameters = IdentityCard::read(&plain).unwrap().components[0].parameters;
    for dtype in ["F8_E4M3", "F8_E5M2"] {
        write(&place, &transformer(NARROW), dtype);
        ModelSpec::open(&place).unwrap();
    }
    let all = |_: &str| true;
    let legacy = scaled(&transformer(NARROW), "scale_weight", all);
    let new = scaled(&transformer(NARROW), "weight_scale", all);
    let quant = with(new.clone(), "blocks.0.ffn.0.comfy_quant", &[27]);
    let layers = json!({"blocks.0.ffn.0": {"format": "float8_e4m3fn"}});
    let note = json!({"_quantization_metadata": json!({"layers": layers}).to_string()});
    for (shapes, notes) in [
        (with(legacy.clone(), "scaled_fp8", &[0]), none()),
        (legacy, none()),
        (quant, none()),
        (new, note),
    ] {
        write_as(&place, &shapes, &dtype_of, 0, &notes);
        ModelSpec::open(&place).unwrap();
        let card = IdentityCard::read(&place).unwrap();
        assert!(card.is_runnable, "{:?}", card.problems);
        assert!(card.what.contains("fp8 with scales"), "{}", card.what);
        let own = &card.components[0];
        assert_eq!(own.parameters, parameters);
        let types: Vec<&String> = own.dtypes.keys().collect();
        assert_eq!(types, ["BF16", "F8_E4M3"]);
    }
}

#[test]
fn companions_of_fp8_are_found_and_taken() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = write(
        &models.join("unet/x.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    let shapes = scaled(&umt5(), "scale_weight", |_| true);
    // As published: the table stays wide, the marker has two elements.
    write_as(
        &text,
        &with(shapes, "scaled_fp8", &[2]),
        &dtype_of,
        256_300,
        &none(),
    );
    write(
        &models.join("vae/wan_2.1_vae.safetensors"),
        &vae(16),
        "F8_E5M2",
    );
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.text_encoder, text);
}

/// Error of opening such a transformer.
#[track_caller]
fn refused(
    place: &Path,
    shapes: &Shapes,
    dtype_of: &dyn Fn(&str) -> &'static str,
    notes: &Value,
) -> String {
    write_as(place, shapes, dtype_of, 0, notes);
    let err = ModelSpec::open(place).unwrap_err();
    assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
    err.to_string()
}

#[test]
fn a_missing_scale_is_named_before_it_makes_noise() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let gap = "blocks.1.cross_attn.v";
    for scale in ["scale_weight", "weight_scale"] {
        let shapes = scaled(&transformer(NARROW), scale, |layer| layer != gap);
        let text = refused(&place, &shapes, &dtype_of, &none());
        let expected = format!("of which that of '{gap}.weight' is missing (get wan");
        assert!(text.contains(&expected), "{text}");
    }
    let marked = with(transformer(NARROW), "scaled_fp8", &[0]);
    let text = refused(&place, &marked, &dtype_of, &none());
    assert!(text.contains("scales that are not in the file"), "{text}");
    // Another component's scales say nothing about the transformer.
    let prefixed = transformer(NARROW).into_iter();
    let mut shapes: Shapes = prefixed
        .map(|(key, shape)| (format!("model.diffusion_model.{key}"), shape))
        .collect();
    let layer = "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q";
    shapes.insert(format!("{layer}.weight"), vec![8, 8]);
    shapes.insert(format!("{layer}.scale_weight"), vec![]);
    shapes.insert("text_encoders.t5xxl.transformer.scaled_fp8".into(), vec![2]);
    write_as(&place, &shapes, &dtype_of, 0, &none());
    ModelSpec::open(&place).unwrap();
}

#[test]
fn other_quantisations_are_named_with_a_file_that_works() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let layer = "blocks.0.ffn.0";
    let beside =
        |name: &str, shape: &[u64]| with(transformer(T2V_1_3B), &format!("{layer}.{name}"), shape);
    let note = |format: &str| {
        let layers = json!({layer: {"format": format}});
        json!({"_quantization_metadata": json!({"layers": layers}).to_string()})
    };
    let quanto: Shapes = transformer(T2V_1_3B)
        .into_iter()
        .map(|(key, shape)| {
            let is_kept = shape.len() != 2;
            (if is_kept { key } else { format!("{key}._data") }, shape)
        })
        .collect();
    let whole: &dyn Fn(&str) -> &'static str = &|key| match key.rsplit('.').next() {
        Some("weight" | "_data" | "qweight" | "absmax") => "I8",
        _ => "F32",
    };
    let packed: &dyn Fn(&str) -> &'static str = &|key| match key {
        "blocks.0.ffn.0.weight" => "U8",
        "blocks.0.ffn.0.weight_scale" => "F8_E4M3",
        _ => "BF16",
    };
    let blocks: &dyn Fn(&str) -> &'static str = &|key| match key {
        "blocks.0.ffn.0.weight" => "F8_E4M3",
        "blocks.0.ffn.0.weight_scale" => "U8",
        _ => "BF16",
    };
    for (shapes, dtypes, notes, part) in [
        (
            beside("weight.quant_state.bitsandbytes__nf4", &[1]),
            whole,
            none(),
            "bitsandbytes 4-bit numbers (nf4)",
        ),
        (beside("weight.absmax", &[1]), whole, none(), "nf4"),
        (beside("SCB", &[1]), whole, none(), "int8"),
        (quanto, whole, none(), "quanto"),
        (beside("wscales", &[1]), whole, none(), "SVDQuant"),
        (beside("qzeros", &[1]), whole, none(), "GPTQ or AWQ"),
        (beside("g_idx", &[1]), whole, none(), "(GPTQ)"),
        (beside("biases", &[1]), whole, none(), "MLX's"),
        (beside("W_q", &[1]), whole, none(), "HQQ"),
        (
            beside("weight_packed", &[1]),
            whole,
            none(),
            "compressed-tensors",
        ),
        (
            beside("weight.tensor_impl.data", &[1]),
            whole,
            none(),
            "torchao's",
        ),
        (
            beside("weight_scale", &[]),
            whole,
            none(),
            "int8_tensorwise",
        ),
        (
            beside("weight_scale", &[8960, 1]),
            &dtype_of,
            none(),
            "a scale for each row",
        ),
        (beside("weight_scale", &[8960, 96]), packed, none(), "nvfp4"),
        (beside("weight_scale_2", &[]), packed, none(), "nvfp4"),
        (beside("weight_scale", &[8960, 48]), blocks, none(), "mxfp8"),
        (
            beside("weight_scale", &[]),
            &dtype_of,
            note("nvfp4"),
            "nvfp4",
        ),
        (
            beside("weight_scale", &[]),
            &dtype_of,
            note("strange"),
            "quantised numbers (strange)",
        ),
    ] {
        let text = refused(&place, &shapes, dtypes, &notes);
        assert!(text.contains(part), "{part}: {text}");
        assert!(
            text.contains("(get wan2.1_t2v_1.3B_fp16.safetensors from"),
            "{text}"
        );
    }
    let catalog = ModelCatalog::default();
    let place = write(&place, &transformer(NARROW), "F16");
    let text = models.join("text_encoders/umt5_nf4.safetensors");
    write(&text, &with(umt5(), "shared.weight.absmax", &[1]), "F16");
    let companions = ComponentOverrides {
        text_encoder: Some(text),
        ..ComponentOverrides::default()
    };
    let err = catalog
        .open_with(&place.to_string_lossy(), &companions)
        .unwrap_err();
    let text = err.to_string();
    assert!(
        text.contains("umt5_xxl_fp16.safetensors") && text.contains("nf4"),
        "{text}"
    );
}

/// A transformer whose matrices in blocks are whole numbers, each of which says `json` of itself.
fn write_int8(place: &Path, json: &str) {
    let mut shapes = transformer(T2V_1_3B);
    let keys: Vec<String> = shapes
        .keys()
        .filter(|key| is_scaled(key))
        .cloned()
        .collect();
    for key in &keys {
        let layer = key.trim_end_matches(".weight");
        let rows = shapes[key][0];
        shapes.insert(format!("{layer}.weight_scale"), vec![rows, 1]);
        shapes.insert(format!("{layer}.comfy_quant"), vec![json.len() as u64]);
    }
    let dtype_of: &dyn Fn(&str) -> &'static str = &|key| match dtype_of(key) {
        "F8_E4M3" => "I8",
        other => other,
    };
    write_as(place, &shapes, dtype_of, 0, &none());
    let (_, header) = WeightHeader::open(place).unwrap();
    let file = fs::File::options().write(true).open(place).unwrap();
    for (_, info) in header
        .tensors()
        .filter(|(key, _)| key.ends_with("comfy_quant"))
    {
        file.write_all_at(json.as_bytes(), info.start).unwrap();
    }
}

#[test]
fn int8_with_rotation_is_supported_and_invalid_int8_settings_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    for json in [
        r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}"#,
        r#"{"format": "int8_tensorwise"}"#,
    ] {
        write_int8(&place, json);
        ModelSpec::open(&place).unwrap();
        let card = IdentityCard::read(&place).unwrap();
        assert!(card.what.contains("int8 with rotation"), "{}", card.what);
        assert!(card.is_runnable, "{:?}", card.problems);
    }
    for (json, part) in [
        (
            r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 128}"#,
            "groups of 128, which is no power of four",
        ),
        (
            r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 1024}"#,
            "groups of 1024, which do not fill rows of",
        ),
        (r#"{"format": "int8_blockwise"}"#, "int8_blockwise"),
        ("?", "do not say how they are stored"),
    ] {
        write_int8(&place, json);
        let text = ModelSpec::open(&place).unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn nunchaku_4_bit_files_are_identified_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("svdq.safetensors");
    let mut shapes = Shapes::new();
    shapes.insert("x_embedder.weight".into(), vec![8, 8]);
    for name in [
        "qweight",
        "wscales",
        "smooth_factor",
        "lora_down",
        "lora_up",
    ] {
        shapes.insert(
            format!("single_transformer_blocks.0.mlp_fc1.{name}"),
            vec![8, 8],
        );
    }
    write(&place, &shapes, "I8");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!(
        (card.family.as_str(), card.components[0].name.as_str()),
        ("flux", "transformer")
    );
    let err = LoraFile::read(&place).unwrap_err().to_string();
    assert!(err.contains("this is not a LoRA, but a"), "{err}");
    shapes.retain(|key, _| key.contains("wscales"));
    write(&place, &shapes, "I8");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(
        text.contains("stored as nunchaku's 4-bit numbers"),
        "{text}"
    );
}
