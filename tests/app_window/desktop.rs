//! The window among others: title, notifications, keys, the command palette, little room.

use std::sync::Mutex;

use egui::{ViewportCommand, ViewportId};
use safelight::window::desktop::instance::{self, InstanceStart};
use safelight::window::desktop::window_position;
use safelight::window::desktop::{DesktopLinks, DesktopMessage};
use safelight::window::shortcuts::{SHORTCUTS, keys_text};
use safelight_core::settings::{ProgramPaths, ThemeChoice};

use crate::app_window::prelude::*;

type Clicked = Box<dyn FnOnce() + Send>;
type Messages = Arc<Mutex<Vec<(DesktopMessage, Clicked)>>>;

/// With a desktop that keeps what it is sent of jobs that took so long.
fn with_desktop(notify_after: Duration) -> (Bench, Messages) {
    let messages = Messages::default();
    let kept = Arc::clone(&messages);
    let bench = Bench::with(|startup| {
        let notify = move |message, clicked| {
            kept.lock().unwrap().push((message, clicked));
        };
        startup.desktop = DesktopLinks {
            notify: Arc::new(notify),
            notify_after,
            ..DesktopLinks::none()
        };
    });
    (bench, messages)
}

fn set_focus(bench: &mut Bench, has_focus: bool) {
    let input = bench.harness.input_mut();
    input.focused = has_focus;
    let window = input.viewports.entry(ViewportId::ROOT).or_default();
    window.focused = Some(has_focus);
    bench.harness.step();
}

fn is_raised(bench: &Bench) -> bool {
    let commands = bench.viewport_commands();
    commands.contains(&ViewportCommand::Focus)
}

fn pop(messages: &Messages) -> Option<DesktopMessage> {
    Some(messages.lock().unwrap().pop()?.0)
}

#[test]
fn window_title_shows_job_progress_and_is_reset_afterwards() {
    let mut bench = Bench::new();
    bench.write_prompt("a red boat sails to the right at sunset, slowly");
    let sent = bench.start_job();
    let mut titles = Vec::new();
    bench.send(sent.id, stage_update(Stage::Denoise, 0));
    for step in 1..=12 {
        bench.send(sent.id, step_update(Stage::Denoise, step, 12));
        bench.harness.step();
        let commands = bench.viewport_commands().iter();
        titles.extend(commands.filter_map(|command| match command {
            ViewportCommand::Title(title) => Some(title.clone()),
            _ => None,
        }));
    }
    let last = titles.last().unwrap();
    assert!(last.contains(" % · a red boat sails to the right at sunset…"));
    assert!(last.ends_with(" — Safelight"), "{last}");
    assert!(titles.len() <= 7, "too often to be read: {titles:?}");
    let output = output(&sent, 4);
    bench.send(sent.id, JobUpdate::Ended(JobOutcome::Finished(output)));
    bench.harness.step();
    let title = ViewportCommand::Title("Safelight".into());
    assert!(bench.viewport_commands().contains(&title));
}

#[test]
fn long_job_notifies_only_without_focus_and_a_click_raises_the_window() {
    let (mut bench, messages) = with_desktop(Duration::ZERO);
    bench.form().prompt = "a <red> boat".into();
    let sent = bench.start_job();
    set_focus(&mut bench, true);
    bench.finish_job(&sent, 4);
    assert!(pop(&messages).is_none(), "it is looked at");
    let sent = bench.start_job();
    set_focus(&mut bench, false);
    bench.finish_job(&sent, 4);
    let (message, clicked) = messages.lock().unwrap().pop().unwrap();
    assert!(message.summary.starts_with("Done in "), "{message:?}");
    assert!(message.body.starts_with("a <red> boat\n"), "{message:?}");
    clicked();
    let mut was_raised = false;
    for _ in 0..5 {
        bench.harness.step();
        was_raised |= is_raised(&bench);
    }
    assert!(was_raised);
    let sent = bench.start_job();
    bench.fail_job(&sent, JobErrorKind::OutOfMemory, "memory ran out");
    let message = pop(&messages).unwrap();
    assert_eq!(message.summary, "A job failed");
    assert_eq!(message.body, "a <red> boat\nMemory ran out");
    bench.app().cx.settings.interface.notifications = false;
    bench.make_video(4);
    assert!(pop(&messages).is_none(), "they are off");
}

#[test]
fn short_job_notifies_only_on_failure() {
    let (mut bench, messages) = with_desktop(Duration::from_secs(30));
    set_focus(&mut bench, false);
    bench.make_video(4);
    assert!(pop(&messages).is_none());
    let sent = bench.start_job();
    bench.fail_job(&sent, JobErrorKind::OutOfMemory, "memory ran out");
    assert_eq!(pop(&messages).unwrap().summary, "A job failed");
}

#[test]
fn unfocused_queue_notifies_once_at_its_end_and_on_its_first_failure() {
    let (mut bench, messages) = with_desktop(Duration::ZERO);
    // A press that comes while the panel moves misses the button.
    let num_jobs = |bench: &mut Bench| {
        let queue = &bench.app().queue;
        queue.waiting.len() + queue.running.len()
    };
    for _ in 0..20 {
        if num_jobs(&mut bench) < 5 {
            bench.press("Generate");
        }
    }
    assert_eq!(num_jobs(&mut bench), 5);
    set_focus(&mut bench, false);
    let summaries = || -> Vec<String> {
        let messages = messages.lock().unwrap();
        messages.iter().map(|it| it.0.summary.clone()).collect()
    };
    for number in 0..5 {
        assert_eq!(summaries().len(), usize::from(number > 1));
        let sent = bench.next_job();
        match number {
            1 | 2 => bench.fail_job(&sent, JobErrorKind::Internal, "it broke"),
            _ => bench.finish_job(&sent, 4),
        }
    }
    assert_eq!(summaries(), ["A job failed", "3 videos are done"]);
    let message = pop(&messages).unwrap();
    assert!(message.body.starts_with("2 jobs failed\n"), "{message:?}");
}

#[test]
fn the_keys_for_the_scale_change_the_setting_and_stop_at_its_ends() {
    let mut bench = Bench::new();
    let scale = |bench: &mut Bench| bench.app().cx.settings.interface.scale;
    bench.press_keys(Modifiers::COMMAND, Key::Plus);
    assert_eq!(scale(&mut bench), 1.1);
    for _ in 0..30 {
        bench.press_keys(Modifiers::COMMAND, Key::Equals);
    }
    assert_eq!(scale(&mut bench), 3.0);
    assert_eq!(bench.harness.ctx.zoom_factor(), 3.0);
    bench.press_keys(Modifiers::COMMAND, Key::Num0);
    assert_eq!(scale(&mut bench), 1.0);
    bench.press_keys(Modifiers::COMMAND, Key::Minus);
    assert_eq!(scale(&mut bench), 0.9);
}

#[test]
fn the_palette_finds_a_command_by_a_few_letters_and_enter_runs_it() {
    let mut bench = Bench::new();
    bench.search_commands("dctr");
    bench.labelled("Pages: Doctor (Ctrl+Shift+D)");
    bench.press_key(Key::Enter);
    assert_eq!(bench.app().cx.page, MainPage::Doctor);
    assert!(bench.app().palette.entries.is_none());
    // What was used last stands first, and a setting is shown on its page.
    bench.press_keys(Modifiers::COMMAND | Modifiers::SHIFT, Key::P);
    assert_eq!(bench.app().palette.found("")[0].name, "Doctor");
    bench.type_into("Search commands", "setting hang limit");
    bench.press("Setting: Hang limit");
    assert_eq!(bench.app().cx.page, MainPage::Settings);
    bench.press_keys(Modifiers::COMMAND, Key::K);
    bench.press_key(Key::ArrowDown);
    assert_eq!(bench.panels().palette.chosen, 1);
    bench.press_key(Key::Escape);
    assert!(bench.app().palette.entries.is_none());
    let page = bench.app().cx.page;
    assert_eq!(page, MainPage::Settings, "one Escape, one thing");
    bench.press_key(Key::Escape);
    assert_eq!(bench.app().cx.page, MainPage::Watch);
}

#[test]
fn the_list_of_shortcuts_shows_every_key_of_the_table() {
    let mut bench = Bench::new();
    bench.press_key(Key::F1);
    for keys in SHORTCUTS.iter().flat_map(|shortcut| shortcut.keys) {
        bench.assert_shows(&keys_text(*keys));
    }
    bench.press_key(Key::Escape);
    assert!(!bench.app().palette.are_shortcuts_shown);
}

#[test]
fn typing_is_no_command_commands_with_ctrl_work_and_letters_right_after_them_are_kept() {
    let mut bench = Bench::new();
    bench.write_prompt("why?");
    assert!(!bench.app().palette.are_shortcuts_shown);
    bench.press_keys(Modifiers::COMMAND, Key::Comma);
    assert_eq!(bench.app().cx.page, MainPage::Settings);
    // Letters that come in the same frame as the key for the prompt are in it.
    bench.form().prompt.clear();
    let input = bench.harness.input_mut();
    let key = key_event(Key::L, Modifiers::COMMAND, true);
    input.events.push(key);
    input.events.push(egui::Event::Text("a boat".to_owned()));
    bench.settle();
    assert_eq!(bench.form().prompt, "a boat");
    assert!(bench.has_focus(Role::MultilineTextInput, "Prompt"));
}

#[test]
fn window_theme_follows_the_desktop_only_when_set_to_system() {
    let mut bench = Bench::new();
    let ctx = bench.harness.ctx.clone();
    window_position::adopt(&ctx, ThemeChoice::Light);
    bench.settle();
    assert_eq!(ctx.theme(), egui::Theme::Dark, "dark was chosen");
    window_position::choose(&ctx, ThemeChoice::System);
    bench.settle();
    assert_eq!(ctx.theme(), egui::Theme::Light);
    window_position::adopt(&ctx, ThemeChoice::Dark);
    bench.settle();
    assert_eq!(ctx.theme(), egui::Theme::Dark);
}

#[test]
fn at_three_times_the_size_form_and_pages_take_turns_and_nothing_is_cut_off() {
    let mut bench = Bench::new();
    let size = egui::vec2(640.0, 360.0);
    bench.resize(size);
    let window = egui::Rect::from_min_size(egui::Pos2::ZERO, size);
    let fits = |bench: &Bench, name: &str| {
        let rect = bench.rect(Role::Button, name);
        assert!(window.contains_rect(rect), "{name}: {rect:?}");
    };
    for name in "Form|View|Generate|Settings|Doctor|Show memory".split('|') {
        fits(&bench, name);
    }
    bench.press("Settings");
    fits(&bench, "Close the settings");
    bench.app().cx.settings.output.sidecar = true;
    for row in safelight_core::settings::table::settings() {
        for node in bench.harness.query_all_by_label(row.name) {
            let rect = node.rect();
            assert!(rect.max.x <= size.x, "{}: {rect:?}", row.name);
        }
    }
    bench.press("Form");
    fits(&bench, "Generate");
    bench.make_video(4);
    fits(&bench, "Show memory");
}

#[test]
fn files_of_this_start_and_of_a_second_one_are_opened_in_the_same_window() {
    let folder = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        let path = folder.path().join(name);
        image::RgbImage::new(64, 32).save(&path).unwrap();
        path
    };
    let (first, second) = (image("first.png"), image("second.png"));
    let display = std::ffi::OsStr::new(":0");
    let InstanceStart::First(instance) = instance::start_in(folder.path(), display, &[]) else {
        panic!("nobody else is there");
    };
    let mut bench = Bench::with(|startup| {
        startup.files = vec![first];
        startup.instance = Some(instance);
    });
    bench.wait_for("Start image first.png");
    let handed = instance::start_in(folder.path(), display, &[second]);
    assert!(matches!(handed, InstanceStart::HandedOver), "{handed:?}");
    let mut was_raised = false;
    bench.until("the second is there", |bench| {
        was_raised |= is_raised(bench);
        bench.has("Start image second.png")
    });
    assert!(was_raised);
    bench.wait_for("The file second.png");
}

#[test]
fn the_palette_puts_the_program_among_the_desktops_applications() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("share");
    let mut paths = AppPaths::under(home.path());
    paths.programs = Some(ProgramPaths {
        home: home.path().to_owned(),
        config: home.path().join("config"),
        data: data.clone(),
        system: Vec::new(),
    });
    let mut bench = Bench::with(|startup| startup.paths = Some(paths));
    bench.search_commands("applications menu");
    bench.press_key(Key::Enter);
    let entry = data.join("applications/org.safelight.Safelight.desktop");
    bench.until("it is there", |bench| {
        let word = &bench.app().cx.last_word;
        word.contains("added to the applications menu")
    });
    let entry = fs::read_to_string(entry).expect("an entry");
    let program = std::env::current_exe().unwrap();
    let exec = format!("Exec=\"{}\" %F", program.display());
    assert!(entry.lines().any(|line| line == exec), "{entry}");
}

#[test]
fn palette_lists_only_commands_available_now() {
    let mut bench = Bench::new();
    let names = |bench: &mut Bench, text: &str| {
        bench.search_commands(text);
        let found = bench.app().palette.found(text);
        let names: Vec<String> = found.iter().map(|entry| entry.name.clone()).collect();
        bench.press_key(Key::Escape);
        names
    };
    let first = names(&mut bench, "");
    let of_queue = "Cancel the running job|Resume the queue|Clear the queue|Undo";
    let of_results = "Copy path|Paint a mask|Next frame|Compare: show more of A";
    for name in of_queue.split('|').chain(of_results.split('|')) {
        assert!(!first.iter().any(|it| it == name), "{name}");
    }
    let theme = names(&mut bench, "theme");
    assert_eq!(theme[0], "Theme: switch between dark and light");
    let sent = bench.start_job();
    let cancel = "Cancel the running job";
    assert_eq!(names(&mut bench, "cancel running")[0], cancel);
    bench.finish_job(&sent, 3);
    assert_eq!(names(&mut bench, "copy path")[0], "Copy path");
    let found = names(&mut bench, "cancel running");
    assert!(found.iter().all(|it| it != cancel), "{found:?}");
    bench.search_commands("copy path");
    bench.harness.key_press(Key::Enter);
    let path = sent.request.out.display().to_string();
    assert_eq!(bench.until_copied(), Some(path));
}

#[test]
fn palette_does_not_move_while_typing() {
    let mut bench = Bench::new();
    bench.search_commands("");
    let place = |bench: &Bench| bench.labelled("Search commands").rect();
    let before = place(&bench);
    for text in ["d", "octor", " of nothing at all"] {
        bench.type_into("Search commands", text);
        assert_eq!(place(&bench), before, "{text}");
    }
    bench.assert_shows("No matches");
}

#[test]
fn the_words_that_people_search_find_something_in_the_commands_and_the_settings() {
    for spec in [flux_spec(), spec()] {
        let mut bench = Bench::of(spec);
        let words = "inpaint|outpaint|upscale|denoise|img2img|controlnet|vram|hires fix|seed";
        for word in words.split('|') {
            bench.search_commands(word);
            assert!(!bench.has("No matches"), "{word}");
            bench.press_key(Key::Escape);
        }
    }
    let mut bench = Bench::of(flux_spec());
    bench.search_commands("hires fix");
    bench.press_key(Key::Enter);
    bench.assert_shows("Hires fix");
    bench.push(AppCommand::Show(MainPage::Settings));
    bench.settle();
    bench.type_into("Search settings", "vram");
    bench.assert_hides("No matches");
}
