//! Tabs: several forms, each with its model, prompt, images, settings and history; they share the queue.

use egui::{Event, PointerButton};
use safelight_core::job::GenerateForm;

use crate::app_window::mask::{CANVAS, paint, set_brush};
use crate::app_window::prelude::*;

const CTRL_SHIFT: Modifiers = Modifiers::COMMAND.plus(Modifiers::SHIFT);

fn window() -> Bench {
    Bench::of_models(vec![flux_spec(), spec()])
}

/// Two tabs, of which the second, without an image, is active.
fn two_tabs() -> Bench {
    let mut bench = window();
    bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    bench.edit(|form| form.prompt = "a red boat".to_owned());
    bench.press("New tab");
    bench
}

fn titles(bench: &mut Bench) -> Vec<String> {
    let form = bench.form().clone();
    let tabs = bench.app().tabs.list.iter();
    tabs.map(|tab| tab.title(&form)).collect()
}

#[test]
fn each_tab_has_its_own_model_prompt_images_and_settings_and_all_share_the_queue() {
    let mut bench = two_tabs();
    assert!(bench.app().inputs.is_empty() && bench.form().prompt.is_empty());
    bench.use_model("Little World");
    bench.write_prompt("a hill");
    bench.edit(|form| form.sampling.num_steps = Some(9));
    let second = bench.form().clone();
    bench.start_job();
    assert_eq!(titles(&mut bench), ["a red boat", "a hill"]);
    bench.press_keys(Modifiers::COMMAND, Key::Tab);
    assert_eq!(bench.form().model.as_deref(), Some("flux"));
    assert_eq!(bench.form().prompt, "a red boat");
    bench.assert_shows("Start image photo.png");
    assert!(!bench.app().queue.running.is_empty());
    bench.press("Generate");
    assert_eq!(bench.waiting(), ["a red boat"]);
    bench.press_keys(CTRL_SHIFT, Key::Tab);
    assert_eq!(
        GenerateForm {
            seed: second.seed,
            ..bench.form().clone()
        },
        second
    );
}

#[test]
fn one_tab_shows_no_row_and_a_closed_tab_comes_back_with_undo() {
    let mut bench = window();
    bench.assert_hides("Tab New tab");
    bench.search_commands("new tab");
    bench.press_key(Key::Enter);
    bench.write_prompt("a hill");
    bench.press_key(Key::Escape);
    bench.press("Close a hill");
    bench.assert_hides("Tab New tab");
    assert!(bench.form().prompt.is_empty());
    bench.press("Undo");
    assert_eq!(bench.form().prompt, "a hill");
    bench.press_keys(CTRL_SHIFT, Key::Z);
    assert_eq!(titles(&mut bench), ["New tab"]);
    bench.run(TabsCommand::Close(None));
    assert_eq!(bench.app().tabs.list.len(), 1, "the last one stays");
    bench.undo();
    // A middle click closes the one that is not shown.
    bench
        .harness
        .get_by_label("Tab New tab")
        .click_button(PointerButton::Middle);
    bench.settle();
    assert_eq!(titles(&mut bench), ["a hill"]);
}

#[test]
fn undo_takes_back_what_was_done_in_this_tab_and_not_in_another() {
    let mut bench = two_tabs();
    bench.press("Tab a red boat");
    bench.run(AppCommand::ClearForm);
    bench.run(TabsCommand::Show(1));
    bench.write_prompt("a hill");
    bench.edit(|form| form.sampling.num_steps = Some(9));
    bench.press_key(Key::Escape);
    bench.undo();
    assert_eq!(bench.app().cx.last_word, "There is nothing to undo");
    bench.run(LibraryCommand::ResetForm);
    bench.undo();
    assert_eq!(bench.form().sampling.num_steps, Some(9));
    bench.press_keys(Modifiers::COMMAND, Key::Tab);
    bench.undo();
    assert_eq!(bench.form().prompt, "a red boat");
    bench.assert_shows("Start image photo.png");
    bench.press_keys(Modifiers::COMMAND, Key::Tab);
    bench.press_keys(CTRL_SHIFT, Key::Z);
    assert_eq!(bench.form().sampling.num_steps, None, "and redo too");
}

#[test]
fn tabs_their_names_and_images_survive_a_restart_and_a_crash() {
    for close in [Bench::close, Bench::die] {
        let mut bench = two_tabs();
        bench.write_prompt("a hill");
        bench.press_key(Key::Escape);
        bench.run(TabsCommand::Rename(1, "Landscapes".to_owned()));
        let path = bench.paths().state_file();
        bench.until_later("it is written", |_| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            text.contains("Landscapes") && text.contains("a red boat") && text.contains("a hill")
        });
        let home = close(bench);
        let mut bench = Bench::in_home(home, |startup| {
            startup.models = Some(found(vec![flux_spec(), spec()]));
        });
        assert_eq!(titles(&mut bench), ["a red boat", "Landscapes"]);
        assert_eq!(bench.form().prompt, "a hill");
        bench.press("Tab a red boat");
        bench.wait_for("Start image photo.png");
        assert_eq!(bench.form().prompt, "a red boat");
    }
}

#[test]
fn a_tab_is_renamed_by_a_double_click() {
    let mut bench = two_tabs();
    let pos = bench.rect(Role::Button, "Tab New tab").center();
    let press = |pressed| Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    let clicks = [true, false, true, false].map(press);
    bench.harness.event(Event::PointerMoved(pos));
    bench.harness.step();
    bench.harness.input_mut().events.extend(clicks);
    bench.settle();
    bench.focus_and_type(Role::TextInput, "Tab name", "Ideas");
    bench.press_key(Key::Enter);
    assert_eq!(titles(&mut bench), ["a red boat", "Ideas"]);
}

#[test]
fn a_painted_mask_stays_with_the_tab_in_which_it_was_painted() {
    let mut bench = two_tabs();
    bench.press("Tab a red boat");
    bench.press_until("Paint a mask", CANVAS);
    set_brush(&mut bench, 40.0);
    paint(&mut bench, egui::vec2(64.0, 64.0), 32.0, 32.0);
    bench.press_keys(Modifiers::COMMAND, Key::Tab);
    bench.until("the other tab is shown", |bench| {
        bench.form().prompt.is_empty()
    });
    assert!(bench.app().inputs.is_empty());
    assert_eq!(bench.app().cx.page, MainPage::Watch);
    bench.press_keys(Modifiers::COMMAND, Key::Tab);
    bench.until_input(InputSlot::Mask);
}

#[test]
fn tabs_wait_until_the_changes_of_a_job_are_saved() {
    let mut bench = two_tabs();
    bench.start_job();
    bench.press("Generate");
    let id = bench.app().queue.waiting[0].id;
    bench.run(QueueCommand::Edit(id));
    bench.press("Tab a red boat");
    bench.assert_shows("Save or cancel the changes of the job");
    bench.run(QueueCommand::CancelEdit);
    bench.press("Tab a red boat");
    assert_eq!(bench.form().prompt, "a red boat");
}
