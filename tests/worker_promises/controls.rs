//! Jobs with control images and videos, and the networks that bring them in.

use safelight_core::job::ControlInput;

use crate::worker_promises::inputs::{blue, image, old_video, settings};
use crate::worker_promises::prelude::*;

fn control(file: &Path) -> ControlInput {
    file.display().to_string().parse().unwrap()
}

#[test]
fn control_images_and_videos_are_copied_with_their_masks_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let (depth, mask) = (folder.path().join("a.png"), folder.path().join("m.png"));
    image(&depth, 10);
    image(&mask, 255);
    let video = old_video(folder.path(), 16, 16);
    let rig = WorkerHarness::looking(folder, Stage::EncodeText, |job| {
        let blues = (blue(&job.control(0)), blue(&job.control_mask(0)));
        assert_eq!(blues, (10, 255));
        assert!(!job.control_video(0).exists() && !job.control(1).exists());
        let copies = fs::read_dir(job.control_video(1)).unwrap().count();
        assert_eq!((copies, job.control_mask(1).exists()), (4, false));
    });
    let output = rig.finishes(|request| {
        request.controls = vec![control(&depth), control(&video)];
        request.controls[0].mask = Some(mask.clone());
    });
    let inside = settings(&output.paths[0]);
    let inputs = &inside["inputs"];
    for (name, expected) in [
        ("control_1", media::image_fingerprint(&depth)),
        ("control_1_mask", media::image_fingerprint(&mask)),
        ("control_2", media::video_fingerprint(&video)),
    ] {
        assert_eq!(inputs[name], expected.unwrap(), "{name}");
    }
    let file = &inside["request"]["controls"][1]["file"];
    assert_eq!(*file, video.display().to_string());
}

#[test]
fn a_control_network_that_is_none_fails_the_job_before_any_engine_starts() {
    let rig = WorkerHarness::working();
    let path = rig.folder.path().join("a.png");
    image(&path, 10);
    let err = rig.fails(|request| {
        request.controls = vec![control(&path)];
        request.controls[0].settings.network = Some(path.clone());
    });
    assert!(err.summary.ends_with("a.png"), "{err}");
    assert!(rig.stages.lock().unwrap().is_empty());
}
