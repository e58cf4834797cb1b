//! Storage formats of weights: fp8 and ComfyUI's quantized formats are read, other quantizations are refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::catalog::{IdentityCard, ModelCatalog};
use crate::footprint::NetworkFootprint;
use crate::formats::weights::header::WeightHeader;
use crate::lora::LoraFile;
use crate::model::{CatalogError, ModelSpec};
use crate::networks::WanTransformerConfig;
use crate::testing::made_up::{
    Dims, Shapes, T2V_1_3B, comfy_tree, transformer, umt5, vae, wan_in, write, write_as,
};
use crate::testing::published::{behind, edited, with_text_encoder};
use crate::testing::{assert_has, assert_not_opened, table};

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
    let quant = edited(new.clone(), "blocks.0.ffn.0.comfy_quant", &[27]);
    let layers = json!({"blocks.0.ffn.0": {"format": "float8_e4m3fn"}});
    let note = json!({"_quantization_metadata": json!({"layers": layers}).to_string()});
    for (shapes, notes) in [
        (edited(legacy.clone(), "scaled_fp8", &[0]), none()),
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
    let place = wan_in(&models, "unet/x.safetensors", NARROW);
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    let shapes = scaled(&umt5(), "scale_weight", |_| true);
    // As published: the table stays wide, the marker has two elements.
    let shapes = edited(shapes, "scaled_fp8", &[2]);
    write_as(&text, &shapes, &dtype_of, 256_300, &none());
    let vae_file = models.join("vae/wan_2.1_vae.safetensors");
    write(&vae_file, &vae(16), "F8_E5M2");
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
    let marked = edited(transformer(NARROW), "scaled_fp8", &[0]);
    let text = refused(&place, &marked, &dtype_of, &none());
    assert!(text.contains("scales that are not in the file"), "{text}");
    // Another component's scales say nothing about the transformer.
    let mut shapes = behind("model.diffusion_model.", &transformer(NARROW));
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
    let beside = |name: &str, shape: &[u64]| {
        edited(transformer(T2V_1_3B), &format!("{layer}.{name}"), shape)
    };
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
    let of_dtypes = |name: &str| match name {
        "packed" => packed,
        "blocks" => blocks,
        "fp8" => &dtype_of as &dyn Fn(&str) -> &'static str,
        _ => whole,
    };
    let get = "(get wan2.1_t2v_1.3B_fp16.safetensors from";
    let text = refused(&place, &quanto, whole, &none());
    assert_has(&text, &["quanto", get]);
    for format in ["nvfp4", "strange"] {
        let shapes = beside("weight_scale", &[]);
        let text = refused(&place, &shapes, &dtype_of, &note(format));
        assert_has(&text, &[format, get]);
        assert!(format == "nvfp4" || text.contains("quantised numbers (strange)"));
    }
    for (row, part) in table(
        "weight.quant_state.bitsandbytes__nf4 1 whole -> bitsandbytes 4-bit numbers (nf4)
         weight.absmax 1 whole -> nf4
         SCB 1 whole -> int8
         wscales 1 whole -> SVDQuant
         qzeros 1 whole -> GPTQ or AWQ
         g_idx 1 whole -> (GPTQ)
         biases 1 whole -> MLX's
         W_q 1 whole -> HQQ
         weight_packed 1 whole -> compressed-tensors
         weight.tensor_impl.data 1 whole -> torchao's
         weight_scale  whole -> int8_tensorwise
         weight_scale 8960,1 fp8 -> a scale for each row
         weight_scale 8960,96 packed -> nvfp4
         weight_scale_2  packed -> nvfp4
         weight_scale 8960,48 blocks -> mxfp8",
    ) {
        let [name, shape, dtypes] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let shape = shape.split(',').filter_map(|n| n.parse().ok());
        let shapes = beside(name, &shape.collect::<Vec<u64>>());
        let text = refused(&place, &shapes, of_dtypes(dtypes), &none());
        assert_has(&text, &[part, get]);
    }
    let catalog = ModelCatalog::default();
    let place = write(&place, &transformer(NARROW), "F16");
    let text = models.join("text_encoders/umt5_nf4.safetensors");
    write(&text, &edited(umt5(), "shared.weight.absmax", &[1]), "F16");
    let companions = with_text_encoder(text);
    let err = catalog.open_with(&place.to_string_lossy(), &companions);
    let text = err.unwrap_err().to_string();
    assert_has(&text, &["umt5_xxl_fp16.safetensors", "nf4"]);
}

/// Tensors next to each quantized matrix of `[rows, columns]`: end of the key, shape and dtype; its own first.
type StoredAs = dyn Fn([u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)>;

/// A transformer whose matrices in blocks are quantized, each of which says `json` of itself.
fn write_quant(place: &Path, dims: Dims, json: &str, stored_as: &StoredAs) {
    let mut shapes = transformer(dims);
    let mut dtypes = BTreeMap::new();
    let keys = shapes.keys().filter(|key| is_scaled(key));
    let keys: Vec<String> = keys.cloned().collect();
    for key in &keys {
        let layer = key.trim_end_matches(".weight");
        let size = [shapes[key][0], shapes[key][1]];
        let mut all = stored_as(size);
        all.push(("comfy_quant", vec![json.len() as u64], "U8"));
        for (end, shape, dtype) in all {
            let key = format!("{layer}.{end}");
            shapes.insert(key.clone(), shape);
            dtypes.insert(key, dtype);
        }
    }
    let dtype_of = |key: &str| dtypes.get(key).copied().unwrap_or("BF16");
    write_as(place, &shapes, &dtype_of, 0, &none());
    let (_, header) = WeightHeader::open(place).unwrap();
    let file = fs::File::options().write(true).open(place).unwrap();
    let marks = header.tensors();
    for (_, info) in marks.filter(|(key, _)| key.ends_with("comfy_quant")) {
        file.write_all_at(json.as_bytes(), info.start).unwrap();
    }
}

fn int8([rows, columns]: [u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)> {
    vec![
        ("weight", vec![rows, columns], "I8"),
        ("weight_scale", vec![rows, 1], "F32"),
    ]
}

fn int4([rows, columns]: [u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)> {
    vec![
        ("weight", vec![rows, columns / 2], "I8"),
        ("weight_scale", vec![rows], "F32"),
    ]
}

fn w4a8([rows, columns]: [u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)> {
    vec![
        ("weight", vec![rows, columns / 2], "I8"),
        ("weight_s_rel", vec![rows, columns / 16], "F8_E4M3"),
        ("weight_s_channel", vec![rows], "F32"),
        ("weight_codebook", vec![16], "F32"),
    ]
}

fn nvfp4([rows, columns]: [u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)> {
    let tiled = vec![
        rows.next_multiple_of(128),
        (columns / 16).next_multiple_of(4),
    ];
    vec![
        ("weight", vec![rows, columns / 2], "U8"),
        ("weight_scale", tiled, "F8_E4M3"),
        ("weight_scale_2", vec![], "F32"),
        ("input_scale", vec![], "F32"),
    ]
}

fn mxfp8([rows, columns]: [u64; 2]) -> Vec<(&'static str, Vec<u64>, &'static str)> {
    let tiled = vec![
        rows.next_multiple_of(128),
        (columns / 32).next_multiple_of(4),
    ];
    vec![
        ("weight", vec![rows, columns], "F8_E4M3"),
        ("weight_scale", tiled, "U8"),
    ]
}

/// JSON, label, storage and bits of a number, block scales included.
const QUANTIZED: [(&str, &str, &StoredAs, f64); 4] = [
    (r#"{"format": "convrot_w4a4"}"#, "int4", &int4, 4.0),
    (r#"{"format": "asym_w4a8_int8"}"#, "w4a8", &w4a8, 4.5),
    (r#"{"format": "nvfp4"}"#, "nvfp4", &nvfp4, 4.5),
    (r#"{"format": "mxfp8"}"#, "mxfp8", &mxfp8, 8.25),
];

#[test]
fn quantized_models_are_models_and_the_plan_counts_their_bytes() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let plain = write(&place, &transformer(NARROW), "F16");
    let parameters = IdentityCard::read(&plain).unwrap().components[0].parameters;
    for (json, label, stored_as, bits) in QUANTIZED {
        write_quant(&place, NARROW, json, stored_as);
        ModelSpec::open(&place).unwrap();
        let card = IdentityCard::read(&place).unwrap();
        assert!(card.is_runnable, "{label}: {:?}", card.problems);
        assert!(card.what.ends_with(&format!(", {label}")), "{}", card.what);
        let own = &card.components[0];
        assert_eq!(own.parameters, parameters, "{label}");
        let numbers = own.dtypes[label];
        let network = NetworkFootprint::read::<WanTransformerConfig>(&place).unwrap();
        let stored = network.often.stored + network.seldom.stored + network.tables.stored;
        assert_eq!(stored as f64, numbers as f64 * bits / 8.0, "{label}");
    }
}

#[test]
fn quantized_matrices_that_do_not_fit_their_scales_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let refusal = |json: &str, stored_as: &StoredAs| {
        write_quant(&place, NARROW, json, stored_as);
        ModelSpec::open(&place).unwrap_err().to_string()
    };
    for (json, label, stored_as, _) in QUANTIZED {
        let count = stored_as([256, 256]).len();
        for lost in 1..count {
            let without = move |size| {
                let mut all = stored_as(size);
                all.remove(lost);
                all
            };
            let (end, ..) = stored_as([256, 256])[lost];
            if matches!(end, "input_scale" | "weight_codebook") {
                continue;
            }
            let text = refusal(json, &without);
            let part = format!("{label} without a fitting 'blocks.0.");
            assert_has(&text, &[&part, end, "(get wan"]);
            let short = move |size| {
                let mut all = stored_as(size);
                all[lost].1 = vec![3];
                all
            };
            assert_has(&refusal(json, &short), &[&part, end]);
        }
        let wide = move |size| {
            let mut all = stored_as(size);
            all[0].2 = "F16";
            all
        };
        let in_metadata = refusal(json, &wide);
        assert!(in_metadata.contains("x.safetensors"), "{in_metadata}");
    }
    let corrected = |[rows, columns]: [u64; 2]| {
        let mut all = w4a8([rows, columns]);
        all.push(("weight_correction", vec![columns / 16, rows], "F32"));
        all
    };
    for (json, stored_as, part) in [
        (
            r#"{"format": "asym_w4a8_int8"}"#,
            &corrected as &StoredAs,
            "weight_correction' that does not fit",
        ),
        (
            r#"{"format": "asym_w4a8_int8", "group_size": 24}"#,
            &w4a8,
            "blocks of 24, which do not fill rows of 256",
        ),
        (
            r#"{"format": "asym_w4a8_int8", "group_size": 0}"#,
            &w4a8,
            "blocks of 0",
        ),
        (
            r#"{"format": "convrot_w4a4", "convrot_groupsize": 1024}"#,
            &int4,
            "groups of 1024, which do not fill rows of 256",
        ),
        (r#"{"format": "nvfp4"}"#, &int4, "nvfp4 in a tensor of I8"),
        (
            r#"{"format": "awq_w4a16"}"#,
            &int4,
            "quantised numbers (awq_w4a16)",
        ),
        (r#"{"format": "mxfp8"}"#, &nvfp4, "mxfp8 in a tensor of U8"),
    ] {
        let text = refusal(json, stored_as);
        assert_has(&text, &[part]);
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
        write_quant(&place, T2V_1_3B, json, &int8);
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
        write_quant(&place, T2V_1_3B, json, &int8);
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
    for name in "qweight wscales smooth_factor lora_down lora_up".split(' ') {
        let key = format!("single_transformer_blocks.0.mlp_fc1.{name}");
        shapes.insert(key, vec![8, 8]);
    }
    write(&place, &shapes, "I8");
    let card = IdentityCard::read(&place).unwrap();
    let found = (&card.family[..], &card.components[0].name[..]);
    assert_eq!(found, ("flux", "transformer"));
    let err = LoraFile::read(&place).unwrap_err().to_string();
    assert!(err.contains("this is not a LoRA, but a"), "{err}");
    shapes.retain(|key, _| key.contains("wscales"));
    write(&place, &shapes, "I8");
    assert_not_opened(&place, &["stored as nunchaku's 4-bit numbers"]);
}
