//! Files of an earlier version still open, as the form that they were then.
//!
//! The program wrote the files of `tests/fixtures/old` on 22 November 2026, before the window and the command line had
//! one form, and so it did the jobs in them that it made of each: what was asked of the worker then is asked now.

use std::fs;
use std::path::{Path, PathBuf};

use safelight::app::commands::{AppCommand, LibraryCommand, PresetsCommand, RestoreCommand};
use safelight::app::models::FoundModels;
use safelight::app::presets::choices::PresetKey;
use safelight_core::job::{GenerateRequest, JobOutcome, JobUpdate, QueueFile};
use safelight_core::model::{InputUse, ModelSpec};
use safelight_core::restore::{self, Found};
use safelight_core::settings::Settings;
use serde_json::Value;

use crate::harness::{Bench, flux_spec, framepack_spec, pair_spec};

/// Fields that name files.
const PLACES: [&str; 7] = [
    "out",
    "is_out_automatic",
    "image",
    "last_image",
    "mask",
    "extend",
    "files",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/old")
        .join(name)
}

fn json_of(name: &str) -> Value {
    let text = fs::read(fixture(name)).expect("it is there");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// Models that between them use every field, from text only.
fn specs() -> Vec<ModelSpec> {
    let mut specs = vec![pair_spec(), flux_spec(), framepack_spec()];
    for spec in &mut specs {
        spec.start_image = InputUse::Optional;
    }
    specs
}

fn bench_in(home: tempfile::TempDir) -> Bench {
    Bench::in_home(home, |startup| {
        startup.models = Some(FoundModels {
            specs: specs(),
            ..FoundModels::default()
        });
    })
}

/// The file with another model in it, in a home of its own.
fn with_model(name: &str, model: &str, place: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text = fs::read_to_string(fixture(name)).expect("it is there");
    let path = home.path().join(place);
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
    let asked = text.replace("\"MODEL\"", &format!("\"{model}\""));
    fs::write(&path, asked).expect("it is written");
    home
}

fn run(bench: &mut Bench, command: AppCommand) {
    bench.app().cx.push(command);
    bench.settle();
}

/// What is asked of the worker, but for places that are of this machine and moment.
fn asked(request: &GenerateRequest) -> Value {
    let mut json = serde_json::to_value(request).expect("it is JSON");
    let fields = json.as_object_mut().expect("it is an object");
    fields.retain(|field, _| !PLACES.contains(&field.as_str()));
    json
}

/// The jobs that Generate makes; the first is ended.
fn generated(bench: &mut Bench) -> Vec<Value> {
    bench.press_generate();
    let first = bench.next_job();
    let mut jobs = vec![asked(&first.request)];
    let waiting = &mut bench.app().queue.waiting;
    let waiting = waiting.drain(..);
    jobs.extend(waiting.filter_map(|job| job.request.generate().map(asked)));
    bench.say(first.id, JobUpdate::Ended(JobOutcome::Cancelled));
    jobs
}

fn jobs_of_state(model: &str) -> Value {
    let mut bench = bench_in(with_model("state.json", model, "data/state.json"));
    if model == "flux" {
        // There is a strength only with a picture.
        let picture = bench.picture_file("boat.png", 64, 64);
        bench.drop_file(&picture);
        bench.until("it is there", |bench| bench.has("Start picture boat.png"));
    }
    let mut jobs = generated(&mut bench);
    run(&mut bench, AppCommand::Presets(PresetsCommand::Undo));
    jobs.extend(generated(&mut bench));
    jobs.into()
}

fn jobs_of_presets(model: &str) -> Value {
    let mut bench = bench_in(with_model("presets.toml", model, "config/presets.toml"));
    run(&mut bench, AppCommand::Presets(PresetsCommand::Reload));
    bench.until("they are read", |bench| bench.app().presets.list.len() == 2);
    run(
        &mut bench,
        AppCommand::Library(LibraryCommand::Choose(model.into())),
    );
    bench.app().cx.form.prompt = "a boat".into();
    bench.app().cx.form.seed = 7;
    let picture = bench.picture_file("boat.png", 64, 64);
    bench.drop_file(&picture);
    bench.until("it is there", |bench| bench.has("Start picture boat.png"));
    let mut jobs = Vec::new();
    for name in ["Everything", "Nothing special"] {
        let key = PresetKey::Own(name.into());
        run(&mut bench, AppCommand::Presets(PresetsCommand::Apply(key)));
        bench.app().cx.form.seed = 7;
        bench.app().cx.is_seed_used = false;
        jobs.extend(generated(&mut bench));
    }
    jobs.into()
}

fn jobs_of_result(model: &str) -> Value {
    let home = with_model("result.json", model, "result.json");
    let path = home.path().join("result.json");
    let text = fs::read(&path).expect("it was written");
    let mut json: Value = serde_json::from_slice(&text).expect("it is JSON");
    let request = json["request"].as_object_mut().expect("it is an object");
    // They are not here.
    request.retain(|field, _| !PLACES.contains(&field.as_str()));
    fs::write(&path, json.to_string()).expect("it is written");
    let mut bench = bench_in(home);
    let ctx = bench.harness.ctx.clone();
    bench.app().cx.push(RestoreCommand::Use(path));
    ctx.request_repaint();
    bench.until("they are in the form", |bench| bench.has("are in the form"));
    generated(&mut bench).into()
}

#[test]
fn a_windows_state_opens_as_the_form_that_it_was() {
    for model in ["pair", "flux", "framepack"] {
        let expected = json_of(&format!("state.{model}.json"));
        assert_eq!(jobs_of_state(model), expected, "{model}");
    }
    let mut bench = bench_in(with_model("state.json", "pair", "data/state.json"));
    let mut old = json_of("state.json");
    let mut now = serde_json::to_value(bench.app().remembered()).expect("it is JSON");
    // Those that are switched off no job shows.
    assert_eq!(now["form"]["loras"], old["form"]["loras"]);
    for state in [&mut old, &mut now] {
        state.as_object_mut().expect("it is one").remove("form");
    }
    assert_eq!(now, old);
}

#[test]
fn presets_of_ones_own_set_what_they_set() {
    for model in ["pair", "flux", "framepack"] {
        let expected = json_of(&format!("presets.{model}.json"));
        assert_eq!(jobs_of_presets(model), expected, "{model}");
    }
}

#[test]
fn the_jobs_of_a_queue_are_read_whole() {
    let read = QueueFile::load(&fixture("queue.json")).expect("it is a queue");
    assert_eq!(read.unread, [""; 0]);
    let mut jobs = serde_json::to_value(&read.jobs).expect("they are JSON");
    let mut old = json_of("queue.json")["jobs"].take();
    for json in [&mut jobs, &mut old] {
        // What a model consists of grows with the program.
        for job in json.as_array_mut().expect("they are several") {
            job["request"]["files"] = Value::Null;
        }
    }
    // What was edited was the start picture then.
    for job in old.as_array_mut().expect("they are several") {
        let request = job["request"].as_object_mut().expect("it is an object");
        if request.insert("image_role".into(), "first_frame".into()) == Some("reference".into()) {
            let picture = request.remove("image").expect("it has one");
            request.insert("references".into(), vec![picture].into());
        }
    }
    assert_eq!(jobs, old);
}

#[test]
fn what_results_carry_is_read_whole_and_makes_the_same_job() {
    let expected = &json_of("result.json")["request"];
    for name in ["result.json", "result.png", "result.mp4", "result.webp"] {
        let found = restore::read(&fixture(name)).expect("it can be read");
        let Some(Found::Own(carried)) = found else {
            panic!("{name} is not ours");
        };
        let mut request = serde_json::to_value(&carried.request).expect("it is JSON");
        let fields = request.as_object_mut().expect("it is an object");
        fields.retain(|name, _| expected.get(name).is_some());
        assert_eq!(request, *expected, "{name}");
        assert_eq!(carried.inputs.len(), 2);
    }
    for model in ["pair", "flux", "framepack"] {
        let expected = json_of(&format!("result.{model}.json"));
        let mut jobs = jobs_of_result(model);
        // Restored prompts are literal, and jobs say so.
        for job in jobs.as_array_mut().expect("they are several") {
            let job = job.as_object_mut().expect("it is an object");
            assert_eq!(
                job.remove("prompt_template"),
                Some("a {red|blue} boat".into())
            );
            assert_eq!(
                job.remove("negative_prompt_template"),
                Some("{fog|rain}".into())
            );
        }
        assert_eq!(jobs, expected, "{model}");
    }
}

#[test]
fn a_settings_file_says_what_it_said() {
    let path = fixture("settings.toml");
    let loaded = Settings::load(&path);
    assert!(loaded.error.is_none() && loaded.warnings.is_empty());
    let text = fs::read_to_string(&path).expect("it is there");
    let said: toml::Table = toml::from_str(&text).expect("it is TOML");
    let read = toml::Table::try_from(&loaded.settings).expect("it is TOML");
    for (name, table) in &said {
        for (key, value) in table.as_table().expect("a table") {
            // What is not said came later, and is as it is by itself.
            assert_eq!(read[name].get(key), Some(value), "{name}.{key}");
        }
    }
    let changed = loaded.settings.changed_keys(&Settings::default());
    // One of them is a table with two entries.
    assert_eq!(changed.len(), 26, "{changed:?}");
}
