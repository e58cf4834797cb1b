//! Results go to the trash without a question, and come back from it.

use safelight::window::commands::GalleryCommand;
use safelight::window::create::choices::TrashRequest;
use safelight_core::gallery::{MarkChange, ResultMark};

use super::{opened, result, results, three_results, window};
use crate::app_window::prelude::*;

fn trash(path: PathBuf) -> GalleryCommand {
    let is_frame = false;
    GalleryCommand::Trash(vec![TrashRequest { path, is_frame }])
}

fn one_deleted(home: &Path) -> Bench {
    let mut bench = window(home);
    bench.open_gallery();
    bench.until_shown(1);
    bench.choose_result("a red boat, image");
    bench.press_key(Key::Delete);
    bench.until("it has gone", |bench| {
        bench.has("1 result is in the trash") && bench.shown().is_empty()
    });
    bench
}

#[test]
fn delete_goes_to_the_trash_without_a_question_and_undo_brings_it_back() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "a.png", "a red boat", 7);
    let sidecar = path.with_extension("json");
    fs::write(&sidecar, r#"{"app": "Safelight", "request": {}}"#).unwrap();
    result(home.path(), "b.png", "a hill", 8);
    let mut bench = opened(home.path(), 2);
    bench.choose_result("a red boat, image");
    bench.press_key(Key::Delete);
    bench.until("it has gone", |bench| bench.shown() == ["a hill, image"]);
    let trash = home.path().join("Trash");
    assert!(!path.exists() && !sidecar.exists());
    assert!(trash.join("files/a.png").exists() && trash.join("files/a.json").exists());
    assert!(trash.join("info/a.png.trashinfo").exists());
    bench.assert_shows("1 result is in the trash");
    assert_eq!(bench.chosen(), ["b.png"], "the neighbour is chosen");
    bench.press("Undo");
    bench.until("it is back", |bench| bench.shown().len() == 2);
    assert!(path.exists() && sidecar.exists() && !trash.join("files/a.png").exists());
    bench.assert_hides("in the trash");
    bench.undo();
    bench.assert_shows("There is nothing to undo");
}

#[test]
fn each_undo_restores_one_deletion_and_selects_the_restored_result() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = three_results(home.path());
    bench.choose_result("a, image");
    // The second while the first is under way, and the first once more.
    for name in ["a.png", "b.png", "a.png"] {
        bench.push(trash(results(home.path()).join(name)));
    }
    bench.until("both have gone", |bench| bench.shown() == ["c, image"]);
    assert_eq!(bench.told(), ["1 result is in the trash"]);
    bench.undo();
    bench.until("one is back", |bench| {
        bench.shown().len() == 2 && bench.chosen() == ["b.png"]
    });
    assert_eq!(bench.app().cx.undo.last(), Some("delete a result"));
    bench.undo();
    bench.until("the other is back", |bench| {
        bench.shown().len() == 3 && bench.chosen() == ["a.png"]
    });
    bench.assert_hides("in the trash");
}

#[test]
fn pending_deletions_and_favourites_are_completed_when_the_window_closes() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = three_results(home.path());
    let at = |name: &str| results(home.path()).join(name);
    let favour = GalleryCommand::Mark(MarkChange {
        paths: vec![at("c.png")],
        mark: ResultMark::Favourite,
        is_set: true,
    });
    // The second deletion waits for the first.
    for command in [trash(at("a.png")), trash(at("b.png")), favour] {
        bench.push(command);
    }
    bench.app().step();
    drop(bench.close());
    assert!(!at("a.png").exists() && !at("b.png").exists());
    let trash = home.path().join("Trash/files");
    assert!(trash.join("a.png").exists() && trash.join("b.png").exists());
    let data = AppPaths::under(home.path()).data;
    let favourites = fs::read_to_string(data.join("favourites.json")).unwrap();
    assert!(favourites.contains("c.png"), "{favourites}");
}

#[test]
fn failed_restore_can_be_retried_and_an_emptied_trash_is_reported_once() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "a.png", "a red boat", 7);
    let mut bench = one_deleted(home.path());
    fs::create_dir(&path).unwrap();
    bench.press_until("Undo", "another file has its name");
    fs::remove_dir(&path).unwrap();
    bench.press("Try again");
    bench.until("it is back", |bench| bench.shown().len() == 1);
    assert!(path.is_file());

    let mut bench = one_deleted(home.path());
    fs::remove_dir_all(home.path().join("Trash")).unwrap();
    bench.undo();
    bench.wait_for("this file is not in the trash any more|The trash was emptied");
    bench.assert_hides("Try again");
    assert_eq!(bench.app().cx.undo.last(), None);
}

#[test]
fn file_written_by_the_running_job_cannot_be_deleted() {
    let home = tempfile::tempdir().unwrap();
    let mut bench = window(home.path());
    let sent = bench.start_job();
    let name = sent.request.out.file_name().unwrap().to_string_lossy();
    result(home.path(), &name, "growing", 7);
    bench.open_gallery();
    bench.until_shown(1);
    bench.choose_result("growing, video");
    bench.press_until("Delete", "running job writes this file");
    assert!(sent.request.out.exists());
    bench.assert_hides("in the trash");
}
