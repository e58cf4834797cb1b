//! Every published FLUX.1 model in every layout: recognised, completed, described; and every tensor of it.

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux;
use crate::families::flux::tests::files::{all_in_one, flux_tree, shapes, write_folder};
use crate::job::SamplerKind;
use crate::model::{ControlBy, ControlKind, ModelSpec};
use crate::networks::{
    ClipTextConfig, FluxTransformerConfig, KlVaeConfig, NetworkConfig as _, T5Config,
};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::{edit_json, write_json};
use crate::testing::published::{
    assert_is_read, assert_is_read_but, assert_is_whole_behind_prefixes, assert_needs_all, behind,
    catalog_of, edited, shipped,
};

/// Tensors of text encoders that are not read.
const SPARE: [&str; 5] = [
    "text_projection.weight",
    "position_ids",
    "logit_scale",
    "shared.weight",
    "encoder.embed_tokens.weight",
];

#[test]
fn no_tensor_of_a_published_file_is_missing_or_unexpected_in_any_dialect() {
    let clip = shapes("clip_l");
    let bare_clip: Shapes = clip
        .iter()
        .map(|(key, shape)| (key.replace("text_model.", ""), shape.clone()))
        .collect();
    let with_projection = edited(clip.clone(), "text_projection.weight", &[768, 768]);
    let with_positions = edited(clip.clone(), "text_model.embeddings.position_ids", &[1, 77]);
    for (number, shapes) in [clip, bare_clip, with_projection, with_positions]
        .iter()
        .enumerate()
    {
        let what = format!("CLIP {number}");
        assert_is_read_but(ClipTextConfig::read, shapes, &SPARE, &what);
    }
    let t5_twice = edited(
        shapes("t5xxl"),
        "encoder.embed_tokens.weight",
        &[32128, 4096],
    );
    let mut t5_other = t5_twice.clone();
    t5_other.remove("shared.weight").unwrap();
    for shapes in [shapes("t5xxl"), t5_twice, t5_other] {
        assert_is_read_but(T5Config::read, &shapes, &SPARE, "T5");
    }
    for shapes in [
        shapes("ae"),
        shapes("ae diffusers"),
        behind("vae.", &shapes("ae")),
    ] {
        assert_is_read::<KlVaeConfig>(&shapes, "VAE");
    }
    for variant in ["dev", "schnell", "fill"] {
        for end in ["", " diffusers"] {
            let shapes = shapes(&format!("transformer {variant}{end}"));
            let config = assert_is_read::<FluxTransformerConfig>(&shapes, variant);
            assert_is_whole_behind_prefixes(&shapes, &config);
        }
    }
}

#[test]
fn a_part_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let is_first = |key: &str| !key.contains("blocks.1");
    assert_needs_all::<FluxTransformerConfig>(&shapes("transformer dev"), is_first);
    assert_needs_all::<KlVaeConfig>(&shapes("ae"), |_| true);
    assert_needs_all::<KlVaeConfig>(&shapes("ae diffusers"), |_| true);
    assert_needs_all::<ClipTextConfig>(&shapes("clip_l"), |_| true);
    assert_needs_all::<T5Config>(&shapes("t5xxl"), |_| true);
}

/// Inputs, size, steps, guidance, strength and presets.
pub(crate) fn summary(spec: &ModelSpec) -> String {
    let defaults = &spec.defaults;
    let presets: Vec<&str> = spec.presets.iter().map(|it| it.id.as_str()).collect();
    format!(
        "{} {:?} {:?}, mask {:?}, {:?}, {}x{}, {} steps, {} {:?} [{}]",
        spec.variant,
        spec.start_image,
        spec.image_role,
        spec.mask,
        spec.guidance,
        defaults.width,
        defaults.height,
        defaults.sampling.num_steps,
        defaults.sampling.guidance_scale,
        defaults.sampling.strength,
        presets.join(", "),
    )
}

pub(crate) const DEV: &str = "dev Optional Base, mask Optional, Distilled, 1024x1024, 20 steps, 3.5 Some(0.6) [turbo-8, hyper-8, hyper-16, depth-lora, canny-lora]";

#[test]
fn every_published_model_is_offered_from_a_comfyui_folder_with_its_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(&root.path().join("models"));
    for (name, shapes_of, dtype) in [
        ("flux1-dev", "transformer dev", "BF16"),
        ("flux1-schnell-fp8-e4m3fn", "transformer schnell", "F8_E4M3"),
        ("flux1-fill-dev", "transformer fill", "BF16"),
        ("flux1-depth-dev", "transformer control", "BF16"),
        ("flux1-canny-dev_fp8", "transformer control", "F8_E4M3"),
        ("flux1-dev-kontext_fp8_scaled", "transformer dev", "F16"),
    ] {
        let file = format!("diffusion_models/{name}.safetensors");
        write(&models.join(file), &shapes(shapes_of), dtype);
    }
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 6);
    for (id, licence, expected) in [
        ("flux1-dev", "FLUX.1 [dev] Non-Commercial License", DEV),
        (
            "flux1-schnell",
            "Apache-2.0",
            "schnell Optional Base, mask Optional, None, 1024x1024, 4 steps, 0 Some(0.6) []",
        ),
        (
            "flux1-fill-dev",
            "FLUX.1 [dev] Non-Commercial License",
            "Fill Required Canvas, mask Required, Distilled, 1024x1024, 50 steps, 30 Some(1.0) []",
        ),
        (
            "flux1-kontext-dev",
            "FLUX.1 [dev] Non-Commercial License",
            "Kontext No Base, mask No, Distilled, 1024x1024, 28 steps, 2.5 None []",
        ),
        (
            "flux1-depth-dev",
            "FLUX.1 [dev] Non-Commercial License",
            "Depth Optional Base, mask No, Distilled, 1024x1024, 30 steps, 10 Some(0.6) []",
        ),
        (
            "flux1-canny-dev",
            "FLUX.1 [dev] Non-Commercial License",
            "Canny Optional Base, mask No, Distilled, 1024x1024, 50 steps, 30 Some(0.6) []",
        ),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!(summary(&spec), expected);
        assert_eq!(
            (spec.family, spec.licence.as_str()),
            (flux::FAMILY, licence)
        );
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 16);
        assert_eq!(spec.defaults.sampling.sampler, SamplerKind::Euler);
        assert!(spec.defaults.negative_prompt.is_empty());
        assert!(!spec.example_prompts.is_empty());
        let limits = &spec.limits;
        assert_eq!((limits.size_multiple, limits.max_pixels), (16, 2048 * 2048));
        assert_eq!(
            (limits.max_frames, limits.frame_stride, limits.max_batch),
            (1, 1, 8)
        );
        let text = models.join("text_encoders");
        assert_eq!(spec.files.vae, models.join("vae/ae.safetensors"));
        assert_eq!(spec.files.text_encoder, text.join("clip_l.safetensors"));
        assert_eq!(
            spec.files.text_encoder_2,
            Some(text.join("t5xxl_fp16.safetensors"))
        );
        assert_eq!(spec.files.tokenizer, shipped("clip-l"));
        assert_eq!(spec.files.tokenizer_2, Some(shipped("t5-xxl")));
        assert_eq!(spec.files.scheduler, None);
    }
}

#[test]
fn a_transformer_is_the_same_bare_behind_a_prefix_and_in_diffusers_names() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = models.join("unet/any name.safetensors");
    for shapes in [
        shapes("transformer dev"),
        behind("model.diffusion_model.", &shapes("transformer dev")),
        shapes("transformer dev diffusers"),
    ] {
        write(&place, &shapes, "BF16");
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(summary(&spec), DEV);
        // Nobody knows this file by its name, so it takes no name and licence of another.
        assert_eq!(
            (spec.name.as_str(), spec.licence.as_str()),
            ("any name", "not stated")
        );
    }
}

#[test]
fn a_transformer_with_room_for_a_control_picture_is_known_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    for (name, variant, kind) in [
        ("flux1-Depth-dev-Q4", "Depth", Some(ControlKind::Depth)),
        ("my_flux_CANNY", "Canny", Some(ControlKind::Edges)),
        ("something", "Control", None),
    ] {
        for shapes_of in ["transformer control", "transformer control diffusers"] {
            let place = models.join(format!("unet/{name}.safetensors"));
            write(&place, &shapes(shapes_of), "BF16");
            let spec = ModelSpec::open(&place).unwrap();
            let controls = spec.limits.controls;
            assert_eq!(spec.variant, variant);
            assert_eq!((controls.by, controls.most), (ControlBy::Channels, 1));
            assert_eq!((controls.is_required, controls.kind), (true, kind));
        }
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it_and_one_that_lacks_a_part_takes_that() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("checkpoints/flux1-dev-fp8.safetensors");
    write(&place, &all_in_one("transformer dev"), "F16");
    let spec = ModelSpec::open(&place).unwrap();
    let files = &spec.files;
    assert_eq!((&files.transformer, &files.vae), (&place, &place));
    assert_eq!(
        (&files.text_encoder, files.text_encoder_2.as_ref()),
        (&place, Some(&place))
    );
    assert_eq!(files.tokenizer, shipped("clip-l"));
    assert_eq!(files.tokenizer_2, Some(shipped("t5-xxl")));
    // Each byte once.
    assert_eq!(spec.bytes, std::fs::metadata(&place).unwrap().len());
    let card = IdentityCard::read(&place).unwrap();
    let parts: Vec<(&str, u64)> = card
        .components
        .iter()
        .map(|part| (part.name.as_str(), part.parameters))
        .collect();
    assert_eq!(
        parts,
        [
            ("transformer", 11_901_408_320),
            ("vae", 83_819_683),
            ("text_encoder", 123_060_480 + 768 * 768 + 1),
            ("text_encoder_2", 4_762_310_656 + 1),
        ]
    );

    let mut lacking = all_in_one("transformer dev");
    lacking.retain(|key, _| !key.starts_with("vae.") && !key.contains("t5xxl"));
    write(&place, &lacking, "F16");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("ae.safetensors from"), "{text}");
    flux_tree(root.path());
    let files = ModelSpec::open(&place).unwrap().files;
    assert_eq!(files.vae, root.path().join("vae/ae.safetensors"));
    assert_eq!(files.text_encoder, place);
    let t5 = root.path().join("text_encoders/t5xxl_fp16.safetensors");
    assert_eq!(files.text_encoder_2, Some(t5));
}

#[test]
fn a_diffusers_folder_is_a_model_by_its_class_and_channels() {
    let root = tempfile::tempdir().unwrap();
    for (class, transformer, variant) in [
        ("FluxPipeline", "dev", "dev"),
        ("FluxPipeline", "schnell", "schnell"),
        ("FluxImg2ImgPipeline", "dev", "dev"),
        ("FluxInpaintPipeline", "schnell", "schnell"),
        ("FluxFillPipeline", "fill", "Fill"),
        ("FluxControlPipeline", "control", "Depth"),
        ("FluxControlImg2ImgPipeline", "control", "Canny"),
        ("FluxKontextPipeline", "dev", "Kontext"),
    ] {
        let folder = write_folder(&root.path().join(class).join(variant), class, transformer);
        let spec = ModelSpec::open(&folder).unwrap();
        assert_eq!(spec.variant, variant, "{class}");
        let files = &spec.files;
        assert_eq!(files.text_encoder_2, Some(folder.join("text_encoder_2")));
        assert_eq!(files.tokenizer_2, Some(folder.join("tokenizer_2")));
        assert_eq!(files.tokenizer_class.as_deref(), Some("CLIPTokenizer"));
        assert_eq!(files.tokenizer_2_class.as_deref(), Some("T5TokenizerFast"));
        assert_eq!(files.scheduler, Some(folder.join("scheduler")));
        assert_eq!(
            (spec.defaults.sampling.sampler, spec.defaults.sampling.shift),
            (SamplerKind::Euler, None)
        );
        let card = IdentityCard::read(&folder).unwrap();
        assert_eq!((card.family.as_str(), card.is_runnable), ("flux", true));
        assert_eq!(card.what, format!("a Flux {variant} model"));
    }
    // In the cache of another program it is known by its repository.
    let cached = "models--black-forest-labs--FLUX.1-dev/snapshots/abc";
    write_folder(&root.path().join("hub").join(cached), "FluxPipeline", "dev");
    let spec = catalog_of(&root.path().join("hub"))
        .find("flux1-dev")
        .unwrap();
    assert_eq!(spec.name, "FLUX.1 dev");
}

#[test]
fn a_folder_in_shards_is_as_good_as_one_of_whole_files_and_each_shard_counts() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_folder(root.path(), "FluxPipeline", "dev");
    let transformer = folder.join("transformer");
    std::fs::remove_file(transformer.join("diffusion_pytorch_model.safetensors")).unwrap();
    let mut parts = [Shapes::new(), Shapes::new(), Shapes::new()];
    let mut map = serde_json::Map::new();
    let name = |n: usize| format!("diffusion_pytorch_model-0000{}-of-00003.safetensors", n + 1);
    for (number, (key, shape)) in shapes("transformer dev diffusers").into_iter().enumerate() {
        map.insert(key.clone(), json!(name(number % 3)));
        parts[number % 3].insert(key, shape);
    }
    for (number, part) in parts.iter().enumerate() {
        write(&transformer.join(name(number)), part, "BF16");
    }
    write_json(
        &transformer.join("diffusion_pytorch_model.safetensors.index.json"),
        &json!({"metadata": {}, "weight_map": map}),
    );
    assert_eq!(ModelSpec::open(&folder).unwrap().variant, "dev");
    let second = transformer.join(name(1));
    let file = std::fs::File::options().write(true).open(&second).unwrap();
    file.set_len(1 << 20).unwrap();
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(
        text.contains(&name(1)) && text.contains("cut off"),
        "{text}"
    );
    std::fs::remove_file(&second).unwrap();
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(text.contains(&name(1)), "{text}");
}

#[test]
fn a_folder_whose_parts_do_not_fit_together_is_refused_with_what_was_expected() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_folder(root.path(), "FluxPipeline", "dev");
    for (file, key, value, part) in [
        (
            "transformer/config.json",
            "guidance_embeds",
            json!(false),
            "guidance",
        ),
        (
            "transformer/config.json",
            "num_single_layers",
            json!(37),
            "37 layers",
        ),
        (
            "transformer/config.json",
            "axes_dims_rope",
            json!([16, 56, 57]),
            "axes_dims_rope",
        ),
        (
            "transformer/config.json",
            "patch_size",
            json!(2),
            "patch_size",
        ),
        (
            "transformer/config.json",
            "quantization_config",
            json!({}),
            "quantised",
        ),
        (
            "transformer/config.json",
            "pooled_projection_dim",
            json!(1280),
            "1280",
        ),
        (
            "vae/config.json",
            "latent_channels",
            json!(4),
            "4 latent channels",
        ),
        (
            "vae/config.json",
            "norm_num_groups",
            json!(48),
            "norm_num_groups",
        ),
        (
            "text_encoder/config.json",
            "num_attention_heads",
            json!(7),
            "num_attention_heads",
        ),
        (
            "text_encoder_2/config.json",
            "model_type",
            json!("umt5"),
            "umt5",
        ),
        ("text_encoder_2/config.json", "d_model", json!(0), "d_model"),
        (
            "scheduler/scheduler_config.json",
            "_class_name",
            json!("DDIM"),
            "DDIM",
        ),
    ] {
        let path = folder.join(file);
        let before = std::fs::read(&path).unwrap();
        edit_json(&path, |config| config[key] = value.clone());
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{file} {key}: {text}");
        std::fs::write(&path, before).unwrap();
    }
    ModelSpec::open(&folder).unwrap();
    for (component, class) in [
        ("text_encoder_2", "UMT5EncoderModel"),
        ("vae", "AutoencoderKLWan"),
        ("transformer", "SD3Transformer2DModel"),
    ] {
        let path = folder.join("model_index.json");
        let before = std::fs::read(&path).unwrap();
        edit_json(&path, |index| index[component] = json!(["x", class]));
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(class), "{text}");
        std::fs::write(&path, before).unwrap();
    }
    for part in ["text_encoder_2", "tokenizer_2", "vae", "scheduler"] {
        let (here, away) = (folder.join(part), folder.join("away"));
        std::fs::rename(&here, &away).unwrap();
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
        std::fs::rename(&away, &here).unwrap();
    }
}
