//! Fetching a known model: looked at, agreed to, paused, gone on with, and chosen once it is here.

use std::sync::atomic::AtomicBool;

use safelight::download::ModelHub;
use safelight::window::create::choices::QueueEndAction;
use safelight::window::downloads::FetchState;
use safelight_core::catalog::ModelCatalog;
use safelight_core::settings::Settings;

use crate::app_window::prelude::*;
use crate::common::server::{Answer, Server, good};

const MODELS: &str = r#"
[[model]]
id = "tiny"
name = "Tiny Fetched"
description = "A model for tests"
licence = "CC0-1.0"
family = "wan"

[[model.source]]
component = "transformer"
repository = "tiny/wan"
path = "tiny_wan.safetensors"
folder = "diffusion_models"

[[model.source]]
component = "vae"
repository = "tiny/wan"
path = "tiny_vae.safetensors"
folder = "vae"
bytes = 3_000_000
"#;

fn content() -> Vec<u8> {
    (0..3_000_000_u32).map(|n| (n / 7) as u8).collect()
}

/// A window that knows the tiny model, with a hub at this address.
fn bench_of(url: &str) -> Bench {
    let hub = ModelHub::new(url, None);
    Bench::with(|startup| {
        let paths = startup.paths.clone().expect("a test has a home");
        fs::create_dir_all(&paths.config).expect("a folder for settings");
        fs::write(paths.models_file(), MODELS).expect("a catalogue is written");
        let catalog = ModelCatalog::load(&paths, &Settings::default());
        startup.models = Some(FoundModels {
            missing: catalog.missing,
            ..found(vec![spec()])
        });
        startup.hub = hub;
        // The files are of no real model, so the search is a test's own.
        startup.library.load = Arc::new(move |_| {
            let is_here = paths.models().join("vae/tiny_vae.safetensors").is_file();
            let mut tiny = spec();
            (tiny.id, tiny.name) = ("tiny".into(), "Tiny Fetched".into());
            found(
                [spec(), tiny]
                    .into_iter()
                    .take(1 + usize::from(is_here))
                    .collect(),
            )
        });
    })
}

fn ask_for_it(bench: &mut Bench) {
    bench.look_at_model("Tiny Fetched");
    bench.press("Download…");
}

fn state(bench: &mut Bench) -> Option<FetchState> {
    let fetch = bench.app().fetching.fetch.as_ref();
    fetch.map(|it| it.state.clone())
}

fn until_sizes(bench: &mut Bench) {
    bench.until("the sizes are there", |bench| {
        matches!(state(bench), Some(FetchState::Confirming(_)))
    });
}

fn until_failed(bench: &mut Bench) {
    bench.until("the server has refused", |bench| {
        matches!(state(bench), Some(FetchState::Stopped(Some(_))))
    });
}

#[test]
fn model_download_starts_after_confirmation_can_pause_and_selects_the_model() {
    let is_stalling = Arc::new(AtomicBool::new(true));
    let stalling = Arc::clone(&is_stalling);
    let server = Server::start(move |request| {
        let answer = good(request, &content());
        let is_vae = request.method == "GET" && request.path.ends_with("vae.safetensors");
        let is_stalled = is_vae && stalling.load(Ordering::Relaxed);
        Answer {
            stalls_after: is_stalled.then_some((1 << 20, Duration::from_secs(8))),
            ..answer
        }
    });
    let mut bench = bench_of(&server.url);
    bench.look_at_model("Tiny Fetched");
    bench.assert_shows("Licence: CC0-1.0|Transformer: tiny_wan.safetensors, size not known yet");
    bench.assert_shows("VAE: tiny_vae.safetensors, 3 MiB|Goes into|2 files to download");
    bench.press("Download…");
    until_sizes(&mut bench);
    bench.assert_shows("Download 6 MiB into|are free");
    let num_requests = server.requests("GET").len();
    assert_eq!(num_requests, 0, "nothing comes before a yes");

    bench.press("Download now");
    bench.wait_for("Downloading tiny_vae.safetensors: 4 MiB of 6 MiB");
    bench.press("Pause");
    bench.until("it has stopped", |bench| {
        state(bench) == Some(FetchState::Stopped(None))
    });
    bench.assert_shows("Paused at 4 MiB of 6 MiB");
    is_stalling.store(false, Ordering::Relaxed);
    bench.press("Continue");
    bench.until("the model is chosen", |bench| {
        bench.form().model.as_deref() == Some("tiny")
    });
    assert_eq!(state(&mut bench), None);
    let models = bench.home.path().join("data/models");
    for file in [
        "diffusion_models/tiny_wan.safetensors",
        "vae/tiny_vae.safetensors",
    ] {
        let written = fs::read(models.join(file)).expect("it is there");
        assert!(written == content(), "{file}");
    }
    let requests = server.requests("GET");
    let starts = requests.iter().filter_map(|it| Some(it.range()?.0));
    assert_eq!(starts.max(), Some(1 << 20), "it goes on where it stopped");
}

#[test]
fn failed_download_shows_its_reason_without_moving_the_form() {
    let server = Server::start(|_| Answer::of(403).with("content-length", 0));
    let mut bench = bench_of(&server.url);
    let places =
        |bench: &Bench| ["Prompt", "Seed", "Length"].map(|name| bench.labelled(name).rect());
    let before = places(&bench);
    ask_for_it(&mut bench);
    until_failed(&mut bench);
    bench.assert_shows("agree on the model's page");
    bench.press("Try again");
    until_failed(&mut bench);
    bench.press("Close the models");
    assert_eq!(places(&bench), before);
    assert!(!bench.has("Try again"), "not in the form");
    // Looking at another model does not lose it.
    bench.look_at_model("Little World");
    bench.press_until("Downloads", "Tiny Fetched|Paused or failed");
    assert_eq!(bench.app().fetching.stopped().count(), 1);
    bench.press("Close");
    assert_eq!(bench.app().fetching.stopped().count(), 0);
    bench.assert_shows("Nothing is being downloaded");
    bench.press("Downloads");
    bench.assert_hides("Nothing is being downloaded");
}

#[test]
fn window_stays_open_after_the_queue_until_the_model_download_stops() {
    let mut bench = bench_of("http://127.0.0.1:9");
    bench.look_at_model("Tiny Fetched");
    let sent = bench.start_job();
    bench.press("Queue");
    bench.app().queue.after = QueueEndAction::Quit;
    let set = |bench: &mut Bench, state| {
        let fetch = bench.app().fetching.fetch.as_mut();
        fetch.expect("it is looked at").state = state;
    };
    set(&mut bench, FetchState::Running);
    bench.finish_job(&sent, 2);
    bench.assert_hides("Safelight quits");
    set(&mut bench, FetchState::Stopped(None));
    bench.settle();
    bench.assert_shows("Safelight quits in ");
}

#[test]
fn a_model_that_arrives_while_another_is_worked_with_is_offered() {
    let server = Server::start(|request| good(request, &content()));
    let mut bench = bench_of(&server.url);
    ask_for_it(&mut bench);
    until_sizes(&mut bench);
    let app = bench.app();
    app.fetching.send(FetchState::Running, &app.cx);
    bench.harness.step();
    bench.form().sampling.num_steps = Some(7);
    bench.wait_for("Switch to it");
    assert_eq!(bench.form().model, Some(spec().id));
    assert_eq!(bench.form().sampling.num_steps, Some(7));
    bench.press("Switch to it");
    assert_eq!(bench.form().model.as_deref(), Some("tiny"));
    assert!(!bench.has_cards());
}
