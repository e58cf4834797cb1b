//! A video that F1 goes on from, against a loop of our own around diffusers' parts (`extended.py` there).

use super::*;

/// A job that goes on from the fixture's video, whose last frames lie in its folder as a worker leaves them.
fn job(recorded: &BTreeMap<String, Tensor>) -> Job {
    let job = Job::changed("extended", |request| {
        request["extend"] = json!("old.mp4");
        request["image"] = Value::Null;
    });
    let video = &recorded["video_u8"];
    let num_frames = video.size()[0];
    let image = |index: i64| {
        let rgb: Vec<u8> = video.get(index).flatten(0, -1).try_into().unwrap();
        RgbPixels::new(32, 16, rgb).unwrap()
    };
    let folder = job.folder();
    fs::create_dir(folder.seen()).unwrap();
    // Whole latents: 25 of the 26 frames.
    for (at, index) in ((num_frames - 1) % 4..num_frames).enumerate() {
        media::write_png(&folder.seen_frame(at), &image(index)).unwrap();
    }
    media::write_png(&folder.start_image(), &image(num_frames - 1)).unwrap();
    job
}

#[test]
fn extended_video_uses_its_last_frames_as_history_like_the_reference() {
    let recorded = recorded("extended");
    let mut job = job(&recorded);
    job.capture = true;
    job.run(Stage::EncodeImage, 0);
    let images = GivenImages::load(&job.result(Stage::EncodeImage, 0)).unwrap();
    let seen = images.video.unwrap();
    assert_close("history", &seen, &recorded["video_latents"], 1e-5);
    let mut video = Vec::new();
    for section in 0..2 {
        job.run(Stage::Denoise, section);
        let key = format!("section.{section}");
        assert_is_as_recorded("extended", &job.latents(section), &key);
        join(&mut video, job.decoded(section), &job.sections(), section);
    }
    let expected = &recorded["output_u8"];
    assert_same_pixels("the video", &Tensor::stack(&video, 0), expected);
    let merged = capture::merge(job.folder().path()).unwrap();
    let found = tensors_in(&merged);
    let output = found["output_u8"].squeeze_dim(0);
    assert_same_pixels("the record", &output, expected);
}

#[test]
fn a_job_whose_frames_of_the_video_are_gone_is_refused_and_no_wrong_video_is_made() {
    let job = job(&recorded("extended"));
    fs::remove_dir_all(job.folder().seen()).unwrap();
    job.run(Stage::EncodeImage, 0);
    job.run(Stage::Denoise, 0);
    job.assert_refused(Stage::Decode, 0, "no latents of section 0");
}
