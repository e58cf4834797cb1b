//! A job is settled when it begins: its prompts by wildcards, and the file of its result by the time, the prompt and the
//! seed.

use safelight_core::settings::AppPaths;

use crate::worker_promises::pausing;
use crate::worker_promises::prelude::*;

fn wildcard(rig: &WorkerHarness, lines: &str) {
    let folder = AppPaths::under(rig.folder.path()).wildcards();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("colour.txt"), lines).unwrap();
}

/// A job with a wildcard whose result the worker names.
fn unsettled(request: &mut GenerateRequest) {
    request.prompt = "a __colour__ boat".to_owned();
    request.out = "result.mp4".into();
    request.is_out_automatic = true;
}

#[test]
fn prompts_and_names_are_settled_before_the_first_stage_and_reported() {
    let rig = WorkerHarness::working();
    wildcard(&rig, "red");
    let (updates, outcome) = rig.run_with(unsettled);
    let JobUpdate::Settled { request, notices } = &updates[0] else {
        panic!("{:?}", updates[0]);
    };
    let request = request.generate().unwrap();
    assert_eq!(request.prompt, "a red boat");
    assert_eq!(
        request.prompt_template.as_deref(),
        Some("a __colour__ boat")
    );
    assert!(notices.is_empty(), "{notices:?}");
    let output = finished(outcome);
    assert_eq!(output.path(), request.out);
    let folder = rig.folder.path().join("videos/Safelight");
    assert_eq!(request.out.parent(), Some(folder.as_path()));
    let name = request.out.display().to_string();
    assert!(name.ends_with("_a-red-boat_0.mp4"), "{name}");
    assert!(output.path().is_file());
}

#[test]
fn a_job_that_cannot_be_settled_fails_before_an_engine_starts() {
    let rig = WorkerHarness::working();
    let err = rig.fails(unsettled);
    let said = "there is no wildcard file colour.txt";
    assert!(err.summary.starts_with(said), "{err}");
    wildcard(&rig, "red");
    fs::write(rig.folder.path().join("videos"), "a file").unwrap();
    let err = rig.fails(unsettled);
    let said = "the folder for results cannot be made";
    assert!(err.summary.starts_with(said), "{err}");
    assert_eq!(err.kind, JobErrorKind::Disk);
    assert_eq!((rig.launches(), rig.job_folders()), (0, 0));
}

#[test]
fn a_resumed_job_is_made_as_it_was_settled() {
    let rig = pausing::rig();
    wildcard(&rig, "red");
    let token = rig.submit_with(DeviceChoice::Auto, unsettled);
    let folder = paused(&rig, &token);
    wildcard(&rig, "blue");
    let settled = JobFolder::open(&folder).request().unwrap();
    assert_eq!(settled.title(), "a red boat");
    let mut queued = settled.clone();
    unsettled(queued.generate_mut().unwrap());
    rig.send(queued, DeviceChoice::Auto, Some(folder));
    assert_eq!(finished(rig.hear().1).path(), settled.out());
}

#[test]
fn an_automatic_name_that_is_taken_is_numbered_and_a_given_one_is_kept() {
    let rig = WorkerHarness::working();
    let out = rig.folder.path().join("video.mp4");
    fs::write(&out, "of somebody").unwrap();
    let automatic = rig.finishes(|request| request.is_out_automatic = true);
    assert_eq!(automatic.path(), rig.folder.path().join("video-2.mp4"));
    assert_eq!(rig.finishes(|_| {}).path(), out);
}

#[test]
fn the_sound_of_a_video_is_in_its_mp4_and_ends_with_it() {
    let rig = WorkerHarness::new(always(Stage::Decode, Act::MakeSound));
    let (updates, outcome) = rig.run();
    let path = finished(outcome).path().to_owned();
    assert!(!path.with_extension("wav").exists());
    let sound = media::open_sound(&path).unwrap().unwrap();
    let shape = (sound.len(), sound.channels, sound.rate);
    assert_eq!(shape, (9600, 2, 48_000));
    let settings = media::read_settings(&path).unwrap().unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["sound"], "mp4");
    let facts = safelight_core::gallery::read_facts(&path).unwrap();
    assert_eq!(facts.sound, Some(media::SoundCodec::Aac));
    // In the words of the IPTC: a model made it.
    let origin = b"newscodes/digitalsourcetype/trainedAlgorithmicMedia";
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.windows(origin.len()).any(|part| part == origin));
    assert_eq!(warnings(&updates), [""; 0]);
}

#[test]
fn sound_that_the_format_does_not_hold_is_a_wav_file_next_to_it_which_its_settings_name() {
    let rig = WorkerHarness::new(always(Stage::Decode, Act::MakeSound));
    let out = rig.folder.path().join("loud.webp");
    let run = || rig.run_with(|request| request.out.clone_from(&out));
    let (updates, outcome) = run();
    let path = finished(outcome).path().to_owned();
    let wav = fs::read(path.with_extension("wav")).unwrap();
    assert_eq!(wav.len(), 44 + 19_200 * 2);
    assert_eq!(wav[44..48], [0, 0x40, 0, 0x40]);
    let settings = media::read_settings(&path).unwrap().unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["sound"], "wav");
    let expected = "The sound is in a WAV file next to the result: WebP holds no sound";
    assert_eq!(warnings(&updates), [expected]);
    // A file of that name is never replaced.
    let (updates, outcome) = run();
    finished(outcome);
    let warnings = warnings(&updates);
    assert!(
        warnings[1].starts_with("the sound could not be written"),
        "{warnings:?}"
    );
}
