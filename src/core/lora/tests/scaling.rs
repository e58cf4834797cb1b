//! Scales that the metadata of a LoRA gives: alpha over rank, where the tensors have no alpha of their own.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::catalog::IdentityCard;
use crate::families::{lora_target, wan};
use crate::fitting::LoraInfo;
use crate::formats::weights::header::WeightHeader;
use crate::lora::tests::layers::{Files, KOHYA, PEFT, RANK, lora_of, table_of};
use crate::lora::{LoraFile, LoraPlan, LoraUpdate};
use crate::testing::made_up::{Shapes, T2V_1_3B, transformer, write_as};
use crate::testing::table;

const LAYER: &str = "blocks.0.self_attn.q";

/// One layer of Wan by the name that `rename` gives.
fn shapes(rename: &dyn Fn(&str) -> String, leaves: [&str; 2]) -> Shapes {
    let base = transformer(T2V_1_3B);
    lora_of(&base, |layer| layer == LAYER, rename, leaves)
}

fn diffusers() -> Shapes {
    shapes(&|layer| format!("transformer.{layer}"), PEFT)
}

fn read(shapes: &Shapes, notes: &Value) -> LoraFile {
    let files = Files::new();
    let path = files.0.path().join("x.safetensors");
    LoraFile::read(&write_as(&path, shapes, &|_| "F32", 0, notes)).unwrap()
}

fn update(file: &LoraFile) -> LoraUpdate {
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
    let mut updates = LoraPlan::new(file, &[table]).updates;
    assert_eq!(updates.len(), 1);
    updates.remove(0)
}

#[test]
fn alpha_and_rank_of_the_metadata_scale_a_layer_without_alpha() {
    // As plain values.
    for (notes, factor) in table(
        r#"{} -> 1
        {"r": "4", "lora_alpha": "1"} -> 0.25
        {"transformer.r": "4", "transformer.lora_alpha": "1"} -> 0.25
        {"transformer.r": 4, "transformer.lora_alpha": 1.0} -> 0.25
        {"rank": "8", "alpha": "2.0"} -> 0.25
        {"unet.r": "4", "unet.lora_alpha": "1"} -> 0.25
        {"ss_network_dim": "8", "ss_network_alpha": "16.0"} -> 2
        {"network_dim": "2", "network_alpha": "1"} -> 0.5
        {"lora_alpha": "1"} -> 0.25
        {"r": "4"} -> 1
        {"lora_alpha": "2", "r": "4", "use_rslora": "True"} -> 1
        {"text_encoder.r": "4", "text_encoder.lora_alpha": "1"} -> 1
        {"ss_network_alpha": "None", "ss_network_dim": "None"} -> 1
        {"adapter_config": "{\"r\": 4, \"lora_alpha\": 8}"} -> 2"#,
    ) {
        assert_scaled(&serde_json::from_str(notes).unwrap(), factor);
    }
    // As diffusers' JSON.
    for (text, factor) in table(
        r#"{"r": 4, "lora_alpha": 1} -> 0.25
        {"transformer": {"r": 4, "lora_alpha": 1}} -> 0.25
        {"transformer.r": 4, "transformer.lora_alpha": 2, "transformer.use_rslora": true} -> 1
        {"transformer.r": 4, "transformer.lora_alpha": 1, "transformer.rank_pattern": {"self_attn.q": 2}} -> 0.5
        {"transformer.r": 4, "transformer.lora_alpha": 1, "transformer.alpha_pattern": {"self_attn.q": 8}} -> 2
        {"transformer.r": 4, "transformer.lora_alpha": 1, "transformer.alpha_pattern": {"blocks\\.\\d+\\.self_attn\\.q": 3}} -> 0.75
        {"transformer.r": 4, "transformer.lora_alpha": 1, "transformer.alpha_pattern": {"^attn.q": 3}} -> 0.25"#,
    ) {
        let file = assert_scaled(&json!({"lora_adapter_metadata": text}), factor);
        let scale = LoraInfo::of(&file).scale.unwrap();
        let end = if text.contains("rslora") {
            "(rsLoRA)"
        } else {
            "by its metadata"
        };
        assert!(scale.ends_with(end), "{scale}");
    }
}

/// Asserts that notes scale the layer by a factor, without a notice.
fn assert_scaled(notes: &Value, factor: &str) -> LoraFile {
    let file = read(&diffusers(), notes);
    let (found, factor) = (update(&file).factor, factor.parse::<f64>().unwrap());
    assert!((found - factor).abs() < 1e-12, "{notes}: {found}");
    assert!(file.notices.is_empty(), "{notes}: {:?}", file.notices);
    file
}

#[test]
fn adapter_config_next_to_a_lora_applies_only_without_other_loras() {
    let files = Files::new();
    let folder = files.0.path();
    let path = folder.join("pytorch_lora_weights.safetensors");
    write_as(&path, &diffusers(), &|_| "F32", 0, &json!({}));
    let config = folder.join("adapter_config.json");
    std::fs::write(config, r#"{"r": 4, "lora_alpha": 1}"#).unwrap();
    let factor = |place| update(&LoraFile::read(place).unwrap()).factor;
    assert_eq!([factor(folder), factor(&path)], [0.25; 2]);
    let other = folder.join("b.safetensors");
    write_as(&other, &diffusers(), &|_| "F32", 0, &json!({}));
    assert_eq!(factor(&path), 1.0);
}

/// Writes a LoRA of one layer with an alpha tensor, whose bytes are those given, and metadata that would scale it too.
fn with_alpha(files: &Files, bytes: &[u8], dtype: &'static str, shape: &[u64]) -> PathBuf {
    let key = format!("transformer.{LAYER}.alpha");
    let mut shapes = diffusers();
    shapes.insert(key.clone(), shape.to_vec());
    let dtype_of = |name: &str| if name == key { dtype } else { "F32" };
    let path = files.0.path().join("x.safetensors");
    let notes = json!({"lora_alpha": "nonsense", "r": "8"});
    write_as(&path, &shapes, &dtype_of, 0, &notes);
    let (_, header) = WeightHeader::open(&path).unwrap();
    let info = header.info(&key).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let bytes = bytes.iter().copied().chain([0; 16]);
    let bytes: Vec<u8> = bytes.take(info.bytes as usize).collect();
    file.write_all_at(&bytes, info.start).unwrap();
    path
}

/// Bytes, type and shape of an alpha tensor, the scale of its layer, and a notice.
type AlphaCase<'a> = (Vec<u8>, &'static str, &'a [u64], Option<f64>, &'a str);

#[test]
fn the_alpha_tensor_of_a_layer_scales_it_in_any_type_and_one_that_is_no_number_leaves_it_out() {
    let files = Files::new();
    let float = |alpha: f32| alpha.to_le_bytes().to_vec();
    let double = |alpha: f64| alpha.to_le_bytes().to_vec();
    let reversed = "layers that act in reverse: 1 of 1, such as";
    let left_out = "layers that do not act: 1 of 1, such as transformer.blocks.0.self_attn.q: its alpha is not one finite number";
    let cases: &[AlphaCase<'_>] = &[
        (float(2.0), "F32", &[], Some(0.5), ""),
        (float(2.0), "F32", &[1, 1], Some(0.5), ""),
        (double(2.0), "F64", &[1], Some(0.5), ""),
        (vec![0, 0x40], "F16", &[], Some(0.5), ""),
        (vec![0, 0x40], "BF16", &[], Some(0.5), ""),
        (vec![0x40], "F8_E4M3", &[], Some(0.5), ""),
        (vec![0x40], "F8_E5M2", &[], Some(0.5), ""),
        (vec![0x01], "F8_E4M3", &[], Some(0.001_953_125 / 4.0), ""),
        (vec![2], "U8", &[], Some(0.5), ""),
        (vec![0xfe], "I8", &[], Some(-0.5), reversed),
        (vec![2], "I16", &[], Some(0.5), ""),
        (vec![2], "U32", &[], Some(0.5), ""),
        (vec![2], "I64", &[], Some(0.5), ""),
        (float(0.0), "F32", &[], Some(0.0), "without effect: 1 of 1"),
        (float(1e30), "F32", &[], Some(2.5e29), "strongly: 1 of 1"),
        (float(f32::NAN), "F32", &[], None, "(alpha NaN)"),
        (float(f32::INFINITY), "F32", &[], None, "(alpha inf)"),
        (double(1e300), "F64", &[], None, "(alpha 1"),
        (vec![0x7f], "F8_E4M3", &[], None, "(alpha NaN)"),
        (float(2.0), "F32", &[2], None, "(alpha of 2 numbers)"),
        (Vec::new(), "F32", &[0], None, "(alpha of 0 numbers)"),
        (vec![1], "BOOL", &[], None, "(alpha of type BOOL)"),
    ];
    for (bytes, dtype, shape, scale, notice) in cases {
        let path = with_alpha(&files, bytes, dtype, shape);
        let mut file = LoraFile::read(&path).unwrap();
        file.read_alphas().unwrap();
        let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
        let plan = LoraPlan::new(&file, &[table]);
        let found = plan.updates.first().map(|update| update.factor);
        let same = found.zip(*scale);
        let is_same = same.is_some_and(|(one, other)| (one / other - 1.0).abs() < 1e-6);
        assert!(is_same || found == *scale, "{dtype} {shape:?}: {found:?}");
        let card = IdentityCard::read(&path).unwrap().lora.unwrap();
        // One function makes the sentences for a model and for none.
        assert_eq!(card.notices, plan.coverage.notices);
        assert_eq!(card.notices.len(), usize::from(!notice.is_empty()));
        let text = card.notices.concat();
        assert!(text.contains(notice), "{text}");
        assert!(scale.is_some() || text.starts_with(left_out), "{text}");
    }
}

#[test]
fn values_that_make_no_sense_are_named_and_not_used() {
    let plain = table(
        r#"{"lora_alpha": "0", "r": "4"} -> lora_alpha
        {"lora_alpha": "-1", "r": "4"} -> lora_alpha
        {"lora_alpha": "NaN", "r": "4"} -> NaN
        {"lora_alpha": "1e999", "r": "4"} -> 1e999
        {"lora_alpha": "much", "r": "4"} -> much
        {"lora_alpha": "1", "r": "0"} -> its r is
        {"ss_network_alpha": "Dynamic", "ss_network_dim": "Dynamic"} -> Dynamic"#,
    );
    let plain = plain.map(|(notes, word)| (serde_json::from_str(notes).unwrap(), word));
    let of_diffusers = table(
        r#"[1] -> lora_adapter_metadata
        { -> lora_adapter_metadata
        {"lora_alpha": NaN, "r": 4} -> lora_adapter_metadata
        {"transformer.r": 0, "transformer.lora_alpha": 2} -> its r is
        {"lora_alpha": 1, "r": 4, "alpha_pattern": {"q": -2}} -> alpha_pattern
        {"lora_alpha": 1, "r": 1, "alpha_pattern": {"(q": 2}} -> alpha_pattern"#,
    );
    let of_diffusers =
        of_diffusers.map(|(text, word)| (json!({"lora_adapter_metadata": text}), word));
    for (notes, word) in plain.chain(of_diffusers) {
        let file = read(&diffusers(), &notes);
        assert!((update(&file).factor - 1.0).abs() < 1e-12, "{notes}");
        let notices = file.notices.join("; ");
        assert!(notices.contains(word), "{notes}: {notices}");
        let coverage = LoraPlan::new(&file, &[]).coverage;
        assert!(coverage.is_poor() && coverage.to_string().contains(word));
        assert!(LoraInfo::of(&file).notices.concat().contains(word));
    }
}

#[test]
fn kohyas_alpha_counts_under_its_own_names_and_not_after_a_conversion() {
    let kohya = |layer: &str| format!("lora_unet_{}", layer.replace('.', "_"));
    let notes = json!({"ss_network_module": "networks.lora_wan", "ss_network_alpha": "1", "ss_network_dim": "4"});
    let file = read(&shapes(&kohya, KOHYA), &notes);
    assert!((update(&file).factor - 0.25).abs() < 1e-12);
    let scale = LoraInfo::of(&file).scale.unwrap();
    assert_eq!(scale, "0.25, alpha over rank by its metadata");
    // Converters multiply it into the tensors and keep the metadata.
    let file = read(&diffusers(), &notes);
    assert!((update(&file).factor - 1.0).abs() < 1e-12);
    assert!(LoraInfo::of(&file).scale.unwrap().contains("converter"));
}

#[test]
fn hostile_patterns_take_little_time() {
    let patterns: Vec<String> = (0..20_000)
        .map(|index| format!(r#""(a|a)*{index}\\w{{99}}(a+)+$": 2"#))
        .collect();
    let text = format!(
        r#"{{"lora_alpha": 1, "r": 4, "alpha_pattern": {{{}}}}}"#,
        patterns.join(",")
    );
    let file = read(&diffusers(), &json!({"lora_adapter_metadata": text}));
    assert!((update(&file).factor - 0.25).abs() < 1e-12);
    assert_eq!(file.notices.len(), 1);
}

#[test]
fn adapters_of_other_kinds_are_named() {
    for (keys, name) in table(
        "oft_blocks -> OFT
         oft_diag -> OFT
         oft_R.weight -> OFT
         boft_R boft_s -> BOFT
         on_input weight -> (IA)^3
         ia3_l -> (IA)^3
         a1.weight a2.weight b1.weight b2.weight -> GLoRA
         vera_lambda_b -> VeRA",
    ) {
        let keys = keys.split(' ');
        let keys = keys.map(|key| (format!("lora_unet_blocks_0_ffn_0.{key}"), vec![4, 16, 16]));
        let mut shapes: Shapes = keys.collect();
        shapes.insert("lora_unet_blocks_0_ffn_0.alpha".to_owned(), vec![]);
        let files = Files::new();
        let err = LoraFile::read(&files.write("x.safetensors", &shapes)).unwrap_err();
        let expected = format!("this is {name}, which Safelight does not support (LoRA, LoHa");
        assert!(err.to_string().starts_with(&expected), "{err}");
    }
    let files = Files::new();
    let boft = Shapes::from([("x.oft_blocks".to_owned(), vec![2, 4, 8, 8])]);
    let err = LoraFile::read(&files.write("x.safetensors", &boft)).unwrap_err();
    assert!(err.to_string().contains("this is BOFT,"), "{err}");
}

#[test]
fn a_layer_with_singular_values_or_cores_does_not_act_and_its_keys_are_named() {
    let table = || table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
    for part in ["lora_E", "lokr_t2", "lora_mid.weight"] {
        let mut shapes = diffusers();
        shapes.insert(format!("transformer.{LAYER}.{part}"), vec![RANK, 1]);
        let plan = LoraPlan::new(&read(&shapes, &json!({})), &[table()]);
        assert_eq!(plan.updates.len(), 0, "{part}");
        assert_eq!(plan.coverage.left_out, 3, "{part}");
    }
}

#[test]
fn unsupported_layers_in_a_lora_are_named_in_notices() {
    let mut shapes = diffusers();
    for (key, shape) in [
        ("blocks.1.ffn.0.oft_blocks", vec![4, 16, 16]),
        ("blocks.2.ffn.0.lora_mid.weight", vec![4, 4, 3, 3]),
    ] {
        shapes.insert(format!("transformer.{key}"), shape);
    }
    shapes.insert("stray".to_owned(), vec![1]);
    let notices = LoraInfo::of(&read(&shapes, &json!({}))).notices.join("; ");
    for word in [
        "no part of a LoRA are not used: 2",
        "stray",
        "its form is not supported",
        "OFT",
    ] {
        assert!(notices.contains(word), "{notices}");
    }
}

#[test]
fn whole_differences_are_a_lora_to_inspect_too() {
    let shapes = Shapes::from([("lora_unet_blocks_0_ffn_0.diff".to_owned(), vec![8, 4])]);
    let files = Files::new();
    let card = IdentityCard::read(&files.write("x.safetensors", &shapes)).unwrap();
    let what = card.what;
    assert!(what.starts_with("a set of differences"), "{what}");
    assert!(card.lora.is_some());
}
