//! The card that brings jobs onto the GPU, and the section of the settings with all runtimes: what they say on each machine,
//! and what their buttons do.

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight::runtimes::{
    InstallProgress, InstalledRuntime, MachineGpu, PreviousRuntime, RuntimeAdvice, RuntimeBuild,
    RuntimeKind, RuntimeOverview, RuntimeRefusal, RuntimeRow,
};
use safelight::window::runtimes::{RuntimeState, RuntimeTask};
use safelight_core::settings::{LibtorchRuntime, ThemeChoice};

use crate::app_window::prelude::*;

fn gpu() -> MachineGpu {
    MachineGpu::plain("AMD gfx1151", "0000:c4:00.0", RuntimeKind::Rocm)
}

fn build() -> RuntimeBuild {
    RuntimeBuild {
        id: "rocm7.14-gfx1151".to_owned(),
        name: "ROCm 7.14 of AMD, for gfx1151".to_owned(),
        kind: RuntimeKind::Rocm,
        version: "2.11.0+rocm7.14.1".to_owned(),
        index: "amd".to_owned(),
        packages: Vec::new(),
        targets: Vec::new(),
        download_mb: 1400,
        licences: "PyTorch's and AMD's".to_owned(),
        driver: None,
        kernel: None,
    }
}

fn get() -> RuntimeAdvice {
    let (gpu, build) = (gpu(), build());
    RuntimeAdvice::Get { gpu, build }
}

fn mend(what: &str, advice: &str, command: &str) -> RuntimeAdvice {
    RuntimeAdvice::Repair {
        gpu: gpu(),
        refusal: RuntimeRefusal {
            what: what.to_owned(),
            advice: advice.to_owned(),
            command: command.to_owned(),
        },
    }
}

/// What a thread that fetches says next: how far it is, or how it ended.
type Said = Result<InstallProgress, Result<bool, JobError>>;

fn fetching(total_gib: u64) -> InstallProgress {
    InstallProgress::Fetching {
        done_bytes: 1 << 30,
        total_bytes: total_gib << 30,
    }
}

fn next(bench: &mut Bench, errands: &Receiver<RuntimeTask>) -> RuntimeTask {
    bench.until("it was asked for", |_| !errands.is_empty());
    errands.recv().unwrap()
}

fn using(id: &str) -> RuntimeTask {
    RuntimeTask::Use(id.to_owned())
}

fn next_build(bench: &mut Bench, errands: &Receiver<RuntimeTask>) -> (String, bool) {
    let RuntimeTask::Get { build, has_gpu } = next(bench, errands) else {
        panic!("another errand")
    };
    (build.id, has_gpu)
}

fn hangs() -> JobError {
    JobError::new(JobErrorKind::Device, "this libtorch hangs at a convolution")
}

fn until_stopped(bench: &mut Bench) {
    bench.until("it has stopped", |bench| {
        let runtimes = &bench.app().runtimes;
        !runtimes.is_busy() && runtimes.state == RuntimeState::Idle
    });
}

/// The window on a machine that looks so. Who does what is asked for says what is sent, and sends what it was asked for.
fn window(overview: RuntimeOverview) -> (Bench, Sender<Said>, Receiver<RuntimeTask>) {
    let (say, said) = bounded::<Said>(8);
    let (asked, errands) = bounded(8);
    let bench = Bench::with(|startup| {
        startup.runtimes.look = Arc::new(move |_| overview.clone());
        startup.runtimes.fulfil = Arc::new(move |errand, _, cancel, report| {
            asked.send(errand.clone()).expect("a test that listens");
            loop {
                match said.recv() {
                    Ok(Ok(progress)) => report(&progress),
                    Ok(Err(ended)) if !cancel.is_cancelled() => return ended,
                    _ => return Ok(false),
                }
            }
        });
    });
    (bench, say, errands)
}

/// The first page on a machine of which this is advised.
fn bench(advice: RuntimeAdvice) -> (Bench, Sender<Said>, Receiver<RuntimeTask>) {
    let (mut bench, say, errands) = window(RuntimeOverview {
        advice,
        ..RuntimeOverview::default()
    });
    let has_card = bench.has("AMD gfx1151 is not used");
    bench.click(Role::ComboBox, "Model");
    bench.press_until("First steps", "Welcome to Safelight");
    let leads_to_card = bench.has("Safelight runs on the CPU");
    assert_eq!(
        has_card, leads_to_card,
        "the status line, where there is a card"
    );
    (bench, say, errands)
}

#[test]
fn install_button_downloads_the_gpu_runtime_and_shows_progress() {
    let (mut bench, say, errands) = bench(get());
    bench.assert_shows("AMD gfx1151: Safelight runs on the CPU");
    bench.assert_shows("ROCm 7.14 of AMD, for gfx1151 serves it: about 1.3 GiB to download");
    bench.assert_shows("has not yet run on any AMD GPU");
    bench.press("Get it");
    let expected = ("rocm7.14-gfx1151".to_owned(), true);
    assert_eq!(next_build(&mut bench, &errands), expected);
    say.send(Ok(fetching(2))).unwrap();
    bench.wait_for("1.0 GiB of 2.0 GiB");
    say.send(Ok(InstallProgress::Trying)).unwrap();
    bench.wait_for("Trying whether it computes right");
    say.send(Err(Ok(true))).unwrap();
    bench.wait_for("The next job uses it");
}

#[test]
fn failed_runtime_installation_shows_advice_and_can_be_retried() {
    let (mut bench, say, _errands) = bench(get());
    bench.press("Get it");
    let advised = hangs().advise("Choose another libtorch");
    say.send(Err(Err(advised))).unwrap();
    bench.wait_for("This libtorch hangs at a convolution|Choose another libtorch");
    bench.press_until("Get it", "Cancel");
    bench.press("Cancel");
    say.send(Err(Ok(true))).unwrap();
    until_stopped(&mut bench);
}

#[test]
fn runtime_notice_offers_an_installed_runtime_or_explains_a_blocked_gpu() {
    let (gpu, id) = (gpu(), "environment".to_owned());
    let (mut bench, say, errands) = bench(RuntimeAdvice::Use { gpu, id });
    bench.assert_shows("The libtorch “environment” on this disk serves it");
    bench.press("Use it");
    assert_eq!(next(&mut bench, &errands), using("environment"));
    drop(say);

    let what = "the GPU cannot be opened";
    let advice = "Add yourself to the group render, then log in again";
    let command = "sudo usermod -aG render \"$USER\"";
    let (bench, _say, _errands) = self::bench(mend(what, advice, command));
    bench.assert_shows("The GPU cannot be opened|Add yourself to the group render");
    bench.assert_hides("Get it");

    // Where there is nothing to do there is no card.
    let (bench, _say, _errands) = self::bench(RuntimeAdvice::NoGpu);
    bench.assert_hides("Safelight runs on the CPU");
}

/// One of Safelight's own that is here.
fn row(id: &str, version: &str) -> RuntimeRow {
    let folder = std::path::PathBuf::from(format!("/data/runtimes/{id}"));
    RuntimeRow {
        found: InstalledRuntime {
            id: id.to_owned(),
            runtime: LibtorchRuntime {
                lib: folder.join("torch/lib"),
                folder,
                extra: Vec::new(),
                source: "a test",
            },
            is_own: true,
            is_used: false,
            before: PreviousRuntime::No,
        },
        kind: if id == "cpu" {
            RuntimeKind::Cpu
        } else {
            RuntimeKind::Rocm
        },
        version: Some(version.to_owned()),
        targets: Vec::new(),
        bytes: 3 << 30,
        device: None,
        concerns: Vec::new(),
        is_incomplete: false,
        build: None,
    }
}

/// A Strix Halo: a runtime in use, the one before it, one that is of no use, and a build that fits.
fn strix_halo() -> RuntimeOverview {
    let mut used = row("rocm7.14-gfx1151", "2.11.0+rocm7.14.1");
    used.found.is_used = true;
    used.targets = vec!["gfx1151".to_owned()];
    used.device = Some("AMD gfx1151, 96 GiB".to_owned());
    let mut before = row("cpu", "2.11.0");
    before.found.before = PreviousRuntime::Kept;
    let mut odd = row("old", "2.11.0+rocm7.1");
    odd.concerns = vec!["this is libtorch 2.11.0+rocm7.1, and ROCm 7.1 crashes on gfx1151".into()];
    let mut overview = RuntimeOverview {
        here: vec![used, before, odd],
        offers: vec![RuntimeBuild {
            id: "rocm7.2".to_owned(),
            name: "ROCm 7.2 of PyTorch".to_owned(),
            ..build()
        }],
        advice: RuntimeAdvice::Served { gpu: gpu() },
        ..RuntimeOverview::default()
    };
    overview.machine.gpus = vec![gpu()];
    overview
}

fn section(overview: RuntimeOverview) -> (Bench, Sender<Said>, Receiver<RuntimeTask>) {
    let (mut bench, say, errands) = window(overview);
    bench.press("Settings");
    bench.panels().settings.search = "runtimes".to_owned();
    bench.settle();
    (bench, say, errands)
}

#[test]
fn settings_list_installed_available_and_active_runtimes() {
    let (mut bench, _say, errands) = section(strix_halo());
    bench.assert_shows("in use|ROCm · libtorch 2.11.0+rocm7.14.1 · gfx1151 · 3.0 GiB");
    bench.assert_shows("When it was last checked it computed on AMD gfx1151, 96 GiB|used before");
    bench.assert_shows("ROCm 7.1 crashes on gfx1151|ROCm 7.2 of PyTorch");
    bench.assert_shows("About 1.3 GiB to download. Licences: PyTorch's and AMD's.");
    bench.assert_shows("has not yet run on any AMD GPU");
    bench.press("Go back to cpu");
    assert_eq!(next(&mut bench, &errands), using("cpu"));
}

#[test]
fn runtime_check_result_is_shown_in_the_settings() {
    let (mut bench, say, errands) = section(strix_halo());
    bench.press("Check rocm7.14-gfx1151");
    let expected = RuntimeTask::Check("rocm7.14-gfx1151".to_owned());
    assert_eq!(next(&mut bench, &errands), expected);
    say.send(Ok(InstallProgress::Trying)).unwrap();
    bench.wait_for("Trying whether it computes right");
    say.send(Err(Ok(true))).unwrap();
    bench.wait_for("rocm7.14-gfx1151 computes right.");
    bench.press("Use old");
    say.send(Err(Err(hangs()))).unwrap();
    bench.wait_for("This libtorch hangs at a convolution");
}

#[test]
fn a_broken_one_is_repaired() {
    let mut overview = strix_halo();
    let mut broken = row("rocm7.14-gfx1103", "2.11.0+rocm7.14.1");
    let known = RuntimeBuild {
        id: broken.found.id.clone(),
        ..build()
    };
    broken.build = Some(known.clone());
    overview.here[0].build = Some(build());
    overview.here.push(broken);
    let (mut bench, say, errands) = section(overview.clone());
    assert!(!bench.has("Repair"), "nobody knows of anything broken");
    bench.press("Check rocm7.14-gfx1103");
    let err = JobError::new(JobErrorKind::Device, "a file is missing or damaged: a.so");
    say.send(Err(Err(err))).unwrap();
    bench.wait_for("A file is missing or damaged: a.so");
    assert!(!bench.has("Repair rocm7.14-gfx1151"), "that one is whole");
    bench.press("Repair rocm7.14-gfx1103");
    bench.until("it was asked for", |_| errands.len() == 2);
    let last = errands.try_iter().last().unwrap();
    let expected = RuntimeTask::Get {
        build: Box::new(known),
        has_gpu: true,
    };
    assert_eq!(last, expected);

    // Where a look at the names is enough, nobody has to check first.
    overview.here[0].is_incomplete = true;
    overview.here[0].concerns = vec!["a file is missing or damaged: b.so".to_owned()];
    let (bench, _say, _errands) = section(overview);
    bench.assert_shows("A file is missing or damaged: b.so");
    assert!(bench.has("Repair rocm7.14-gfx1151"));
}

#[test]
fn runtime_is_deleted_after_confirmation_but_the_previous_one_cannot_be() {
    let (mut bench, say, errands) = section(strix_halo());
    // Jobs may have to go back.
    assert!(bench.is_disabled("Delete cpu"));
    assert!(!bench.has("Delete rocm7.14-gfx1151"), "it is in use");
    bench.press_until("Delete old", "Delete old and free 3.0 GiB?");
    bench.press("Keep it");
    bench.assert_hides("and free 3.0 GiB?");
    bench.press("Delete old");
    bench.press("Delete it");
    let found = next(&mut bench, &errands);
    assert_eq!(found, RuntimeTask::Remove("old".to_owned()));
    say.send(Err(Ok(true))).unwrap();
    bench.wait_for("Deleted: old.");
}

#[test]
fn a_build_is_installed_from_the_settings_and_can_be_cancelled() {
    let (mut bench, say, errands) = section(strix_halo());
    bench.press("Install ROCm 7.2 of PyTorch");
    let expected = ("rocm7.2".to_owned(), true);
    assert_eq!(next_build(&mut bench, &errands), expected);
    say.send(Ok(fetching(4))).unwrap();
    bench.wait_for("1.0 GiB of 4.0 GiB");
    bench.press("Cancel");
    say.send(Err(Ok(true))).unwrap();
    until_stopped(&mut bench);
}

/// Clicks twice on a button as a mouse does, which does not look what stands there the second time; the errand goes on.
fn assert_survives_a_double_click(bench: &mut Bench, name: &str, errands: &Receiver<RuntimeTask>) {
    let place = bench.rect(Role::Button, name).center();
    for _ in 0..2 {
        bench.click_at(place);
        bench.until("it was begun", |bench| bench.app().runtimes.is_busy());
        bench.settle();
    }
    bench.assert_shows("Cancel");
    assert!(bench.app().runtimes.is_busy());
    bench.until("it is done", |_| !errands.is_empty());
    assert_eq!(errands.len(), 1, "it was begun once");
}

#[test]
fn a_double_click_begins_and_does_not_cancel() {
    let (mut bench, _say, errands) = section(strix_halo());
    assert_survives_a_double_click(&mut bench, "Install ROCm 7.2 of PyTorch", &errands);
    let (mut bench, _say, errands) = section(strix_halo());
    assert_survives_a_double_click(&mut bench, "Use old", &errands);
    let (mut bench, _say, errands) = self::bench(get());
    assert_survives_a_double_click(&mut bench, "Get it", &errands);
}

#[test]
fn settings_without_a_fitting_runtime_explain_why_and_offer_a_command() {
    let what = "AMD gfx1151 needs Linux 6.18.4 or a backport, and this is 6.17.1";
    let advice = mend(what, "Install a newer kernel and restart", "uname -r");
    let (mut bench, _say, _errands) = section(RuntimeOverview {
        advice,
        ..RuntimeOverview::default()
    });
    bench.assert_shows("AMD gfx1151 needs Linux 6.18.4|No runtime was found.");
    bench.assert_hides("Install ROCm");
    let copied = bench.copied_by("Copy the command that helps");
    assert_eq!(copied.as_deref(), Some("uname -r"));
}

#[test]
fn the_card_leads_to_the_section() {
    let (mut bench, _say, _errands) = bench(get());
    bench.node(Role::Link, "All runtimes").click();
    bench.wait_for("A runtime is a folder with libtorch");
}

#[test]
fn the_section_looks_as_it_did_in_the_dark_and_in_the_light_look() {
    let (mut bench, say, _errands) = section(strix_halo());
    bench.press("Install ROCm 7.2 of PyTorch");
    say.send(Ok(fetching(4))).unwrap();
    bench.wait_for("1.0 GiB of 4.0 GiB");
    for (theme, name) in [
        (ThemeChoice::Dark, "runtimes"),
        (ThemeChoice::Light, "runtimes_light"),
    ] {
        bench.change_settings(|settings| settings.interface.theme = theme);
        // The same path on every machine.
        bench.app().settings.path = "settings.toml".to_owned();
        bench.settle();
        bench.snapshot(name);
    }
}
