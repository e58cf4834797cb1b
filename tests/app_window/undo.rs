//! One history for the whole window: Ctrl+Z takes back what was done last, wherever it was done.

use safelight_core::job::GenerateForm;

use crate::app_window::prelude::*;

fn reset_form(bench: &mut Bench) {
    bench.run(LibraryCommand::ResetForm);
}

#[test]
fn actions_are_undone_in_reverse_order_across_the_window() {
    let mut bench = Bench::of(flux_spec());
    bench.start_job();
    bench.queue_prompts(&["one", "two"]);
    bench.press_until("Remove from queue: one", "Removed from the queue: one");
    bench.scroll_and_press("Draft");
    let draft = bench.form().clone();
    bench.form().prompt = "written since".to_owned();
    reset_form(&mut bench);
    assert_eq!(bench.app().cx.undo.last(), Some("reset the form"));

    bench.undo();
    let is_draft = GenerateForm {
        prompt: "written since".to_owned(),
        ..draft
    };
    assert_eq!(bench.app().cx.form, is_draft);
    assert_eq!(bench.app().cx.last_word, "Undone: reset the form");
    bench.undo();
    let form = bench.form();
    assert_eq!((form.sampling.num_steps, form.width), (None, None));
    assert_eq!(form.prompt, "written since");
    bench.undo();
    assert_eq!(bench.waiting(), ["one", "two"]);
    bench.assert_hides("Removed from the queue");
    bench.undo();
    assert_eq!(bench.app().cx.last_word, "There is nothing to undo");
}

#[test]
fn undo_in_a_text_field_affects_only_the_text() {
    let mut bench = Bench::new();
    bench.start_job();
    bench.press("Generate");
    let id = bench.app().queue.waiting[0].id;
    bench.run(QueueCommand::Remove(id));
    bench.write_prompt("a boat");
    bench.undo();
    assert!(bench.waiting().is_empty());
    bench.press_key(Key::Escape);
    // Shift is released within the same slow frame: the key's own modifiers count.
    let redo = Modifiers::COMMAND | Modifiers::SHIFT;
    bench.harness.event(key_event(Key::Z, redo, true));
    bench.harness.event(key_event(Key::Z, redo, false));
    bench.settle();
    assert!(bench.waiting().is_empty());
    bench.undo();
    assert_eq!(bench.waiting().len(), 1);
    bench.press_keys(redo, Key::Z);
    assert!(bench.waiting().is_empty());
    bench.undo();
    bench.press_keys(Modifiers::COMMAND, Key::Y);
    assert!(bench.waiting().is_empty());
    bench.press_keys(redo, Key::Z);
    assert_eq!(bench.app().cx.last_word, "There is nothing to redo");
}

#[test]
fn a_prompt_typed_after_clearing_the_form_stays_and_redo_returns_the_cleared_state() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    bench.edit(|form| form.prompt = "an old boat".to_owned());
    bench.edit(|form| form.sampling.num_steps = Some(9));
    bench.run(AppCommand::ClearForm);
    bench.write_prompt("a new house");
    bench.press_key(Key::Escape);

    bench.undo();
    assert_eq!(bench.form().prompt, "a new house");
    assert_eq!(bench.form().sampling.num_steps, Some(9));
    assert!(bench.app().inputs.get(InputSlot::Start).is_some());
    bench.press_keys(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    assert_eq!(bench.form().prompt, "a new house");
    assert_eq!(bench.form().sampling.num_steps, None);
    assert!(bench.app().inputs.is_empty());
    assert_eq!(bench.app().cx.last_word, "Redone: clear the form");
    bench.undo();
    assert!(bench.app().inputs.get(InputSlot::Start).is_some());
}

#[test]
fn a_removed_image_comes_back() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    bench.run(InputsCommand::Remove(InputSlot::Start));
    assert!(bench.app().inputs.is_empty());
    bench.undo();
    bench.assert_shows("Start image photo.png");
}

#[test]
fn palette_names_the_action_that_undo_would_revert() {
    let mut bench = Bench::new();
    bench.search_commands("undo");
    assert!(!bench.has("Undo"), "there is nothing to take back");
    bench.press_key(Key::Escape);
    bench.start_job();
    for _ in 0..2 {
        bench.press("Generate");
    }
    let waiting = bench.app().queue.waiting.clone();
    for job in &waiting {
        bench.push(QueueCommand::Remove(job.id));
    }
    bench.settle();
    bench.search_commands("undo");
    bench.assert_shows("Undo: remove a job");
    bench.press_key(Key::Enter);
    assert_eq!(bench.waiting().len(), 1);
}

#[test]
fn undo_leaves_a_form_that_now_holds_another_job_unchanged_and_reports_it() {
    let mut bench = Bench::of(flux_spec());
    bench.start_job();
    bench.press("Generate");
    bench.form().sampling.num_steps = Some(9);
    reset_form(&mut bench);
    let id = bench.app().queue.waiting[0].id;
    bench.run(QueueCommand::Edit(id));
    let form = bench.form().clone();
    bench.undo();
    assert_eq!(bench.app().cx.form, form);
    bench.assert_shows("The form now holds the settings of another job");
}
