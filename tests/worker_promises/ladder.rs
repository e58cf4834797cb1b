//! What happens when memory runs out: each stage climbs its ladder, tells of it, and ends once.

use FallbackLevel::{FreeAndRetry, Ground, OnCpu, StreamMore, Tiles256, Tiles512};
use ResourceFault::{Device, DeviceMemory, HostMemory, RuntimeMemory};
use safelight_core::memory::counters::FallbackCounters;
use safelight_core::memory::{FallbackLevel, ResourceFault};

use crate::worker_promises::prelude::*;

const GPU: DeviceChoice = DeviceChoice::Cuda(0);

/// A rig on a GPU whose `stage` fails so below a rung.
fn rig(stage: Stage, fault: ResourceFault, below: FallbackLevel) -> WorkerHarness {
    WorkerHarness::new(always(stage, Act::FailBelow(fault, below)))
}

/// A wide video, so that there are rungs for tiles too.
fn run(rig: &WorkerHarness) -> (Vec<JobUpdate>, JobOutcome) {
    rig.submit_with(GPU, |request| request.width = 640);
    rig.hear()
}

fn sent(rig: &WorkerHarness, stage: Stage) -> Vec<FallbackLevel> {
    let orders = rig.told.lock().unwrap();
    let of_stage = orders.iter().filter(|(other, _)| *other == stage);
    of_stage.map(|(_, memory)| memory.rung).collect()
}

#[test]
fn stage_falls_back_to_the_level_that_works_in_the_same_engine() {
    let rig = rig(Stage::Decode, DeviceMemory, Tiles256);
    let (updates, outcome) = run(&rig);
    let output = finished(outcome);
    assert_eq!(output.video.frames.len(), 5);
    let expected = [Ground, FreeAndRetry, Tiles512, Tiles256];
    assert_eq!(sent(&rig, Stage::Decode), expected);
    assert_eq!(sent(&rig, Stage::Denoise), [Ground]);
    assert_eq!(rig.launches(), 1);
    let climbed: Vec<_> = output.rungs.iter().map(|c| (c.rung, c.helped)).collect();
    let expected = [(FreeAndRetry, false), (Tiles512, false), (Tiles256, true)];
    assert_eq!(climbed, expected);
    assert_eq!(warnings(&updates), output.warnings);
    let said = "Memory ran out while decoding; trying again in tiles of 512 pixels";
    assert_eq!(output.warnings[1], said);
    assert!(resumed(&updates).is_empty());

    let counters = FallbackCounters::load(&rig.folder.path().join("ladder.json"));
    let device = counters.device("fake").unwrap();
    let tally = device.rungs[&Tiles256];
    assert_eq!((tally.attempts, tally.successes), (1, 1));
    assert_eq!(device.rungs[&Tiles512].successes, 0);
    assert_eq!(device.engine_restarts, 0);
}

#[test]
fn only_rungs_that_change_the_image_are_written_into_the_file() {
    let settings = |rig: &WorkerHarness| {
        let output = finished(run(rig).1);
        crate::worker_promises::inputs::settings(output.path())
    };
    let same = rig(Stage::Denoise, DeviceMemory, StreamMore);
    assert!(settings(&same)["memory_rungs"].is_null());
    let settings = settings(&rig(Stage::Decode, DeviceMemory, Tiles512));
    let rungs = settings["memory_rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 1, "{settings}");
    assert_eq!(rungs[0]["rung"], "tiles512");
    assert_eq!(rungs[0]["stage"], "decode");
    assert!(settings["request"]["vae_tile"].is_null());
}

#[test]
fn weights_stream_and_nothing_is_kept_from_the_second_rung_on() {
    let rig = rig(Stage::Denoise, HostMemory, StreamMore);
    finished(run(&rig).1);
    let orders = rig.told.lock().unwrap();
    let of_stage = orders.iter().filter(|(stage, _)| *stage == Stage::Denoise);
    let resident: Vec<_> = of_stage.map(|(_, memory)| memory.resident_bytes).collect();
    assert_eq!(resident, [None, None, Some(0)]);
}

#[test]
fn engine_with_a_failed_device_is_replaced_and_decodes_in_smaller_tiles() {
    for fault in [RuntimeMemory, Device] {
        let rig = rig(Stage::Decode, fault, Tiles256);
        let (updates, outcome) = run(&rig);
        assert_eq!(finished(outcome).video.frames.len(), 5, "{fault:?}");
        let expected = [Ground, Tiles512, Tiles256];
        assert_eq!(sent(&rig, Stage::Decode), expected, "{fault:?}");
        assert_eq!(rig.launches(), 3, "{fault:?}");
        let expected = [Ground];
        assert_eq!(sent(&rig, Stage::Denoise), expected, "{fault:?}");
        assert_eq!(resumed(&updates).len(), 2, "{fault:?}");
        let counters = FallbackCounters::load(&rig.folder.path().join("ladder.json"));
        assert_eq!(counters.device("fake").unwrap().engine_restarts, 2);
    }
}

#[test]
fn a_device_that_fails_while_denoising_gets_one_new_engine_and_no_rung() {
    let rig = rig(Stage::Denoise, Device, OnCpu);
    let err = failed(run(&rig).1);
    assert_eq!(err.kind, JobErrorKind::EngineLost);
    let expected = [Ground, Ground];
    assert_eq!(sent(&rig, Stage::Denoise), expected);
    assert_eq!(rig.launches(), 2);
}

#[test]
fn last_fallback_failure_gives_one_error_with_attempts_and_kept_results() {
    // Nothing helps while denoising, whose last rung is streaming.
    let rig = rig(Stage::Denoise, DeviceMemory, OnCpu);
    let (updates, outcome) = run(&rig);
    let err = failed(outcome);
    assert_eq!(err.kind.exit_code(), 4);
    let tried = "tried: free_and_retry, stream_more";
    assert!(err.details.contains(tried), "{}", err.details);
    let part = "Try a smaller size or fewer frames";
    assert!(err.advice.contains(part), "{}", err.advice);
    assert!(err.kept.is_some(), "what was finished is kept");
    assert_eq!(rig.job_folders(), 1);
    assert_eq!(warnings(&updates).len(), 2);
    assert_eq!(rig.handle.drain().count(), 0, "nothing comes after the end");
    let counters = FallbackCounters::load(&rig.folder.path().join("ladder.json"));
    assert_eq!(counters.device("fake").unwrap().given_up, 1);
}

#[test]
fn a_stage_that_leaves_the_gpu_is_announced_with_the_time_it_will_take() {
    let rig = rig(Stage::EncodeText, DeviceMemory, OnCpu);
    let output = finished(run(&rig).1);
    let last = output.warnings.last().unwrap();
    assert!(last.contains("on the CPU, which is slow: about "), "{last}");
    assert_eq!(sent(&rig, Stage::EncodeText).len(), 4);
}

#[test]
fn a_cancel_on_a_rung_is_heeded_and_leaves_nothing() {
    let tries = AtomicU32::new(0);
    let rig = WorkerHarness::new(move |_, stage| match stage {
        Stage::Decode if tries.fetch_add(1, Ordering::Relaxed) == 0 => {
            Act::FailBelow(DeviceMemory, OnCpu)
        }
        Stage::Decode => Act::UntilCancelled,
        _ => Act::Work,
    });
    let cancel = rig.submit(GPU);
    let outcome = loop {
        match rig.handle.wait().expect("the worker lives").update {
            JobUpdate::Warning(_) => cancel.cancel(),
            JobUpdate::Ended(outcome) => break outcome,
            _ => {}
        }
    };
    assert!(matches!(outcome, JobOutcome::Cancelled), "{outcome:?}");
    // The cancel may come before the second try begins.
    assert!(sent(&rig, Stage::Decode).len() <= 2);
    assert_eq!(rig.job_folders(), 0);
}

#[test]
fn an_engine_that_the_system_ended_for_memory_is_out_of_memory_where_nothing_smaller_is_left() {
    let rig = WorkerHarness::new(always(Stage::Decode, Act::Die));
    rig.is_out_of_memory.store(true, Ordering::Relaxed);
    let err = rig.fails(|_| {});
    assert_eq!(err.kind, JobErrorKind::OutOfMemory);
    assert!(err.kept.is_some(), "what was finished is kept");
    assert_eq!(rig.launches(), 1);
}

#[test]
fn a_video_without_all_its_frames_is_never_called_finished() {
    let rig = WorkerHarness::new(always(Stage::Decode, Act::LoseFrames));
    let err = failed(rig.run().1);
    assert!(err.summary.contains("5 decoded frames, found 3"), "{err}");
}

#[test]
fn a_failure_that_the_engine_reports_ends_the_job_without_a_second_try() {
    let rig = WorkerHarness::new(always(Stage::Denoise, Act::Fail));
    assert_eq!(rig.fails(|_| {}).kind, JobErrorKind::BadModel);
    assert_eq!(rig.launches(), 1);
}
