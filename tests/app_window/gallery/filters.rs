//! Filters and tags: results are found by what they are made of, when, and by words of one's own.

use super::{opened, result, results, with_results};
use crate::app_window::prelude::*;

fn ink_result(home: &Path) {
    let settings = serde_json::json!({
        "model": "flux", "prompt": "an ink boat", "num_frames": 1,
        "loras": [{"path": "/loras/ink.safetensors", "strength": 0.8}],
    });
    let path = results(home).join("ink.png");
    write_made(&path, [96, 64], 1, 8.0, Some(made_with(&settings)));
}

#[test]
fn results_are_filtered_by_model_lora_and_date_and_each_active_filter_can_be_removed() {
    let home = tempfile::tempdir().unwrap();
    result(home.path(), "a.png", "a red boat", 7);
    result(home.path(), "b.mp4", "a hill", 7);
    ink_result(home.path());
    let mut bench = opened(home.path(), 3);
    bench.press("Filter");
    bench.assert_shows("Today|Last 7 days|little-world|LoRA");
    bench.click(Role::CheckBox, "Model: flux");
    bench.until_shown(1);
    assert_eq!(bench.shown(), ["an ink boat, image"]);
    bench.click(Role::CheckBox, "LoRA: ink");
    bench.click(Role::CheckBox, "Today");
    bench.press_key(Key::Escape);
    bench.until_shown(1);
    bench.press("Videos");
    bench.wait_for("No matches|with the filters “Today”, “Model: flux”, “LoRA: ink” are shown");
    bench.press("All");
    bench.press("Remove filter LoRA: ink");
    bench.press("Remove filter Model: flux");
    bench.until_shown(3);
    bench.search("boat");
    bench.until_shown(2);
    bench.press("Remove filter Today");
    bench.assert_hides("Remove filter");
}

#[test]
fn several_results_get_a_tag_which_is_found_by_words_and_filter_after_a_lost_index() {
    let home = tempfile::tempdir().unwrap();
    let names = [
        ("a.png", "a boat"),
        ("b.png", "a hill"),
        ("c.png", "a house"),
    ];
    let mut bench = with_results(home.path(), &names);
    bench.choose_result("a boat, image");
    bench.press_keys(Modifiers::COMMAND, Key::A);
    bench.focus_and_type(Role::TextInput, "Add a tag", "holiday, by the sea");
    bench.press_key(Key::Enter);
    bench.wait_for("Remove tag holiday|Remove tag by the sea");
    bench.press_key(Key::Escape);
    bench.choose_result("a hill, image");
    bench.press("Remove tag holiday");
    bench.wait_until_gone("Remove tag holiday");
    bench.press("Undo");
    bench.wait_for("Remove tag holiday");
    bench.press_keys(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    bench.wait_until_gone("Remove tag holiday");
    bench.press_keys(Modifiers::COMMAND, Key::A);
    bench.assert_shows("holiday (2)");
    drop(bench.close());

    let paths = AppPaths::under(home.path());
    fs::remove_file(paths.gallery_index()).unwrap();
    let mut bench = opened(home.path(), 3);
    bench.press("Filter");
    bench.click(Role::CheckBox, "Tag: holiday");
    bench.press_key(Key::Escape);
    bench.until_shown(2);
    bench.search("sea tag:holi hou");
    bench.until_shown(1);
    assert_eq!(bench.shown(), ["a house, image"]);
    // A tag that exists is offered while it is written.
    bench.press("Clear the search");
    bench.press("Remove filter Tag: holiday");
    bench.until_shown(3);
    bench.choose_result("a hill, image");
    bench.focus_and_type(Role::TextInput, "Add a tag", "Holi");
    bench.press("Add tag holiday");
    bench.wait_for("Remove tag holiday");
}
