//! What the window says of memory: the verdict, changes that help, the preserved memory and the cap.

use std::sync::atomic::AtomicBool;

use egui::vec2;
use safelight::telemetry::TelemetryDevice;
use safelight::window::memory::planning::PlanBasis;
use safelight::worker::TimeEstimates;
use safelight_core::families::{read_footprint, wan};
use safelight_core::job_update::FallbackAttempt;
use safelight_core::memory::{DeviceClass, DeviceFacts, FallbackLevel};
use safelight_core::model::ModelFiles;
use safelight_core::plan::{PeakCorrections, PlanOutcome, StageOutcome};
use safelight_core::settings::Settings;

use crate::app_window::prelude::*;

const GIB: u64 = 1 << 30;

fn on_card(mib: u64) -> Bench {
    on_card_of(move |_| mib)
}

/// A window with the details of the memory panel open. `mib`: memory of the card, by the settings.
fn on_card_of(mib: impl Fn(&Settings) -> u64 + Send + Sync + 'static) -> Bench {
    let mut bench = fresh_on(mib);
    bench.app().cx.folds.is_memory_detailed = true;
    bench.press("Show memory");
    bench
}

fn fresh_on(mib: impl Fn(&Settings) -> u64 + Send + Sync + 'static) -> Bench {
    fresh_with(mib, TimeEstimates::default())
}

fn fresh_with(
    mib: impl Fn(&Settings) -> u64 + Send + Sync + 'static,
    times: TimeEstimates,
) -> Bench {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
    let files = ModelFiles::of_folder(&folder).expect("the fixture is a pipeline");
    let weights = read_footprint(wan::FAMILY, &files, &[], &[]).expect("its headers can be read");
    Bench::with(move |startup| {
        let mut spec = pair_spec();
        spec.files = ModelFiles::default();
        spec.start_image = InputUse::No;
        spec.end_image = InputUse::No;
        let found = found(vec![spec]);
        startup.models = Some(found.clone());
        startup.library.load = Arc::new(move |_| found.clone());
        startup.read_plan = Arc::new(move |settings, _, _| {
            Some(PlanBasis {
                weights: weights.clone(),
                machine: TelemetryDevice {
                    physical_bytes: 0,
                    name: "a card".to_owned(),
                    facts: DeviceFacts {
                        class: DeviceClass::Discrete,
                        total_bytes: mib(settings) << 20,
                        used_bytes: 0,
                        host_available_bytes: 64 * GIB,
                    },
                },
                corrections: PeakCorrections::default(),
                times: times.clone(),
                alternatives: Vec::new(),
            })
        });
    })
}

#[test]
fn memory_graph_starts_collapsed_to_one_line_with_the_plan() {
    let mut bench = fresh_on(|_| 24 << 10);
    bench.until("the plan is made", |bench| bench.has_label("Fits"));
    bench.assert_hides("Reserved for activations|Expected memory");
    bench.press_until("Show memory", "GiB free");
    assert!(bench.has_label("Fits"));
    bench.assert_hides("Reserved for activations|Predicted peak");
    let details = "Reserved for activations|Memory cap|Predicted peak";
    bench.press_until("Memory details", details);
}

#[test]
fn the_time_counts_all_jobs_that_one_press_makes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("times.json");
    let stages = r#"{"encode_text": 5.0, "denoise": 0.0, "decode": 0.0}"#;
    let kinds = SamplerKind::ALL.iter().flat_map(|sampler| {
        let kind = |guided: &str| {
            let sampler = sampler.name();
            format!(r#""pair {sampler}{guided} on a card": {stages}"#)
        };
        [kind(""), kind(" guided")]
    });
    let kinds: Vec<String> = kinds.collect();
    std::fs::write(&file, format!("{{{}}}", kinds.join(", "))).unwrap();
    let mut bench = fresh_with(|_| 24 << 10, TimeEstimates::load(Some(file)));
    let until = |bench: &mut Bench, text: &str| bench.until(text, |bench| bench.has_label(text));
    until(&mut bench, "Fits  ·  about 5 s");
    bench.form().grid = vec!["seed=1..9".parse().unwrap()];
    until(&mut bench, "Fits  ·  about 45 s for 9 jobs");
    let form = bench.form();
    form.grid.clear();
    (form.prompt, form.is_one_a_line) = ("a boat\na hill\na fox".to_owned(), true);
    form.batch_size = Some(2);
    until(&mut bench, "Fits  ·  about 30 s for 6 jobs");
    bench.press_until("Show memory", "All 6 jobs take about 30 s");
}

#[test]
fn memory_graph_opens_automatically_when_memory_ran_out() {
    let mut bench = fresh_on(|_| 24 << 10);
    bench.wait_for("Fits");
    bench.make_video(3);
    assert!(!bench.app().cx.folds.is_graph_open, "nothing to say");
    decode_in_tiles(&mut bench);
    assert!(bench.app().cx.folds.is_graph_open);
}

/// A job whose decoding needed more than was planned, and went on in tiles: what the graph says of it.
fn decode_in_tiles(bench: &mut Bench) {
    let sent = bench.start_job();
    bench.say(sent.id, sample(1.0, 300, 50, 80, 24 << 10));
    let mut made = output(&sent, 3);
    made.plan = PlanOutcome::from_stages(vec![StageOutcome {
        stage: Stage::Decode,
        predicted_bytes: 5 << 29,
        measured_bytes: 3 << 30,
    }]);
    made.rungs = vec![FallbackAttempt {
        stage: Stage::Decode,
        section: 0,
        rung: FallbackLevel::Tiles512,
        helped: true,
    }];
    bench.say_end(sent.id, JobOutcome::Finished(made));
    bench.assert_shows("Last job: peak allocated predicted 2.5, measured 3.0 GiB");
    bench.assert_shows("Decoding continued in tiles of 512 pixels");
}

#[test]
fn smallest_window_shows_the_memory_graph_on_request() {
    let mut bench = fresh_on(|_| 24 << 10);
    bench.wait_for("Fits");
    bench.make_video(3);
    bench.app().cx.folds.is_memory_detailed = true;
    for size in [vec2(800.0, 500.0), vec2(900.0, 600.0)] {
        bench.resize(size);
        bench.press("Show memory");
        let text = bench.rect(Role::SpinButton, "Reserved for activations");
        assert!(text.max.x <= size.x && text.max.y <= size.y, "{text:?}");
        bench.press("Hide memory");
        assert!(!bench.has("Reserved for activations"), "{size}");
        bench.node(Role::Image, "Finished video");
    }
    bench.harness.set_size(vec2(800.0, 500.0));
    bench.press("Show memory");
    bench.press_key(Key::Escape);
    bench.assert_hides("Reserved for activations");
}

#[test]
fn changed_libtorch_or_model_search_updates_the_plan() {
    let is_replaced = Arc::new(AtomicBool::new(false));
    let has_new_file = Arc::clone(&is_replaced);
    let mut bench = on_card_of(move |settings| {
        let is_other = settings.runtime.libtorch.is_some() || has_new_file.load(Ordering::Relaxed);
        if is_other { 12 << 10 } else { 24 << 10 }
    });
    bench.wait_for("21.8 GiB free");
    let is_planned_anew = |bench: &mut Bench| bench.has("Fits") && !bench.has("21.8 GiB");
    bench.change_settings(|settings| settings.runtime.libtorch = Some("/opt/libtorch-cuda".into()));
    bench.until("it is planned anew", is_planned_anew);
    bench.change_settings(|settings| settings.runtime.libtorch = None);
    bench.wait_for("21.8 GiB free");
    is_replaced.store(true, Ordering::Relaxed);
    bench.push(LibraryCommand::Reload);
    bench.until("it is planned anew", is_planned_anew);
}

fn too_large() -> Bench {
    let mut bench = on_card(3 << 10);
    bench.form().num_frames = Some(81);
    bench.set_size(4096, 4096);
    bench
}

#[test]
fn a_suggestion_is_a_button_that_makes_the_job_fit() {
    let mut bench = too_large();
    bench.wait_for("Does not fit");
    let suggestion = bench.app().memory.planned().unwrap().suggestions[0].clone();
    bench.press(&suggestion.text);
    bench.wait_until_gone("Does not fit");
}

#[test]
fn job_that_does_not_fit_warns_above_generate_while_the_graph_is_collapsed() {
    let mut bench = too_large();
    bench.press_until("Hide memory", "Does not fit: ");
    let generate = bench.rect(Role::Button, "Generate");
    let warning = bench.harness.get_by_label_contains("Does not fit: ");
    assert!(warning.rect().bottom() <= generate.top());
    warning.click();
    bench.settle();
    assert!(bench.app().cx.folds.is_graph_open);
    assert!(bench.has_label("Does not fit"));
    bench.assert_shows("Reserved for activations");
}

#[test]
fn image_keeps_its_height_and_position_when_a_job_ends() {
    let mut bench = on_card(24 << 10);
    bench.harness.set_size(egui::vec2(1240.0, 820.0));
    bench.wait_for("GiB free");
    let top = |bench: &Bench| {
        let slider = bench.rect(Role::SpinButton, "Reserved for activations");
        slider.top()
    };
    let before = top(&bench);
    let sent = start_planned(&mut bench);
    bench.say(sent.id, sample(1.0, 300, 50, 80, 24 << 10));
    assert_eq!(top(&bench), before);
    bench.finish_job(&sent, 1);
    bench.assert_shows("Next job");
    assert_eq!(top(&bench), before);
    let status = bench.labelled("Hide memory").rect().top();
    let graph = bench.harness.get_by_label_contains("Memory graph over");
    let graph = graph.rect();
    assert!(graph.bottom() <= status && graph.height() >= 60.0);
    assert!(before > 0.6 * status, "{before} {status}");
}

#[test]
fn the_queue_has_the_height_that_the_memory_leaves_it() {
    let mut bench = on_card(24 << 10);
    bench.harness.set_size(egui::vec2(1240.0, 820.0));
    bench.wait_for("GiB free");
    bench.start_job();
    for _ in 0..9 {
        bench.press("Generate");
    }
    let verdict = bench.labelled("Memory details").rect();
    let rows = bench.harness.query_all_by_label_contains(". ");
    let bottoms = rows.filter_map(|row| {
        let rect = row.rect();
        (rect.left() > 900.0).then_some(rect.bottom())
    });
    let last = bottoms.fold(0.0, f32::max);
    assert!(last > verdict.top() - 110.0, "{last} {verdict:?}");
}

#[test]
fn preserved_memory_and_cap_are_settings_of_the_user_that_the_next_job_carries() {
    let mut bench = on_card(24 << 10);
    bench.wait_for("Reserved for activations");
    let memory = &mut bench.app().cx.settings.memory;
    assert_eq!(*memory, Default::default(), "a plan is no setting");
    (memory.preserved_gib, memory.cap_gib) = (Some(6.5), Some(20.0));
    bench.settle();
    let slider = bench.node(Role::SpinButton, "Reserved for activations");
    assert!(slider.value().is_some_and(|value| value.starts_with("6.5")));
    let sent = start_planned(&mut bench);
    assert_eq!(
        sent.request.options.memory.preserved_bytes,
        Some(13 * GIB / 2)
    );
    assert_eq!(sent.request.options.memory.cap_bytes, Some(20 * GIB));
    // What is computed comes back with one click.
    bench.press("Default cap");
    assert_eq!(bench.app().cx.settings.memory.cap_gib, None);
}

fn start_planned(bench: &mut Bench) -> SentJob {
    let sent = bench.start_job();
    let plan = bench.app().memory.planned().unwrap().plan.clone();
    bench.say(sent.id, JobUpdate::Plan(Box::new(plan)));
    sent
}

#[test]
fn expected_memory_is_drawn_and_described_before_the_job_starts() {
    let mut bench = on_card(24 << 10);
    bench.wait_for("Fits|21.8 GiB free|Auto (|Expected memory: at most");
    bench.wait_for("The time is known after the first job of this kind");
    bench.assert_shows("Predicted peak");
    let sent = start_planned(&mut bench);
    bench.say(sent.id, sample(0.0, 100, 50, 80, 24 << 10));
    bench.say(sent.id, sample(4.0, 300, 50, 80, 24 << 10));
    bench.assert_shows("Memory graph over 4 s: at most 300 MiB used");
    bench.finish_job(&sent, 3);
    // The last job stays, and the next one is a click away.
    bench.assert_shows("Memory graph over 4 s");
    bench.press_until("Next job", "Expected memory: at most");
    bench.press_until("Last job", "Memory graph over 4 s");
}

#[test]
fn the_plan_of_another_model_does_not_stay() {
    let mut bench = on_card(24 << 10);
    bench.wait_for("GiB free");
    let mut other = pair_spec();
    other.id = "other".into();
    other.files.transformer = "elsewhere".into();
    bench.app().cx.models.found.specs = vec![pair_spec(), other.clone()];
    bench.form().reset_to(&other);
    bench.harness.step();
    // It cannot start yet: the model wants an image.
    bench.assert_hides("GiB free");
}

#[test]
fn a_slider_is_kept_when_the_mouse_lets_go_and_seen_before() {
    let mut bench = on_card(24 << 10);
    bench.wait_for("Reserved for activations");
    let preserved = |bench: &mut Bench| bench.app().cx.settings.memory.preserved_gib;
    assert_eq!(preserved(&mut bench), None);
    let rect = bench.rect(Role::Slider, "Reserved for activations");
    let at = |share: f32| egui::pos2(rect.left() + rect.width() * share, rect.center().y);
    bench.harness.event(egui::Event::PointerMoved(at(0.3)));
    bench.harness.event(primary_button(at(0.3), true));
    bench.harness.step();
    for share in [0.4, 0.5, 0.6] {
        bench.harness.event(egui::Event::PointerMoved(at(share)));
        bench.harness.step();
        assert_eq!(preserved(&mut bench), None);
    }
    assert!(bench.app().memory.draft.is_some());
    bench.harness.event(primary_button(at(0.6), false));
    bench.settle();
    assert!(preserved(&mut bench).is_some());
    assert!(bench.app().memory.draft.is_none());
}
