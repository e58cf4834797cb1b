//! Where memory is given back: at the named boundaries, in their order, and nowhere else.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use safelight_core::job::{DeviceChoice, Recipe};
use safelight_core::protocol::{EngineCommand, StageEnd};

use super::jobs::{Job, order_in, try_stage};
use super::*;
use crate::memory::kept_components;
use crate::serve::serve;

fn wan_request() -> GenerateRequest {
    tiny_wan(&serde_json::json!({"prompt": "a boat"}))
}

#[test]
fn a_video_passes_every_boundary_of_its_stages_in_order() {
    let (folder, request) = (tempfile::tempdir().unwrap(), wan_request());
    let mut passed = Vec::new();
    for stage in Recipe::from_request(&request).stages {
        if stage != Stage::Save {
            let order = order_in(folder.path(), (stage, 0), &request);
            let (done, output) = try_stage(&order, &|_, _| {});
            done.unwrap();
            passed.extend(output.boundaries);
        }
    }
    let expected = [
        "post-unload/text-enc",
        "post-text-encoding",
        "post-unload/transformer",
        "post-transformer-unload",
        "post-vae-decode",
    ];
    assert_eq!(passed, expected);
}

#[test]
fn img2img_job_passes_a_release_point_after_vae_encoding() {
    let pixels = Tensor::zeros([32, 32, 3], (Kind::Uint8, Device::Cpu));
    let job = Job::new(
        "dev",
        &serde_json::json!({"strength": 0.9}),
        Some(&pixels),
        None,
    );
    let mut passed = Vec::new();
    for stage in Recipe::from_request(&job.request).stages {
        if stage != Stage::Save {
            passed.extend(job.stage(stage, false).boundaries);
        }
    }
    let expected = [
        "post-unload/text-enc",
        "post-text-encoding",
        "post-vae-encoding",
        "post-unload/transformer",
        "post-transformer-unload",
        "post-vae-decode",
    ];
    assert_eq!(passed, expected);
}

/// The boundaries that are passed until a stage ends, and how it ended.
fn until_end(messages: &Receiver<OutgoingMessage>) -> (Vec<String>, StageEnd) {
    let mut passed = Vec::new();
    loop {
        match messages.recv_timeout(Duration::from_mins(2)).unwrap().0 {
            EngineMessage::Reclaimed(reclaim) => passed.push(reclaim.boundary),
            EngineMessage::StageEnded(end) => return (passed, end),
            _ => {}
        }
    }
}

#[test]
fn a_job_begins_with_a_clean_slate_and_one_that_ends_early_leaves_one() {
    let (commands, received) = bounded(4);
    let (messages, output) = bounded(4096);
    let engine = thread::Builder::new().name("engine".to_owned());
    let engine = engine.spawn(move || serve(DeviceChoice::Cpu, &received, messages));
    let engine = engine.unwrap();
    let (folder, request) = (tempfile::tempdir().unwrap(), wan_request());
    let mut broken = request.clone();
    broken.files.text_encoder = folder.path().join("gone");
    let run = |job, request: &GenerateRequest| {
        let order = StageOrder {
            job: JobId(job),
            ..order_in(folder.path(), (Stage::EncodeText, 0), request)
        };
        commands
            .send(EngineCommand::RunStage(Box::new(order)))
            .unwrap();
        until_end(&output)
    };
    let behind = ["post-unload/text-enc", "post-text-encoding"];
    let (passed, end) = run(1, &request);
    assert_eq!(passed, [&["worker-start"], &behind[..]].concat());
    assert!(matches!(end, StageEnd::Finished { peak_bytes, .. } if peak_bytes > 0));
    assert_eq!(run(1, &request).0, behind);
    let (passed, end) = run(2, &broken);
    assert_eq!(passed, ["worker-start", "exception-cleanup"]);
    assert!(matches!(end, StageEnd::Failed { .. }));
    drop(commands);
    assert!(engine.join().unwrap());
}

#[test]
fn networks_stay_loaded_after_their_stage_only_with_keep_loaded() {
    let (folder, request) = (tempfile::tempdir().unwrap(), wan_request());
    let run = |keep_loaded| {
        let mut kept = Vec::new();
        for stage in Recipe::from_request(&request).stages {
            if stage != Stage::Save {
                let mut order = order_in(folder.path(), (stage, 0), &request);
                order.memory.keep_loaded = keep_loaded;
                let (done, _) = try_stage(&order, &|_, _| {});
                done.unwrap();
                kept.push(kept_components().len());
            }
        }
        let result = JobFolder::open(folder.path())
            .result(Stage::Denoise)
            .unwrap();
        (kept, tensor_files::read_one(&result, "latents").unwrap())
    };
    let (kept, expected) = run(false);
    assert_eq!(kept, [0, 0, 0, 0]);
    let (kept, latents) = run(true);
    assert_eq!((kept, &latents), (vec![1, 2, 2, 3], &expected));
    let found = kept_components();
    assert_eq!(found, ["text encoder", "transformer", "decoder"]);
    let (kept, latents) = run(true);
    assert_eq!((kept, &latents), (vec![3, 3, 3, 3], &expected));
    let (kept, latents) = run(false);
    assert_eq!((kept, &latents), (vec![0, 0, 0, 0], &expected));
}

#[test]
fn every_stage_but_saving_is_between_two_boundaries() {
    for stage in Stage::ALL {
        let is_between = makes_latents(stage) || boundary_behind(stage).is_some();
        assert_eq!(is_between, stage != Stage::Save, "{stage:?}");
    }
    let found = boundary_behind(Stage::EncodeVision).map(ReleasePoint::label);
    assert_eq!(found, Some("post-clip-vision"));
}
