//! Which jobs come of a form with sides, what is refused, and what a sheet carries.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::job::{
    ChosenLora, ExpandedJobs, FieldError, GenerateForm, GenerateRequest, SamplerKind, SeedMode,
    jobs_of,
};
use crate::media::{RgbPixels, open_rgb, write_png};
use crate::model::{ModelSpec, test_spec};
use crate::restore::{self, FileSettings};
use crate::testing::table;

fn form(sides: &[&str]) -> GenerateForm {
    GenerateForm {
        prompt: "a red boat on a red sea".to_owned(),
        seed: 7,
        seed_mode: SeedMode::Fixed,
        out: "video.mp4".into(),
        grid: sides.iter().map(|side| side.parse().unwrap()).collect(),
        ..GenerateForm::default()
    }
}

fn other_spec() -> ModelSpec {
    let mut spec = test_spec();
    (spec.id, spec.name) = ("other".to_owned(), "Other model".to_owned());
    spec.defaults.num_frames = 33;
    spec
}

fn made(form: &GenerateForm) -> Result<ExpandedJobs, Vec<FieldError>> {
    jobs_of(form, &test_spec(), &|name| match name {
        "other" => Ok(other_spec()),
        name if name == test_spec().id => Ok(test_spec()),
        name => Err(format!("there is no model {name}")),
    })
}

fn requests(form: &GenerateForm) -> Vec<GenerateRequest> {
    let jobs = made(form).unwrap().jobs;
    jobs.into_iter().map(|job| job.request).collect()
}

fn problem(form: &GenerateForm) -> String {
    match made(form) {
        Err(errors) => {
            assert_eq!(errors[0].field, "grid", "{errors:?}");
            errors[0].message.clone()
        }
        Ok(made) => panic!("it made {} jobs", made.jobs.len()),
    }
}

#[test]
fn two_sides_make_a_job_for_each_cell_with_everything_else_alike() {
    let form = form(&["steps=4,8", "seed=1..3"]);
    let made = made(&form).unwrap();
    let [grid] = made.grids.as_slice() else {
        panic!("one grid")
    };
    assert_eq!(grid.columns, ["Steps 4", "Steps 8"]);
    assert_eq!(grid.rows, ["Seed 1", "Seed 2", "Seed 3"]);
    assert_eq!(grid.to_string(), "2 × 3 grid of Steps and Seed");
    let expected = [(4, 1), (8, 1), (4, 2), (8, 2), (4, 3), (8, 3)];
    assert_eq!(made.jobs.len(), expected.len());
    for (index, (job, (num_steps, seed))) in made.jobs.iter().zip(expected).enumerate() {
        let request = &job.request;
        assert_eq!(cell_of(request), Some((grid.id, index)));
        assert_eq!(
            (request.sampling.num_steps, request.seed),
            (num_steps, seed)
        );
        assert_eq!(request.prompt, form.prompt);
    }
    assert_eq!(form.num_results(&test_spec()), 6);
}

#[test]
fn a_model_is_changed_as_seldom_as_can_be_and_its_own_values_are_its_own() {
    let own = test_spec().id;
    let form = form(&[&format!("model={own},other"), "steps=4,8"]);
    let requests = requests(&form);
    let ran = requests
        .iter()
        .map(|it| (&*it.model, it.sampling.num_steps));
    let expected = [(&*own, 4), (&*own, 8), ("other", 4), ("other", 8)];
    assert_eq!(ran.collect::<Vec<_>>(), expected);
    assert_eq!(cell_of(&requests[1]).unwrap().1, 2, "below the first");
    assert_eq!(requests[3].num_frames, 33);
    // What the window fills in for its model is no wish for another one.
    for (num_frames, expected) in [(test_spec().defaults.num_frames, 33), (9, 9)] {
        let form = GenerateForm {
            num_frames: Some(num_frames),
            ..form.clone()
        };
        assert_eq!(self::requests(&form)[3].num_frames, expected);
    }
}

#[test]
fn the_first_text_of_a_prompt_is_replaced_by_the_others() {
    let mut form = form(&["prompt=red,blue,\"\""]);
    form.negative_prompt = Some("red sky".to_owned());
    let requests = requests(&form);
    let prompts: Vec<&str> = requests.iter().map(|it| it.prompt.as_str()).collect();
    let expected = "a red boat on a red sea|a blue boat on a blue sea|a  boat on a  sea";
    assert_eq!(prompts.join("|"), expected);
    assert_eq!(requests[1].negative_prompt, "blue sky");
    let grids = made(&form).unwrap().grids;
    assert_eq!(grids[0].columns, ["red", "blue", "without “red”"]);
    assert_eq!(grids[0].rows, [""]);
}

#[test]
fn samplers_loras_and_guidance_are_set_by_their_names() {
    let mut form = form(&["sampler=euler,UniPC", "lora=0.5,1"]);
    form.loras = vec![ChosenLora::new("/l/ink.safetensors".into())];
    let requests = requests(&form);
    let set = requests.iter();
    let set = set.map(|it| (it.sampling.sampler, it.loras[0].strength));
    // A LoRA is changed as seldom as can be.
    let (euler, uni_pc) = (SamplerKind::Euler, SamplerKind::UniPc);
    let expected = [(euler, 0.5), (uni_pc, 0.5), (euler, 1.0), (uni_pc, 1.0)];
    assert_eq!(set.collect::<Vec<_>>(), expected);
    let oil = ChosenLora::new("/l/oil.safetensors".into());
    form.loras.push(oil);
    assert!(problem(&form).contains("choose which LoRA's strength the grid varies: ink, oil"));
    form.grid = vec!["lora:OIL=0,2".parse().unwrap()];
    let requests = self::requests(&form);
    let oil = requests.iter().map(|it| it.loras[1].strength);
    assert_eq!(oil.collect::<Vec<_>>(), [0.0, 2.0]);
}

#[test]
fn invalid_grids_are_refused_with_one_sentence() {
    for (sides, expected) in table(
        r#"steps=4,x -> Steps of the grid must be whole numbers
           steps= -> the grid has no values for Steps: write some, such as 4, 8, 12
           steps=0,4 -> Steps 0: the number of steps must be between 1 and 1000
           steps=1..50 seed=1..50 -> at most 400 jobs, not 2500
           seed=1..99999999 -> more than 400 values
           steps=1,2 steps=3,4 -> both sides of the grid vary the same setting
           steps=1 seed=1 shift=1 -> at most 2 settings, not 3
           prompt=green,blue -> the prompt does not contain "green"
           sampler=dream -> expected a sampler
           lora=0,1 -> no LoRA is chosen
           model=nowhere -> there is no model nowhere
           strength=0.5,0.6 -> The strength is not used"#,
    ) {
        let text = problem(&form(&sides.split(' ').collect::<Vec<_>>()));
        assert!(text.contains(expected), "{sides}: {text}");
        assert!(!text.contains(". "), "more than one sentence: {text}");
    }
    for text in ["steps", "colour=1,2", "steps:a=1,2", ""] {
        let problem = text.parse::<GridAxis>().unwrap_err();
        assert!(problem.contains("steps=4,8,12"), "{problem}");
    }
}

#[test]
fn each_prompt_line_gets_its_own_grid_and_all_jobs_count_towards_the_limit() {
    let mut form = form(&["steps=4,8"]);
    (form.prompt, form.is_one_a_line) = ("a boat\na tree".to_owned(), true);
    let made = made(&form).unwrap();
    assert_eq!((made.jobs.len(), made.grids.len()), (4, 2));
    assert_ne!(made.grids[0].id, made.grids[1].id);
    form.grid = vec!["steps=1..201".parse().unwrap()];
    assert!(problem(&form).contains("not 402"));
}

#[test]
fn batch_size_in_a_grid_is_reduced_to_one_with_a_notice() {
    let mut form = form(&["steps=4,8"]);
    form.batch_size = Some(3);
    let made = made(&form).unwrap();
    assert_eq!(made.jobs.len(), 2);
    assert!(made.jobs.iter().all(|job| job.request.batch_size == 1));
    let message = &made.jobs[0].notices[0].message;
    assert!(
        message.contains("a grid makes one in each cell"),
        "{message}"
    );
}

fn record(folder: &Path) -> GridRecord {
    let made = made(&form(&["steps=4,8", "seed=1,2"])).unwrap();
    let requests = made.jobs.iter().map(|job| &job.request);
    let mut record = GridRecord::begin(made.grids[0].clone(), requests).unwrap();
    for index in [0, 1] {
        let path = folder.join(format!("{index}.png"));
        let image = RgbPixels::from_fn(96, 64, |x, _| [x as u8, 80 * index as u8, 9]).unwrap();
        write_png(&path, &image).unwrap();
        record.finish(index, &path);
    }
    record
}

#[test]
fn a_sheet_shows_each_cell_opens_its_file_and_restores_the_grid() {
    let folder = tempfile::tempdir().unwrap();
    let record = record(folder.path());
    assert!(record.lacks_sheet());
    let out = folder.path().join("sheet.png");
    let sheet = write_sheet(&record, &|index| index == 2, &out).unwrap();
    // A name that is taken stays what it was.
    let second = write_sheet(&record, &|_| false, &out).unwrap();
    assert_eq!(
        [&sheet, &second],
        [&out, &folder.path().join("sheet-2.png")]
    );
    let mode = |path: &Path| path.metadata().unwrap().permissions();
    let own = mode(&folder.path().join("0.png"));
    assert_eq!(mode(&sheet), own, "readable as other results are");
    let settings = crate::media::read_settings(&sheet).unwrap().unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    let cells = SheetCells::of_settings(&settings).unwrap();
    let image = open_rgb(&sheet).unwrap();
    let mut found = BTreeMap::new();
    for y in 0..image.height {
        for x in 0..image.width {
            if let Some(path) = cells.file_at(&sheet, x, y) {
                *found.entry(path).or_insert(0) += 1;
            }
        }
    }
    let expected = record.made.values().map(|path| (path.clone(), 96 * 64));
    assert_eq!(found, expected.collect());
    let Some(FileSettings::Own(carried)) = restore::read(&sheet).unwrap() else {
        panic!("it carries settings")
    };
    let restored = GenerateForm::from(&carried.request);
    assert_eq!(restored.grid, form(&["steps=4,8", "seed=1,2"]).grid);
    assert_eq!(restored.prompt, "a red boat on a red sea");
}

#[test]
fn a_cells_file_carries_no_grid_and_a_strange_one_no_places() {
    let request = requests(&form(&["steps=4,8"])).remove(0);
    assert_eq!(request.carried()["request"].get("grid"), None);
    for strange in [
        serde_json::json!({"grid": {"cells": 5}}),
        serde_json::json!({"grid": {"cells": [{"x": -1}]}}),
        serde_json::json!({"grid": {"cells": vec![0; 9999]}}),
        serde_json::json!([1]),
    ] {
        assert_eq!(SheetCells::of_settings(&strange), None);
    }
}

#[test]
fn a_record_comes_back_from_the_queues_file() {
    let folder = tempfile::tempdir().unwrap();
    let record = record(folder.path());
    let path = folder.path().join("queue.json");
    let file = crate::job::QueueFile {
        grids: vec![record.clone()],
        ..crate::job::QueueFile::default()
    };
    file.save(&path).unwrap();
    assert_eq!(crate::job::QueueFile::load(&path).unwrap().grids, [record]);
}
