//! Answers that come late: what was done since they were asked for counts more.
//!
//! Commands of one round are run before any answer to them is taken in, so nothing here waits for a slow disk.

use std::sync::atomic::AtomicBool;

use safelight::window::commands::RestoreCommand;
use safelight::window::create::choices::SlotTarget;
use safelight::window::state::SavedState;

use crate::app_window::prelude::*;

fn run<const N: usize>(bench: &mut Bench, commands: [AppCommand; N]) {
    for command in commands {
        bench.push(command);
    }
    bench.harness.step();
}

fn edit(id: JobId) -> AppCommand {
    QueueCommand::Edit(id).into()
}

fn open(path: &Path) -> AppCommand {
    InputsCommand::Open(vec![path.to_path_buf()], SlotTarget::default()).into()
}

fn names(bench: &mut Bench) -> [Option<String>; 2] {
    let inputs = &bench.app().inputs;
    [InputSlot::Start, InputSlot::End]
        .map(|slot| inputs.get(slot).map(|input| input.source.file_name()))
}

/// Opens an image of this name after all files that are being opened.
fn open_behind(bench: &mut Bench, name: &str) {
    let path = bench.image_file(name, 64, 64);
    run(bench, [open(&path)]);
    bench.until("it is opened", |bench| {
        names(bench).iter().flatten().any(|it| it == name)
    });
}

fn with_a_waiting_job() -> (Bench, JobId) {
    let mut bench = Bench::of(experts_spec());
    bench.start_job();
    bench.press("Generate");
    let id = bench.app().queue.waiting[0].id;
    (bench, id)
}

#[test]
fn a_file_goes_into_the_form_that_it_was_dropped_into_though_a_job_is_changed_when_it_is_open() {
    let (mut bench, id) = with_a_waiting_job();
    let path = bench.image_file("own.png", 64, 64);
    run(&mut bench, [open(&path), edit(id)]);
    open_behind(&mut bench, "of the job.png");
    assert_eq!(names(&mut bench), [Some("of the job.png".into()), None]);
    bench.press("Cancel edit");
    assert_eq!(names(&mut bench), [Some("own.png".into()), None]);
}

#[test]
fn input_opened_during_a_cancelled_edit_is_discarded() {
    let (mut bench, id) = with_a_waiting_job();
    let path = bench.image_file("late.png", 64, 64);
    let follow = InputsCommand::ContinueFrom(path).into();
    let cancel = QueueCommand::CancelEdit.into();
    run(&mut bench, [edit(id), follow, cancel]);
    open_behind(&mut bench, "own.png");
    assert_eq!(names(&mut bench), [Some("own.png".into()), None]);
}

#[test]
fn of_two_results_whose_settings_are_used_the_last_one_counts() {
    let mut bench = Bench::of(experts_spec());
    open_behind(&mut bench, "of the first.png");
    let first = bench.make_video(2);
    run(&mut bench, [InputsCommand::Remove(InputSlot::Start).into()]);
    let second = bench.make_video(2);
    let use_settings = [first.id, second.id].map(|id| PlayerCommand::UseSettingsOf(id).into());
    run(&mut bench, use_settings);
    open_behind(&mut bench, "own.png");
    assert_eq!(names(&mut bench), [Some("own.png".into()), None]);
}

#[test]
fn missing_image_in_restored_settings_leaves_its_slot_empty() {
    let mut bench = Bench::of(experts_spec());
    open_behind(&mut bench, "gone.png");
    let sent = bench.make_video(2);
    run(&mut bench, [InputsCommand::Remove(InputSlot::Start).into()]);
    open_behind(&mut bench, "another.png");
    fs::remove_file(bench.home.path().join("gone.png")).expect("it was there");
    run(&mut bench, [PlayerCommand::UseSettingsOf(sent.id).into()]);
    bench.until_card();
    assert_eq!(names(&mut bench), [None, None]);
}

#[test]
fn settings_that_were_read_for_the_own_form_do_not_come_into_a_job_that_is_changed() {
    let (mut bench, id) = with_a_waiting_job();
    let text = r#"{"type": "WanGP v9 by DeepBeepMeep - Pair", "prompt": "waves"}"#;
    let path = bench.text_file("waves.json", text);
    run(&mut bench, [RestoreCommand::Use(path).into(), edit(id)]);
    bench.assert_no_job();
    assert_ne!(bench.form().prompt, "waves");
}

#[test]
fn a_failed_job_that_is_removed_or_restarted_before_its_folder_was_looked_at_does_not_come_back() {
    for what in [QueueCommand::Remove, QueueCommand::Restart] {
        let mut bench = Bench::of(experts_spec());
        let sent = bench.start_job();
        bench.job_folder(&sent);
        let failure = JobError::new(JobErrorKind::Internal, "it broke");
        bench.send(sent.id, JobUpdate::Ended(JobOutcome::Failed(failure)));
        run(&mut bench, [what(sent.id).into()]);
        open_behind(&mut bench, "behind.png");
        assert!(bench.app().queue.stopped.is_empty());
    }
}

#[test]
fn a_job_that_is_there_is_not_put_back_once_more() {
    let (mut bench, id) = with_a_waiting_job();
    let queue = &mut bench.app().queue;
    let removed = queue.remove(id).expect("it waits");
    queue.put_all_back(vec![removed.clone()], false);
    queue.put_all_back(vec![removed], false);
    assert_eq!(queue.waiting.len(), 1);
}

/// A window with the models Little World and Pair, of which the second is there while the flag says so.
fn with_a_model_that_goes() -> (Bench, Arc<AtomicBool>) {
    let is_here = Arc::new(AtomicBool::new(true));
    let looked_at = Arc::clone(&is_here);
    let models = move || {
        let count = 1 + usize::from(looked_at.load(Ordering::Relaxed));
        found([spec(), experts_spec()].into_iter().take(count).collect())
    };
    let mut bench = Bench::with(|startup| {
        startup.models = Some(models());
        startup.library.load = Arc::new(move |_| models());
    });
    run(&mut bench, [LibraryCommand::Choose("pair".into()).into()]);
    bench.form().sampling.num_steps = Some(7);
    (bench, is_here)
}

fn look_anew(bench: &mut Bench, is_here: &AtomicBool, value: bool) {
    is_here.store(value, Ordering::Relaxed);
    run(bench, [LibraryCommand::Reload.into()]);
    bench.until("they are found", |bench| !bench.app().cx.models.are_loading);
}

#[test]
fn a_form_whose_model_is_not_found_for_a_while_comes_back_with_it() {
    let (mut bench, is_here) = with_a_model_that_goes();
    let form = bench.form().clone();
    look_anew(&mut bench, &is_here, false);
    assert_eq!(bench.form().model, Some(spec().id));
    let path = bench.home.path().join("data/state.json");
    bench.until("it is kept for the next window, too", |_| {
        let bytes = fs::read(&path).unwrap_or_default();
        serde_json::from_slice::<SavedState>(&bytes).is_ok_and(|state| state.form == form)
    });
    look_anew(&mut bench, &is_here, true);
    assert_eq!(bench.app().cx.form, form);
}

#[test]
fn a_form_that_was_changed_since_its_model_went_stays() {
    let (mut bench, is_here) = with_a_model_that_goes();
    look_anew(&mut bench, &is_here, false);
    bench.form().sampling.num_steps = Some(9);
    look_anew(&mut bench, &is_here, true);
    let form = bench.form();
    assert_eq!(form.model, Some(spec().id));
    assert_eq!(form.sampling.num_steps, Some(9));
}

#[test]
fn a_job_that_is_changed_keeps_its_model_while_that_is_not_found() {
    let (mut bench, is_here) = with_a_model_that_goes();
    bench.start_job();
    bench.press("Generate");
    let own = bench.form().clone();
    let id = bench.app().queue.waiting[0].id;
    run(&mut bench, [edit(id)]);
    look_anew(&mut bench, &is_here, false);
    let form = bench.form().clone();
    assert_eq!(form.model.as_deref(), Some("pair"));
    assert_eq!(form.sampling.num_steps, Some(7));
    bench.run(QueueCommand::CancelEdit);
    assert_eq!(bench.form().model, Some(spec().id));
    look_anew(&mut bench, &is_here, true);
    assert_eq!(bench.app().cx.form, own);
}
