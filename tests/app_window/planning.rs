//! What the window says of memory: the verdict, changes that help, the preserved memory and the cap.

use std::path::Path;
use std::sync::Arc;

use egui::accesskit::Role;
use egui_kittest::kittest::Queryable as _;
use safelight::app::memory::planning::PlanBasis;
use safelight::telemetry::Device;
use safelight_core::catalog::{Family, ModelFiles};
use safelight_core::job::JobUpdate;
use safelight_core::memory::{Corrections, DeviceClass, DeviceFacts, ModelWeights};

use crate::harness::{Bench, pair_spec};

const GIB: u64 = 1 << 30;

/// A window on a machine whose card has so much memory, with a tiny model whose headers are known.
fn on_card(mib: u64) -> Bench {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
    let files = ModelFiles::of_folder(&folder).expect("the fixture is a pipeline");
    let weights = ModelWeights::read(Family::Wan, &files, &[]).expect("its headers can be read");
    Bench::with(move |startup| {
        let mut spec = pair_spec();
        spec.files = ModelFiles::default();
        spec.start_image = safelight_core::catalog::InputUse::No;
        spec.end_image = safelight_core::catalog::InputUse::No;
        if let Some(models) = &mut startup.models {
            models.specs = vec![spec];
        }
        startup.read_plan = Arc::new(move |_, _| {
            Some(PlanBasis {
                weights: weights.clone(),
                machine: Device {
                    physical_bytes: 0,
                    name: "a card".to_owned(),
                    facts: DeviceFacts {
                        class: DeviceClass::Discrete,
                        total_bytes: mib << 20,
                        used_bytes: 0,
                        host_available_bytes: 64 * GIB,
                    },
                },
                corrections: Corrections::default(),
                alternatives: Vec::new(),
            })
        });
    })
}

#[test]
fn the_verdict_stands_there_before_anything_is_made() {
    let mut bench = on_card(24 << 10);
    bench.until("the plan is made", |bench| bench.has("Fits: needs "));
    bench.assert_shows("of 22.5 GiB");
    bench.assert_shows("suggested ");
}

#[test]
fn a_suggestion_is_a_button_that_makes_the_job_fit() {
    let mut bench = on_card(3 << 10);
    bench.app().state.form.num_frames = 81;
    bench.app().state.form.size = safelight::app::form::SizeChoice::Custom;
    (bench.app().state.form.width, bench.app().state.form.height) = (4096, 4096);
    bench.until("the plan is made", |bench| bench.has("Does not fit: "));
    let suggestion = bench.app().session.planning.planned().unwrap().suggestions[0].clone();
    bench.press(&suggestion.text);
    bench.until("the plan fits", |bench| bench.has("Fits: needs "));
    assert!(!bench.has("Does not fit"));
}

#[test]
fn preserved_memory_and_cap_are_settings_that_the_next_job_carries() {
    let mut bench = on_card(24 << 10);
    bench.until("the plan is made", |bench| bench.has("Preserved memory"));
    let mut settings = bench.app().settings.clone();
    settings.memory.preserved_gib = Some(6.5);
    settings.memory.cap_gib = Some(20.0);
    bench.app().settings = settings;
    bench.settle();
    let slider = bench
        .harness
        .get_by_role_and_label(Role::SpinButton, "Preserved memory");
    assert!(slider.value().is_some_and(|value| value.starts_with("6.5")));
    let sent = bench.start_job();
    assert_eq!(sent.request.memory.preserved_bytes, Some(13 * GIB / 2));
    assert_eq!(sent.request.memory.cap_bytes, Some(20 * GIB));
    // What is computed comes back with one click.
    let plan = bench.app().session.planning.planned().unwrap().plan.clone();
    bench.say(sent.id, JobUpdate::Plan(Box::new(plan)));
    bench.press("Device's own cap");
    assert_eq!(bench.app().settings.memory.cap_gib, None);
}

#[test]
fn what_a_plan_suggests_is_shown_and_not_made_a_setting() {
    let mut bench = on_card(24 << 10);
    bench.until("the plan is made", |bench| bench.has("Preserved memory"));
    bench.settle();
    assert_eq!(bench.app().settings.memory, Default::default());
}
