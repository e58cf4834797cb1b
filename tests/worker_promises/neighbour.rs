//! A job gives its memory to other programs, waits, and goes on by itself; a false `/proc` says how much there is.

use safelight_core::job::CancelToken;

use crate::worker_promises::prelude::*;

/// 10 GiB, of which programs have so much and nothing else needs any.
fn taken_gib(proc: &Path, taken: u64) {
    let kib = |gib: u64| gib << 20;
    let available = kib(10 - taken);
    let (all, taken) = (kib(10), kib(taken));
    let text = format!("MemTotal: {all} kB\nMemAvailable: {available} kB\nAnonPages: {taken} kB\n");
    fs::create_dir_all(proc).expect("a folder");
    // As a whole, because it is read at any moment.
    let new = proc.join("new");
    fs::write(&new, text).expect("a file");
    fs::rename(new, proc.join("meminfo")).expect("the same folder");
}

/// A worker on a machine of which `taken` GiB are taken as soon as the first job is at this stage, where the engine does
/// `act`; and where that machine tells of itself.
fn crowded_at(full: Stage, taken: u64, act: Act) -> (WorkerHarness, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let proc = folder.path().join("proc");
    taken_gib(&proc, 2);
    let (seen, script) = (proc.clone(), nth(full, 0, act));
    let rig = WorkerHarness::in_folder(folder, move |launch, stage| {
        let act = script(launch, stage);
        if act != Act::Work {
            taken_gib(&seen, taken);
        }
        if act == Act::Die {
            // It is seen before the engine ends.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        act
    });
    (rig, proc)
}

fn crowded() -> (WorkerHarness, PathBuf) {
    crowded_at(Stage::Denoise, 10, Act::UntilCancelled)
}

fn until_it_waits(rig: &WorkerHarness) -> (CancelToken, String) {
    let token = rig.submit(DeviceChoice::Auto);
    (token, hear_it_wait(rig))
}

fn hear_it_wait(rig: &WorkerHarness) -> String {
    loop {
        match rig.handle.wait().expect("the worker lives").update {
            JobUpdate::Waiting(crowded) => return crowded.to_string(),
            JobUpdate::Ended(outcome) => panic!("it ended instead: {outcome:?}"),
            _ => {}
        }
    }
}

#[test]
fn job_waits_for_memory_and_resumes_in_a_new_engine() {
    let (rig, proc) = crowded();
    let (_, told) = until_it_waits(&rig);
    assert_eq!(
        told,
        "Waiting for memory: other programs use 10.0 GiB of 10.0 GiB. The job continues by itself."
    );
    taken_gib(&proc, 2);
    let (updates, outcome) = rig.hear();
    let output = finished(outcome);
    assert_eq!(output.video.frames.len(), 5);
    assert_eq!(output.warnings.len(), 0, "{:?}", output.warnings);
    assert!(resumed(&updates).is_empty(), "no engine was lost");
    assert_eq!(rig.launches(), 2);
    let stages = rig.stages.lock().unwrap().clone();
    let encoded = stages.iter().filter(|stage| **stage == Stage::EncodeText);
    assert_eq!(encoded.count(), 1, "what was finished is kept: {stages:?}");
    assert_eq!(rig.job_folders(), 0);
}

#[test]
fn job_does_not_resume_with_changed_weights_after_waiting_for_memory() {
    let (rig, proc) = crowded();
    let weights = rig.folder.path().join("transformer/model.safetensors");
    fs::create_dir(weights.parent().unwrap()).unwrap();
    fs::write(&weights, "the first weights").unwrap();
    until_it_waits(&rig);
    fs::write(&weights, "other weights").unwrap();
    taken_gib(&proc, 2);
    let err = failed(rig.hear().1);
    let said = "the model's transformer has changed since the job began";
    assert_eq!(err.summary, said);
    assert!(err.kept.is_some_and(|kept| kept.is_dir()));
}

#[test]
fn an_image_that_waited_is_made_larger_by_the_network_it_began_with_or_not_at_all() {
    let waited = |change: &dyn Fn(&Path)| {
        let (rig, proc) = crowded_at(Stage::Upscale, 10, Act::UntilCancelled);
        rig.finish(|_| {});
        hear_it_wait(&rig);
        change(&rig.folder.path().join("net.safetensors"));
        taken_gib(&proc, 2);
        rig.hear().1
    };
    finished(waited(&|_| {}));
    let err = failed(waited(&|network| {
        fs::write(network, "other weights").unwrap();
    }));
    let said = "the network net.safetensors has changed since the job began";
    assert_eq!(err.summary, said);
}

#[test]
fn waiting_job_can_be_cancelled_paused_or_resumed_immediately() {
    let waiting = |then: fn(&CancelToken)| {
        let (rig, _) = crowded();
        then(&until_it_waits(&rig).0);
        (rig.hear().1, rig.job_folders())
    };
    let cancelled = waiting(CancelToken::cancel);
    assert!(matches!(cancelled, (JobOutcome::Cancelled, 0)));
    let paused = waiting(CancelToken::pause);
    assert!(matches!(paused, (JobOutcome::Paused, 1)));
    finished(waiting(CancelToken::wait_no_more).0);
}

#[test]
fn engine_out_of_memory_due_to_other_programs_resumes_without_fallback() {
    let (rig, proc) = crowded_at(Stage::Denoise, 8, Act::Die);
    rig.is_out_of_memory.store(true, Ordering::Relaxed);
    until_it_waits(&rig);
    taken_gib(&proc, 2);
    let output = finished(rig.hear().1);
    // The ladder is for what a job takes itself.
    assert_eq!(output.rungs.len(), 0);
}
