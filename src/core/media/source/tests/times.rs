//! Uneven frame times: those of other programs' files, and our own written and read back.

use super::*;
use crate::media::FrameSegments;

fn assert_starts(path: &Path, expected_millis: &[u64], within_millis: f64) {
    let starts = frame_starts(path).unwrap().expect("its frames are uneven");
    assert_eq!(starts.num_frames() + 1, expected_millis.len());
    for (index, expected) in expected_millis.iter().enumerate() {
        let off = starts.secs(index) * 1000.0 - *expected as f64;
        assert!(off.abs() <= within_millis, "{path:?} {index}: {off}");
    }
    let info = video_info(path).unwrap();
    assert_eq!(info.num_frames as usize, starts.num_frames());
    assert_eq!(info.fps, starts.fps());
}

#[cfg(feature = "h264")]
#[test]
fn times_are_found_in_tables_fragments_and_edits() {
    let start = |frame: u64| 40 * frame + 4 * frame * frame;
    for name in ["uneven.mp4", "uneven-fragmented.mp4", "uneven-cut.mp4"] {
        let first = if name == "uneven-cut.mp4" { 3 } else { 0 };
        let path = fixture(name);
        // The last frame has no duration in these files.
        let starts = frame_starts(&path).unwrap().unwrap();
        let end = starts.secs(12 - first as usize);
        let millis = (first..12).map(|frame| start(frame) - start(first));
        let mut millis: Vec<u64> = millis.collect();
        millis.push((end * 1000.0).round() as u64);
        assert_starts(&path, &millis, 0.6);
        let mut reader = VideoReader::open(&path).unwrap();
        let read = reader.read(0, &mut |number, image| {
            let distance = mean_distance(&image, &painted(number as usize + first as usize));
            assert!(distance < 3.0, "{name} {number}: {distance}");
            std::ops::ControlFlow::Continue(())
        });
        read.unwrap();
    }
}

#[test]
fn uneven_times_are_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let frames = moving(6, 40, 26);
    let millis = [0, 50, 70, 370, 670, 710, 5710];
    let options = VideoOptions {
        starts: Some(FrameStarts::from_micros(millis.map(|millis| millis * 1000))),
        ..VideoOptions::default()
    };
    for name in ["a.mp4", "a.gif", "a.webp"] {
        if VideoFormat::from_path(Path::new(name)).is_err() {
            continue;
        }
        let once = folder.path().join(format!("once-{name}"));
        write_video(&once, &frames, options.clone()).unwrap();
        assert_starts(&once, &millis, 0.01);
        let parts = folder.path().join(format!("parts-{name}"));
        std::fs::create_dir(&parts).unwrap();
        let joined = folder.path().join(format!("joined-{name}"));
        let runs = FrameSegments::new(&parts, &joined, options.clone()).unwrap();
        for frame in &frames {
            let mut run = runs.begin(runs.num_frames());
            run.push(frame).unwrap();
            run.finish().unwrap();
        }
        runs.join(None, None, None).unwrap();
        assert_starts(&joined, &millis, 0.01);
    }
}

#[test]
fn models_get_the_frames_of_even_moments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.webp");
    let frames = moving(5, 40, 26);
    let options = VideoOptions {
        starts: Some(FrameStarts::from_micros([
            0, 100_000, 120_000, 140_000, 640_000, 700_000,
        ])),
        ..VideoOptions::default()
    };
    write_video(&path, &frames, options).unwrap();
    let shown = |video: &Video| -> Vec<usize> {
        let nearest = |frame: &Arc<RgbPixels>| {
            let distance = |index: &usize| mean_distance(frame, &frames[*index]) as u64;
            (0..5).min_by_key(distance).unwrap()
        };
        video.frames.iter().map(nearest).collect()
    };
    let average = open_video(&path).unwrap();
    assert!((average.fps - 5.0 / 0.7).abs() < 1e-9);
    assert_eq!(shown(&average), [0, 3, 3, 3, 4]);
    assert_eq!(&last_frame(&path).unwrap(), average.frames[4].as_ref());
    // A model of 20 frames per second gets those of its own moments, for as long as the video is.
    let for_model = open_video_for_model(&path, 20.0).unwrap();
    let expected = [0, 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4];
    assert_eq!(
        (shown(&for_model), for_model.fps),
        (expected.to_vec(), 20.0)
    );
    let info = video_info(&path).unwrap().for_model(20.0);
    assert_eq!((info.num_frames, info.fps), (14, 20.0));
    // One at an even rate keeps it.
    let even = folder.path().join("even.webp");
    write_video(&even, &frames, VideoOptions::default()).unwrap();
    let video = open_video_for_model(&even, 16.0).unwrap();
    assert_eq!((video.frames.len(), video.fps), (5, 24.0));
}
