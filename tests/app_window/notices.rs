//! Cards: which leave by themselves and which stay, what they offer, and what they never cover.

use std::sync::atomic::AtomicBool;

use egui::{Rect, vec2};
use safelight::window::create::choices::QueueEndAction;
use safelight::window::notices::NoticeSeverity;

use crate::app_window::prelude::*;

fn tell(bench: &mut Bench, severity: NoticeSeverity, text: &str) {
    let err = JobError::new(JobErrorKind::Internal, text);
    bench.app().cx.notify(severity, err);
    bench.settle();
}

/// Steps of the harness that take twelve seconds.
fn wait(bench: &mut Bench) {
    bench.harness.run_steps(48);
}

#[test]
fn info_notice_disappears_with_one_scheduled_repaint_and_a_warning_stays() {
    let mut bench = Bench::new();
    tell(&mut bench, NoticeSeverity::Warning, "a warning");
    bench.until_at_rest();
    tell(&mut bench, NoticeSeverity::Info, "a hint");
    let planned = bench.next_repaint().expect("a frame is planned");
    assert!(planned > Duration::from_secs(5), "{planned:?}");
    wait(&mut bench);
    bench.assert_hides("A hint");
    bench.assert_shows("A warning");
    bench.settle();
    bench.until_at_rest();
}

#[test]
fn a_hint_stays_while_the_pointer_is_on_it_or_it_has_the_keyboard() {
    let mut bench = Bench::new();
    tell(&mut bench, NoticeSeverity::Info, "a hint");
    let card = bench.labelled("A hint").rect();
    bench.harness.hover_at(card.center());
    wait(&mut bench);
    bench.assert_shows("A hint");
    bench.harness.remove_cursor();
    let close = bench.node(Role::Button, "Dismiss");
    close.focus();
    wait(&mut bench);
    bench.assert_shows("A hint");
    bench.labelled("Generate").focus();
    wait(&mut bench);
    bench.assert_hides("A hint");
}

#[test]
fn three_cards_are_seen_the_others_are_counted_and_all_are_closed_at_once() {
    let mut bench = Bench::new();
    tell(&mut bench, NoticeSeverity::Warning, "the first");
    bench.assert_hides("Close all");
    for text in ["the second", "the third", "the fourth", "the fifth"] {
        tell(&mut bench, NoticeSeverity::Warning, text);
    }
    let closing = bench.harness.query_all_by_label("Dismiss");
    assert_eq!(closing.count(), 3);
    bench.assert_shows("5 notices, 2 more below");
    bench.press("Close all");
    assert!(!bench.has_cards());
}

#[test]
fn cards_cover_neither_the_queue_nor_the_settings() {
    let mut bench = Bench::new();
    bench.press("Queue");
    for text in ["one", "two", "three"] {
        tell(&mut bench, NoticeSeverity::Warning, text);
    }
    let card = bench.rect(Role::Button, "Close all").right();
    assert!(card < bench.rect(Role::Label, "Queue").left());
    assert!(card < bench.rect(Role::Button, "Pause the queue").left());
    bench.press("Queue");
    bench.app().cx.page = MainPage::Settings;
    bench.settle();
    let top = bench.rect(Role::Button, "Close all").top();
    let search = bench.rect(Role::TextInput, "Search settings");
    assert!(search.bottom() < top, "{search:?} {top}");
}

#[test]
fn cards_cover_no_part_of_the_image_and_its_controls_stay_where_they_are() {
    let mut bench = Bench::new();
    bench.make_video(4);
    bench.wait_for("Position");
    bench.app().cx.notices.clear();
    bench.settle();
    let controls = bench.labelled("Position").rect();
    tell(&mut bench, NoticeSeverity::Warning, "one");
    let card = bench.rect(Role::Button, "Dismiss");
    let image = bench.rect(Role::Image, "Finished video");
    assert!(card.bottom() < image.top(), "{card:?} {image:?}");
    assert_eq!(bench.labelled("Position").rect(), controls);
}

#[test]
fn cards_and_questions_fit_into_a_window_at_the_largest_scale() {
    let mut bench = Bench::new();
    // 1240 by 820 pixels at a scale of 3.
    let size = vec2(413.0, 273.0);
    bench.harness.set_size(size);
    let window = Rect::from_min_size(egui::Pos2::ZERO, size);
    for is_view_shown in [false, true] {
        bench.app().cx.is_view_shown = is_view_shown;
        let text = "the model file is not what it should be, and these are more words than fit into one line";
        tell(&mut bench, NoticeSeverity::Warning, text);
        let close = bench.rect(Role::Button, "Dismiss");
        let text = bench.harness.get_by_label_contains("The model file is not");
        let left = text.rect().left();
        assert!(window.contains_rect(close), "{close:?}");
        assert!(window.x_range().contains(left), "{left}");
    }
    bench.app().cx.notices.clear();
    bench.app().queue.after = QueueEndAction::Quit;
    bench.app().cx.is_view_shown = false;
    bench.settle();
    bench.make_video(1);
    bench.wait_for("Safelight quits in");
    let button = bench.rect(Role::Button, "Stay open");
    assert!(window.shrink(8.0).contains_rect(button), "{button:?}");
}

#[test]
fn failed_job_is_resumed_from_its_notice_without_a_command_line_hint() {
    let (mut bench, sent) = Bench::at_work();
    let folder = bench.job_folder(&sent);
    fs::write(folder.result(Stage::EncodeText).unwrap(), "").expect("a file");
    let failure = JobError::new(JobErrorKind::EngineLost, "the engine ended");
    let failure = JobOutcome::Failed(failure.keeping(folder.path()));
    bench.say_end(sent.id, failure.clone());
    bench.assert_shows("The engine ended");
    bench.assert_hides("safelight resume");
    bench.press("Resume");
    assert!(!bench.has_cards());
    let again = bench.next_job();
    assert_eq!(again.id, sent.id, "it is the same job");

    let recipe = safelight_core::job::Recipe::from_request(&again.request);
    bench.say(again.id, JobUpdate::Started(recipe));
    bench.say_end(again.id, failure);
    bench.press("Open the queue");
    assert!(bench.app().queue.is_open);
    bench.assert_shows("Failed: the engine ended");
}

#[test]
fn the_card_of_a_failed_job_goes_when_the_job_is_taken_from_the_queue() {
    let (mut bench, sent) = Bench::at_work();
    bench.press("Queue");
    bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
    bench.assert_shows("It broke");
    let prompt = &sent.request.prompt;
    bench.press(&format!("Remove from queue: {prompt}"));
    assert_eq!(bench.told(), [format!("Removed from the queue: {prompt}")]);
}

#[test]
fn the_same_warning_of_two_jobs_stays_for_both_until_one_runs_again() {
    let mut bench = Bench::new();
    let warning = || JobUpdate::Warning("memory ran out, and tiles were used".to_owned());
    let first = bench.start_job();
    bench.say(first.id, warning());
    bench.finish_job(&first, 1);
    let second = bench.start_job();
    bench.say(second.id, warning());
    bench.fail_job(&second, JobErrorKind::Internal, "it broke");
    bench.assert_shows("3 notices");
    bench.press("Try again");
    assert_eq!(bench.told(), ["memory ran out, and tiles were used"]);
}

#[test]
fn the_card_of_a_missing_engine_goes_when_it_is_found() {
    let is_there = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&is_there);
    let mut bench = Bench::with(|startup| {
        startup.library.check_engine = Arc::new(move |_| {
            let missing = JobError::new(JobErrorKind::Device, "libtorch is missing");
            let missing = || missing.advise("Run `cargo xtask setup`");
            let is_there = known.load(Ordering::Relaxed);
            is_there.then_some(()).ok_or_else(missing)
        });
    });
    bench.wait_for("Libtorch is missing|Run `cargo xtask setup`");
    is_there.store(true, Ordering::Relaxed);
    let folder = bench.home.path().to_path_buf();
    bench.change_settings(|settings| settings.runtime.libtorch = Some(folder));
    bench.until_no_card();
}

#[test]
fn identical_notices_of_two_jobs_name_their_job() {
    let mut bench = Bench::new();
    for prompt in ["a red boat", "a blue boat"] {
        bench.form().prompt = prompt.to_owned();
        let sent = bench.start_job();
        let warning = JobUpdate::Warning("memory ran out, and tiles were used".to_owned());
        bench.say(sent.id, warning);
        bench.finish_job(&sent, 1);
    }
    bench.assert_shows("The job: a red boat|The job: a blue boat");
    let sent = bench.start_job();
    bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
    let last = bench.app().cx.notices.all().last();
    assert_eq!(last.unwrap().advice, "The job: a blue boat");
}
