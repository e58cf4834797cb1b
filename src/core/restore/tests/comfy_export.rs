//! Workflows that are written for ComfyUI say, when they are read again, what the request said.

use serde_json::{Value, json};

use super::*;
use crate::job::GenerateRequest;
use crate::model::choices::{SamplerKind, SigmaSchedule};
use crate::model::{GuidanceMode, ModelFiles, ModelSpec, PartialSampling, test_spec};
use crate::restore::names::to_comfy_schedule;

/// A request of a family, with what `change` says.
fn request(family: &str, change: &Value) -> GenerateRequest {
    let mut request = json!({
        "model": "some-model", "family": family, "prompt": "a red fox", "negative_prompt": "fog", "width": 1024,
        "height": 768, "num_frames": 1, "fps": 16.0, "num_steps": 12, "guidance_scale": 4.0, "sampler": "euler",
        "seed": 18_446_744_073_709_551_615_u64, "shift": 3.0,
    });
    let members = change.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(members);
    serde_json::from_value(request).unwrap()
}

/// A model of separate files, with one text encoder.
fn spec(request: &GenerateRequest) -> ModelSpec {
    let mut spec = test_spec();
    spec.family = request.family;
    spec.defaults.sampling.shift = None;
    if !request.family.guidance_is_cfg {
        spec.guidance = GuidanceMode::Distilled;
    }
    spec.folder = "/models/diffusion_models/sub/model_fp8.safetensors".into();
    spec.files = ModelFiles {
        transformer: spec.folder.clone(),
        vae: "/models/vae/the_vae.safetensors".into(),
        text_encoder: "/models/text_encoders/encoder.safetensors".into(),
        ..ModelFiles::default()
    };
    spec
}

fn written(request: &GenerateRequest, spec: Option<&ModelSpec>) -> ComfyWorkflow {
    ComfyWorkflow::from_request(request, spec).unwrap()
}

fn read_again(workflow: &ComfyWorkflow) -> ForeignSettings {
    read_file("workflow.json", workflow.to_text().as_bytes()).unwrap()
}

/// The members that any workflow has.
fn usual(request: &GenerateRequest) -> Value {
    let sampling = request.sampling;
    json!({
        "prompt": "a red fox", "negative_prompt": "fog", "seed": request.seed, "num_steps": 12, "sampler": "euler",
        "sigma_schedule": to_comfy_schedule(sampling.sigma_schedule).0, "cfg_scale": 4.0, "shift": 3.0, "width": 1024, "height": 768,
        "model": "model_fp8.safetensors", "strength": null, "loras": [],
    })
}

fn assert_round_trip(family: &str, change: &Value, expected: &Value) -> ComfyWorkflow {
    let request = request(family, change);
    let workflow = written(&request, Some(&spec(&request)));
    let mut all = usual(&request);
    let members = expected.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(members);
    assert_fields(&read_again(&workflow), &all);
    workflow
}

fn classes(workflow: &ComfyWorkflow) -> Vec<String> {
    let nodes: Value = serde_json::from_str(&workflow.to_text()).unwrap();
    let nodes = nodes.as_object().unwrap().values();
    let mut classes: Vec<String> = nodes
        .map(|node| node["class_type"].as_str().unwrap().to_owned())
        .collect();
    classes.sort();
    classes
}

fn image(strength: f64) -> Value {
    json!({"image": "/photos/boat.png", "image_role": "base", "strength": strength})
}

#[test]
fn each_family_is_read_again_as_it_was_written() {
    let video = json!({"num_frames": 81, "fps": 16.0, "width": 832, "height": 480});
    let distilled = json!({"cfg_scale": 1.0, "distilled_guidance": 4.0, "negative_prompt": "fog"});
    for (family, change, expected) in [
        ("flux", json!({}), distilled.clone()),
        (
            "flux",
            json!({"shift": null, "true_cfg_scale": 2.5, "sigma_schedule": "beta"}),
            json!({"cfg_scale": 2.5, "distilled_guidance": 4.0, "shift": null}),
        ),
        (
            "flux2",
            json!({"shift": null}),
            json!({"shift": null, "sigma_schedule": null}),
        ),
        (
            "flux2",
            json!({"sampler": "heun"}),
            json!({"sampler": "heun"}),
        ),
        ("qwen_image", json!({}), json!({})),
        (
            "qwen_image",
            json!({"shift": null}),
            json!({"shift": 1.9002}),
        ),
        (
            "z_image",
            json!({"guidance_scale": 1.0, "negative_prompt": ""}),
            json!({"cfg_scale": 1.0, "negative_prompt": ""}),
        ),
        (
            "chroma",
            json!({"shift": 1.0, "sigma_schedule": "beta"}),
            json!({"shift": 1.0}),
        ),
        ("krea2", json!({}), json!({})),
        ("wan", video.clone(), video),
        (
            "wan",
            json!({"num_frames": 33, "image": "boat.png", "last_image": "end.png"}),
            json!({"num_frames": 33}),
        ),
    ] {
        assert_round_trip(family, &change, &expected);
    }
}

#[test]
fn every_sampler_and_schedule_keeps_its_name() {
    for sampler in SamplerKind::ALL {
        let read = match sampler {
            SamplerKind::DpmPp2mDiffusers => SamplerKind::DpmPp2m,
            sampler => sampler,
        };
        let [change, expected] = [sampler, read].map(|it| json!({"sampler": it.name()}));
        assert_round_trip("z_image", &change, &expected);
    }
    for schedule in SigmaSchedule::ALL {
        let names = [schedule.name(), to_comfy_schedule(schedule).0];
        let [change, expected] = names.map(|name| json!({"sigma_schedule": name}));
        assert_round_trip("z_image", &change, &expected);
    }
}

#[test]
fn a_start_image_keeps_its_strength_and_runs_as_many_steps() {
    for family in ["flux", "qwen_image", "z_image", "chroma", "krea2"] {
        for strength in [0.25, 0.5, 0.75, 1.0] {
            let told = if strength < 1.0 {
                json!(strength)
            } else {
                Value::Null
            };
            let mut expected = json!({"strength": told});
            if family == "flux" {
                expected["cfg_scale"] = json!(1.0);
            }
            let workflow = assert_round_trip(family, &image(strength), &expected);
            let named = "Put into ComfyUI's folder input: boat.png";
            assert!(workflow.notes.iter().any(|note| note == named));
        }
    }
    // A strength of 0.6 runs 8 of 12 steps, for which ComfyUI needs another strength.
    let odd = image(0.6);
    assert_round_trip("z_image", &odd, &json!({"strength": 0.6666}));
}

#[test]
fn loras_are_chained_in_their_order_and_those_at_0_are_left_out() {
    let loras = json!({"loras": [
        {"path": "/models/loras/style/ink.safetensors", "strength": 0.8},
        {"path": "/elsewhere/off.safetensors", "strength": 0.0},
        {"path": "/elsewhere/line.safetensors", "strength": -0.5},
    ]});
    for family in ["flux", "wan"] {
        let request = request(family, &loras);
        let read = read_again(&written(&request, Some(&spec(&request))));
        let expected = [
            lora("ink.safetensors", 0.8, None),
            lora("line.safetensors", -0.5, None),
        ];
        assert_eq!(read.loras, expected, "{family}");
        assert_eq!(read.loras[0].path, "style/ink.safetensors");
        assert!(read.notes.is_empty(), "{:?}", read.notes);
    }
}

#[test]
fn two_experts_share_the_steps_and_have_loras_and_guidance_of_their_own() {
    let mut request = request(
        "wan",
        &json!({"num_frames": 81, "num_steps": 20, "shift": 5.0, "sampler": "unipc",
            "loras": [{"path": "a.safetensors", "strength": 1.0, "strength_2": 0.5},
                {"path": "low.safetensors", "strength": 0.0, "strength_2": 0.75}]}),
    );
    let mut experts = PartialSampling::default();
    experts.guide_experts(Some(4.0), Some(3.0));
    request.sampling = experts.over(request.sampling);
    let mut spec = spec(&request);
    spec.files.transformer = "/m/unet/wan2.2_t2v_high_noise_14B_fp8.safetensors".into();
    spec.files.transformer_2 = Some("/m/unet/wan2.2_t2v_low_noise_14B_fp8.safetensors".into());
    spec.files.boundary_ratio = Some(0.875);
    let workflow = written(&request, Some(&spec));
    let read = read_again(&workflow);
    let expected = json!({
        "model": "wan2.2_t2v_high_noise_14B_fp8.safetensors", "model_2": "wan2.2_t2v_low_noise_14B_fp8.safetensors",
        "num_steps": 20, "cfg_scale": 4.0, "cfg_scale_2": 3.0, "shift": 5.0, "sampler": "unipc", "num_frames": 81,
        "seed": request.seed,
    });
    assert_fields(&read, &expected);
    let loras = [
        lora("a.safetensors", 1.0, Some(0.5)),
        lora("low.safetensors", 0.0, Some(0.75)),
    ];
    assert_eq!(read.loras, loras);
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    let text = workflow.to_text();
    // The first step at which the shifted time is below 0.875.
    assert!(text.contains("\"start_at_step\": 9"), "{text}");
}

#[test]
fn references_masks_and_end_images_come_in_by_the_nodes_of_the_family() {
    let references = json!({"references": ["a.png", "b.png"]});
    let masked = json!({"image": "a.png", "image_role": "base", "mask": "m.png", "strength": 0.5});
    let fill = json!({"image": "a.png", "image_role": "canvas", "mask": "m.png"});
    let ends = json!({"num_frames": 5, "image": "a.png", "last_image": "b.png"});
    for (family, change, class, count, inputs) in [
        ("flux", &references, "ReferenceLatent", 4, "a.png, b.png"),
        ("flux2", &references, "ReferenceLatent", 4, "a.png, b.png"),
        (
            "qwen_image",
            &references,
            "TextEncodeQwenImageEditPlus",
            2,
            "a.png, b.png",
        ),
        ("z_image", &masked, "SetLatentNoiseMask", 1, "a.png, m.png"),
        ("flux", &fill, "InpaintModelConditioning", 1, "a.png, m.png"),
        ("wan", &ends, "WanFirstLastFrameToVideo", 1, "a.png, b.png"),
    ] {
        let workflow = written(&request(family, change), None);
        let classes = classes(&workflow);
        let found = classes.iter().filter(|it| *it == class);
        assert_eq!(found.count(), count, "{family}: {classes:?}");
        let named = format!("Put into ComfyUI's folder input: {inputs}");
        assert!(workflow.notes.contains(&named), "{:?}", workflow.notes);
        let read = read_again(&workflow);
        let mut names = inputs.split(", ");
        let notes = read.notes.join("\n");
        assert!(names.all(|name| notes.contains(name)), "{family}: {notes}");
        // The interpolation of a scale node is not a setting.
        let unused = notes
            .lines()
            .filter_map(|note| note.strip_prefix("Not used: "));
        let mut unused = unused.flat_map(|nodes| nodes.split("; "));
        assert!(unused.all(|node| node.contains("Scale")), "{notes}");
    }
}

#[test]
fn a_second_pass_is_a_second_sampler_over_the_enlarged_image() {
    let pass = json!({"scale": 1.5, "strength": 0.5, "first_width": 1024, "first_height": 768});
    let change = json!({"second_pass": pass, "width": 1536, "height": 1152});
    let expected = json!({"second_pass": {"scale": 1.5, "strength": 0.5}});
    assert_round_trip("z_image", &change, &expected);
}

#[test]
fn files_are_named_as_comfyui_finds_them() {
    let request = request("flux", &json!({}));
    let mut spec = spec(&request);
    spec.guidance = GuidanceMode::None;
    let text = written(&request, Some(&spec)).to_text();
    for name in [
        "sub/model_fp8.safetensors",
        "the_vae.safetensors",
        "encoder.safetensors",
    ] {
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
    }
    assert!(!text.contains("FluxGuidance"), "{text}");
    // One file with all parts.
    let whole = PathBuf::from("/m/checkpoints/flux1-dev-fp8.safetensors");
    spec.files.transformer.clone_from(&whole);
    spec.files.text_encoder.clone_from(&whole);
    spec.files.text_encoder_2 = Some(whole.clone());
    spec.files.vae = whole;
    let workflow = written(&request, Some(&spec));
    let loaders = classes(&workflow);
    let loaders = loaders.iter().filter(|it| it.contains("Loader"));
    assert_eq!(loaders.collect::<Vec<_>>(), ["CheckpointLoaderSimple"]);
    let read = read_again(&workflow);
    assert_eq!(read.model.as_deref(), Some("flux1-dev-fp8.safetensors"));
    // A model that is not here, and one in a folder, have the published names, which is said.
    let workflow = written(&request, None);
    let notes = workflow.notes.join("\n");
    for part in [
        "single files",
        "instead of some-model.safetensors, clip_l.safetensors, t5xxl_fp16.safetensors, ae.safetensors",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn what_comfyui_has_no_node_for_is_named() {
    let change = json!({
        "guider": "apg:0:15:-0.5", "guidance_range": "0.1-0.8", "step_cache": {"kind": "first_block", "threshold": 0.1},
        "extend": "a.mp4", "batch_size": 2, "prompt": "a {red} fox", "num_frames": 5,
        "controls": [{"file": "pose.png"}], "prompt_images": [{"path": "b.png", "strength": 1.0}],
    });
    let notes = written(&request("wan", &change), None).notes.join("\n");
    for part in [
        "Not in the workflow: the guider, the guidance range, the step cache, the video to extend, the control images, the image prompts",
        "only its first image is the same",
        "ComfyUI reads {…|…} as a choice",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    let err = ComfyWorkflow::from_request(&request("framepack", &json!({})), None).unwrap_err();
    assert_eq!(
        err.summary,
        "ComfyUI has no standard nodes for FramePack models"
    );
}

#[test]
fn brackets_have_backslashes_in_a_workflow_where_they_are_no_weights() {
    for (weights, family, expected) in [
        (Some("comfyui"), "wan", "a (red:1.2) fox"),
        (Some("a1111"), "wan", "a (red:1.2) fox"),
        (Some("comfyui"), "z_image", "a (red:1.2) fox"),
        (Some("off"), "wan", r"a \(red:1.2\) fox"),
        (None, "z_image", r"a \(red:1.2\) fox"),
    ] {
        let change = json!({"prompt": "a (red:1.2) fox", "prompt_weights": weights});
        let workflow = written(&request(family, &change), None);
        let mut texts = workflow
            .nodes()
            .values()
            .map(|node| &node["inputs"]["text"]);
        assert!(texts.any(|text| text == expected), "{expected}");
    }
}
