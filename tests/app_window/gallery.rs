//! The gallery: results appear by themselves, are found, chosen, liked, thrown away and brought back.

mod filters;
mod trash;

use std::sync::Mutex;

use safelight::window::commands::GalleryCommand;
use safelight::window::thumbnails::{ThumbCache, ThumbSource};

use crate::app_window::prelude::*;
use crate::app_window::references::edit_spec;

fn window(home: &Path) -> Bench {
    Bench::with(|startup| startup.paths = Some(AppPaths::under(home)))
}

fn results(home: &Path) -> PathBuf {
    let folder = home.join("videos/Safelight");
    fs::create_dir_all(&folder).expect("a folder for results");
    folder
}

fn result(home: &Path, name: &str, prompt: &str, seed: u64) -> PathBuf {
    let path = results(home).join(name);
    let num_frames: u8 = if name.ends_with("mp4") { 9 } else { 1 };
    let settings = serde_json::json!({
        "model": "little-world", "prompt": prompt, "negative_prompt": "", "seed": seed,
        "num_frames": num_frames, "num_steps": 12, "sampler": "unipc", "guidance_scale": 4.0,
    });
    write_made(&path, [96, 64], num_frames, 8.0, Some(made_with(&settings)));
    path
}

fn with_results(home: &Path, results: &[(&str, &str)]) -> Bench {
    for (name, prompt) in results {
        result(home, name, prompt, 7);
    }
    opened(home, results.len())
}

fn opened(home: &Path, count: usize) -> Bench {
    let mut bench = window(home);
    bench.open_gallery();
    bench.until_shown(count);
    bench
}

fn three_results(home: &Path) -> Bench {
    with_results(home, &[("a.png", "a"), ("b.png", "b"), ("c.png", "c")])
}

impl Bench {
    fn open_gallery(&mut self) {
        self.press("Gallery");
    }

    fn shown(&self) -> Vec<String> {
        let cells = self.harness.query_all_by_role(Role::ListBoxOption);
        cells
            .map(|cell| cell.accesskit_node().label().unwrap_or_default())
            .collect()
    }

    fn until_shown(&mut self, count: usize) {
        self.until(&format!("{count} results are read and shown"), |bench| {
            let listing = bench.app().gallery.listing.as_ref();
            let is_read = listing.is_some_and(|it| it.num_unread == 0 && !it.is_looking);
            is_read && bench.shown().len() == count
        });
    }

    fn choose_result(&mut self, name: &str) {
        self.click(Role::ListBoxOption, name);
    }

    fn chosen(&mut self) -> Vec<String> {
        let chosen = self.app().gallery.chosen();
        chosen.iter().map(|entry| entry.file_name()).collect()
    }

    fn search(&mut self, words: &str) {
        self.type_into("Search results", words);
    }
}

#[test]
fn empty_gallery_shows_a_hint_and_the_first_result_appears_automatically() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = window(home.path());
    bench.open_gallery();
    bench.wait_for("Nothing here yet|appears here, newest first");
    result(home.path(), "boat.png", "a red boat", 7);
    bench.until_shown(1);
    assert_eq!(bench.shown(), ["a red boat, image"]);
    fs::remove_file(results(home.path()).join("boat.png")).unwrap();
    bench.wait_for("Nothing here yet");
}

#[test]
fn search_and_filters_find_results_and_can_be_taken_back() {
    let home = tempfile::tempdir().unwrap();
    let names = [
        ("a.png", "a red boat"),
        ("b.mp4", "Ein GRÜNES Boot"),
        ("c.png", "a hill"),
    ];
    let mut bench = with_results(home.path(), &names);
    bench.search("grünes");
    bench.until("it is found", |bench| {
        bench.shown() == ["Ein GRÜNES Boot, video"]
    });
    bench.assert_shows("1 result found");
    bench.press_until("Images", "No matches");
    bench.press("Show all results");
    bench.until_shown(3);
    bench.press("Videos");
    bench.until_shown(1);
}

#[test]
fn a_favourite_is_one_after_a_restart_and_can_be_shown_alone() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = with_results(home.path(), &[("a.png", "a red boat"), ("b.png", "a hill")]);
    bench.choose_result("a hill, image");
    bench.press("Favourite");
    bench.until("it is one", |bench| {
        let favourite = "a hill, image, favourite".to_owned();
        bench.shown().contains(&favourite)
    });
    drop(bench);
    let mut bench = opened(home.path(), 2);
    bench.press("Only favourites");
    bench.until_shown(1);
    assert_eq!(bench.shown(), ["a hill, image, favourite"]);
    bench.choose_result("a hill, image, favourite");
    bench.press_until("Not a favourite", "No matches");
}

#[test]
fn numbered_images_of_one_video_are_extended_as_a_video() {
    let home = tempfile::tempdir().unwrap();
    let path = results(home.path()).join("boat.png");
    let settings = serde_json::json!({"prompt": "a boat", "num_frames": 9, "fps": 8});
    write_made(&path, [96, 64], 9, 8.0, Some(made_with(&settings)));
    let mut bench = opened(home.path(), 1);
    bench.choose_result("a boat, video");
    bench.press("Extend video");
    bench.until_input(InputSlot::Start);
    let video = bench.app().inputs.video();
    assert_eq!(video.map(|video| video.info.num_frames), Some(9));
}

#[test]
fn five_thousand_results_draw_only_the_rows_on_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let first = result(home.path(), "0000.png", "a red boat", 7);
    let bytes = fs::read(first).unwrap();
    for number in 1..5000 {
        let path = results(home.path()).join(format!("{number:04}.png"));
        fs::write(path, &bytes).unwrap();
    }
    let mut bench = window(home.path());
    bench.open_gallery();
    bench.wait_for("5,000 results");
    let count = bench.shown().len();
    assert!((4..60).contains(&count), "{count}");
    bench.wait_until_gone("still to read");
    let mut query = bench.app().gallery.query.clone();
    query.sort = safelight_core::gallery::SortOrder::Name;
    bench.push(GalleryCommand::Ask(query));
    bench.until("they are in order", |bench| {
        bench.app().gallery.items()[0].file_name() == "0000.png"
    });
    bench.press_key(Key::ArrowDown);
    bench.press_key(Key::End);
    assert_eq!(bench.chosen(), ["4999.png"]);
    assert!(bench.shown().len() < 60);
    bench.until("it is scrolled to and drawn", |bench| {
        let app = bench.app();
        let last = ThumbSource::Result(Arc::clone(&app.gallery.items()[4999]));
        app.cx.thumbs.has(&last, 160) && !app.cx.thumbs.is_busy()
    });
    bench.until_at_rest();
}

#[test]
fn keys_select_results_except_while_a_text_field_has_focus() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = three_results(home.path());
    bench.press_key(Key::ArrowRight);
    let first = bench.chosen();
    assert_eq!(first.len(), 1);
    bench.press_keys(Modifiers::SHIFT, Key::ArrowRight);
    assert_eq!(bench.chosen().len(), 2);
    bench.assert_shows("2 results selected");
    assert!(bench.has_label("Compare"));
    bench.press_keys(Modifiers::COMMAND, Key::A);
    assert_eq!(bench.chosen().len(), 3);
    bench.press_keys(Modifiers::COMMAND, Key::F);
    bench.press_key(Key::B);
    bench.press_key(Key::Delete);
    bench.press_key(Key::ArrowLeft);
    assert_eq!(bench.chosen().len(), 3, "the field has the keyboard");
    assert!(!bench.has("favourite, ") && results(home.path()).join("a.png").exists());
    bench.press_key(Key::Escape);
    bench.press_key(Key::B);
    bench.until("all are favourites", |bench| {
        bench.shown().iter().all(|name| name.ends_with("favourite"))
    });
}

#[test]
fn several_selected_results_are_copied_as_files_and_dragged_into_the_form_together() {
    let home = tempfile::tempdir().unwrap();
    let names = [("a.png", "a"), ("b.png", "b"), ("c.png", "c")];
    for (name, prompt) in names {
        result(home.path(), name, prompt, 7);
    }
    let copied = Arc::new(Mutex::new(Vec::new()));
    let clipboard = Arc::clone(&copied);
    let mut bench = Bench::with(|startup| {
        startup.paths = Some(AppPaths::under(home.path()));
        startup.models = Some(found(vec![edit_spec()]));
        startup.desktop.copy_files = Arc::new(move |files| {
            *clipboard.lock().unwrap() = files.to_vec();
            Ok(())
        });
    });
    bench.open_gallery();
    bench.until_shown(3);
    bench.press_key(Key::ArrowRight);
    bench.press_keys(Modifiers::SHIFT, Key::ArrowRight);
    let chosen: Vec<PathBuf> = bench
        .chosen()
        .iter()
        .map(|it| results(home.path()).join(it))
        .collect();
    assert_eq!(chosen.len(), 2);
    bench.harness.event(egui::Event::Copy);
    bench.wait_for("2 files copied");
    assert_eq!(*copied.lock().unwrap(), chosen);
    bench.press_keys(Modifiers::COMMAND, Key::A);
    bench.press("Copy files");
    bench.wait_for("3 files copied");

    let from = bench.rect(Role::ListBoxOption, "b, image").center();
    let slot = bench.app().cx.drawn.slots[InputSlot::Reference as usize].unwrap();
    bench.drag_and_drop(from, slot.center());
    bench.until("they are references", |bench| {
        bench.app().inputs.inputs_in(InputSlot::Reference).len() == 3
    });
}

#[test]
fn details_show_how_a_result_was_made_and_use_it_as_an_input() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "a.png", "a red boat", 7_654_321);
    let mut bench = Bench::with(|startup| {
        startup.paths = Some(AppPaths::under(home.path()));
        startup.models = Some(found(vec![pair_spec(), flux_spec()]));
    });
    bench.open_gallery();
    bench.until_shown(1);
    bench.choose_result("a red boat, image");
    bench.assert_shows("7654321|little-world|UniPC, 12 steps|96 × 64|a.png");
    bench.press("Copy prompt");
    let copied = bench.copied_by("Copy path");
    assert_eq!(copied, Some(path.display().to_string()));
    assert!(!bench.has_label("Use as mask"));
    bench.press("Use as end image");
    bench.until_input(InputSlot::End);
    bench.run(LibraryCommand::Choose("flux".into()));
    bench.settle();
    bench.press("Use as mask");
    bench.until_input(InputSlot::Mask);
}

#[test]
fn a_broken_file_is_a_quiet_place_with_its_reason_and_one_without_settings_offers_none() {
    let home = tempfile::tempdir().unwrap();
    let folder = results(home.path());
    let whole = result(home.path(), "whole.mp4", "a red boat", 7);
    let bytes = fs::read(&whole).unwrap();
    fs::write(folder.join("half.mp4"), &bytes[..bytes.len() / 3]).unwrap();
    fs::write(folder.join("empty.png"), b"").unwrap();
    write_made(&folder.join("old/a.png"), [96, 64], 1, 8.0, None);
    let mut bench = opened(home.path(), 4);
    bench.choose_result("empty.png, unreadable");
    bench.assert_shows("This file is empty");
    assert!(!bench.has_cards());
    assert_eq!(bench.app().cx.page, MainPage::Gallery);
    for name in ["Show", "Use settings", "Use as start image"] {
        assert!(bench.is_disabled(name), "{name}");
    }
    assert!(!bench.is_disabled("Delete"));
    bench.choose_result("a.png, image");
    assert!(bench.is_disabled("Use settings") && !bench.is_disabled("Show"));
    bench.assert_shows("old/a.png, ");
}

#[test]
fn the_right_button_opens_a_menu_and_nothing_moves_when_a_small_image_comes() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = with_results(home.path(), &[("a.png", "a red boat"), ("b.png", "a hill")]);
    bench.choose_result("a hill, image");
    let place = |bench: &Bench| bench.rect(Role::Button, "Favourite");
    bench.until_image_is_shown();
    let before = place(&bench);
    bench.app().cx.thumbs = ThumbCache::new(None);
    bench.harness.step();
    assert_eq!(place(&bench), before);
    bench.click_secondary("a red boat, image");
    assert_eq!(bench.chosen(), ["a.png"], "the menu is for this one");
    for name in ["Show", "Use settings", "Copy path", "Delete"] {
        let found = bench.harness.query_all_by_label(name).count();
        assert_eq!(found, 2, "{name}");
    }
}

#[test]
fn active_filters_are_named_when_no_result_matches_and_do_not_move() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = with_results(home.path(), &[("a.png", "a red boat")]);
    let place = |bench: &Bench| bench.labelled("Videos").rect();
    let before = place(&bench);
    bench.press("Videos");
    bench.press("Only favourites");
    bench.wait_for("Only videos that are favourites are shown");
    bench.assert_hides("Other words");
    bench.search("zzz");
    bench.wait_for("shown. Other words");
    assert_eq!(place(&bench), before);
}
