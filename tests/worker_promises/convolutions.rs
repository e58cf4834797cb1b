//! Which convolutions an autoencoder gets on a GPU whose library of them hangs, crashes or is wrong: those that a probe
//! found, in every family, in an engine that works as the probe did.

use std::sync::{Arc, Mutex, OnceLock};

use safelight_core::compute::conv_backends::{ConvBackend, MiopenMode};
use safelight_core::families::framepack;
use safelight_core::job::SectionOrder;
use safelight_core::model::ModelFamily;

use crate::common::scripts::write_script;
use crate::worker_promises::prelude::*;
use crate::worker_promises::sections::in_sections;

const GPU: DeviceChoice = DeviceChoice::Cuda(0);
const TESTING: &str =
    "testing convolutions on this GPU, which happens seldom and can take some minutes";

/// Replaces the engine by a program whose probe result for each backend is a branch of a shell's `case`.
fn probe_with(rig: &WorkerHarness, cases: &str) {
    let path = rig.folder.path().join("probe");
    let answer = r#"echo "{\"backend\":\"$5\",\"shape\":\"$7\",\"convolutions\":\"$9\",\"dtype\":\"${11}\",\"end\":$1}""#;
    let script = format!(
        "#!/bin/sh\necho \"$5 $MODE\" >> \"$0.calls\"\nright() {{ end=\"\\\"right\\\",\\\"secs\\\":$1,\\\"error\\\":0.001\"; }}\n\
         wrong() {{ end='\"wrong\",\"error\":0.9'; }}\ncase \"$5\" in\n{cases}\nesac\n{}\n",
        answer.replace("$1", "$end")
    );
    write_script(&path, &script);
    *rig.probe.lock().unwrap() = Some(path);
}

fn calls(rig: &WorkerHarness) -> String {
    fs::read_to_string(rig.folder.path().join("probe.calls")).unwrap_or_default()
}

/// A request of a family, as small as the others'.
fn of_family(family: ModelFamily) -> impl FnOnce(&mut GenerateRequest) {
    move |request| {
        let in_sections = in_sections(1, SectionOrder::Original);
        request.family = family;
        if family.makes_images {
            request.num_frames = 1;
            request.out.set_extension("png");
        } else if family == framepack::FAMILY {
            in_sections(request);
        }
    }
}

/// Returns the backends of the stages of autoencoders, and of the other stages.
fn told(rig: &WorkerHarness) -> (Vec<ConvBackend>, Vec<ConvBackend>) {
    let told = rig.told.lock().unwrap();
    let is_of_vae = |stage: Stage| matches!(stage, Stage::Decode | Stage::EncodeImage);
    let backends = |of_vae: bool| {
        let stages = told.iter().filter(|(stage, _)| is_of_vae(*stage) == of_vae);
        stages.map(|(_, memory)| memory.conv_backend).collect()
    };
    (backends(true), backends(false))
}

#[test]
fn a_library_that_crashes_or_is_wrong_is_left_out_of_every_familys_autoencoder() {
    for direct in ["kill -SEGV $$;;", "wrong;;", "exit 1;;"] {
        for family in ModelFamily::all() {
            let rig = WorkerHarness::working();
            probe_with(&rig, &format!("no_miopen) right 0.2;;\n*) {direct}"));
            for job in ["the first", "the next"] {
                rig.submit_with(GPU, of_family(family));
                let (updates, outcome) = rig.hear();
                let output = finished(outcome);
                fs::remove_file(output.path()).unwrap();
                let is_first = job == "the first";
                let said = warnings(&updates).contains(&TESTING);
                assert_eq!(said, is_first, "{family:?}, {job}");
            }
            let (of_vae, others) = told(&rig);
            assert!(of_vae.len() >= 2, "{family:?}");
            let left_out = |backend: &ConvBackend| *backend == ConvBackend::NoMiopen;
            assert!(of_vae.iter().all(left_out), "{family:?}: {of_vae:?}");
            assert!(!others.iter().any(left_out), "{family:?}: {others:?}");
            let calls = calls(&rig);
            let direct_calls = calls.lines().filter(|it| *it == "direct quick").count();
            // What crashed is not tried again.
            assert_eq!(direct_calls, 1, "{family:?}");
        }
    }
}

#[test]
fn an_engine_works_with_miopen_as_the_probe_found_it_fastest() {
    let rig = WorkerHarness::working();
    let cases =
        "direct) if [ $MODE = searching ]; then right 0.05; else right 0.1; fi;;\n*) right 0.3;;";
    probe_with(&rig, cases);
    for _ in 0..2 {
        rig.submit(GPU);
        let (_, outcome) = rig.hear();
        assert!(matches!(outcome, JobOutcome::Finished(_)), "{outcome:?}");
        fs::remove_file(rig.folder.path().join("video.mp4")).unwrap();
    }
    assert!(calls(&rig).contains("direct searching"), "{}", calls(&rig));
    assert_eq!(told(&rig).0, [ConvBackend::Direct; 2]);
    let modes = rig.launched_modes.lock().unwrap();
    // The engine of the first stages, and the one that decodes and goes on into the next job.
    assert_eq!(*modes, [MiopenMode::Quick, MiopenMode::Searching]);
}

#[test]
fn where_no_probe_is_needed_the_vendors_library_computes() {
    let rig = WorkerHarness::working();
    rig.submit(GPU);
    rig.hear();
    assert_eq!(told(&rig).0, [ConvBackend::Direct]);
}

#[test]
fn job_falls_back_to_the_cpu_with_a_warning_when_the_gpu_is_lost() {
    let problem = "libtorch_hip.so found no GPU that it can use";
    let next_launch = Arc::<OnceLock<Arc<Mutex<Option<String>>>>>::default();
    let lost = Arc::clone(&next_launch);
    let rig = WorkerHarness::new(move |launch, stage| {
        if (launch, stage) == (0, Stage::Denoise) {
            *lost.get().unwrap().lock().unwrap() = Some(problem.to_owned());
            return Act::Die;
        }
        Act::Work
    });
    next_launch.set(Arc::clone(&rig.gpu_problem)).unwrap();
    let (updates, outcome) = rig.run();
    let output = finished(outcome);
    let slow = format!("The CPU computes, which is slow: {problem}");
    assert!(output.warnings.contains(&slow), "{:?}", output.warnings);
    assert_eq!(resumed(&updates), [Stage::Denoise]);
}

#[test]
fn failed_job_names_the_device_and_libtorch_it_ran_on() {
    let rig = WorkerHarness::new(always(Stage::Denoise, Act::Die));
    *rig.libtorch.lock().unwrap() = "2.11.0+rocm7.14.1".to_owned();
    rig.submit(GPU);
    let (_, outcome) = rig.hear();
    let err = failed(outcome);
    let said = "It ran on fake with libtorch 2.11.0+rocm7.14.1 for ROCm 7.14; the Doctor says whether they go together";
    assert!(err.advice.ends_with(said), "{}", err.advice);
    assert!(err.details.ends_with("a fake device"), "{}", err.details);
    assert!(err.kept.is_some_and(|kept| Path::exists(&kept)));
}
