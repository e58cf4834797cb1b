//! LoRAs that are refused or acted on in part: other types than floats, layers under two names, norms that do not fit.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use serde_json::json;

use crate::families::{flux, lora_target, wan};
use crate::fitting::{LoraInfo, fitting_plan};
use crate::formats::weights::header::WeightHeader;
use crate::lora::tests::layers::{Files, KOHYA, PEFT, flux, one_layer, table_of};
use crate::lora::{LoraFile, LoraPlan};
use crate::testing::made_up::{T2V_1_3B, transformer, write_as};
use crate::testing::table;

#[test]
fn a_lora_of_other_numbers_than_floats_is_refused_by_a_key_and_stray_scales_are_not_why() {
    let files = Files::new();
    let path = files.0.path().join("x.safetensors");
    let layer = "transformer.transformer_blocks.3.attn.to_q";
    let mut plain = one_layer(layer, [3072; 2], PEFT);
    plain.insert(format!("{layer}.reshape_weight"), vec![2]);
    for (stored, refusal) in table(
        "I8 -> stored as I8 ('transformer.transformer_blocks.3.attn.to_q.lora_A.weight')
         I64 -> stored as I64
         F8_E4M3 lora_A.weight_scale -> stored as F8_E4M3 with scales (
         F8_E4M3 lora_A.scale_weight -> stored as F8_E4M3 with scales (
         F8_E4M3 scale_weight -> stored as F8_E4M3 with scales (
         F8_E4M3 -> nothing
         BF16 scale_weight -> nothing",
    ) {
        let (dtype, scale) = stored.split_once(' ').unwrap_or((stored, ""));
        let mut shapes = plain.clone();
        if !scale.is_empty() {
            shapes.insert(format!("{layer}.{scale}"), vec![1]);
        }
        let dtype_of = |key: &str| match key {
            key if key.ends_with("reshape_weight") => "I32",
            key if key.contains("scale") => "F32",
            _ => dtype,
        };
        write_as(&path, &shapes, &dtype_of, 0, &json!({}));
        match LoraFile::read(&path) {
            Ok(file) => {
                assert_eq!(refusal, "nothing", "{stored}");
                let notices = LoraInfo::of(&file).notices;
                assert_eq!(notices.len(), usize::from(!scale.is_empty()));
            }
            Err(err) => {
                let text = err.to_string();
                assert!(text.contains(refusal), "{text}");
            }
        }
    }
}

#[test]
fn a_layer_under_two_names_is_changed_once_if_the_values_are_equal_and_refused_otherwise() {
    let files = Files::new();
    let base = flux();
    let table = table_of(lora_target(flux::FAMILY, false), &base);
    let peft = "transformer.double_blocks.0.img_attn.qkv";
    let default = ["lora_A.default.weight", "lora_B.default.weight"];
    let kohya = "lora_unet_double_blocks_0_img_attn_qkv";
    for (other, ends, outputs, name) in [
        (
            "diffusion_model.double_blocks.0.img_attn.qkv",
            PEFT,
            9216,
            peft,
        ),
        (kohya, KOHYA, 9216, kohya),
        (peft, default, 9216, "default.weight"),
        ("transformer.transformer_blocks.0.attn.to_k", PEFT, 3072, ""),
    ] {
        let mut shapes = one_layer(peft, [9216, 3072], PEFT);
        shapes.extend(one_layer(other, [outputs, 3072], ends));
        let path = files.write("x.safetensors", &shapes);
        // The file is of zeros.
        let planned = || {
            let file = LoraFile::read(&path)?;
            fitting_plan(&file, flux::FAMILY, std::slice::from_ref(&table))
        };
        if name.is_empty() {
            let text = planned().unwrap_err().to_string();
            assert!(text.contains("changes one layer in two ways"), "{text}");
            continue;
        }
        let plan = planned().unwrap();
        assert_eq!(plan.updates.len(), 1, "{name}");
        let text = plan.coverage.notices.concat();
        assert!(text.contains("in the file twice") && text.contains(name));
        let (_, header) = WeightHeader::open(&path).unwrap();
        let info = header.info(&format!("{other}.{}", ends[1])).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let last = info.start + info.bytes - 1;
        file.write_all_at(&[1], last).unwrap();
        let text = planned().unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("remove one of the two"));
    }
}

#[test]
fn norms_of_a_dora_that_fit_neither_side_leave_their_layer_out() {
    let files = Files::new();
    let layer = "diffusion_model.blocks.0.ffn.0";
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
    for (shape, fits) in [
        (vec![8960], true),
        (vec![8960, 1], true),
        (vec![1, 1536], true),
        (vec![1536], true),
        (vec![7], false),
        (vec![1, 8960], false),
        (vec![1536, 1], false),
        (vec![], false),
    ] {
        let mut shapes = one_layer(layer, [8960, 1536], PEFT);
        shapes.insert(format!("{layer}.dora_scale"), shape.clone());
        let plan = LoraPlan::new(&files.read(&shapes), std::slice::from_ref(&table));
        assert_eq!(plan.updates.len(), usize::from(fits), "{shape:?}");
        let notice = plan.coverage.notices.concat();
        let expected = format!(
            "its DoRA norms (dora_scale) do not fit it ({shape:?} for 8960 outputs and 1536 inputs)"
        );
        assert_eq!(notice.contains(&expected), !fits, "{notice}");
    }
}
