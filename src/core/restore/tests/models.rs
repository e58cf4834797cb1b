//! Which installed model a file's name means.

use super::*;
use crate::families::{
    anima, chroma, flux, flux2, flux3, framepack, krea2, qwen_image, qwen_image_21, wan, z_image,
};
use crate::library::{ControlNetwork, FoundControl};
use crate::model::choices::SectionOrder;
use crate::model::{ControlUse, ModelFamily, ModelSpec, test_spec};

fn specs() -> Vec<ModelSpec> {
    let spec = |id: &str, family: ModelFamily, variant: &str, file: &str| {
        let mut spec = test_spec();
        id.clone_into(&mut spec.id);
        id.clone_into(&mut spec.name);
        (spec.family, spec.variant) = (family, variant.to_owned());
        spec.folder = PathBuf::from("/models").join(file);
        spec.files.transformer.clone_from(&spec.folder);
        spec
    };
    vec![
        spec(
            "wan2.1-t2v-1.3b",
            wan::FAMILY,
            "T2V",
            "wan2.1_t2v_1.3B_fp16.safetensors",
        ),
        spec(
            "wan2.2-i2v-a14b",
            wan::FAMILY,
            "I2V-A14B",
            "wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors",
        ),
        spec(
            "flux1-schnell",
            flux::FAMILY,
            "schnell",
            "flux1-schnell-Q4_K_S.gguf",
        ),
        spec(
            "z-image-turbo",
            z_image::FAMILY,
            "Turbo",
            "z_image_turbo_bf16.safetensors",
        ),
        spec(
            "flux2-klein-4b",
            flux2::FAMILY,
            "klein 4B",
            "flux-2-klein-4b.safetensors",
        ),
        spec(
            "flux3-klein",
            flux3::FAMILY,
            "klein",
            "flux3_image_klein_bf16.safetensors",
        ),
        spec(
            "anima",
            anima::FAMILY,
            "Base",
            "anima-base-v1.0.safetensors",
        ),
        spec(
            "krea2-raw",
            krea2::FAMILY,
            "Raw",
            "krea2_raw_fp8_scaled.safetensors",
        ),
        spec("chroma1-hd", chroma::FAMILY, "HD", "Chroma1-HD.safetensors"),
        spec(
            "qwen-image-2512",
            qwen_image::FAMILY,
            "Image",
            "qwen_image_2512_fp8_e4m3fn.safetensors",
        ),
        spec(
            "qwen-image-2.1",
            qwen_image_21::FAMILY,
            "2.1",
            "qwen_image_2.1_bf16.safetensors",
        ),
        spec("flux1-dev", flux::FAMILY, "dev", "my own name.safetensors"),
        spec(
            "framepack-i2v",
            framepack::FAMILY,
            "I2V",
            "FramePackI2V_HY_bf16.safetensors",
        ),
    ]
}

fn chosen(name: &str) -> Option<(String, bool)> {
    let restored = ForeignSettings {
        model: Some(name.to_owned()),
        ..ForeignSettings::default()
    };
    let specs = specs();
    match_model(&restored, &specs).map(|found| (found.spec.id.clone(), found.is_same))
}

#[test]
fn a_model_is_found_by_its_file_by_its_words_and_by_its_family() {
    for (name, id, is_same) in [
        ("my own name.safetensors", "flux1-dev", true),
        ("My Own Name", "flux1-dev", true),
        ("flux1-schnell-fp8.safetensors", "flux1-schnell", true),
        (
            "Wan2.2-I2V-A14B-HighNoise-Q8_0.gguf",
            "wan2.2-i2v-a14b",
            true,
        ),
        (
            "wan2.2_i2v_high_noise_14B_Q4_K_M.gguf",
            "wan2.2-i2v-a14b",
            true,
        ),
        ("Wan2.2 Image2video 14B", "wan2.2-i2v-a14b", false),
        ("wan_v2.2_a14b_hne_i2v_q8p.ckpt", "wan2.2-i2v-a14b", false),
        ("FramePack F1", "framepack-i2v", false),
        ("z_image_turbo-Q8_0.gguf", "z-image-turbo", true),
        ("krea2_raw_bf16.safetensors", "krea2-raw", true),
        ("Krea-2-Raw-Q8_0.gguf", "krea2-raw", false),
        ("krea2Turbo18For_v2", "krea2-raw", false),
        ("zImage_base_v2", "z-image-turbo", false),
        ("flux-2-klein-4b-Q8_0.gguf", "flux2-klein-4b", true),
        ("Flux2 Klein 9B v2", "flux2-klein-4b", false),
        (
            "flux3_image_klein_int8_convrot.safetensors",
            "flux3-klein",
            true,
        ),
        ("FLUX 3 Image Klein", "flux3-klein", false),
        ("anima-base-v1.0-Q8_0.gguf", "anima", true),
        ("Anima Aesthetic v1", "anima", false),
        ("Chroma1-HD-Q8_0.gguf", "chroma1-hd", true),
        ("flux_chroma", "chroma1-hd", false),
        ("qwen_image_2512_bf16.safetensors", "qwen-image-2512", true),
        ("qwenImage_v20", "qwen-image-2512", false),
        (
            "qwen_image_2.1_int8_convrot.safetensors",
            "qwen-image-2.1",
            true,
        ),
        ("Qwen-Image-2.1-Q8_0.gguf", "qwen-image-2.1", true),
        ("flux1-dev-bnb-nf4-v2", "flux1-dev", false),
        ("flux1-krea-dev.safetensors", "flux1-dev", false),
    ] {
        assert_eq!(chosen(name), Some((id.to_owned(), is_same)), "{name}");
    }
    for name in [
        "sd_xl_base_1.0",
        "animagine-xl-4.0",
        "wanderlust_v3",
        "",
        "flux2-dev",
    ] {
        assert_eq!(chosen(name), None, "{name}");
    }
}

#[test]
fn loras_are_found_by_their_names() {
    let restored = ForeignSettings {
        loras: vec![
            lora("Ink.safetensors", 0.5, None),
            lora("paper", 1.0, Some(0.0)),
            lora("gone", 0.25, None),
        ],
        ..ForeignSettings::default()
    };
    let files = ["/l/Paper.safetensors", "/l/a/ink.safetensors"].map(PathBuf::from);
    let (found, missing) = restored.find_loras(&files);
    let paths: Vec<_> = found.iter().map(|lora| lora.path.clone()).collect();
    assert_eq!(paths, [files[1].clone(), files[0].clone()]);
    assert_eq!((found[0].strength, found[1].strength_2), (0.5, Some(0.0)));
    assert_eq!(missing, ["gone (0.25)"]);
}

#[test]
fn restored_form_keeps_supported_settings_and_reports_the_rest() {
    let mut restored = ForeignSettings {
        prompt: Some("a fox".to_owned()),
        negative_prompt: Some(String::new()),
        cfg_scale: Some(1.0),
        distilled_guidance: Some(3.0),
        width: Some(640),
        height: Some(384),
        num_frames: Some(1001),
        secs: Some(500.0),
        strength: Some(0.5),
        shift: Some(-3.0),
        num_steps: Some(5000),
        ..ForeignSettings::default()
    };
    let mut spec = test_spec();
    spec.limits.fixed_size = false;
    let (form, notes) = restored.form_for(&spec);
    assert_eq!(
        (form.sampling.guidance_scale, form.sampling.true_cfg_scale),
        (Some(1.0), None)
    );
    assert_eq!((form.width, form.num_frames), (Some(640), Some(257)));
    assert_eq!(
        (
            form.sampling.shift,
            form.sampling.num_steps,
            form.sampling.strength
        ),
        (None, None, None)
    );
    assert_eq!(form.negative_prompt.as_deref(), Some(""));
    assert!(notes[0].contains("1001 frames"), "{notes:?}");

    spec.guidance = crate::model::GuidanceMode::Distilled;
    spec.section_order = Some(SectionOrder::Original);
    (restored.width, restored.height) = (Some(90_000), Some(90_000));
    let (form, notes) = restored.form_for(&spec);
    assert_eq!(
        (form.sampling.guidance_scale, form.sampling.true_cfg_scale),
        (Some(3.0), Some(1.0))
    );
    assert_eq!((form.secs, form.negative_prompt), (Some(120.0), None));
    assert_eq!((form.width, form.height), (Some(256), Some(256)));
    assert!(notes[0].contains("90000 × 90000"), "{notes:?}");

    spec.section_order = None;
    spec.family = flux::FAMILY;
    let (form, notes) = restored.form_for(&spec);
    assert_eq!((form.num_frames, form.fps), (None, None));
    assert!(notes[1].contains("It is a video"), "{notes:?}");
}

#[test]
fn loras_of_one_name_are_chosen_by_folder_then_by_the_model_and_else_left_to_the_user() {
    let mut restored = ForeignSettings {
        loras: vec![
            RestoredLora::new("wan\\style", 0.5),
            RestoredLora::new("ink", 1.0),
            RestoredLora::new("paper", 1.0),
            lora("gone", 0.25, None),
        ],
        ..ForeignSettings::default()
    };
    let files = [
        "/l/flux/style.safetensors",
        "/l/wan/style.safetensors",
        "/l/flux/ink.safetensors",
        "/l/wan/ink.safetensors",
        "/l/wan/a/paper.safetensors",
        "/l/wan/b/paper.safetensors",
    ]
    .map(PathBuf::from);
    let notes = restored.choose_loras(&files, &|file| file.starts_with("/l/wan"));
    assert!(
        matches!(&notes[..], [only] if only.contains("paper (1)") && only.contains("/l/wan/b/paper")),
        "{notes:?}"
    );
    let (found, missing) = restored.find_loras(&files);
    let paths: Vec<_> = found.iter().map(|lora| lora.path.clone()).collect();
    assert_eq!(paths, [files[1].clone(), files[3].clone()]);
    assert_eq!(missing, ["gone (0.25)"]);
}

#[test]
fn second_pass_and_controls_are_restored_only_if_the_model_supports_them() {
    let control = RestoredControl {
        network: Some("union".to_owned()),
        image: None,
        kind: None,
        strength: 1.0,
        from: 0.0,
        until: 1.0,
    };
    let restored = ForeignSettings {
        second_pass: Some(crate::job::SecondPass {
            scale: 2.0,
            strength: 0.4,
        }),
        controls: vec![control],
        ..ForeignSettings::default()
    };
    let mut spec = test_spec();
    spec.limits.fixed_size = false;
    spec.limits.controls = crate::model::ControlUse::NETWORKS;
    spec.limits.max_pixels = 1 << 20;
    spec.limits.max_edge = 2048;
    let (form, notes) = restored.form_for(&spec);
    assert_eq!(form.second_pass, restored.second_pass);
    assert_eq!(notes, [] as [&str; 0]);

    spec.limits.controls = crate::model::ControlUse::NONE;
    spec.limits.max_pixels = 1 << 16;
    let (form, notes) = restored.form_for(&spec);
    assert_eq!(form.second_pass, None);
    assert_eq!(
        notes,
        [
            "Its hires fix at scale 2 and denoising strength 0.4 is not used: Test model does not make results as large",
            "Test model takes no control images: leave them out"
        ]
    );
    spec.limits.fixed_size = true;
    let (_, notes) = restored.form_for(&spec);
    assert!(notes[0].ends_with("Test model has none"), "{notes:?}");
}

#[test]
fn controls_get_the_installed_networks_of_their_names_and_missing_ones_are_named() {
    let control = |network: &str, until: f64| RestoredControl {
        network: Some(network.to_owned()),
        image: None,
        kind: None,
        strength: 0.8,
        from: 0.0,
        until,
    };
    let restored = ForeignSettings {
        controls: vec![
            control("flux/Union-Pro.safetensors", 0.6),
            control("canny", 7.0),
            control("depth", 1.0),
        ],
        ..ForeignSettings::default()
    };
    let installed = |name: &str, family: ModelFamily| FoundControl {
        path: PathBuf::from("/n").join(name),
        name: name.to_owned(),
        config: ControlNetwork {
            family,
            label: "ControlNet",
            kinds: &[],
            takes_masks: false,
        },
    };
    let networks = [
        installed("union_pro", qwen_image::FAMILY),
        installed("union_pro", flux::FAMILY),
    ];
    let mut spec = test_spec();
    spec.family = flux::FAMILY;
    spec.limits.controls = ControlUse {
        most: 2,
        ..ControlUse::NETWORKS
    };
    let (settings, missing) = restored.find_controls(&spec, &networks);
    let [first, second] = &settings[..] else {
        panic!("as many are expected as the model takes: {settings:?}")
    };
    assert_eq!(first.network, Some("/n/union_pro".into()));
    assert_eq!((first.strength, first.from, first.until), (0.8, 0.0, 0.6));
    assert_eq!((&second.network, second.until), (&None, 1.0));
    assert!(
        matches!(&missing[..], [only] if only.contains("The ControlNet canny for")),
        "{missing:?}"
    );
    spec.limits.controls = ControlUse::NONE;
    assert_eq!(
        restored.find_controls(&spec, &networks),
        (Vec::new(), Vec::new())
    );
}

#[test]
fn a_union_controlnet_is_told_the_kind_of_control_image_that_the_file_names() {
    use crate::model::ControlKind::{Depth, Edges, Pose};
    let network = FoundControl {
        path: "/n/union".into(),
        name: "union".to_owned(),
        config: ControlNetwork {
            family: flux::FAMILY,
            label: "ControlNet Union",
            kinds: &[Depth, Edges, Pose],
            takes_masks: false,
        },
    };
    let mut spec = test_spec();
    spec.family = flux::FAMILY;
    spec.limits.controls = ControlUse::NETWORKS;
    let kind = |restored: &ForeignSettings| {
        let (found, _) = restored.find_controls(&spec, std::slice::from_ref(&network));
        found[0].kind
    };
    for (text, expected) in [
        ("Module: depth_midas, Model: union [ab]", Some(Depth)),
        ("Module: lineart_anime, Model: union [ab]", Some(Edges)),
        (
            "Module: none, Model: union [ab], Union Control Type: OpenPose",
            Some(Pose),
        ),
        ("Module: tile_resample, Model: union [ab]", None),
        ("Module: depth_midas, Model: another [ab]", None),
    ] {
        let mut restored = ForeignSettings::default();
        assert!(crate::restore::controls::take_a1111(&mut restored, text));
        assert_eq!(kind(&restored), expected, "{text}");
    }
    let found = read_with(&json!({
        "30": node("ControlNetLoader", json!({"control_net_name": "union.safetensors"})),
        "31": node("SetUnionControlNetType", json!({"control_net": ["30", 0], "type": "canny/lineart/anime_lineart/mlsd"})),
        "32": node("ControlNetApplyAdvanced", json!({"positive": ["4", 0], "negative": ["5", 0], "control_net": ["31", 0],
            "image": ["33", 0], "strength": 0.8, "start_percent": 0.0, "end_percent": 0.7})),
        "33": node("LoadImage", json!({"image": "edges.png"})),
        "7.positive": ["32", 0], "7.negative": ["32", 1],
    }));
    assert_eq!(kind(&found), Some(Edges));
    assert!(
        !has_note(&found, "SetUnionControlNetType"),
        "{:?}",
        found.notes
    );
}
