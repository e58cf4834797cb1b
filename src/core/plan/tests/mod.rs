//! The memory plan of published models, from headers of their real shapes.
//!
//! Here, because here such headers are made; the arithmetic is `crate::memory`'s.

mod controls;
mod fitting;
mod framepack;
mod image_families;
mod measured;
mod search;
mod shared;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::families::flux::tests::files::{all_in_one, flux_tree, shapes};
use crate::families::read_footprint;
use crate::testing::made_up::{
    Dims, I2V_14B, I2V_EXPERT, Shapes, T2V_1_3B, T2V_14B, TI2V_5B, VACE_1_3B, comfy_tree,
    transformer, write,
};
use measured::MEASURED;

use crate::families::{flux, wan};
use crate::footprint::{ModelFootprint, PlannedNetwork};
use crate::job::{ControlInput, ControlSettings, GenerateRequest, Stage};
use crate::memory::{DeviceClass, DeviceFacts, MemoryOptions};
use crate::model::{ModelFamily, ModelFiles};
use crate::plan::{
    MemoryPlan, MemoryPlanner, ModelAlternative, PeakCorrections, PlanChange, StagePlan,
    preserved_table, suggestions,
};

const GIB: u64 = 1 << 30;

/// A card with so many GiB of which nobody has any.
fn card(gib: u64) -> DeviceFacts {
    DeviceFacts {
        class: DeviceClass::Discrete,
        total_bytes: gib * GIB,
        used_bytes: 0,
        host_available_bytes: 64 * GIB,
    }
}

fn cpu(gib: u64) -> DeviceFacts {
    DeviceFacts {
        class: DeviceClass::Cpu,
        host_available_bytes: gib * GIB,
        ..card(gib)
    }
}

/// What is planned, and what with.
struct Case {
    root: TempDir,
    family: ModelFamily,
    files: ModelFiles,
    weights: ModelFootprint,
    corrections: PeakCorrections,
}

impl Case {
    fn wan(dims: Dims, dtype: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let models = comfy_tree(root.path());
        let file = models.join("diffusion_models/a_model.safetensors");
        let has_48 = dims.input == 48;
        let vae = if has_48 { "wan2.2_vae" } else { "wan_2.1_vae" };
        let vision = models.join("clip_vision/clip_vision_h.safetensors");
        let files = ModelFiles {
            transformer: write(&file, &transformer(dims), dtype),
            vae: models.join(format!("vae/{vae}.safetensors")),
            text_encoder: models.join("text_encoders/umt5_xxl_fp16.safetensors"),
            image_encoder: dims.image.map(|_| vision),
            expand_timesteps: has_48,
            takes_control: dims.control > 0,
            ..ModelFiles::default()
        };
        Self::of(root, wan::FAMILY, files)
    }

    fn flux(name: &str, dtype: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let models = flux_tree(root.path());
        let file = models.join("diffusion_models/flux1.safetensors");
        let files = ModelFiles {
            transformer: write(&file, &shapes(name), dtype),
            vae: models.join("vae/ae.safetensors"),
            text_encoder: models.join("text_encoders/clip_l.safetensors"),
            text_encoder_2: Some(models.join("text_encoders/t5xxl_fp16.safetensors")),
            ..ModelFiles::default()
        };
        Self::of(root, flux::FAMILY, files)
    }

    /// Gives every job two controls of one network.
    fn take_controls(&mut self, network: &Shapes) {
        let file = self.root.path().join("control.safetensors");
        let control = ControlInput {
            file: "depth.png".into(),
            mask: None,
            settings: ControlSettings {
                network: Some(write(&file, network, "BF16")),
                ..ControlSettings::default()
            },
        };
        let controls = [control.clone(), control];
        self.weights = read_footprint(self.family, &self.files, &[], &controls).unwrap();
    }

    fn of(root: TempDir, family: ModelFamily, files: ModelFiles) -> Self {
        let weights = read_footprint(family, &files, &[], &[]).unwrap();
        Self {
            root,
            family,
            files,
            weights,
            corrections: PeakCorrections::default(),
        }
    }

    fn request(&self, width: u32, height: u32, num_frames: u32) -> GenerateRequest {
        let request = json!({
            "model": "m", "family": self.family, "files": self.files, "prompt": "a fox", "negative_prompt": "",
            "width": width, "height": height, "num_frames": num_frames, "fps": 16.0, "num_steps": 20,
            "guidance_scale": 5.0, "sampler": "unipc", "seed": 0,
        });
        serde_json::from_value(request).unwrap()
    }

    fn planner(&self, facts: DeviceFacts) -> MemoryPlanner<'_> {
        MemoryPlanner {
            weights: &self.weights,
            facts,
            device: "a card",
            corrections: &self.corrections,
        }
    }

    fn plan(&self, request: &GenerateRequest, facts: DeviceFacts) -> MemoryPlan {
        self.planner(facts).plan(request)
    }

    fn stage(&self, request: &GenerateRequest, facts: DeviceFacts, stage: Stage) -> StagePlan {
        *self.plan(request, facts).of_stage(stage).unwrap()
    }

    fn bytes(&self, part: PlannedNetwork, number_bytes: u64) -> u64 {
        self.weights.part(part).unwrap().bytes(number_bytes)
    }
}

/// The numbers of the tensors that a rule takes.
fn numbers(shapes: &Shapes, is_meant: impl Fn(&str, &[u64]) -> bool) -> u64 {
    let meant = shapes.iter().filter(|(key, shape)| is_meant(key, shape));
    meant.map(|(_, shape)| shape.iter().product::<u64>()).sum()
}

#[test]
fn weight_bytes_are_counted_exactly_for_every_stored_dtype() {
    let flux = shapes("transformer dev");
    let embedders = ["time_in.", "vector_in.", "guidance_in."];
    let is_exact = |key: &str, _: &[u64]| embedders.iter().any(|name| key.starts_with(name));
    let (all, exact) = (numbers(&flux, |_, _| true), numbers(&flux, is_exact));
    assert_eq!(all, 11_901_408_320, "as published");
    let held = 2 * all + 2 * exact;
    // Whatever the file has, the engine holds halves and what it keeps in f32.
    for dtype in ["BF16", "F16", "F32"] {
        let case = Case::flux("transformer dev", dtype);
        assert_eq!(case.bytes(PlannedNetwork::Transformer, 2), held, "{dtype}");
        assert_eq!(case.bytes(PlannedNetwork::Transformer, 4), 4 * all);
    }
    let diffusers = Case::flux("transformer dev diffusers", "BF16");
    assert_eq!(diffusers.bytes(PlannedNetwork::Transformer, 2), held);
    // Matrices of fp8 stay as they are, and one of them is expanded at a time.
    let narrow = Case::flux("transformer dev", "F8_E4M3");
    let vectors = |key: &str, shape: &[u64]| shape.len() != 2 && !is_exact(key, shape);
    let exact_vectors = |key: &str, shape: &[u64]| shape.len() != 2 && is_exact(key, shape);
    let matrices = numbers(&flux, |_, shape| shape.len() == 2);
    let expected = matrices + 2 * numbers(&flux, vectors) + 4 * numbers(&flux, exact_vectors);
    assert_eq!(narrow.bytes(PlannedNetwork::Transformer, 2), expected);
    let transformer = narrow.weights.part(PlannedNetwork::Transformer).unwrap();
    assert_eq!(transformer.expansion_bytes(2), 2 * 3072 * 21504);
}

#[test]
fn components_in_one_file_are_counted_like_separate_files() {
    let apart = Case::flux("transformer dev", "F16");
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("all.safetensors");
    let file = write(&file, &all_in_one("transformer dev"), "F16");
    let files = ModelFiles {
        transformer: file.clone(),
        vae: file.clone(),
        text_encoder: file.clone(),
        text_encoder_2: Some(file),
        ..ModelFiles::default()
    };
    let together = Case::of(root, flux::FAMILY, files);
    for part in PlannedNetwork::ALL {
        let of = |case: &Case| case.weights.part(part).map(|network| network.bytes(2));
        assert_eq!(of(&together), of(&apart), "{part:?}");
    }
    let [vae, text] = [PlannedNetwork::VaeDecoder, PlannedNetwork::TextEncoder2];
    assert!(together.bytes(vae, 2) < together.bytes(text, 2));
}

#[test]
fn predicted_peaks_are_within_ten_percent_of_measurements() {
    let cases = [
        ("large", Case::wan(I2V_EXPERT, "BF16")),
        ("small", Case::wan(T2V_1_3B, "BF16")),
        ("dense", Case::wan(TI2V_5B, "BF16")),
        ("flux", Case::flux("transformer dev", "BF16")),
        ("pack", framepack::published()),
    ];
    let mut off = Vec::new();
    for &(name, stage, (width, height, frames), batch, tile, measured) in MEASURED {
        let (_, case) = cases.iter().find(|(other, _)| *other == name).unwrap();
        let mut request = case.request(width, height, frames);
        request.options.vae_tile = tile;
        request.image = (stage == Stage::EncodeImage).then(|| "a.png".into());
        if case.family == flux::FAMILY {
            request.batch_size = batch;
        } else {
            // Two texts go together where there is guidance.
            request.sampling.guidance_scale = f64::from(batch);
        }
        let stage_plan = case.stage(&request, card(141), stage);
        let predicted = stage_plan.peak_bytes as f64 / GIB as f64;
        let ratio = predicted / measured;
        if !(0.9..=1.1).contains(&ratio) {
            off.push(format!("{name} {stage:?} {width}x{height}x{frames} {batch} {tile:?}: {predicted:.2} against {measured}"));
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn more_preserved_memory_means_fewer_resident_weights_and_never_a_higher_peak() {
    let case = Case::wan(I2V_14B, "BF16");
    let request = case.request(832, 480, 81);
    let rows = preserved_table(&case.planner(card(24)), &request, 18);
    assert_eq!(rows.len(), 19);
    for pair in rows.windows(2) {
        assert!(pair[1].resident_bytes <= pair[0].resident_bytes);
        assert!(pair[1].streamed_bytes_per_step >= pair[0].streamed_bytes_per_step);
        assert!(pair[1].peak_bytes <= pair[0].peak_bytes);
        assert!(pair[1].fits || !pair[0].fits);
    }
    assert!(!rows[0].fits && rows[18].fits);
    // The computed value is enough.
    let suggested = case.plan(&request, card(24)).suggested_preserved_bytes;
    let mut asked = request.clone();
    asked.options.memory.preserved_bytes = Some(suggested);
    assert!(case.plan(&asked, card(24)).fits());
}

#[test]
fn guidance_batches_and_tiles_count_and_the_precision_doubles_the_numbers() {
    let case = Case::wan(T2V_1_3B, "F32");
    let denoise = |request: &GenerateRequest, facts| case.stage(request, facts, Stage::Denoise);
    let small = case.request(320, 320, 17);
    let mut alone = small.clone();
    alone.sampling.guidance_scale = 1.0;
    let gpu = denoise(&small, card(24));
    assert!(gpu.activation_bytes > denoise(&alone, card(24)).activation_bytes);
    // But for what is f32 everywhere.
    assert!(denoise(&small, cpu(64)).weights_bytes > gpu.weights_bytes * 19 / 10);
    let decode = |tile| {
        let mut request = case.request(832, 480, 33);
        request.options.vae_tile = tile;
        case.stage(&request, card(24), Stage::Decode).peak_bytes
    };
    assert!(decode(Some(512)) < decode(None) && decode(Some(256)) < decode(Some(512)));
    let flux = Case::flux("transformer dev", "BF16");
    let peak = |batch_size, cache: Option<&str>| {
        let mut request = flux.request(1024, 1024, 1);
        request.batch_size = batch_size;
        request.options.step_cache = cache.map(|text| text.parse().unwrap());
        flux.stage(&request, card(48), Stage::Denoise).peak_bytes
    };
    assert!(peak(4, None) > peak(1, None));
    // 4,096 tokens and a text of 3,072 numbers in halves: 28 MB, three times.
    let kept = peak(1, Some("first_block")) - peak(1, None);
    assert!((75 << 20..95 << 20).contains(&kept), "{kept}");
    assert_eq!(peak(1, Some("taylorseer")), peak(1, None));
}

#[test]
fn a_mask_of_a_video_has_all_of_it_encoded_and_kept() {
    let case = Case::wan(TI2V_5B, "BF16");
    let mut request = case.request(640, 384, 49);
    request.image = Some("a.png".into());
    let needs = |request: &GenerateRequest| {
        let plan = case.plan(request, card(48));
        [Stage::EncodeImage, Stage::Denoise]
            .map(|stage| plan.of_stage(stage).unwrap().activation_bytes)
    };
    let without = needs(&request);
    request.mask = Some("mask.png".into());
    let with = needs(&request);
    assert!(with[0] > 2 * without[0], "{with:?} {without:?}");
    assert!(with[1] > without[1], "{with:?} {without:?}");
}

#[test]
fn measured_peak_changes_the_next_plan() {
    let mut case = Case::wan(T2V_14B, "BF16");
    let request = case.request(832, 480, 81);
    let before = case.stage(&request, card(48), Stage::Decode);
    let of = crate::plan::MeasuredPeak {
        device: "a card",
        class: DeviceClass::Discrete,
        family: wan::FAMILY,
        stage: Stage::Decode,
    };
    let formula = before.formula_bytes as f64;
    let measured = formula * 1.5;
    for _ in 0..8 {
        case.corrections.learn(&of, formula, measured);
    }
    let decode = case.stage(&request, card(48), Stage::Decode);
    assert!((decode.activation_bytes as f64 / measured - 1.0).abs() < 0.01);
    assert_eq!(decode.formula_bytes, before.formula_bytes);
}

#[test]
fn layers_for_a_control_video_and_reference_images_need_more_weights_and_more_room() {
    let plain = Case::wan(T2V_1_3B, "BF16");
    let vace = Case::wan(VACE_1_3B, "BF16");
    let of_denoise = |case: &Case, references: &[&str]| {
        let mut request = case.request(832, 480, 81);
        request.references = references.iter().map(Into::into).collect();
        let plan = case.plan(&request, card(48));
        let encodes = plan.of_stage(Stage::EncodeImage).is_some();
        assert_eq!(encodes, case.files.takes_control);
        let stage = plan.of_stage(Stage::Denoise).unwrap();
        (stage.weights_bytes, stage.activation_bytes)
    };
    let (plain, own) = (of_denoise(&plain, &[]), of_denoise(&vace, &[]));
    let two = of_denoise(&vace, &["a.png", "b.png"]);
    // 15 blocks beside 30.
    assert!(own.0 > plain.0 * 7 / 5, "{own:?} {plain:?}");
    assert!(own.1 > plain.1 && two.1 > own.1, "{own:?} {two:?}");
    assert_eq!(own.0, two.0);
}

#[test]
fn networks_stay_loaded_only_if_all_of_them_fit_together() {
    let case = Case::wan(T2V_1_3B, "BF16");
    let mut request = case.request(480, 480, 17);
    request.options.memory.keep_loaded = true;
    let plan = |gib| case.plan(&request, card(gib));
    assert!(plan(48).keeps_loaded && plan(48).stage_memory(Stage::Decode).keep_loaded);
    assert!(!plan(14).keeps_loaded && plan(14).fits());
    assert!(plan(48).peak_bytes > plan(14).peak_bytes);
}

#[test]
fn absurd_sizes_are_answered_and_nothing_panics() {
    let wan = Case::wan(TI2V_5B, "BF16");
    let flux = Case::flux("transformer dev", "BF16");
    for case in [&wan, &flux] {
        const MOST: u32 = u32::MAX;
        let sizes = [(0, 0, 0), (1, 1, 1), (MOST, MOST, MOST), (16, MOST, 5)];
        for (width, height, frames) in sizes {
            let mut request = case.request(width, height, frames);
            request.batch_size = u32::MAX;
            request.sampling.num_steps = u32::MAX;
            for tile in [None, Some(0), Some(u32::MAX)] {
                request.options.vae_tile = tile;
                for facts in [card(0), card(24), cpu(0)] {
                    let planner = case.planner(facts);
                    let plan = planner.plan(&request);
                    suggestions(&planner, &request, &plan, &[]);
                    preserved_table(&planner, &request, 2);
                }
            }
        }
    }
}

#[test]
fn a_plan_is_the_same_as_json_from_version_to_version() {
    let case = Case::wan(T2V_1_3B, "BF16");
    let plan = case.plan(&case.request(480, 480, 17), card(8));
    let value = serde_json::to_value(&plan).unwrap();
    let assert_keys = |value: &Value, expected: &str| {
        let keys = value.as_object().unwrap().keys();
        assert!(keys.eq(expected.split_whitespace()), "{value}");
    };
    assert_keys(
        &value,
        "budget device keeps_loaded peak_bytes stages suggested_preserved_bytes verdict",
    );
    assert_keys(
        &value["stages"][0],
        "activation_bytes copy_secs_per_step devices fits formula_bytes margin_bytes part peak_bytes resident_bytes stage
         streamed_bytes_per_step tile weights_bytes whole_bytes",
    );
    let back: MemoryPlan = serde_json::from_value(value).unwrap();
    assert_eq!(back, plan);
    assert!(Path::new(case.root.path()).exists());
}
