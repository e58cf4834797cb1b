//! Jobs with images, videos and two experts, and the folders that old jobs left.

use std::fs::File;
use std::time::{Duration, SystemTime};

use Stage::{Decode, DenoiseHigh, DenoiseLow, EncodeImage, EncodeText, EncodeVision, Unload};
use safelight_core::families::{flux, framepack};
use safelight_core::job::{JobId, QueueFile, QueuedJob, QueuedState, SectionOrder, VideoSections};
use safelight_core::media::{RgbPixels, SampledSound, VideoOptions, VideoWriter};

use crate::worker_promises::prelude::*;
use crate::worker_promises::request::plain;

pub(crate) fn image(path: &Path, blue: u8) {
    let image = RgbPixels::from_fn(40, 30, |x, y| [x as u8 * 6, y as u8 * 8, blue]).unwrap();
    media::write_png(path, &image).unwrap();
}

pub(crate) fn blue(path: &Path) -> u8 {
    media::open_rgb(path).unwrap().rgb[2]
}

/// A video of four numbered images of one size; returns the first.
pub(crate) fn old_video(folder: &Path, width: u32, height: u32) -> PathBuf {
    let frames: Vec<RgbPixels> = (0..4)
        .map(|n| RgbPixels::from_fn(width, height, |x, y| [x as u8, y as u8, n * 50]).unwrap())
        .collect();
    let options = VideoOptions::default();
    media::write_video(&folder.join("old.png"), &frames, options)
        .unwrap()
        .remove(0)
}

#[test]
fn images_lie_in_the_jobs_folder_while_it_runs_and_may_vanish_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (start, end) = (folder.path().join("a.png"), folder.path().join("b.png"));
    image(&start, 10);
    image(&end, 200);
    let sources = [start.clone(), end.clone()];
    let rig = WorkerHarness::looking(folder, EncodeImage, move |job| {
        assert_eq!(
            (blue(&job.start_image()), blue(&job.end_image())),
            (10, 200)
        );
        for source in &sources {
            fs::remove_file(source).unwrap();
        }
    });
    rig.finishes(|request| (request.image, request.last_image) = (Some(start), Some(end)));
}

#[test]
fn an_image_that_cannot_be_read_fails_the_job_before_any_engine_starts() {
    let rig = WorkerHarness::working();
    let missing = rig.folder.path().join("missing.png");
    let err = rig.fails(|request| request.last_image = Some(missing));
    assert_eq!(err.kind, JobErrorKind::InvalidRequest);
    assert_eq!(rig.job_folders(), 0);
    assert!(rig.stages.lock().unwrap().is_empty());
}

#[test]
fn an_extended_video_is_the_old_frames_and_the_new_ones_without_the_doubled_one() {
    for count in [0, 1] {
        let rig = WorkerHarness::new(first(count, Stage::Decode, Act::Die));
        let old = old_video(rig.folder.path(), 32, 32);
        let out = rig.folder.path().join("new.png");
        let target = out.clone();
        let output = rig.finishes(|request| {
            (request.extend, request.out) = (Some(old.clone()), target);
        });
        assert_eq!(output.video.frames.len(), 4 + 5 - 1);
        let written = media::open_video(output.path()).unwrap();
        let before = media::open_video(&old).unwrap();
        assert_eq!(written.frames[..4], before.frames[..]);
        // The fake engine's frames are 0, 40, 80 and so on.
        let levels = written.frames[4..].iter().map(|frame| frame.rgb[0]);
        let levels: Vec<u8> = levels.collect();
        assert_eq!(levels, [40, 80, 120, 160]);
    }
}

/// A video of four frames with a quiet sound of as many seconds as they take.
fn loud_video(folder: &Path, fps: f64) -> PathBuf {
    let sound = SampledSound {
        samples: vec![3000; (4.0 / fps * 48_000.0) as usize * 2],
        channels: 2,
        rate: 48_000,
    };
    let path = folder.join("loud.mp4");
    let options = VideoOptions {
        fps,
        ..VideoOptions::default()
    };
    let mut writer = VideoWriter::create(&path, options).unwrap();
    for _ in 0..4 {
        let frame = RgbPixels::from_fn(32, 32, |_, _| [90; 3]).unwrap();
        writer.push(&frame).unwrap();
    }
    let track = media::encode_sound(&sound).unwrap();
    writer.finish_with(Some(&track)).unwrap();
    path
}

#[test]
fn a_video_that_is_extended_or_regenerated_keeps_its_sound_before_the_new_one() {
    let slot = |request: &mut GenerateRequest, is_extended, video: PathBuf| {
        let slot = if is_extended {
            &mut request.extend
        } else {
            &mut request.source_video
        };
        *slot = Some(video);
    };
    for (act, is_extended, expected) in [
        (Act::Work, true, 0.5),
        // Without the frame that both have.
        (Act::MakeSound, true, 0.5 + 0.2 - 1.0 / 8.0),
        (Act::Work, false, 0.5),
        (Act::MakeSound, false, 0.2),
    ] {
        let rig = WorkerHarness::new(always(Stage::Decode, act));
        let video = loud_video(rig.folder.path(), 8.0);
        let output = rig.finishes(|request| slot(request, is_extended, video));
        let sound = media::open_sound(output.path()).unwrap().unwrap();
        let secs = sound.len() as f64 / 48_000.0;
        assert!((secs - expected).abs() < 0.001, "{act:?}: {secs} s");
        let level = |secs: f64| sound.samples[(secs * 96_000.0) as usize];
        let first = if is_extended || act == Act::Work {
            3000
        } else {
            16_384
        };
        assert!(level(0.1).abs_diff(first) < 500, "{act:?}: {}", level(0.1));
        if act == Act::MakeSound && is_extended {
            assert!(level(0.55).abs_diff(16_384) < 500, "{}", level(0.55));
        }
    }
    let rig = WorkerHarness::working();
    let video = loud_video(rig.folder.path(), 30.0);
    let (updates, outcome) = rig.run_with(|request| slot(request, true, video));
    assert!(
        media::open_sound(finished(outcome).path())
            .unwrap()
            .is_none()
    );
    let expected = "The result has no sound: it plays at another frame rate than the video: ";
    let told = warnings(&updates);
    assert!(told.iter().any(|it| it.starts_with(expected)), "{told:?}");
}

#[test]
fn framepack_f1_receives_the_last_video_frames_and_blends_over_them() {
    let folder = tempfile::tempdir().unwrap();
    let frames = |numbers: std::ops::Range<u8>| -> Vec<RgbPixels> {
        let all = numbers.map(|n| RgbPixels::from_fn(32, 32, |_, _| [n, n, n]).unwrap());
        all.collect()
    };
    let options = VideoOptions::default();
    let path = folder.path().join("old.png");
    let old = media::write_video(&path, &frames(0..80), options).unwrap();
    let rig = WorkerHarness::looking(folder, EncodeImage, |job| {
        assert_eq!(fs::read_dir(job.seen()).unwrap().count(), 73);
        let level = |index| blue(&job.seen_frame(index));
        assert_eq!((level(0), level(72)), (7, 79));
    });
    let target = rig.folder.path().join("new.png");
    let output = rig.finishes(|request| {
        // Two latents of the video stand in front: five frames.
        let sections = VideoSections {
            count: 1,
            window: 2,
            order: SectionOrder::F1,
            lead: VideoSections::lead_of(80, 2),
        };
        request.family = framepack::FAMILY;
        request.num_frames = sections.num_frames();
        request.sections = Some(sections);
        request.extend = Some(old[0].clone());
        request.out = target;
    });
    let levels = output.video.frames.iter().map(|frame| frame.rgb[0]);
    let levels: Vec<u8> = levels.collect();
    // The fake engine's frames count from 0 in each section.
    let expected: Vec<u8> = (0..75).chain(0..13).collect();
    assert_eq!(levels, expected);
}

#[test]
fn a_video_is_extended_in_place_and_in_another_size() {
    let rig = WorkerHarness::working();
    let old = old_video(rig.folder.path(), 48, 24);
    let video = rig.folder.path().join("video.mp4");
    let frames = media::open_video(&old).unwrap().frames;
    let frames: Vec<RgbPixels> = frames.iter().map(|frame| (**frame).clone()).collect();
    media::write_video(&video, &frames, VideoOptions::default()).unwrap();
    let in_place = video.clone();
    let output = rig.finishes(|request| request.extend = Some(in_place));
    assert_eq!(output.path(), video);
    let written = media::open_video(&video).unwrap();
    assert_eq!(written.frames.len(), 8);
    let is_small = |frame: &std::sync::Arc<RgbPixels>| (frame.width, frame.height) == (32, 32);
    assert!(written.frames.iter().all(is_small));
    let settings = media::read_settings(&video).unwrap().unwrap();
    assert!(settings.contains(r#""extend":"fnv1a64:"#), "{settings}");
}

#[test]
fn damaged_or_blocked_numbered_image_fails_before_the_engine_starts() {
    let rig = WorkerHarness::working();
    let old = old_video(rig.folder.path(), 32, 32);
    let damaged = rig.folder.path().join("old_0002.png");
    fs::write(damaged, b"\x89PNG\r\n\x1a\nnothing").unwrap();
    let err = rig.fails(|request| request.extend = Some(old));
    assert!(err.summary.contains("old_0002.png"), "{err}");
    assert_eq!(rig.job_folders(), 0);
    fs::create_dir(rig.folder.path().join("new_0005.png")).unwrap();
    let out = rig.folder.path().join("new.png");
    let err = rig.fails(|request| request.out = out);
    assert!(err.summary.contains("new_0005.png"), "{err}");
    assert!(rig.stages.lock().unwrap().is_empty());
}

#[test]
fn job_with_two_experts_resumes_in_the_stage_where_its_engine_died() {
    for dying in [DenoiseHigh, DenoiseLow, EncodeVision] {
        let rig = WorkerHarness::new(first(1, dying, Act::Die));
        let start = rig.folder.path().join("start.png");
        image(&start, 1);
        rig.finishes(|request| {
            request.image = Some(start);
            request.files.transformer_2 = Some("low".into());
            request.files.image_encoder = Some("vision".into());
        });
        let mut expected = vec![EncodeText, EncodeImage, EncodeVision];
        expected.extend([DenoiseHigh, DenoiseLow, Unload, Decode]);
        let at = expected.iter().position(|stage| *stage == dying).unwrap();
        expected.insert(at, dying);
        assert_eq!(*rig.stages.lock().unwrap(), expected);
    }
}

/// A job's folder under `jobs` whose files are `days` old.
fn left_behind(jobs: &Path, name: &str, days: u64) -> PathBuf {
    let folder = jobs.join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in ["request.json", "latents.safetensors"] {
        fs::write(folder.join(file), b"{}").unwrap();
        let file = File::options().write(true).open(folder.join(file)).unwrap();
        let then = SystemTime::now() - Duration::from_hours(days * 24);
        file.set_modified(then).unwrap();
    }
    folder
}

#[test]
fn folders_of_jobs_that_ended_long_ago_are_removed_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    let jobs = home.path().join("jobs");
    let old = left_behind(&jobs, "1700000000000000", 30);
    let young = left_behind(&jobs, "1700000000000001", 2);
    let living = left_behind(&jobs, "1700000000000002", 30);
    let paused = left_behind(&jobs, "1700000000000004", 30);
    let queue = QueueFile {
        jobs: vec![QueuedJob {
            id: JobId(1_700_000_000_000_004),
            state: QueuedState::Paused,
            device: DeviceChoice::Auto,
            request: plain(home.path()).into(),
            error: None,
        }],
        ..QueueFile::default()
    };
    queue.save(&home.path().join("queue.json")).unwrap();
    let foreign = left_behind(&jobs, "my-images", 30);
    let padded = left_behind(&jobs, "0017", 30);
    let empty = jobs.join("1700000000000003");
    fs::create_dir_all(&empty).unwrap();
    let lock = JobFolder::open(&living).hold().unwrap();
    let locked = File::open(living.join("alive.lock")).unwrap();
    let age = |days: u64| SystemTime::now() - Duration::from_hours(days * 24);
    locked.set_modified(age(30)).unwrap();
    // Found old for the first time: it may be the clock.
    let unmarked = left_behind(&jobs, "1700000000000005", 30);
    let of_tomorrow = left_behind(&jobs, "1700000000000006", 30);
    let mark = |folder: &Path, time: SystemTime| {
        let mark = File::create(folder.join("old")).unwrap();
        mark.set_modified(time).unwrap();
    };
    for folder in [&old, &young, &living, &paused, &foreign, &padded] {
        mark(folder, age(2));
    }
    mark(&of_tomorrow, SystemTime::now() + Duration::from_hours(24));

    let rig = WorkerHarness::in_folder(home, |_, _| Act::Work);
    rig.finishes(|_| {});
    assert!(!old.exists());
    assert!(unmarked.join("old").exists());
    let by_name = [young, living, paused, foreign, padded];
    for kept in by_name.iter().chain([&empty, &unmarked, &of_tomorrow]) {
        assert!(kept.exists(), "{}", kept.display());
    }
    drop(lock);
}

#[test]
fn mask_is_copied_to_the_job_folder_and_its_fingerprint_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let (start, mask) = (folder.path().join("a.png"), folder.path().join("mask.png"));
    image(&start, 10);
    image(&mask, 200);
    let rig = WorkerHarness::looking(folder, EncodeImage, |job| {
        assert_eq!(blue(&job.mask()), 200);
    });
    let output = rig.finishes(|request| {
        as_image(request);
        (request.image, request.mask) = (Some(start), Some(mask));
    });
    let settings = settings(output.path());
    let fingerprint = settings["inputs"]["mask"].as_str().unwrap();
    assert!(fingerprint.starts_with("fnv1a64:"));
    assert_ne!(settings["inputs"]["image"], settings["inputs"]["mask"]);
}

#[test]
fn reference_images_are_copied_in_their_order_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["b.png", "a.png"].map(|name| folder.path().join(name));
    image(&paths[0], 20);
    image(&paths[1], 90);
    let rig = WorkerHarness::looking(folder, EncodeImage, |job| {
        let blues = [0, 1].map(|index| blue(&job.reference(index)));
        assert_eq!(blues, [20, 90]);
        assert!(!job.reference(2).exists());
    });
    let output = rig.finishes(|request| {
        as_image(request);
        request.references = paths.to_vec();
    });
    let settings = settings(output.path());
    let [first, second] = [0, 1].map(GenerateRequest::reference_name);
    assert!(settings["inputs"][&first].is_string());
    assert_ne!(settings["inputs"][&first], settings["inputs"][&second]);
}

fn as_image(request: &mut GenerateRequest) {
    request.family = flux::FAMILY;
    request.num_frames = 1;
    request.out.set_extension("png");
}

pub(crate) fn settings(path: &Path) -> serde_json::Value {
    let text = media::read_settings(path).unwrap().unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_image_of_a_batch_is_a_file_that_remakes_it_alone() {
    let rig = WorkerHarness::working();
    let output = rig.finishes(|request| {
        as_image(request);
        (request.batch_size, request.seed, request.options.sidecar) = (3, 40, true);
    });
    assert_eq!(output.video.frames.len(), 3);
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let names: Vec<String> = output.paths.iter().map(name).collect();
    assert_eq!(
        names,
        ["video_0001.png", "video_0002.png", "video_0003.png"]
    );
    for (index, path) in output.paths.iter().enumerate() {
        // The fake engine's frames are 0, 40, 80 and so on.
        let image = media::open_rgb(path).unwrap();
        assert_eq!(image.rgb[0], index as u8 * 40);
        let inside = settings(path);
        let request = &inside["request"];
        assert_eq!(request["seed"], 40 + index as u64);
        assert_eq!(request["batch_size"], 1);
        assert_eq!(settings(&path.with_extension("json")), inside);
    }
}

#[test]
fn unwritable_batch_output_fails_before_the_engine_starts() {
    for taken in ["video_0002.png", "video_0003.json"] {
        let rig = WorkerHarness::working();
        let path = rig.folder.path().join(taken);
        if taken.ends_with("json") {
            fs::write(&path, "{\"mine\": 1}").unwrap();
        } else {
            fs::create_dir(&path).unwrap();
        }
        let err = rig.fails(|request| {
            as_image(request);
            (request.batch_size, request.options.sidecar) = (3, true);
        });
        assert_eq!(err.kind, JobErrorKind::InvalidRequest);
        assert!(err.summary.ends_with(taken), "{err}");
        assert!(rig.stages.lock().unwrap().is_empty());
    }
}
