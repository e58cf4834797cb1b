//! Small windows, the keyboard, and what a screen reader is told.

use egui::{Vec2, vec2};
use safelight::window::state::PanelPlace;
use safelight::window::widgets::theme;

use crate::app_window::prelude::*;

const SMALLEST: Vec2 = vec2(800.0, 500.0);
/// The smallest window, a usual screen at 200 and at 300 %, and the smallest window at 150 %.
const SMALL: [Vec2; 5] = [
    SMALLEST,
    vec2(900.0, 600.0),
    vec2(960.0, 540.0),
    vec2(640.0, 360.0),
    vec2(600.0, 400.0),
];

/// A finished video that is looked at, a second one that runs with a graph, and a third that waits.
fn busy() -> Bench {
    let mut bench = Bench::new();
    bench.make_video(4);
    let second = bench.start_job();
    for at in 0..6 {
        bench.say(second.id, sample(f64::from(at), 600, 400, 500, 1024));
    }
    bench.press("Generate");
    bench.press("Result 1: a red boat sails to the right at sunset");
    bench
}

#[test]
fn focused_control_is_scrolled_into_view() {
    let mut bench = Bench::new();
    bench.app().cx.folds.is_advanced_open = true;
    bench.resize(SMALLEST);
    bench.press_keys(Modifiers::COMMAND, Key::L);
    let ctx = bench.harness.ctx.clone();
    let mut seen = std::collections::HashSet::new();
    for modifiers in [Modifiers::NONE, Modifiers::SHIFT] {
        for _ in 0..30 {
            bench.press_keys(modifiers, Key::Tab);
            // Between two frames egui tells of the one before the last.
            bench.harness.step();
            let Some(id) = ctx.memory(egui::Memory::focused) else {
                continue;
            };
            seen.insert(id);
            let response = ctx.read_response(id).expect("what has the focus is drawn");
            let rect = response.rect;
            assert!(
                response.interact_rect.expand(1.0).contains_rect(rect),
                "{rect:?} is cut off in {:#?}",
                bench.harness.root()
            );
        }
    }
    assert!(seen.len() > 20, "Tab went to {} controls", seen.len());
}

#[test]
fn nothing_scrolls_away_under_a_pointer_that_presses_it() {
    let mut bench = Bench::new();
    bench.app().cx.folds.is_advanced_open = true;
    bench.resize(SMALLEST);
    bench.press_keys(Modifiers::COMMAND, Key::L);
    let before = bench.labelled("Size").rect();
    let field = bench.node(Role::TextInput, "Seed");
    let at = field.rect().center();
    bench.harness.drag_at(at);
    bench.harness.drop_at(at);
    bench.settle();
    assert_eq!(bench.labelled("Size").rect(), before);
}

#[test]
fn the_keys_of_the_queue_show_it_over_any_page_of_a_small_window_and_hide_it() {
    let mut bench = busy();
    bench.resize(vec2(1500.0, 900.0));
    assert_eq!(bench.app().cx.drawn.queue, PanelPlace::Beside);
    bench.press("Settings");
    bench.resize(SMALLEST);
    assert_eq!(bench.app().cx.drawn.queue, PanelPlace::Nowhere);
    bench.assert_shows("Open settings file");
    let keys = Modifiers::COMMAND | Modifiers::SHIFT;
    bench.press_keys(keys, Key::Q);
    bench.assert_shows("Pause after this job");
    bench.assert_hides("Open settings file");
    bench.press_keys(keys, Key::Q);
    bench.assert_shows("Open settings file");
    bench.assert_hides("Pause after this job");
    bench.press_keys(keys, Key::Q);
    bench.press("Gallery");
    assert!(!bench.has("Pause after this job"), "a page was asked for");
    bench.press_keys(keys, Key::Q);
    bench.press_key(Key::Escape);
    bench.assert_hides("Pause after this job");
    let page = bench.app().cx.page;
    assert_eq!(page, MainPage::Gallery, "Escape took one thing");
}

#[test]
fn image_keeps_its_share_of_small_windows_without_overlapping_buttons() {
    let mut bench = busy();
    for size in SMALL {
        bench.resize(size);
        let image = bench.rect(Role::Image, "Finished video");
        let least = (size.y * 0.28).min(200.0);
        assert!(image.height() >= least, "{image:?} of {size}");
        for name in ["Pause", "Full screen", "More"] {
            let button = bench.rect(Role::Button, name);
            let place = format!("{name} {button:?}, {image:?} of {size}");
            assert!(!image.intersects(button), "{place}");
            assert!(button.bottom() <= size.y, "{place}");
            assert!(button.right() <= size.x, "{place}");
        }
    }
}

const DOCTOR: [&str; 4] = [
    "Examine again",
    "Copy as text",
    "Make a report",
    "Close the doctor",
];
const MODELS: [&str; 3] = ["First steps", "Add a models folder", "Close the models"];
const HEADER: [&str; 5] = ["Queue", "Gallery", "Downloads", "Doctor", "Settings"];

fn assert_in_a_row(bench: &Bench, size: Vec2, names: &[&str]) {
    let mut left = 0.0;
    for name in names {
        let button = bench.rect(Role::Button, name);
        assert!(button.left() >= left, "{name} {button:?} of {size}");
        assert!(button.right() <= size.x, "{name} {button:?} of {size}");
        left = button.right();
    }
}

#[test]
fn pages_and_the_header_have_their_buttons_within_every_small_window() {
    let mut bench = Bench::new();
    for size in SMALL.into_iter().chain([vec2(450.0, 300.0)]) {
        bench.harness.set_size(size);
        bench.run(AppCommand::Show(MainPage::Doctor));
        assert_in_a_row(&bench, size, &DOCTOR);
        bench.run(AppCommand::Show(MainPage::Models));
        for name in MODELS {
            let button = bench.rect(Role::Button, name);
            assert!(button.right() <= size.x, "{name} {button:?} of {size}");
        }
        let search = bench.rect(Role::TextInput, "Search models");
        assert!(search.width() > 200.0, "{search:?} of {size}");
        bench.press_key(Key::F1);
        let title = bench.rect(Role::Button, "Close the shortcuts");
        assert!(title.right() <= size.x, "{title:?} of {size}");
        let title = bench.labelled("Create").rect();
        assert!(title.left() >= 0.0, "{title:?} of {size}");
        bench.press_key(Key::Escape);
    }
    let mut bench = Bench::new();
    for size in SMALL {
        bench.harness.set_size(size);
        bench.app().cx.is_view_shown = false;
        bench.settle();
        assert_in_a_row(&bench, size, &HEADER);
    }
}

#[test]
fn tab_follows_the_header_order_and_the_open_page_is_remembered() {
    let mut bench = Bench::new();
    bench.node(Role::Button, "Queue").focus();
    bench.settle();
    for name in ["Gallery", "Downloads", "Doctor", "Settings", "Light theme"] {
        bench.press_key(Key::Tab);
        assert!(bench.has_focus(Role::Button, name), "{name}");
    }
    bench.press("Settings");
    assert_eq!(bench.app().cx.page.remembered(), MainPage::Settings);
    bench.press("Doctor");
    // No examination begins by itself.
    assert_eq!(bench.app().cx.page.remembered(), MainPage::Watch);
}

#[test]
fn accessibility_tree_contains_no_icon_glyphs_and_exposes_values() {
    let mut bench = busy();
    let bar = bench.node(Role::ProgressIndicator, "Progress");
    let node = bar.accesskit_node();
    let range = (node.min_numeric_value(), node.max_numeric_value());
    assert_eq!(range, (Some(0.0), Some(100.0)));
    let length = bench.node(Role::Slider, "Length");
    assert_eq!(length.accesskit_node().numeric_value(), Some(17.0));
    let root = bench.harness.root().accesskit_node().label();
    assert_eq!(root.as_deref(), Some("Safelight"));
    for page in [
        MainPage::Watch,
        MainPage::Settings,
        MainPage::Doctor,
        MainPage::Models,
        MainPage::Gallery,
    ] {
        bench.run(AppCommand::Show(page));
        for node in bench.harness.root().children_recursive() {
            let node = node.accesskit_node();
            let texts = node.label().into_iter().chain(node.value());
            for text in texts {
                let is_icon = |letter: char| ('\u{e000}'..='\u{f8ff}').contains(&letter);
                assert!(!text.contains(is_icon), "{text:?} on {page:?}");
            }
        }
    }
}

#[test]
fn a_question_closes_the_menu_that_was_open() {
    let mut bench = Bench::of(pair_spec());
    bench.click(Role::ComboBox, "Size");
    bench.assert_shows("Cinema 21:9");
    bench.press_keys(Modifiers::COMMAND, Key::K);
    bench.assert_shows("Search commands");
    bench.assert_hides("Cinema 21:9");
}

#[test]
fn a_seed_of_nine_digits_is_seen_whole() {
    let mut bench = Bench::new();
    bench.edit(|form| form.seed = 888888888);
    let field = bench.rect(Role::TextInput, "Seed");
    let font = egui::FontId::proportional(13.5);
    let ctx = bench.harness.ctx.clone();
    let text =
        ctx.fonts_mut(|fonts| fonts.layout_no_wrap("888888888".into(), font, egui::Color32::WHITE));
    assert!(field.width() >= text.size().x + 8.0, "{field:?}");
    let mode = bench.rect(Role::ComboBox, "Seed mode");
    let dice = bench.labelled("Roll a new seed").rect();
    let edge = theme::FORM_WIDTH - f32::from(theme::FORM_MARGIN);
    assert!(mode.left() >= field.right(), "{field:?} {mode:?}");
    assert!(dice.right() <= edge, "{dice:?}");
}
