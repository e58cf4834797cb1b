//! LoRAs by their headers: which layers of which model they change, and what is said of those that do not fit.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::catalog::IdentityCard;
use crate::families::{flux, lora_target, wan};
use crate::fitting::{LoraInfo, fitting_plan};
use crate::job::LoraChoice;
use crate::lora::{LayerTable, LoraFile, LoraPlan, LoraTarget, RowRange};
use crate::testing::made_up::{
    Dims, I2V_14B, I2V_EXPERT, Shapes, T2V_1_3B, T2V_14B, TI2V_5B, transformer, write,
};
use crate::testing::table;

pub(crate) const RANK: u64 = 4;

pub(crate) fn table_of(network: LoraTarget, shapes: &Shapes) -> LayerTable {
    LayerTable::new(network, &|name| shapes.get(name).cloned())
}

/// The published Flux dev, in the authors' names.
pub(crate) fn flux() -> Shapes {
    let dim = 3072;
    let mut shapes = Shapes::new();
    let mut linear = |name: String, output: u64, input: u64| {
        shapes.insert(format!("{name}.weight"), vec![output, input]);
        shapes.insert(format!("{name}.bias"), vec![output]);
    };
    for (name, output, input) in [
        ("img_in", dim, 64),
        ("txt_in", dim, 4096),
        ("time_in.in_layer", dim, 256),
        ("time_in.out_layer", dim, dim),
        ("vector_in.in_layer", dim, 768),
        ("vector_in.out_layer", dim, dim),
        ("guidance_in.in_layer", dim, 256),
        ("guidance_in.out_layer", dim, dim),
        ("final_layer.linear", 64, dim),
        ("final_layer.adaLN_modulation.1", 2 * dim, dim),
    ] {
        linear(name.to_owned(), output, input);
    }
    for block in 0..19 {
        for side in ["img", "txt"] {
            let name = |part: &str| format!("double_blocks.{block}.{side}_{part}");
            linear(name("mod.lin"), 6 * dim, dim);
            linear(name("attn.qkv"), 3 * dim, dim);
            linear(name("attn.proj"), dim, dim);
            linear(name("mlp.0"), 4 * dim, dim);
            linear(name("mlp.2"), dim, 4 * dim);
        }
    }
    for block in 0..38 {
        let name = |part: &str| format!("single_blocks.{block}.{part}");
        linear(name("modulation.lin"), 3 * dim, dim);
        linear(name("linear1"), 7 * dim, dim);
        linear(name("linear2"), dim, 5 * dim);
    }
    shapes
}

/// A LoRA of every matrix in `base` whose name `wanted` takes, in the names that `rename` gives.
pub(crate) fn lora_of(
    base: &Shapes,
    wanted: impl Fn(&str) -> bool,
    rename: impl Fn(&str) -> String,
    [down, up]: [&str; 2],
) -> Shapes {
    let mut lora = Shapes::new();
    for (name, shape) in base {
        let Some(layer) = name.strip_suffix(".weight").filter(|layer| wanted(layer)) else {
            continue;
        };
        let &[output, input] = &shape[..] else {
            continue;
        };
        let layer = rename(layer);
        lora.insert(format!("{layer}.{down}"), vec![RANK, input]);
        lora.insert(format!("{layer}.{up}"), vec![output, RANK]);
    }
    lora
}

pub(crate) const KOHYA: [&str; 2] = ["lora_down.weight", "lora_up.weight"];
pub(crate) const PEFT: [&str; 2] = ["lora_A.weight", "lora_B.weight"];

/// A LoRA of one layer with this many outputs and inputs.
pub(crate) fn one_layer(layer: &str, [output, input]: [u64; 2], [down, up]: [&str; 2]) -> Shapes {
    Shapes::from([
        (format!("{layer}.{down}"), vec![RANK, input]),
        (format!("{layer}.{up}"), vec![output, RANK]),
    ])
}

pub(crate) fn comfy(dims: Dims) -> Shapes {
    let rename = |layer: &str| format!("diffusion_model.{layer}");
    lora_of(
        &transformer(dims),
        |layer| layer.contains("attn") || layer.contains("ffn"),
        rename,
        PEFT,
    )
}

pub(crate) struct Files(pub(crate) tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn write(&self, name: &str, shapes: &Shapes) -> PathBuf {
        write(&self.0.path().join(name), shapes, "BF16")
    }

    pub(crate) fn read(&self, shapes: &Shapes) -> LoraFile {
        LoraFile::read(&self.write("x.safetensors", shapes)).unwrap()
    }
}

pub(crate) fn lora(path: impl Into<PathBuf>) -> LoraChoice {
    LoraChoice {
        path: path.into(),
        strength: 1.0,
        strength_2: None,
    }
}

#[test]
fn every_layer_of_the_published_models_is_found_by_the_names_of_every_tool() {
    let files = Files::new();
    let underscores = |layer: &str| layer.replace('.', "_");
    for dims in [T2V_1_3B, T2V_14B, I2V_14B, I2V_EXPERT, TI2V_5B] {
        let base = transformer(dims);
        let table = table_of(lora_target(wan::FAMILY, false), &base);
        let renames: [&dyn Fn(&str) -> String; 4] = [
            &|layer| format!("lora_unet_{}", underscores(layer)),
            &|layer| format!("lora_unet__{}", underscores(layer)),
            &|layer| format!("diffusion_model.{layer}"),
            &|layer| layer.to_owned(),
        ];
        for rename in renames {
            let file = files.read(&lora_of(&base, |_| true, rename, KOHYA));
            let plan = LoraPlan::new(&file, std::slice::from_ref(&table));
            let coverage = &plan.coverage;
            assert_eq!(coverage.applied, coverage.total, "{coverage}");
            let layers = plan.updates.iter().map(|update| &update.layer.name);
            let layers: BTreeSet<&String> = layers.collect();
            assert_eq!(2 * layers.len(), coverage.total, "each layer is found once");
        }
    }
    let base = flux();
    let table = table_of(lora_target(flux::FAMILY, false), &base);
    for start in "lora_unet_ lycoris_ diffusion_model. transformer. ".split(' ') {
        let rename = |layer: &str| {
            if start.ends_with('_') {
                format!("{start}{}", underscores(layer))
            } else {
                format!("{start}{layer}")
            }
        };
        let file = files.read(&lora_of(&base, |_| true, rename, KOHYA));
        let coverage = LoraPlan::new(&file, std::slice::from_ref(&table)).coverage;
        assert_eq!(coverage.applied, coverage.total, "{start}: {coverage}");
    }
}

#[test]
fn split_queries_keys_and_values_are_rows_of_the_joined_matrix() {
    let files = Files::new();
    let table_of_flux = table_of(lora_target(flux::FAMILY, false), &flux());
    let dim = 3072;
    for (names, outputs, rows) in [
        (
            "transformer.transformer_blocks.3.attn.to_k -> double_blocks.3.img_attn.qkv",
            1,
            RowRange::Range(dim, dim),
        ),
        (
            "transformer.transformer_blocks.3.attn.add_v_proj -> double_blocks.3.txt_attn.qkv",
            1,
            RowRange::Range(2 * dim, dim),
        ),
        (
            "transformer.single_transformer_blocks.37.proj_mlp -> single_blocks.37.linear1",
            4,
            RowRange::Range(3 * dim, 4 * dim),
        ),
        (
            "lora_transformer_single_transformer_blocks_0_attn_to_q -> single_blocks.0.linear1",
            1,
            RowRange::Range(0, dim),
        ),
        (
            "transformer.norm_out.linear -> final_layer.adaLN_modulation.1",
            2,
            RowRange::SwappedHalves,
        ),
        (
            "diffusion_model.final_layer.adaLN_modulation.1 -> final_layer.adaLN_modulation.1",
            2,
            RowRange::All,
        ),
    ] {
        let (name, layer) = names.split_once(" -> ").unwrap();
        let shapes = one_layer(name, [outputs * dim, dim], PEFT);
        let plan = LoraPlan::new(&files.read(&shapes), std::slice::from_ref(&table_of_flux));
        assert_eq!(plan.coverage.applied, 2, "{name}: {}", plan.coverage);
        let found = (&plan.updates[0].layer.name[..], plan.updates[0].rows);
        assert_eq!(found, (layer, rows), "{name}");
    }
}

#[test]
fn a_lora_of_another_size_or_family_is_refused_by_both_names() {
    let files = Files::new();
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_14B));
    let refused = |shapes: &Shapes, family, table: &LayerTable| {
        let plan = fitting_plan(&files.read(shapes), family, std::slice::from_ref(table));
        plan.unwrap_err().to_string()
    };
    let small = refused(&comfy(TI2V_5B), wan::FAMILY, &table);
    assert!(small.contains("Wan 14B") && small.contains("Wan 5B"));
    let layer = "diffusion_model.double_blocks.0.img_mlp.fc1";
    let hunyuan = one_layer(layer, [12288, 3072], PEFT);
    let of_flux = table_of(lora_target(flux::FAMILY, false), &flux());
    assert!(refused(&hunyuan, flux::FAMILY, &of_flux).contains("HunyuanVideo"));
    // All names are Flux's, but Flux has 19 such blocks.
    let deep = |block: u64| {
        let layer = format!("transformer.transformer_blocks.{block}.attn.to_q");
        one_layer(&layer, [3072; 2], PEFT)
    };
    assert!(refused(&deep(19), flux::FAMILY, &of_flux).contains("HunyuanVideo"));
    let tables = std::slice::from_ref(&of_flux);
    assert!(fitting_plan(&files.read(&deep(18)), flux::FAMILY, tables).is_ok());
    assert!(refused(&comfy(T2V_14B), flux::FAMILY, &of_flux).contains("Wan 14B"));
    let proj = "double_blocks.0.img_attn.proj";
    let mut fill = one_layer("img_in", [3072, 384], PEFT);
    fill.extend(one_layer(proj, [3072; 2], PEFT));
    fill.insert(format!("{proj}.lora_B.bias"), vec![3072]);
    assert!(refused(&fill, flux::FAMILY, &of_flux).contains("FLUX.1 Fill"));
    let layer = "lora_unet_down_blocks_0_attentions_0_proj_in";
    let sd = one_layer(layer, [320; 2], KOHYA);
    assert!(refused(&sd, wan::FAMILY, &table).contains("Stable Diffusion"));
}

#[test]
fn the_origin_of_a_lora_shows_in_the_names_of_every_tool() {
    let files = Files::new();
    for (layer, family) in table(
        "transformer.blocks.0.attn1.to_q -> wan
         lora_unet_blocks_0_attn1_to_q -> wan
         base_model.model.blocks.0.cross_attn.k -> wan
         transformer.transformer_blocks.0.attn1.to_q -> LTX-Video or a similar model
         transformer.transformer_blocks.0.attn.to_q -> flux
         lora_transformer_single_transformer_blocks_0_proj_mlp -> flux
         lora_unet_single_blocks_0_linear1 -> flux
         lora_unet_single_blocks_0_modulation_linear -> hunyuan
         something.else -> nothing",
    ) {
        let file = files.read(&one_layer(layer, [8; 2], PEFT));
        let found = LoraInfo::of(&file).family;
        assert_eq!(found, family.replace("nothing", ""), "{layer}");
    }
}

#[test]
fn loras_of_unsupported_families_are_recognised_and_marked_unsupported() {
    let files = Files::new();
    let card = |layer: &str, outputs: u64| {
        let shapes = one_layer(layer, [outputs, 8], KOHYA);
        IdentityCard::read(&files.write("x.safetensors", &shapes)).unwrap()
    };
    for (layer, label) in table(
        "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_ff_net_2 320 -> Stable Diffusion 1.5 or 2
         transformer.transformer_blocks.3.attn.to_q 1536 -> Stable Diffusion 3
         transformer.transformer_blocks.0.attn1.to_q 1920 -> CogVideoX
         double_stream_blocks.0.block.attn1.to_q 2560 -> HiDream",
    ) {
        let (layer, outputs) = layer.split_once(' ').unwrap();
        let card = card(layer, outputs.parse().unwrap());
        let start = format!("a LoRA for {label}, rank");
        assert!(card.what.starts_with(&start), "{layer}: {}", card.what);
        assert!(!card.is_supported, "{layer}");
    }
    for layer in [
        "lora_unet_double_blocks_0_img_attn_qkv",
        "lora_unet_single_blocks_0_modulation_linear",
        "lora_unet_blocks_0_self_attn_q",
        "transformer.transformer_blocks.0.audio_attn1.to_q",
        "something.else",
    ] {
        assert!(card(layer, 8).is_supported, "{layer}");
    }
}

#[test]
fn layers_for_images_are_left_out_quietly_where_the_model_has_none() {
    let files = Files::new();
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(I2V_EXPERT));
    let plan = fitting_plan(&files.read(&comfy(I2V_14B)), wan::FAMILY, &[table]).unwrap();
    let coverage = plan.coverage;
    let known = coverage.applied + coverage.images;
    assert_eq!((known, coverage.images), (coverage.total, 40 * 2 * 2));
    assert!(!coverage.is_poor());
    let text = coverage.to_string();
    assert!(text.contains("for images"), "{text}");
}

#[test]
fn unknown_lora_keys_are_counted_and_low_coverage_is_flagged() {
    let files = Files::new();
    let table = table_of(lora_target(wan::FAMILY, false), &transformer(T2V_1_3B));
    let mut shapes = comfy(T2V_1_3B);
    let whole = shapes.len();
    for block in 30..40 {
        let name = format!("diffusion_model.blocks.{block}.ffn.0");
        shapes.extend(one_layer(&name, [8960, 1536], PEFT));
    }
    shapes.insert("lora_te1_text_model_x.alpha".into(), vec![]);
    let tables = std::slice::from_ref(&table);
    let plan = fitting_plan(&files.read(&shapes), wan::FAMILY, tables);
    let coverage = plan.unwrap().coverage;
    assert_eq!((coverage.applied, coverage.total), (whole, whole + 21));
    assert!(!coverage.is_poor());
    let text = coverage.to_string();
    let total = whole + 21;
    let keys = format!("layers ({whole} of {total} keys); 1 for a text encoder");
    assert!(text.starts_with("applies to") && text.contains(&keys));
    assert!(text.contains("blocks.30.ffn.0") && text.ends_with("and 17 more"));
    for block in 40..140 {
        shapes.insert(format!("blocks.{block}.ffn.0.alpha"), vec![]);
    }
    let plan = fitting_plan(
        &files.read(&shapes),
        wan::FAMILY,
        std::slice::from_ref(&table),
    )
    .unwrap();
    assert!(plan.coverage.is_poor());
    let none = Shapes::from([
        ("foo.lora_A.weight".to_owned(), vec![RANK, 8]),
        ("foo.lora_B.weight".to_owned(), vec![8, RANK]),
    ]);
    let err = fitting_plan(&files.read(&none), wan::FAMILY, &[table])
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("this LoRA does not fit the model") && err.contains("foo"),
        "{err}"
    );
}
