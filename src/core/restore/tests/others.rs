//! Settings of other programs that are named as not used, and those that two places of a file name.

use crate::model::choices::{SamplerKind, SigmaSchedule};
use serde_json::json;

use super::*;

/// Reads a prompt followed by a settings line of A1111.
fn read_settings(prompt: &str, more: &str) -> ForeignSettings {
    let text = format!("{prompt}\nSteps: 20, CFG scale: 7, Seed: 3, Size: 512x768, {more}");
    read_png("parameters", &text)
}

#[test]
fn a_hires_fix_is_read_with_its_size_and_in_the_words_of_sd_next() {
    for (more, scale, strength, note) in [
        (
            "Denoising strength: 0.4, Hires resize: 0x1536",
            2.0,
            0.4,
            None,
        ),
        (
            "Denoising strength: 0.4, Hires resize: 1024x1024",
            2.0,
            0.4,
            Some(
                "The hires fix was cropped to 1024 × 1024: Safelight's keeps the shape of the first pass",
            ),
        ),
        ("Hires strength: 0.3, Hires scale: 1.5", 1.5, 0.3, None),
    ] {
        let found = read_settings("a fox", more);
        let pass = found.second_pass.expect(more);
        assert_eq!((pass.scale, pass.strength), (scale, strength), "{more}");
        assert_eq!((found.strength, found.from_image), (None, false));
        assert_eq!(found.notes.first().map(String::as_str), note, "{more}");
    }
    let found = read_settings("a fox", "Denoising strength: 0.4, Hires steps: 8");
    assert_eq!((found.second_pass, found.strength), (None, None));
    assert!(found.notes[0].starts_with("Another pass at an unknown scale"));
}

#[test]
fn a_size_in_two_settings_a_model_of_no_name_and_texts_in_utf_16_are_read() {
    let text = "ein Fuchs \u{201e}im Schnee\u{201c}\nSteps: 20, Sampler: heunpp2, Seed: 4, Size-1: 832, Size-2: 1216, Model: None";
    let expected = read_png("parameters", text);
    assert_fields!(expected, {
        "width": 832, "height": 1216, "model": null, "sampler": SamplerKind::Heun,
        "notes": ["Safelight has no sampler heunpp2: Heun is used"]
    });
    let marked = format!("\u{feff}{text}");
    let little = marked.encode_utf16().flat_map(u16::to_le_bytes);
    let big = marked.encode_utf16().flat_map(u16::to_be_bytes);
    for bytes in [little.collect::<Vec<u8>>(), big.collect()] {
        assert_eq!(read_file("a.txt", &bytes), Some(expected.clone()));
    }
}

#[test]
fn embeddings_in_a_prompt_are_named() {
    let found = read_settings("a fox, (embedding:easyneg:1.2)", "Model: flux1-dev");
    let (_, notes) = found.form_for(&crate::model::test_spec());
    let is_named = |note: &String| note.ends_with("stay in it as text: embedding:easyneg:1.2");
    assert!(notes.iter().any(is_named), "{notes:?}");
}

#[test]
fn experts_videos_and_further_controls_of_swarmui_are_read_or_named() {
    let params = json!({"sui_image_params": {
        "prompt": "a fox <video>runs", "model": "wan2.2_t2v_high_noise_14B", "seed": 7, "steps": 9, "cfgscale": 3.5,
        "refinermodel": "wan2.2_t2v_low_noise_14B", "refinermethod": "StepSwap", "refinercfgscale": 2.5,
        "refinercontrolpercentage": 0.5, "refinerupscale": 1, "videomodel": "other_video",
        "controlnetmodel": "canny", "controlnettwomodel": "depth", "controlnettwostrength": 0.5,
    }});
    let found = read_png("parameters", &params.to_string());
    assert_fields!(found, {"model_2": "wan2.2_t2v_low_noise_14B", "cfg_scale": 3.5, "cfg_scale_2": 2.5});
    let networks: Vec<_> = found
        .controls
        .iter()
        .map(|it| (it.network.as_deref(), it.strength))
        .collect();
    assert_eq!(networks, [(Some("canny"), 1.0), (Some("depth"), 0.5)]);
    assert_eq!(
        found.notes[..3],
        [
            "The part <video>runs of the prompt is not used: it was for another stage or region",
            "The image was made into a video by other_video in a second stage, which is not repeated",
            "Not used: refinercontrolpercentage 0.5, refinermethod StepSwap",
        ]
    );
}

#[test]
fn controls_and_the_second_pass_of_invokeai_and_samplers_of_novelai_are_read() {
    let text = json!({
        "positive_prompt": "a fox", "negative_prompt": "", "seed": 1, "steps": 9, "app_version": "5.4",
        "scheduler": "dpmpp_2m_k", "hrf_enabled": true, "hrf_strength": 0.45, "hrf_method": "ESRGAN",
        "controlnets": [{"control_model": {"name": "canny"}, "control_weight": 0.6, "end_step_percent": 0.5,
            "image": {"image_name": "c.png"}}],
    });
    let found = read_png("invokeai_metadata", &text.to_string());
    let control = RestoredControl {
        network: Some("canny".to_owned()),
        image: Some("c.png".to_owned()),
        kind: None,
        strength: 0.6,
        from: 0.0,
        until: 0.5,
    };
    assert_eq!(found.controls, [control]);
    assert_fields!(found, {
        "sampler": SamplerKind::DpmPp2mDiffusers, "sigma_schedule": SigmaSchedule::KarrasDiffusers
    });
    assert!(
        found.notes[0].starts_with(
            "Another pass at an unknown scale is not used (high resolution fix ESRGAN)"
        ),
        "{:?}",
        found.notes
    );

    for (name, sampler) in [
        ("k_euler", Some(SamplerKind::Euler)),
        ("k_dpmpp_2m", Some(SamplerKind::DpmPp2m)),
        ("k_euler_ancestral", Some(SamplerKind::EulerAncestral)),
        ("k_dpm_fast", None),
    ] {
        let text = json!({"prompt": "a fox", "steps": 28, "scale": 5.0, "seed": 1, "uc": "ugly", "sampler": name});
        let found = read_png("Comment", &text.to_string());
        assert_eq!(found.sampler, sampler, "{name}");
        assert_eq!(found.notes.is_empty(), sampler.is_some(), "{name}");
    }
}

#[test]
fn of_a_swarmui_prompt_the_parts_for_other_stages_and_their_loras_are_named_and_left_out() {
    let params = json!({"sui_image_params": {
        "prompt": "a fox, <b> <base>at dawn<refiner>sharp <lora:Fine:0.5><segment:face,0.6>an <eye>",
        "negativeprompt": "fog<refiner>noise", "model": "flux1-dev", "seed": 7, "steps": 9,
        "loras": ["Ink", "Fine"], "loraweights": ["0.75", "0.5"], "lorasectionconfinement": ["0", "1"],
    }});
    let found = read_png("parameters", &params.to_string());
    assert_fields!(found, {"prompt": "a fox, <b> at dawn", "negative_prompt": "fog"});
    assert_eq!(found.loras, [lora("Ink", 0.75, None)]);
    assert_fields!(found, {
        "notes": ["The part <refiner>sharp <lora:Fine:0.5> of the prompt is not used: it was for another stage or region", "The part <segment:face,0.6>an <eye> of the prompt is not used: it was for another stage or region", "The part <refiner>noise of the prompt is not used: it was for another stage or region", "The LoRA Fine acted on another stage alone and is not used"]
    });
}

#[test]
fn members_that_are_set_and_not_read_are_named_once() {
    let params = json!({"sui_image_params": {
        "prompt": "a fox", "model": "flux1-dev", "seed": 7, "steps": 9, "swarm_version": "0.9",
        "refinermodel": "x", "seamless": false, "images": 0, "ipadapter": "", "zero": null,
    }});
    let found = read_png("parameters", &params.to_string());
    assert_eq!(found.notes, ["Not used: refinermodel x"]);
    let mut many = json!({"prompt": "a fox", "seed": 7, "steps": 9});
    for number in 10..40 {
        many[format!("member{number}")] = json!(1);
    }
    let found = read_file("a.json", many.to_string().as_bytes()).unwrap();
    assert_eq!(found.notes.len(), 1);
    assert!(
        found.notes[0].ends_with("member33 1 and 6 more"),
        "{:?}",
        found.notes
    );
}

#[test]
fn git_lfs_pointers_and_audio_files_are_identified_despite_their_extension() {
    let text = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let (_folder, path) = folder_of(&[("a.png", text)]);
    let err = says_nothing(&path);
    assert_eq!(err.summary, "the file a.png is a Git LFS pointer");
    assert!(err.advice.contains("git lfs pull"));
    let (_folder, path) = folder_of(&[("a.mp4", b"ID3\x04\0\0\0\0\x02")]);
    assert_eq!(
        says_nothing(&path).summary,
        "the file a.mp4 is a sound file"
    );
}

#[test]
fn samplers_and_schedules_of_comfyui_and_a1111_are_restored_by_name() {
    let names = |samplers: &[&str], schedule: &str| -> Vec<_> {
        let found = samplers.iter().map(|sampler| {
            let params = json!({"sui_image_params": {"prompt": "a fox", "seed": 1, "sampler": sampler, "scheduler": schedule}});
            let of_comfyui = read_png("parameters", &params.to_string());
            let text = format!("Steps: 9, Sampler: {sampler}, Schedule type: {schedule}");
            let of_a1111 = read_settings("a fox", &text);
            assert_eq!(of_comfyui.sigma_schedule, of_a1111.sigma_schedule);
            (of_comfyui.sampler, of_a1111.sampler, of_a1111.sigma_schedule)
        });
        found.collect()
    };
    for (written, expected) in [
        (["euler_ancestral", "Euler a"], SamplerKind::EulerAncestral),
        (
            ["res_multistep", "Res Multistep"],
            SamplerKind::ResMultistep,
        ),
        (["er_sde", "ER SDE"], SamplerKind::ErSde),
        (["dpmpp_sde_gpu", "DPM++ SDE"], SamplerKind::DpmPpSde),
        (["dpmpp_2m_sde", "DPM++ 2M SDE"], SamplerKind::DpmPp2mSde),
        (["dpmpp_2m", "DPM++ 2M"], SamplerKind::DpmPp2m),
        (["res_2s", "RES 2S"], SamplerKind::Res2s),
    ] {
        let schedule = Some(SigmaSchedule::SgmUniform);
        let expected = (Some(expected), Some(expected), schedule);
        assert_eq!(names(&written, "SGM Uniform"), [expected; 2]);
    }
    for (written, expected) in [
        ("simple", SigmaSchedule::Simple),
        ("Normal", SigmaSchedule::Normal),
        ("Beta", SigmaSchedule::Beta),
        ("beta57", SigmaSchedule::Beta57),
        ("Karras", SigmaSchedule::Karras),
        ("KL Optimal", SigmaSchedule::KlOptimal),
        ("bong_tangent", SigmaSchedule::BongTangent),
    ] {
        let euler = Some(SamplerKind::Euler);
        assert_eq!(names(&["euler"], written), [(euler, euler, Some(expected))]);
    }
}

#[test]
fn names_of_wanvideo_wrapper_are_those_of_diffusers() {
    let graph = json!({
        "1": {"class_type": "WanVideoModelLoader", "inputs": {"model": "Wan2_1-T2V-14B_fp8.safetensors"}},
        "3": {"class_type": "WanVideoTextEncode", "inputs": {"positive_prompt": "waves", "negative_prompt": ""}},
        "5": {"class_type": "WanVideoSampler", "inputs": {"steps": 6, "cfg": 1.0, "seed": 4, "scheduler": "dpm++/beta",
            "model": ["1", 0], "text_embeds": ["3", 0]}},
        "6": {"class_type": "WanVideoDecode", "inputs": {"samples": ["5", 0]}},
        "7": {"class_type": "VHS_VideoCombine", "inputs": {"images": ["6", 0], "frame_rate": 16}},
    });
    let found = read_file("graph.json", graph.to_string().as_bytes()).unwrap();
    assert_eq!(found.sampler, Some(SamplerKind::DpmPp2mDiffusers));
    assert_eq!(found.sigma_schedule, Some(SigmaSchedule::BetaDiffusers));
}
