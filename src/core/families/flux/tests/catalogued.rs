//! Every published FLUX.1 model in every layout: recognised, completed, described; and every tensor of it.

use crate::catalog::IdentityCard;
use crate::families::flux;
use crate::families::flux::tests::files::{all_in_one, flux_tree, shapes, write_folder};
use crate::job::SamplerKind;
use crate::model::{ControlBy, ControlKind, ModelSpec};
use crate::networks::{
    ClipTextConfig, FluxTransformerConfig, KlVaeConfig, NetworkConfig as _, T5Config,
};
use crate::testing::made_up::{shard_name, write, write_shards};
use crate::testing::published::{
    assert_changes_refused, assert_is_read, assert_is_read_but, assert_is_whole_behind_prefixes,
    assert_needs_all, assert_needs_parts, behind, catalog_of, edited, faultless_catalog, shipped,
};
use crate::testing::table;

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
    let clip = || shapes("clip_l");
    let bare = clip().into_iter();
    let bare = bare.map(|(key, shape)| (key.replace("text_model.", ""), shape));
    for (what, shapes) in [
        ("CLIP", clip()),
        ("bare", bare.collect()),
        (
            "with a projection",
            edited(clip(), "text_projection.weight", &[768, 768]),
        ),
        (
            "with positions",
            edited(clip(), "text_model.embeddings.position_ids", &[1, 77]),
        ),
    ] {
        assert_is_read_but(ClipTextConfig::read, &shapes, &SPARE, what);
    }
    let twin = "encoder.embed_tokens.weight";
    let t5_twice = edited(shapes("t5xxl"), twin, &[32128, 4096]);
    let mut t5_other = t5_twice.clone();
    t5_other.remove("shared.weight").unwrap();
    for shapes in [shapes("t5xxl"), t5_twice, t5_other] {
        assert_is_read_but(T5Config::read, &shapes, &SPARE, "T5");
    }
    let bundled = behind("vae.", &shapes("ae"));
    for shapes in [shapes("ae"), shapes("ae diffusers"), bundled] {
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
    let catalog = faultless_catalog(&models, 6);
    let of_dev = "FLUX.1 [dev] Non-Commercial License";
    for (id, expected) in table(&format!(
        "flux1-dev -> {DEV}
         flux1-schnell -> schnell Optional Base, mask Optional, None, 1024x1024, 4 steps, 0 Some(0.6) []
         flux1-fill-dev -> Fill Required Canvas, mask Required, Distilled, 1024x1024, 50 steps, 30 Some(1.0) []
         flux1-kontext-dev -> Kontext No Base, mask No, Distilled, 1024x1024, 28 steps, 2.5 None []
         flux1-depth-dev -> Depth Optional Base, mask No, Distilled, 1024x1024, 30 steps, 10 Some(0.6) []
         flux1-canny-dev -> Canny Optional Base, mask No, Distilled, 1024x1024, 50 steps, 30 Some(0.6) []"
    )) {
        let licence = if id == "flux1-schnell" { "Apache-2.0" } else { of_dev };
        let spec = catalog.find(id).unwrap();
        assert_eq!(summary(&spec), expected);
        assert_eq!((spec.family, &spec.licence[..]), (flux::FAMILY, licence));
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 16);
        assert_eq!(spec.defaults.sampling.sampler, SamplerKind::Euler);
        assert!(spec.defaults.negative_prompt.is_empty());
        assert!(!spec.example_prompts.is_empty());
        let limits = &spec.limits;
        assert_eq!((limits.size_multiple, limits.max_pixels), (16, 2048 * 2048));
        let frames = (limits.max_frames, limits.frame_stride);
        assert_eq!((frames, limits.max_batch), ((1, 1), 8));
        let text = models.join("text_encoders");
        assert_eq!(spec.files.vae, models.join("vae/ae.safetensors"));
        assert_eq!(spec.files.text_encoder, text.join("clip_l.safetensors"));
        let t5 = text.join("t5xxl_fp16.safetensors");
        assert_eq!(spec.files.text_encoder_2, Some(t5));
        assert_eq!(spec.files.tokenizer, shipped("clip-l"));
        assert_eq!(spec.files.tokenizer_2, Some(shipped("t5-xxl")));
        assert_eq!(spec.files.scheduler, None);
    }
}

#[test]
fn flux_transformer_is_recognised_bare_prefixed_or_in_diffusers_layout() {
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
        let found = (&spec.name[..], &spec.licence[..]);
        assert_eq!(found, ("any name", "not stated"));
    }
}

#[test]
fn a_transformer_with_room_for_a_control_image_is_known_by_its_name() {
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
    assert_eq!(files.text_encoder, place);
    assert_eq!(files.text_encoder_2.as_ref(), Some(&place));
    assert_eq!(files.tokenizer, shipped("clip-l"));
    assert_eq!(files.tokenizer_2, Some(shipped("t5-xxl")));
    // Each byte once.
    assert_eq!(spec.bytes, std::fs::metadata(&place).unwrap().len());
    let card = IdentityCard::read(&place).unwrap();
    let parts = card.components.iter();
    let parts = parts.map(|part| (&part.name[..], part.parameters));
    assert!(parts.eq([
        ("transformer", 11_901_408_320),
        ("vae", 83_819_683),
        ("text_encoder", 123_060_480 + 768 * 768 + 1),
        ("text_encoder_2", 4_762_310_656 + 1),
    ]));

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
        let sampling = &spec.defaults.sampling;
        let found = (sampling.sampler, sampling.shift);
        assert_eq!(found, (SamplerKind::Euler, None));
        let card = IdentityCard::read(&folder).unwrap();
        assert_eq!((card.family.as_str(), card.is_runnable), ("flux", true));
        assert_eq!(card.what, format!("a Flux {variant} model"));
    }
    // In the cache of another program it is known by its repository.
    let cached = "models--black-forest-labs--FLUX.1-dev/snapshots/abc";
    write_folder(&root.path().join("hub").join(cached), "FluxPipeline", "dev");
    let spec = catalog_of(&root.path().join("hub")).find("flux1-dev");
    assert_eq!(spec.unwrap().name, "FLUX.1 dev");
}

#[test]
fn a_folder_in_shards_is_as_good_as_one_of_whole_files_and_each_shard_counts() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_folder(root.path(), "FluxPipeline", "dev");
    let transformer = folder.join("transformer");
    std::fs::remove_file(transformer.join("diffusion_pytorch_model.safetensors")).unwrap();
    write_shards(&transformer, shapes("transformer dev diffusers"), 3, "BF16");
    let name = shard_name(1, 3);
    assert_eq!(ModelSpec::open(&folder).unwrap().variant, "dev");
    let second = transformer.join(&name);
    let file = std::fs::File::options().write(true).open(&second).unwrap();
    file.set_len(1 << 20).unwrap();
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(text.contains(&name) && text.contains("cut off"), "{text}");
    std::fs::remove_file(&second).unwrap();
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(text.contains(&name), "{text}");
}

#[test]
fn flux_pipelines_with_mismatched_components_are_refused_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_folder(root.path(), "FluxPipeline", "dev");
    assert_changes_refused(
        &folder,
        "transformer/config guidance_embeds false -> guidance
         transformer/config num_single_layers 37 -> 37 layers
         transformer/config axes_dims_rope [16, 56, 57] -> axes_dims_rope
         transformer/config patch_size 2 -> patch_size
         transformer/config quantization_config {} -> quantised
         transformer/config pooled_projection_dim 1280 -> 1280
         vae/config latent_channels 4 -> 4 latent channels
         vae/config norm_num_groups 48 -> norm_num_groups
         text_encoder/config num_attention_heads 7 -> num_attention_heads
         text_encoder_2/config model_type \"umt5\" -> umt5
         text_encoder_2/config d_model 0 -> d_model
         scheduler/scheduler_config _class_name \"DDIM\" -> DDIM
         model_index text_encoder_2 [\"x\", \"UMT5EncoderModel\"] -> UMT5EncoderModel
         model_index vae [\"x\", \"AutoencoderKLWan\"] -> AutoencoderKLWan
         model_index transformer [\"x\", \"SD3Transformer2DModel\"] -> SD3Transformer2DModel",
    );
    let parts = ["text_encoder_2", "tokenizer_2", "vae", "scheduler"];
    assert_needs_parts(&folder, &parts);
}
