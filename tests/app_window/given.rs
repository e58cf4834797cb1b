//! Files given to the window: folders of images, files to open, and results of earlier days.

use crate::app_window::prelude::*;

#[test]
fn dropped_folder_is_handled_as_its_images_and_is_refused_without_any() {
    let mut bench = Bench::of(pair_spec());
    let folder = bench.home.path().join("shots");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("notes.txt"), "no image").unwrap();
    bench.drop_until(&folder, "There are no images in this folder");
    bench.image_file("shots/a.png", 64, 64);
    bench.drop_until(&folder, "Start image a.png");
    for name in ["c.png", "b.png"] {
        bench.image_file(&format!("shots/{name}"), 64, 64);
    }
    bench.drop_until(&folder, "3 files at once");
    bench.press("Make 3 jobs, one for each");
    for name in ["a.png", "b.png", "c.png"] {
        let sent = bench.next_job();
        assert!(sent.request.image.as_ref().unwrap().ends_with(name));
        bench.finish_job(&sent, 2);
    }
}

#[test]
fn startup_video_is_played_and_a_dropped_video_leaves_the_viewer_unchanged() {
    let mut bench = Bench::new();
    let path = bench.video_file("given.mp4", 64, 64, 5);
    bench.drop_file(&path);
    bench.until_video();
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    let mut given = Bench::with(|startup| startup.files = vec![path]);
    given.wait_for("The file given.mp4");
    given.until_video();
    assert_eq!(given.app().watch.mode, ViewerMode::File);
}

#[test]
fn results_of_earlier_days_are_offered_where_nothing_is_watched() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("videos/Safelight");
    for name in ["old.mp4", "new.mp4"] {
        write_made(&folder.join(name), [64, 64], 5, 10.0, None);
    }
    let mut bench = Bench::with(|startup| startup.paths = Some(AppPaths::under(home.path())));
    bench.wait_for("Show all 2 results in the gallery|Show new.mp4, video");
    bench.press_until("Show new.mp4, video", "The file new.mp4");
    bench.app().cx.page = MainPage::Watch;
    let mut bench = Bench::with(|startup| startup.paths = Some(AppPaths::under(home.path())));
    bench.wait_for("Show all 2 results");
    bench.press("Show all 2 results in the gallery");
    assert_eq!(bench.app().cx.page, MainPage::Gallery);
}

#[test]
fn generate_button_shows_the_number_of_results() {
    let mut bench = Bench::new();
    let form = bench.form();
    form.prompt = "a boat\n# not this\n\na hill\na moon".into();
    form.is_one_a_line = true;
    bench.settle();
    bench.press("Generate 3 videos");
    for prompt in ["a boat", "a hill", "a moon"] {
        let sent = bench.next_job();
        assert_eq!(sent.request.prompt, prompt);
        bench.finish_job(&sent, 2);
    }
    let form = bench.form();
    (form.is_one_a_line, form.batch_size) = (false, Some(4));
    bench.settle();
    bench.assert_shows("Generate 4 videos");
    bench.edit(|form| form.batch_size = Some(1));
    bench.press("Generate");
}
