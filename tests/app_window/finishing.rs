//! Finishing from the window, larger and with more frames: the entries of a result's menu, the job that comes of them, its
//! result, and the networks to choose from.

use safelight_core::job::{PostprocessKind, PostprocessRequest, QueueFile};
use safelight_core::job_update::JobOutput;

use safelight::window::commands::FinishCommand;

use crate::app_window::prelude::*;
use crate::common::networks::{write_depth_network, write_interpolator, write_upscaler};

/// A bench with these networks and a finished video of three frames, which is shown.
fn with_networks(upscalers: &[&str], interpolators: &[&str]) -> (Bench, PathBuf) {
    let home = tempfile::tempdir().expect("a scratch folder");
    let paths = AppPaths::under(home.path());
    for name in upscalers {
        write_upscaler(&paths.models().join("upscale_models").join(name));
    }
    for name in interpolators {
        write_interpolator(&paths.models().join("frame_interpolation").join(name));
    }
    let mut bench = Bench::in_home(home, |startup| startup.paths = Some(paths));
    let sent = bench.start_job();
    write_made(&sent.request.out, [64, 64], 3, 24.0, None);
    bench.finish_job(&sent, 3);
    let counts = (upscalers.len(), interpolators.len());
    bench.until("the networks are known", |bench| {
        let finishing = &bench.app().finishing;
        let (upscalers, interpolators) = (&finishing.upscalers, &finishing.interpolators);
        (upscalers.found.len(), interpolators.found.len()) == counts
    });
    (bench, sent.request.out)
}

#[test]
fn a_result_is_upscaled_as_a_job_of_the_queue_and_then_shown() {
    let (mut bench, video) = with_networks(&["4x-Zero.safetensors"], &[]);
    bench.press("More");
    assert!(!bench.has("Upscaler: 4x-Zero"), "there is no choice");
    bench.press("Upscale ×2");
    let sent = bench.next_finish();
    assert_eq!(sent.request.source, video);
    let after = sent.request.after;
    assert_eq!((after.width, after.num_frames), (128, 3));
    let name = sent.request.out.display().to_string();
    assert!(name.ends_with("_x2.mp4"), "{name}");
    assert!(sent.request.is_out_automatic);
    bench.say(sent.id, JobUpdate::Started(sent.request.recipe()));
    bench.say_stage(sent.id, Stage::Upscale);
    bench.say_step(sent.id, Stage::Upscale, 2, 3);
    bench.assert_shows("Upscaling  ·  frame 2 of 3");
    end_finish(&mut bench, &sent, 128, 3);
    assert!(bench.told().is_empty(), "{:?}", bench.told());
}

/// The job has made a video of so many frames, which is shown.
fn end_finish(bench: &mut Bench, sent: &SentJob<PostprocessRequest>, side: u32, num_frames: u8) {
    let out = &sent.request.out;
    write_made(out, [side, side], num_frames, 24.0, None);
    let output = JobOutput {
        num_frames: num_frames.into(),
        ..output_file(out, vec![image(side, [9; 3])], sent.request.after.fps)
    };
    bench.say_end(sent.id, JobOutcome::Finished(output));
    bench.until_file(out);
    bench.until_image_is_shown();
}

#[test]
fn interpolated_video_appears_in_the_strip_and_can_be_postprocessed_again() {
    let (mut bench, video) = with_networks(&["4x-Zero.safetensors"], &["rife.safetensors"]);
    bench.press_more("Interpolate frames ×2");
    let sent = bench.next_finish();
    assert_eq!(sent.request.source, video);
    let (before, after) = (sent.request.before, sent.request.after);
    assert_eq!((after.width, after.num_frames), (64, 6));
    assert!((after.fps - 2.0 * before.fps).abs() < 1e-9);
    bench.say(sent.id, JobUpdate::Started(sent.request.recipe()));
    end_finish(&mut bench, &sent, 64, 6);
    let name = video.file_name().unwrap().to_string_lossy().into_owned();
    let label = format!("Result 2: 48 frames a second: {name}");
    bench.assert_shows(&label);
    // The other result and this one, by a click each.
    bench.press("Result 1: a red boat sails to the right at sunset");
    assert!(matches!(bench.app().watch.mode, ViewerMode::Result(_)));
    bench.press(&label);
    bench.until_file(&sent.request.out);
    // What was finished is finished again.
    bench.press_more("Upscale ×2");
    let again = bench.next_finish();
    assert_eq!(again.request.source, sent.request.out);
    let after = again.request.after;
    assert_eq!((after.width, after.num_frames), (128, 6));
    assert!(bench.told().is_empty(), "{:?}", bench.told());
}

#[test]
fn a_rate_is_chosen_among_those_that_are_more_than_the_video_has() {
    let (mut bench, _) = with_networks(&[], &["rife.safetensors"]);
    bench.press_more("Interpolate frames ×2");
    let doubled = bench.next_finish();
    bench.say(doubled.id, JobUpdate::Started(doubled.request.recipe()));
    end_finish(&mut bench, &doubled, 64, 6);
    bench.press_more("Interpolate to frame rate");
    // The file was written with 24, whatever its job says.
    assert!(bench.is_disabled("24 frames a second"));
    assert!(!bench.is_disabled("25 frames a second"));
    bench.press("60 frames a second");
    let after = bench.next_finish().request.after;
    assert_eq!((after.fps, after.num_frames), (60.0, 15));
    assert!(!bench.has("50 frames a second"), "the menu is closed");
}

#[test]
fn postprocess_request_fails_with_a_notice_when_the_background_queue_is_full() {
    let (mut bench, _) = with_networks(&["4x-Zero.safetensors"], &[]);
    bench.press("More");
    let (release, held) = crossbeam_channel::bounded::<()>(0);
    let held = Arc::new(held);
    let (begin, begun) = crossbeam_channel::bounded(1);
    let background = &bench.app().cx.background;
    let holding = Arc::clone(&held);
    let holds = background.on_files(move || {
        begin.send(()).ok();
        holding.recv().ok()
    });
    begun.recv().expect("the thread takes its work");
    // Until no more is taken.
    let mut waiting = vec![holds];
    while waiting.last().is_some_and(|task| task.is_busy()) {
        let held = Arc::clone(&held);
        waiting.push(background.on_files(move || held.recv().ok()));
    }
    bench.press("Upscale ×2");
    let told = "The job was not put into the queue";
    bench.until("it is told", |bench| {
        bench.told().iter().any(|it| it.contains(told))
    });
    drop(release);
    bench.assert_no_job();
}

#[test]
fn of_several_networks_one_is_chosen_and_then_used() {
    let (mut bench, _) = with_networks(&["a.safetensors", "b.safetensors"], &[]);
    let used = |bench: &mut Bench| {
        bench.press_more("Upscale ×4");
        let sent = bench.next_finish();
        bench.say_end(sent.id, JobOutcome::Cancelled);
        let PostprocessKind::Upscale { network, passes } = sent.request.work else {
            panic!("not a job that enlarges: {:?}", sent.request.work);
        };
        assert_eq!(passes, 1);
        network.file_name().unwrap().to_owned()
    };
    assert_eq!(used(&mut bench), "a.safetensors");
    bench.press_more("Upscaler: a");
    bench.press("b, compact ×4");
    assert_eq!(used(&mut bench), "b.safetensors");
}

#[test]
fn depth_map_is_a_job_of_the_queue_or_offers_the_network() {
    let (mut bench, _) = with_networks(&[], &[]);
    bench.press("More");
    assert!(!bench.has("Depth map"), "its model follows no video");
    bench.press_key(Key::Escape);
    bench.search_commands("depth map");
    bench.press_key(Key::Enter);
    bench.wait_for("There is no model for depth yet|depth_estimation");
    bench.press("Download…");
    bench.wait_for("Depth Anything V2 Small|Apache-2.0");

    let (mut bench, video) = with_networks(&[], &[]);
    let folder = bench.paths().models().join("depth_estimation");
    write_depth_network(&folder.join("small.safetensors"));
    bench.push(FinishCommand::Look);
    bench.until("it is found", |bench| {
        !bench.app().finishing.depth.found.is_empty()
    });
    bench.search_commands("depth map");
    bench.press_key(Key::Enter);
    let sent = bench.next_finish();
    assert_eq!(sent.request.source, video);
    assert_eq!(sent.request.after, sent.request.before);
    let name = sent.request.out.display().to_string();
    assert!(name.ends_with("_depth.mp4"), "{name}");
    bench.say(sent.id, JobUpdate::Started(sent.request.recipe()));
    bench.say_stage(sent.id, Stage::Depth);
    bench.say_step(sent.id, Stage::Depth, 2, 3);
    bench.assert_shows("Estimating depth  ·  frame 2 of 3");
    end_finish(&mut bench, &sent, 64, 3);
}

#[test]
fn missing_upscaler_or_rife_model_and_unreadable_video_are_reported() {
    let (mut bench, _) = with_networks(&[], &[]);
    bench.press_more_until("Upscale", "There is no upscaler yet|models/upscale_models");
    bench.press_more_until("Interpolate frames", "There is no RIFE model yet");
    bench.press_key(Key::Escape);
    bench.app().cx.notices.clear();
    bench.search_commands("upscale");
    bench.press_key(Key::Enter);
    bench.wait_for("There is no upscaler yet|From a file…");
    bench.press("Download…");
    bench.wait_for(
        "Real-ESRGAN x4plus|Upscaler: RealESRGAN_x4plus.safetensors, 64 MiB|BSD-3-Clause",
    );

    let (mut bench, video) = with_networks(&["4x-Zero.safetensors"], &[]);
    fs::write(&video, b"no video any more").unwrap();
    bench.press_more("Upscale ×2");
    bench.until_card();
    let told = bench.told();
    assert!(told[0].contains("a text file"), "{told:?}");
    bench.assert_no_job();
}

#[test]
fn an_upscaling_that_was_interrupted_is_offered_by_the_next_window() {
    let (mut bench, video) = with_networks(&["4x-Zero.safetensors"], &[]);
    bench.press_more("Upscale ×2");
    let sent = bench.next_finish();
    let paths = bench.paths();
    JobFolder::create(&paths.jobs(), sent.id, &sent.request.clone().into()).unwrap();
    let queue = paths.queue_file();
    bench.until("the queue is written", |_| {
        QueueFile::load(&queue).is_ok_and(|file| file.jobs.len() == 1)
    });
    let mut bench = bench.reopened();
    assert!(sent.cancel.is_paused());
    bench.wait_for("Interrupted");
    let name = video.file_name().unwrap().to_string_lossy().into_owned();
    bench.press(&format!("Resume: Upscale ×2: {name}"));
    let again = bench.next_finish();
    assert_eq!((again.id, &again.request), (sent.id, &sent.request));
    let folder = paths.jobs().join(sent.id.to_string());
    assert_eq!(again.resume, Some(folder));
}
