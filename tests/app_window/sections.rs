//! Videos that are made section by section: their length and order in the form, and the video that grows on the screen.

use safelight_core::job::{SectionOrder, Video, VideoSections, WINDOW};
use safelight_core::job_update::SectionMade;

use crate::app_window::prelude::*;

fn bench() -> (Bench, SentJob) {
    let mut bench = Bench::of(framepack_spec());
    bench.drop_image("dancer.png", 320, 240, "Start image dancer.png");
    let sent = bench.start_job();
    (bench, sent)
}

fn made(section: u32, num_frames: usize) -> JobUpdate {
    let frames = (0..num_frames).map(|index| image(16, [index as u8, 9, 9]));
    JobUpdate::Section(SectionMade {
        section,
        count: 4,
        video: Arc::new(Video {
            frames: frames.collect(),
            fps: 30.0,
        }),
        path: "dancer.mp4".into(),
    })
}

#[test]
fn a_video_has_seconds_and_an_order_that_its_sections_are_made_in() {
    let (mut bench, sent) = bench();
    let expected = VideoSections {
        count: 4,
        window: WINDOW,
        order: SectionOrder::Original,
        lead: 1,
    };
    assert_eq!(sent.request.sections, Some(expected));
    bench.assert_shows("4 sections, 4.8 s at 30 frames a second");
    bench.say_end(sent.id, JobOutcome::Cancelled);
    bench.form().secs = Some(12.0);
    bench.edit(|form| form.section_order = Some(SectionOrder::F1));
    bench.assert_shows("10 sections, 12.0 s at 30 frames a second");
    let sections = bench.start_job().request.sections.unwrap();
    assert_eq!((sections.count, sections.order), (10, SectionOrder::F1));
}

#[test]
fn the_video_so_far_plays_while_the_next_section_is_made() {
    let (mut bench, sent) = bench();
    bench.say_stage(sent.id, Stage::Denoise);
    bench.assert_shows("Denoising  ·  section 1 of 4");
    let before = bench.app().queue.live().unwrap().progress();
    bench.say_stage(sent.id, Stage::Decode);
    bench.say(sent.id, made(0, 33));
    bench.say(sent.id, stage_update(Stage::Denoise, 1));
    bench.assert_shows("Denoising  ·  section 2 of 4");
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    assert!(bench.app().watch.texture.handle().is_some());
    // As often as the video has frames, not as slowly as a preview.
    assert!(bench.next_repaint().unwrap() <= Duration::from_millis(50));
    let running = bench.app().queue.live().unwrap();
    assert!(running.progress() > before && running.progress() < 0.5);
    let growing = running.growing.as_ref().unwrap();
    assert_eq!(
        (growing.num_frames(), growing.playhead.is_playing()),
        (33, true)
    );
    bench.say(sent.id, made(1, 69));
    let running = bench.app().queue.live().unwrap();
    assert_eq!(running.growing.as_ref().unwrap().num_frames(), 69);
}

#[test]
fn cancelled_job_keeps_its_finished_sections_as_a_result() {
    let (mut bench, sent) = bench();
    bench.say(sent.id, made(0, 33));
    bench.say_end(sent.id, JobOutcome::Kept(output(&sent, 5)));
    bench.assert_shows("Cancelled; what was made is kept");
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent.id));
    assert_eq!(bench.app().queue.results.len(), 1);
}

#[test]
fn job_left_by_another_process_is_listed_and_resumed_in_its_folder() {
    let request = bench().1.request;
    let id = JobId(1_700_000_000_000_000);
    let mut folder = PathBuf::new();
    let mut bench = Bench::with(|startup| {
        let jobs = startup.paths.as_ref().unwrap().jobs();
        let job = JobFolder::create(&jobs, id, &request.clone().into()).unwrap();
        fs::write(job.section_result(Stage::Denoise, 1).unwrap(), "").unwrap();
        folder = job.path().to_owned();
    });
    bench.wait_for("Interrupted, 2 of 4 sections");
    bench.assert_shows(&request.prompt);
    bench.press(&format!("Resume: {}", request.prompt));
    let again = bench.next_job();
    assert_eq!((again.id, again.resume), (id, Some(folder)));
    bench.assert_hides("Interrupted");
}
