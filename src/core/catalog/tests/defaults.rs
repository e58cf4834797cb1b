//! Whose word wins about a model's defaults: the catalogue's, the user's or the model's own scheduler's.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::published::{I2V_FILES, write_models};
use crate::catalog::{ModelCatalog, entry};
use crate::job::{FormInputs, GenerateForm, PartialSampling, SamplerKind, SizeChoice, StartImage};
use crate::model::{ModelSpec, test_spec};
use crate::networks::{T5Config, TransformerKeys, WanTransformerConfig, WanVaeConfig};
use crate::settings::Settings;
use crate::testing::made_up::{T2V_14B, in_dialect, transformer, umt5, vae, write};
use crate::testing::pipelines::{catalog_in, searching, user, write_json};
use crate::testing::published::json_of;
use crate::testing::table;

#[test]
fn wan_2_1_image_to_video_has_its_lower_shift_at_480_lines_in_either_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    write_models(&models, &I2V_FILES);
    let catalog = catalog_in(&[&models]);
    let shift = |id: &str, (width, height): (u32, u32), own: Option<f64>, preset: Option<&str>| {
        let image = StartImage {
            path: "a.png".into(),
            width: 700,
            height: 700,
        };
        let form = GenerateForm {
            inputs: FormInputs {
                image: Some(image),
                ..FormInputs::default()
            },
            width: (width > 0).then_some(width),
            height: (height > 0).then_some(height),
            size: SizeChoice::Custom,
            sampling: PartialSampling {
                shift: own,
                ..PartialSampling::default()
            },
            preset: preset.map(str::to_owned),
            out: "a.mp4".into(),
            ..GenerateForm::default()
        };
        let checked = form.validate(&catalog.find(id).unwrap()).unwrap();
        checked.request.sampling.shift
    };
    for id in ["wan2.1-i2v-14b-480p", "wan2.1-i2v-14b-720p"] {
        for size in [(832, 480), (480, 832), (640, 640), (320, 320)] {
            assert_eq!(shift(id, size, None, None), Some(3.0), "{id} {size:?}");
        }
        for size in [(1280, 720), (720, 1280), (960, 544)] {
            assert_eq!(shift(id, size, None, None), Some(5.0), "{id} {size:?}");
        }
        assert_eq!(shift(id, (832, 480), Some(7.0), None), Some(7.0));
        assert_eq!(shift(id, (832, 480), None, Some("fast-4")), Some(5.0));
    }
    // The size of the image's aspect.
    assert_eq!(shift("wan2.1-i2v-14b-480p", (0, 0), None, None), Some(3.0));
    assert_eq!(shift("wan2.1-i2v-14b-720p", (0, 0), None, None), Some(5.0));
    assert_eq!(shift("wan2.2-i2v-a14b", (832, 480), None, None), Some(5.0));
}

#[test]
fn shift_set_by_the_user_overrides_the_built_in_shift_for_small_sizes() {
    let (_root, paths) = user();
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    write_models(&models, &I2V_FILES[..1]);
    let settings = searching(&[&models]);
    let at_480 = |text: &str| {
        fs::create_dir_all(paths.models_file().parent().unwrap()).unwrap();
        fs::write(paths.models_file(), text).unwrap();
        let catalog = ModelCatalog::load(&paths, &settings);
        let spec = catalog.find("wan2.1-i2v-14b-480p").unwrap();
        spec.defaults.shift_at(832, 480)
    };
    let entry = "[[model]]\nid = \"wan2.1-i2v-14b-480p\"\n[model.defaults]\n";
    assert_eq!(at_480(&format!("{entry}shift = 8")), Some(8.0));
    let both = "shift = 8\nsmall_shift = { max_pixels = 400_000, shift = 2 }";
    assert_eq!(at_480(&format!("{entry}{both}")), Some(2.0));
    assert_eq!(at_480(&format!("{entry}num_steps = 20")), Some(3.0));
}

#[test]
fn scheduler_config_sets_sampler_and_shift_of_unknown_pipelines() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("my-distilled-14b");
    let weights = "diffusion_pytorch_model.safetensors";
    let keys = TransformerKeys::bare(true);
    let shapes = in_dialect(&transformer(T2V_14B), keys);
    write(&folder.join("transformer").join(weights), &shapes, "BF16");
    write(&folder.join("vae").join(weights), &vae(16), "F32");
    let text = folder.join("text_encoder/model.safetensors");
    write(&text, &umt5(), "BF16");
    type Json = fn(&Path) -> Value;
    for (component, json) in [
        ("transformer", json_of::<WanTransformerConfig> as Json),
        ("vae", json_of::<WanVaeConfig>),
        ("text_encoder", json_of::<T5Config>),
    ] {
        let file = folder.join(component);
        let file = fs::read_dir(&file).unwrap().next().unwrap().unwrap().path();
        write_json(&folder.join(component).join("config.json"), &json(&file));
    }
    fs::create_dir_all(folder.join("tokenizer")).unwrap();
    let pieces = folder.join("tokenizer/spiece.model");
    fs::write(pieces, [0x0a, 0].repeat(256_300)).unwrap();
    let index = json!({
        "_class_name": "WanPipeline", "boundary_ratio": null,
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "WanTransformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"],
    });
    write_json(&folder.join("model_index.json"), &index);
    let with = |scheduler: Value| {
        write_json(&folder.join("scheduler/scheduler_config.json"), &scheduler);
        let defaults = ModelSpec::open(&folder).unwrap().defaults;
        assert_eq!((defaults.sampling.num_steps, defaults.width), (50, 1280));
        (defaults.sampling.sampler, defaults.sampling.shift)
    };
    let euler = json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 8.0});
    assert_eq!(with(euler), (SamplerKind::Euler, Some(8.0)));
    let unipc = json!({
        "_class_name": "UniPCMultistepScheduler", "prediction_type": "flow_prediction", "use_flow_sigmas": true,
        "flow_shift": 3.0,
    });
    assert_eq!(with(unipc), (SamplerKind::UniPc, Some(3.0)));
    // The engine takes the scheduler's own default.
    let silent = json!({"_class_name": "FlowMatchEulerDiscreteScheduler"});
    assert_eq!(with(silent), (SamplerKind::Euler, None));
}

#[test]
fn every_downloadable_model_states_its_download_size() {
    let (_root, paths) = user();
    let catalog = ModelCatalog::load(&paths, &Settings::default());
    let missing = catalog.missing.iter();
    let of_repositories: Vec<_> = missing.filter(|it| it.repository.is_some()).collect();
    assert!(of_repositories.len() > 10);
    for entry in of_repositories {
        assert!(entry.download_bytes > 1_000_000_000, "{}", entry.id);
    }
}

/// Names as they are published, of files or of the folders that files without a name lie in.
#[test]
fn published_loras_of_few_steps_are_known_by_their_names() {
    let entries = entry::built_in();
    // A model, the name of a LoRA, and the preset that it has.
    for (row, expected) in table(
        "wan2.1-t2v-14b Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32 -> fast-4
         wan2.1-t2v-14b lightx2v_T2V_14B_cfg_step_distill_v2_lora_rank64_bf16 -> fast-4
         wan2.1-t2v-14b Wan21_CausVid_14B_T2V_lora_rank32_v2 -> causvid-8
         wan2.1-t2v-14b Wan21_AccVid_T2V_14B_lora_rank32_fp16 -> accvid-10
         wan2.1-t2v-14b flat_color_14B -> none
         wan2.2-t2v-a14b wan2.2_t2v_lightx2v_4steps_lora_v1.1_high_noise -> fast-4
         wan2.2-t2v-a14b Wan2.2-Lightning_T2V-A14B-4steps-lora_LOW_fp16 -> fast-4
         wan2.2-ti2v-5b Wan2_2_5B_FastWanFullAttn_lora_rank_128_bf16 -> fast-3
         flux1-dev FLUX.1-Turbo-Alpha -> turbo-8
         flux1-dev FLUX.1-Turbo-Alpha/diffusion_pytorch_model -> turbo-8
         flux1-dev Hyper-FLUX.1-dev-8steps-lora -> hyper-8
         flux1-dev Hyper-FLUX.1-dev-16steps-lora -> hyper-16
         flux1-dev flux1-depth-dev-lora -> depth-lora
         flux1-dev FLUX.1-Canny-dev-lora/pytorch_lora_weights -> canny-lora
         flux1-dev hyperrealism -> none
         flux1-schnell FLUX.1-Turbo-Alpha -> none
         qwen-image Qwen-Image-Lightning-8steps-V1.1 -> fast-8
         qwen-image Qwen-Image-Lightning-4steps-V2.0-bf16 -> fast-4
         qwen-image-edit-2509 Qwen-Image-Edit-2509-Lightning-4steps-V1.0-bf16 -> fast-4",
    ) {
        let (id, name) = row.split_once(' ').unwrap();
        let entry = entries.iter().find(|entry| entry.id == id).unwrap();
        let mut spec = test_spec();
        spec.presets = entry.built_in.presets.clone().unwrap_or_default();
        let path = PathBuf::from(format!("/models/loras/{name}.safetensors"));
        let found = spec.preset_for(&path).map(|preset| &preset.id[..]);
        assert_eq!(found.unwrap_or("none"), expected, "{row}");
    }
}
