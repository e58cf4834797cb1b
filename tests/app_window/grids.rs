//! Grids: how they are asked for, how they stand in the queue, and the contact sheet in the end.

use safelight_core::job::{GenerateForm, cell_of};
use safelight_core::media;
use safelight_core::restore::{self, FileSettings};

use crate::app_window::prelude::*;
use crate::common::modes::everything;

fn with_grid(sides: &[&str]) -> Bench {
    let mut bench = Bench::of(flux_spec());
    let form = bench.form();
    form.prompt = "a red boat".to_owned();
    form.seed = 1234;
    let sides = sides.iter().map(|side| side.parse().expect("a side"));
    form.grid = sides.collect();
    bench.settle();
    bench
}

/// The job's file, as the worker leaves it, and its end.
fn finish(bench: &mut Bench, sent: &SentJob, colour: [u8; 3]) {
    let folder = sent.request.out.parent().expect("a result has a folder");
    fs::create_dir_all(folder).expect("a folder for results");
    let image = RgbPixels::from_fn(96, 96, |x, y| {
        let shade = (x / 2 + y / 2) as u8;
        colour.map(|part| part.saturating_add(shade))
    });
    media::write_png(&sent.request.out, &image.expect("it has pixels")).expect("it is written");
    bench.end_job(sent, output(sent, 1));
}

fn sheets(bench: &Bench) -> Vec<PathBuf> {
    let mut files = everything(bench.home.path());
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("_grid") && !name.starts_with('.')
    });
    files
}

#[test]
fn grid_form_builds_two_axes_and_shows_its_number_of_jobs() {
    let mut bench = with_grid(&[]);
    bench.scroll_to("Grid");
    bench.click_label("Grid");
    let write = |bench: &mut Bench, side: &str, values: &str| {
        bench.scroll_to(side);
        bench.focus_and_type(Role::TextInput, side, values);
    };
    bench.choose("Across", "Steps");
    bench.assert_shows("The grid has no values for Steps: write some, such as 4, 8, 12");
    write(&mut bench, "Values across", "4, 8, 12");
    bench.assert_shows("3 jobs, one image each, and a contact sheet");
    bench.choose("Down", "Sampler");
    bench.scroll_to("Values down");
    for sampler in ["Euler", "UniPC"] {
        bench.press("Add a value down");
        bench.press(sampler);
    }
    assert_eq!(bench.form().grid[1].values, "euler, unipc");
    bench.assert_shows("6 jobs, one image each, and a contact sheet");
    bench.snapshot("grid_fold");
    bench.press("Generate 6 images");
    let sent = bench.next_job();
    assert_eq!(sent.request.sampling.num_steps, 4);
    assert_eq!(bench.app().queue.waiting.len(), 5);
}

#[test]
fn a_grid_is_one_row_of_the_queue_that_folds_open_and_is_cancelled_whole() {
    let mut bench = with_grid(&["steps=4,8,12", "seed=1..3"]);
    bench.press("Generate 9 images");
    let first = bench.next_job();
    bench.app().queue.is_open = true;
    bench.settle();
    let row = "3 × 3 grid of Steps and Seed: a red boat";
    bench.node(Role::Button, row);
    bench.assert_shows("Running: a red boat");
    assert!(!bench.has("1. a red boat"), "its jobs are folded away");
    bench.snapshot("grid_queue");
    bench.press("Jobs of the grid: a red boat");
    assert!(bench.has("1. a red boat") && bench.has("3. a red boat"));
    bench.press("Jobs of the grid: a red boat");
    bench.press("Cancel the grid: a red boat");
    assert!(first.cancel.is_cancelled());
    assert!(bench.app().queue.waiting.is_empty());
    bench.say_end(first.id, JobOutcome::Cancelled);
    bench.assert_no_job();
    assert!(sheets(&bench).is_empty(), "there is nothing to show");
}

#[test]
fn contact_sheet_is_made_after_the_last_job_and_its_cells_open_results() {
    let mut bench = with_grid(&["steps=4,8", "prompt=red,blue"]);
    bench.press("Generate 4 images");
    let mut outs = Vec::new();
    for index in 0..4_u8 {
        let sent = bench.next_job();
        assert_eq!(cell_of(&sent.request).map(|it| it.1), Some(index.into()));
        outs.push(sent.request.out.clone());
        if index == 2 {
            bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
        } else {
            assert!(sheets(&bench).is_empty());
            finish(&mut bench, &sent, [40 * index, 90, 160 - 50 * index]);
        }
    }
    bench.until("the sheet is made", |bench| sheets(bench).len() == 1);
    let sheet = &sheets(&bench)[0];
    bench.until_file(sheet);
    assert_eq!(sheet.parent(), outs[0].parent());
    let sheet_told = "the contact sheet of the 2 × 2 grid";
    assert!(bench.told().iter().any(|told| told.contains(sheet_told)));
    let Some(FileSettings::Own(carried)) = restore::read(sheet).expect("it is read") else {
        panic!("it carries its settings");
    };
    let form = GenerateForm::from(&carried.request);
    assert_eq!((form.grid.len(), form.prompt.as_str()), (2, "a red boat"));
    let file = bench.app().watch.media().cloned().expect("it is shown");
    let middle_of = |wanted: &PathBuf| {
        let pixels = (0..file.height).flat_map(|y| (0..file.width).map(move |x| (x, y)));
        let cell: Vec<_> = pixels
            .filter(|(x, y)| file.cell_at(0, *x, *y).as_ref() == Some(wanted))
            .collect();
        let (first, last) = (cell.first()?, cell.last()?);
        Some((
            u32::midpoint(first.0, last.0),
            u32::midpoint(first.1, last.1),
        ))
    };
    let (x, y) = middle_of(&outs[3]).expect("the last cell");
    let name = format!("The file {}", file.name_of(0));
    let area = bench.node(Role::Image, &name).rect();
    // The whole image is shown, in the middle of its place.
    let margin = 0.06 * area.size().min_elem();
    let size = egui::vec2(file.width as f32, file.height as f32);
    let scale = ((area.size() - egui::Vec2::splat(2.0 * margin)) / size).min_elem();
    let place = area.center() + (egui::vec2(x as f32, y as f32) - size / 2.0) * scale;
    bench.click_at(place);
    bench.settle();
    bench.until_file(&outs[3]);
}

#[test]
fn grid_resumes_after_a_restart_and_its_sheet_contains_all_cells() {
    let mut bench = with_grid(&["seed=1..3"]);
    bench.press("Generate 3 images");
    let first = bench.next_job();
    finish(&mut bench, &first, [9, 90, 160]);
    let second = bench.next_job();
    let mut bench = Bench::in_home(bench.close(), |startup| {
        startup.models = Some(found(vec![flux_spec()]));
    });
    bench.wait_for("left from last time");
    assert!(sheets(&bench).is_empty());
    bench.press("Resume");
    for colour in [[160, 9, 9], [9, 160, 9]] {
        let sent = bench.next_job();
        assert!(sent.id >= second.id);
        finish(&mut bench, &sent, colour);
    }
    bench.until("the sheet is made", |bench| !sheets(bench).is_empty());
    let settings = media::read_settings(&sheets(&bench)[0]).expect("it is read");
    let settings: serde_json::Value =
        serde_json::from_str(&settings.expect("it has some")).expect("JSON");
    let cells = settings["grid"]["cells"].as_array().expect("cells").clone();
    assert_eq!(cells.len(), 3);
    let has_file = |cell: &serde_json::Value| cell["file"].is_string();
    assert!(cells.iter().all(has_file), "{cells:?}");
}

fn open_side(bench: &mut Bench, side: &str) {
    if !bench.has_node(Role::ComboBox, side) {
        bench.scroll_to("Grid");
        bench.click_label("Grid");
    }
    bench.scroll_to(side);
    bench.click(Role::ComboBox, side);
}

#[test]
fn a_side_that_is_chosen_shows_the_field_of_its_values() {
    let mut bench = with_grid(&["steps=4,8"]);
    open_side(&mut bench, "Down");
    bench.click(Role::Button, "Seed");
    let values = bench.rect(Role::TextInput, "Values down");
    let told = "The grid has no values for Seed";
    assert_eq!(bench.count(told), 1, "said once");
    let told = bench.harness.get_by_label_contains(told).rect();
    assert!(values.bottom() < told.top(), "{values:?}, {told:?}");
}

#[test]
fn grid_axes_offer_only_settings_the_model_can_vary() {
    let offers = |bench: &Bench, setting: &str| bench.has_node(Role::Button, setting);
    let mut bench = Bench::new();
    open_side(&mut bench, "Across");
    assert!(offers(&bench, "Guidance") && offers(&bench, "Scheduler"));
    assert!(!offers(&bench, "CFG scale") && !offers(&bench, "Strength"));
    let mut bench = with_grid(&[]);
    open_side(&mut bench, "Across");
    assert!(offers(&bench, "CFG scale") && !offers(&bench, "Strength"));
    bench.harness.key_press(Key::Escape);
    bench.drop_image("photo.png", 64, 64, "photo.png");
    open_side(&mut bench, "Across");
    assert!(offers(&bench, "Strength"));
}

#[test]
fn invalid_grid_value_after_the_first_disables_generate() {
    let mut bench = with_grid(&["steps=4,8,0"]);
    bench.assert_shows("Steps 0: ");
    assert!(bench.is_disabled("Generate 3 images"));
    bench.edit(|form| form.grid = vec!["steps=4,8".parse().unwrap()]);
    bench.assert_hides("Steps 0: ");
    bench.press("Generate 2 images");
    bench.next_job();
}
