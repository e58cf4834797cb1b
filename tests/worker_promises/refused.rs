//! What is refused before any engine starts, because its result would not fit the disk or the memory.

use safelight_core::job::JobError;

use crate::worker_promises::inputs::old_video;
use crate::worker_promises::prelude::*;

/// Pixels along an edge of a WebP, about as many as there may be.
const LARGE: u32 = 16_000;

/// Why the job that was asked for is refused.
fn refusal(rig: &WorkerHarness) -> JobError {
    let err = failed(rig.hear().1);
    assert_eq!(rig.launches(), 0, "{err}");
    assert_eq!(rig.job_folders(), 0, "{err}");
    err
}

#[test]
fn a_job_that_no_disk_has_room_for_is_refused() {
    let rig = WorkerHarness::new(|_, _| Act::Fail);
    let out = rig.folder.path().join("large.webp");
    let asked = out.clone();
    rig.submit_with(DeviceChoice::Auto, |request| {
        (request.width, request.height) = (LARGE, LARGE);
        request.num_frames = u32::MAX;
        request.out = asked;
    });
    let made = refusal(&rig);
    rig.finish(|request| {
        (request.after.width, request.after.height) = (LARGE, LARGE);
        request.after.num_frames = u32::MAX;
        request.out = out;
    });
    for err in [made, refusal(&rig)] {
        assert_eq!(err.kind, JobErrorKind::Disk, "{err}");
        assert!(err.summary.starts_with("the job needs about "), "{err}");
    }
}

#[test]
fn a_video_too_long_for_the_results_size_is_refused_before_it_is_decoded() {
    let rig = WorkerHarness::new(|_, _| Act::Fail);
    let video = old_video(rig.folder.path(), 32, 32);
    // Whoever decodes it says so.
    let damaged = rig.folder.path().join("old_0002.png");
    fs::write(damaged, b"\x89PNG\r\n\x1a\nnothing").unwrap();
    for is_continued in [true, false] {
        let video = video.clone();
        rig.submit_with(DeviceChoice::Auto, |request| {
            (request.width, request.height) = (LARGE, LARGE);
            request.out.set_extension("webp");
            if is_continued {
                request.extend = Some(video);
            } else {
                request.source_video = Some(video);
            }
        });
        let err = refusal(&rig);
        let said = "the video has too many frames, 4, for 16000×16000: ";
        assert!(err.summary.starts_with(said), "{err}");
    }
}
