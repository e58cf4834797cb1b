//! Finished videos: playing, pausing, stepping, and when the window is painted.

use safelight::window::viewer::FramePlayer;

use crate::app_window::prelude::*;

fn finished(num_frames: u8) -> Bench {
    let mut bench = Bench::new();
    bench.make_video(num_frames);
    bench
}

fn player(bench: &mut Bench) -> &FramePlayer {
    let player = bench.app().watch.player.as_ref();
    player.expect("a video was finished")
}

fn index(bench: &mut Bench) -> usize {
    player(bench).index()
}

const FIRST: &str = "Result 1: a red boat sails to the right at sunset";

#[test]
fn a_finished_video_plays_in_a_loop_at_its_own_rate() {
    let mut bench = finished(5);
    bench.labelled("Finished video");
    bench.assert_shows("Done in 9 s");
    let mut seen = Vec::new();
    for _ in 0..40 {
        bench.harness.step();
        seen.push(index(&mut bench));
        let wait = bench.next_repaint().expect("a video plans its next frame");
        // A frame counts as due 20 ms before its time.
        assert!(wait <= Duration::from_millis(125 + 20), "{wait:?}");
    }
    for frame in 0..5 {
        assert!(seen.contains(&frame), "{seen:?}");
    }
}

#[test]
fn a_playing_video_is_painted_at_its_own_rate_and_not_faster() {
    let mut bench = finished(4);
    let mut waits = Vec::new();
    // What a thread has ready is painted at once, but not again and again.
    for _ in 0..10 {
        let next = (0..20).map(|_| {
            let wait = bench.next_repaint().unwrap();
            bench.step_after(wait.as_secs_f64());
            wait
        });
        waits = next.collect::<Vec<Duration>>();
        // A video of 8 frames a second: a window that waits as requested wakes once a frame.
        if waits.iter().all(|wait| *wait >= Duration::from_millis(60)) {
            return;
        }
    }
    panic!("{waits:?}");
}

#[test]
fn a_video_with_sound_shows_its_waveform_and_its_volume_is_remembered() {
    let mut bench = Bench::new();
    // Tests are silent.
    bench.app().watch.sound.volume.is_muted = true;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("src/core/media/source/tests/videos/sound.mp4");
    bench.push(PlayerCommand::PlayFile(path.clone()));
    bench.until_file(&path);
    bench.resize(egui::vec2(1700.0, 760.0));
    bench.wait_for("Unmute");
    let peaks = bench.app().watch.sound.peaks().unwrap();
    assert!(peaks[peaks.len() / 2] > 0.05, "{peaks:?}");
    bench.press("Pause");
    bench.press_key(egui::Key::M);
    bench.assert_shows("Mute|Volume");
    bench.press("Mute");
    bench.app().watch.sound.volume.volume = 0.5;
    let silent = bench.video_file("silent.mp4", 48, 32, 5);
    bench.push(PlayerCommand::PlayFile(silent.clone()));
    bench.until_file(&silent);
    bench.settle();
    bench.assert_hides("Mute|Unmute|Volume");
    let volume = bench.reopened().app().watch.sound.volume;
    assert_eq!((volume.volume, volume.is_muted), (0.5, true));
}

#[test]
fn the_slider_covers_no_button_and_is_equally_wide_for_each_frame() {
    let mut bench = finished(17);
    bench.press("Pause");
    let layouts = [
        (1240.0, true),
        (1240.0, false),
        (900.0, false),
        (1700.0, true),
    ];
    for (width, is_queue_open) in layouts {
        bench.harness.set_size(egui::vec2(width, 760.0));
        bench.app().queue.is_open = is_queue_open;
        bench.settle();
        let slider = |bench: &Bench| bench.labelled("Position").rect();
        let mut widths = Vec::new();
        for index in [0, 8, 9, 16] {
            bench.push(PlayerCommand::ShowFrame(index));
            bench.settle();
            widths.push(slider(&bench).width());
        }
        let is_wide = |it: &f32| *it == widths[0] && *it >= 150.0;
        assert!(widths.iter().all(is_wide), "{width}: {widths:?}");
        let slider = slider(&bench);
        for name in "Play|Previous frame|Next frame|Full screen|More".split('|') {
            let button = bench.labelled(name).rect();
            let is_apart = !button.intersects(slider);
            assert!(is_apart, "{width} {name}: {button:?} {slider:?}");
        }
        // Where the row has no room for it, it stands in the menu.
        if let Some(button) = bench.harness.query_by_label("At the end: Loop") {
            assert!(!button.rect().intersects(slider), "{width}");
        } else {
            bench.press("More");
            for name in ["At the end: Loop", "0.25×", "100 %", "Fit"] {
                bench.labelled(name);
            }
            bench.press_key(Key::Escape);
        }
    }
}

#[test]
fn nothing_is_painted_when_nothing_happens() {
    let mut bench = Bench::new();
    bench.until_at_rest();
    let sent = bench.start_job();
    bench.say_preview(sent.id, 0, 1, image(16, [1, 2, 3]));
    // What is remembered of the form may be about to be written; a running job wakes the window itself.
    bench.until_at_rest();
    bench.finish_job(&sent, 4);
    assert!(bench.next_repaint().is_some());
    bench.press("Pause");
    bench.until_at_rest();
    // A single image needs no player.
    let mut bench = finished(1);
    bench.until_at_rest();
    assert!(!bench.has_label("Play"));
}

#[test]
fn an_animated_preview_moves_slowly() {
    let (mut bench, sent) = Bench::at_work();
    bench.say_stage(sent.id, Stage::Denoise);
    for index in 0..5 {
        bench.say_preview(sent.id, index, 5, image(16, [index as u8 * 20, 2, 3]));
    }
    let wait = bench.next_repaint().unwrap();
    assert!(wait <= Duration::from_millis(300), "{wait:?}");
}

#[test]
fn frames_are_stepped_and_scrubbed_while_paused() {
    let mut bench = finished(5);
    bench.press("Pause");
    let here = index(&mut bench);
    bench.press("Next frame");
    assert_eq!(index(&mut bench), (here + 1) % 5);
    bench.press("Previous frame");
    bench.press("Previous frame");
    assert_eq!(index(&mut bench), (here + 4) % 5);
    bench.labelled("Position").set_value_accesskit(2.0);
    bench.settle();
    assert_eq!(index(&mut bench), 2);
    bench.assert_shows("3 / 5");
    bench.press("Play");
    assert!(player(&mut bench).playhead.is_playing());
}

#[test]
fn keys_play_and_step_unless_something_is_typed() {
    let mut bench = finished(5);
    bench.press_key(Key::Space);
    assert!(!player(&mut bench).playhead.is_playing());
    let here = index(&mut bench);
    bench.press_key(Key::ArrowRight);
    assert_eq!(index(&mut bench), (here + 1) % 5);
    bench.write_prompt(" ");
    bench.press_key(Key::Space);
    assert!(!player(&mut bench).playhead.is_playing());
}

#[test]
fn earlier_results_are_played_again_with_a_click() {
    let mut bench = finished(3);
    let first = bench.app().queue.results[0].id;
    bench.form().prompt = "the second".into();
    bench.make_video(6);
    assert_eq!(player(&mut bench).num_frames(), 6);
    bench.press(FIRST);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(first));
    assert_eq!(player(&mut bench).num_frames(), 3);
}

#[test]
fn a_video_looked_at_stays_while_the_next_one_is_made() {
    let mut bench = finished(3);
    let sent = bench.start_job();
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    let first = bench.app().queue.results[0].id;
    bench.press(FIRST);
    bench.say_stage(sent.id, Stage::Decode);
    bench.say_frame(sent.id, 0, 17, image(256, [9, 20, 90]));
    assert_eq!(bench.app().watch.texture.handle().unwrap().1, [64, 64]);
    bench.press("Back to the live preview");
    assert_eq!(bench.app().watch.texture.handle().unwrap().1, [256, 256]);
    bench.press(FIRST);
    bench.finish_job(&sent, 6);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(first));
}

#[test]
fn the_settings_and_the_path_of_a_video_are_taken_from_its_menu() {
    let mut bench = finished(3);
    let request = bench.app().queue.results[0].generated(0).unwrap();
    let form = bench.form();
    form.prompt = "something else".into();
    form.sampling.num_steps = Some(50);
    bench.press_more("Use settings");
    let again = bench.request();
    assert_eq!(again.seed, request.seed);
    assert_eq!(again.prompt, request.prompt);
    assert_eq!(again.sampling.num_steps, request.sampling.num_steps);
    let path = bench.app().queue.results[0].output.path();
    let path = path.display().to_string();
    bench.press("More");
    assert_eq!(bench.copied_by_label("Copy path"), Some(path));
}
