//! Images of the window, and the names of everything in it.
//!
//! The images are made by a software rasteriser; `UPDATE_SNAPSHOTS=1` makes them anew.

use crate::app_window::prelude::*;

/// A job in the middle of decoding, with a graph of three stages.
fn running() -> (Bench, SentJob) {
    let mut bench = Bench::new();
    bench.form().seed = 1234;
    let sent = bench.start_job();
    bench.say(sent.id, JobUpdate::Device("Computing on the CPU".into()));
    let stages = [
        (Stage::EncodeText, 200),
        (Stage::Denoise, 600),
        (Stage::Unload, 120),
        (Stage::Decode, 420),
    ];
    for (index, (stage, used)) in stages.into_iter().enumerate() {
        bench.say_stage(sent.id, stage);
        for step in 0..4 {
            let at = index as f64 * 4.0 + f64::from(step);
            bench.say(sent.id, sample(at, used + 100, used - 50, used, 1024));
        }
        if stage != Stage::Decode {
            bench.say_stage_ended(sent.id, stage, 4.0);
        }
    }
    let colours = RgbPixels::from_fn(256, 256, |x, y| [x as u8, 60, y as u8]);
    let colours = Arc::new(colours.expect("it has pixels"));
    bench.say_frame(sent.id, 8, 17, colours);
    (bench, sent)
}

#[test]
fn the_fresh_window_looks_as_it_did() {
    let mut bench = Bench::new();
    bench.edit(|form| form.seed = 1234);
    bench.snapshot("fresh");
}

#[test]
fn a_running_job_looks_as_it_did() {
    running().0.snapshot("running");
}

/// `settle` checks the names.
#[test]
fn every_input_has_a_name_in_every_state() {
    let (mut bench, sent) = running();
    bench.form().size = SizeChoice::Custom;
    bench.app().cx.folds.is_advanced_open = true;
    bench.form().sampling.shift = None;
    bench.drop_image("boat.png", 64, 32, "Start image boat.png");
    bench.press_until("Generate", "Waiting (1)");
    let failure = JobError::new(JobErrorKind::Internal, "it failed").detail("because");
    bench.say_end(sent.id, JobOutcome::Failed(failure));
    let second = bench.next_job();
    bench.finish_job(&second, 4);
    bench.press("Settings");
    let settings = &mut bench.app().cx.settings;
    settings.models.folders.push("models".into());
    settings.models.wildcards.push("wildcards".into());
    settings.memory.cap_gib = Some(20.0);
    settings.runtime.device = safelight_core::job::DeviceChoice::Cuda(1);
    let variable = ("MIOPEN_FIND_MODE".into(), "1".into());
    settings.runtime.environment.extend([variable]);
    bench.settle();
    bench.press("Doctor");
    let ctx = bench.harness.ctx.clone();
    bench.press_key(Key::F1);
    bench.press_keys(Modifiers::COMMAND, Key::K);
    // The same at 300 % of a usual screen, where everything has little room.
    bench.harness.key_press(Key::Escape);
    ctx.set_zoom_factor(1.0);
    bench.resize(egui::vec2(640.0, 360.0));
    bench.press("Form");
}

#[test]
fn all_buttons_of_the_header_fit_above_the_form() {
    let bench = Bench::new();
    for name in "New tab|Queue|Gallery|Downloads|Doctor|Settings|Light theme".split('|') {
        let button = bench.harness.get_by_label_contains(name).rect();
        assert!(button.right() <= 370.0, "{name}: {button:?}");
    }
}

#[test]
fn the_smallest_window_shows_generate_and_every_button_of_a_finished_video() {
    let mut bench = Bench::new();
    bench.make_video(4);
    bench.start_job();
    bench.press("Result 1: a red boat sails to the right at sunset");
    let size = egui::vec2(800.0, 500.0);
    bench.resize(size);
    let window = egui::Rect::from_min_size(egui::Pos2::ZERO, size);
    let assert_within = |bench: &Bench, name: &str| {
        let button = bench.labelled(name).rect();
        assert!(window.contains_rect(button), "{name}: {button:?}");
    };
    for name in "Generate|Pause|Full screen|More|Back to the live preview".split('|') {
        assert_within(&bench, name);
    }
    bench.press("More");
    for name in "Use settings|Extend video|Open folder|Copy path|Delete".split('|') {
        assert_within(&bench, name);
    }
}
