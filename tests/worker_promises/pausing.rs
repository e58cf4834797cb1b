//! A job that is paused ends so, leaves its folder and no engine, and goes on from its last finished stage.

use safelight_core::compute::{AttentionChoice, ComputeOptions};

use crate::worker_promises::prelude::*;

/// A worker whose first engine to denoise works on until it is stopped.
pub(crate) fn rig() -> WorkerHarness {
    WorkerHarness::new(nth(Stage::Denoise, 0, Act::UntilCancelled))
}

#[test]
fn paused_job_resumes_after_its_last_finished_stage_in_a_new_engine() {
    let rig = rig();
    let token = rig.submit(DeviceChoice::Auto);
    let folder = paused(&rig, &token);
    rig.stages.lock().unwrap().clear();
    let elsewhere = rig.folder.path().join("elsewhere.mp4");
    let (_, outcome) = rig.resume_to(&folder, |request| request.out.clone_from(&elsewhere));
    let output = finished(outcome);
    assert_eq!(output.path(), elsewhere);
    assert!(elsewhere.is_file(), "it may be saved elsewhere");
    let stages = rig.stages.lock().unwrap().clone();
    assert!(!stages.contains(&Stage::EncodeText), "{stages:?}");
    assert_eq!(rig.launches(), 2, "the first one's memory is free");
    assert_eq!(rig.job_folders(), 0);
}

#[test]
fn a_resumed_job_uses_the_compute_options_that_it_started_with() {
    let rig = rig();
    let token = rig.submit(DeviceChoice::Auto);
    let folder = paused(&rig, &token);
    let kept = JobFolder::open(&folder);
    assert_eq!(kept.compute_options(), Some(ComputeOptions::default()));
    let begun_with = ComputeOptions {
        attention: AttentionChoice::Sliced,
        ..ComputeOptions::default()
    };
    safelight_core::files::write_json(&kept.compute_options_file(), &begun_with).unwrap();
    rig.told.lock().unwrap().clear();
    finished(rig.resume(&folder).1);
    let told = rig.told.lock().unwrap().clone();
    assert!(!told.is_empty());
    for (stage, memory) in told {
        assert_eq!(memory.compute_options, begun_with, "{stage:?}");
    }
}

#[test]
fn a_job_that_is_paused_and_then_cancelled_leaves_nothing() {
    let rig = rig();
    let token = rig.submit(DeviceChoice::Auto);
    rig.wait_for(Stage::Denoise);
    token.pause();
    token.cancel();
    let (_, outcome) = rig.hear();
    // The cancel may come too late for the stage, and never for the folder.
    let left = rig.job_folders();
    match outcome {
        JobOutcome::Cancelled => assert_eq!(left, 0),
        JobOutcome::Paused => assert_eq!(left, 1),
        other => panic!("{other:?}"),
    }
}
