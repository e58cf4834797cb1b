//! The first page: what was found, what this machine can run, and a way on from every state.

use safelight::telemetry::TelemetryDevice;
use safelight::window::library::survey::{FitWord, MachineInfo, SurveyNews, SurveyedFit};
use safelight_core::catalog::known_models;
use safelight_core::memory::{DeviceClass, DeviceFacts};

use crate::app_window::prelude::*;

const GIB: u64 = 1 << 30;

fn machine(is_writable: bool) -> MachineInfo {
    MachineInfo {
        device: TelemetryDevice {
            name: "AMD gfx1151".into(),
            facts: DeviceFacts {
                class: DeviceClass::Unified,
                total_bytes: 96 * GIB,
                used_bytes: 0,
                host_available_bytes: 96 * GIB,
            },
            physical_bytes: 128 * GIB,
        },
        models: PathBuf::from("/home/somebody/models"),
        free_bytes: Some(500_000_000_000),
        is_writable,
    }
}

/// The first page with these models, an engine that can start or not, and a disk that takes files or not.
fn bench(specs: Vec<ModelSpec>, engine: Result<(), JobError>, is_writable: bool) -> Bench {
    let mut bench = Bench::with(|startup| {
        let (missing, _) = known_models("/nowhere/models.toml".as_ref());
        startup.models = Some(FoundModels {
            missing,
            ..found(specs)
        });
        startup.library.check_engine = Arc::new(move |_| engine.clone());
        startup.library.survey = Arc::new(move |wish, tell| {
            tell(SurveyNews::Machine(Box::new(machine(is_writable))));
            let ids = wish.specs.iter().map(|spec| spec.id.clone());
            let known = wish.known.iter().map(|entry| entry.id.clone());
            for id in ids.chain(known) {
                let fit = SurveyedFit {
                    word: FitWord::Fits,
                    text: "Fits".into(),
                    ways: Vec::new(),
                    secs: Some(50_000),
                };
                tell(SurveyNews::Fit(id, fit));
            }
        });
    });
    bench.until("the engine was looked for", |bench| {
        bench.app().library.engine.is_some()
    });
    bench.app().cx.notices.clear();
    bench
}

fn open(bench: &mut Bench) {
    bench.click(Role::ComboBox, "Model");
    bench.press_until("First steps", "AMD gfx1151");
}

#[test]
fn one_button_makes_the_first_video_with_the_example() {
    let mut bench = bench(vec![spec()], Ok(()), true);
    open(&mut bench);
    bench.assert_shows("AMD gfx1151, which shares 96.0 GiB of memory|1 usable model");
    bench.assert_shows("are free on the disk|slow here · about 14 h|Models for this machine");
    bench.press("Make your first video");
    let request = bench.next_request();
    assert_eq!(request.model, "little-world");
    assert_eq!(request.prompt, "a red boat sails to the right at sunset");
    assert_eq!(bench.app().cx.page, MainPage::Watch);
}

#[test]
fn three_models_that_suit_the_machine_are_offered_and_none_that_takes_days_is_called_fitting() {
    let quick = ["flux2-klein-4b", "z-image-turbo"];
    let mut bench = Bench::with(|startup| {
        let (missing, _) = known_models("/nowhere/models.toml".as_ref());
        startup.models = Some(FoundModels {
            missing,
            ..found(vec![spec()])
        });
        startup.library.survey = Arc::new(move |wish, tell| {
            tell(SurveyNews::Machine(Box::new(machine(true))));
            for entry in &wish.known {
                let is_quick = quick.contains(&entry.id.as_str());
                let fit = SurveyedFit {
                    word: FitWord::Fits,
                    text: "Fits".into(),
                    ways: Vec::new(),
                    secs: Some(if is_quick { 40 } else { 21 * 86_400 }),
                };
                tell(SurveyNews::Fit(entry.id.clone(), fit));
            }
        });
    });
    bench.push(AppCommand::Show(MainPage::Welcome));
    bench.wait_for("too slow here");
    assert_eq!(bench.count("fits · about 40 s"), 2);
    assert_eq!(bench.count("too slow here"), 1);
    bench.assert_hides("days");
    for name in ["Download FLUX.2 klein 4B", "Download Z-Image Turbo"] {
        bench.assert_shows(name);
    }
    bench.press("See all models");
    assert_eq!(bench.app().cx.page, MainPage::Models);
}

#[test]
fn welcome_page_without_a_gpu_warns_that_the_cpu_is_slow() {
    let mut bench = Bench::with(|startup| {
        startup.library.survey = Arc::new(|_, tell| {
            let mut machine = machine(true);
            machine.device.facts.class = DeviceClass::Cpu;
            tell(SurveyNews::Machine(Box::new(machine)));
        });
    });
    bench.push(AppCommand::Show(MainPage::Welcome));
    bench.wait_for("No supported GPU found. Running on the CPU, which is slow");
}

#[test]
fn welcome_page_without_libtorch_shows_remedies_and_starts_no_job() {
    let err = JobError::new(JobErrorKind::Device, "libtorch is missing")
        .advise("Run `cargo xtask setup`, or choose a folder with libtorch");
    let mut bench = bench(vec![spec()], Err(err), true);
    open(&mut bench);
    bench.assert_shows("Libtorch is missing");
    let copied = bench.copied_by("Copy the command");
    assert_eq!(copied.as_deref(), Some("cargo xtask setup"));
    bench.assert_shows("Choose a libtorch folder");
    bench.press_in_vain("Make your first video");
    bench.assert_no_job();
    // Whoever skips the page is told where the work is.
    bench.press("Skip the first steps");
    assert_eq!(bench.app().cx.notices.all().len(), 1);
}

#[test]
fn welcome_page_reports_unwritable_disks_and_models_that_need_an_image() {
    let needy = ModelSpec {
        start_image: InputUse::Required,
        id: "needy".into(),
        ..spec()
    };
    let mut bench = bench(vec![needy], Ok(()), false);
    open(&mut bench);
    bench.assert_shows("need a start image|cannot be written to");
    bench.press("See all models");
    assert_eq!(bench.app().cx.page, MainPage::Models);
}

#[test]
fn welcome_page_without_models_offers_a_download() {
    let mut bench = Bench::with(|startup| {
        let (missing, _) = known_models("/nowhere/models.toml".as_ref());
        startup.models = Some(FoundModels {
            missing,
            ..FoundModels::default()
        });
    });
    bench.press_until("Get a model…", "First, a model is needed");
    bench.press_until("Download Wan 2.1 T2V 1.3B", "Goes into|Download…");
}
