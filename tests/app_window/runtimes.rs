//! The card that brings jobs onto the GPU: what it says on each machine, and what its buttons do.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable as _;
use safelight::app::runtimes::{Errand, RuntimeState};
use safelight::runtimes::{Advice, Build, Gpu, Kind, Progress, Refusal};
use safelight_core::job::{JobError, JobErrorKind};

use crate::harness::Bench;

fn gpu() -> Gpu {
    Gpu::plain("AMD gfx1151", "0000:c4:00.0", Kind::Rocm)
}

fn get() -> Advice {
    let build = Build {
        id: "rocm7.14-gfx1151".to_owned(),
        name: "ROCm 7.14 of AMD, for gfx1151".to_owned(),
        kind: Kind::Rocm,
        version: "2.11.0+rocm7.14.1".to_owned(),
        index: "amd".to_owned(),
        packages: Vec::new(),
        targets: Vec::new(),
        download_mb: 1400,
        driver: None,
        kernel: None,
    };
    Advice::Get { gpu: gpu(), build }
}

/// What a thread that fetches says next: how far it is, or how it ended.
type Said = Result<Progress, Result<bool, JobError>>;

/// The first page on a machine of which this is advised. Who fetches says what is sent, and sends what it was asked for.
fn bench(advice: Advice) -> (Bench, Sender<Said>, Receiver<Errand>) {
    let (say, said) = bounded::<Said>(8);
    let (asked, errands) = bounded(8);
    let mut bench = Bench::with(|startup| {
        startup.runtimes.advise = Arc::new(move |_| advice.clone());
        startup.runtimes.fulfil = Arc::new(move |errand, _, cancel, report| {
            asked
                .send(errand.clone())
                .expect("a file that can be written");
            loop {
                match said.recv() {
                    Ok(Ok(progress)) => report(&progress),
                    Ok(Err(ended)) if !cancel.is_cancelled() => return ended,
                    _ => return Ok(false),
                }
            }
        });
    });
    bench.until("the machine is known", |bench| {
        bench.app().runtimes.advice.is_some()
    });
    bench.settle();
    let has_card = bench.has("AMD gfx1151 is not used");
    let model = bench.harness.get_by_role_and_label(Role::ComboBox, "Model");
    model.click();
    bench.settle();
    bench.press("First steps");
    bench.until("the page is there", |bench| {
        bench.has("Welcome to Safelight")
    });
    assert_eq!(
        has_card,
        bench.has("Safelight runs on the CPU"),
        "the status line leads to the card where there is one"
    );
    (bench, say, errands)
}

#[test]
fn one_button_gets_the_libtorch_for_the_gpu_and_tells_how_far_it_is() {
    let (mut bench, say, errands) = bench(get());
    bench.assert_shows("AMD gfx1151: Safelight runs on the CPU");
    bench.assert_shows("ROCm 7.14 of AMD, for gfx1151 serves it: about 1.3 GiB to download");
    bench.assert_shows("has not yet run on any AMD GPU");
    bench.press("Get it");
    bench.until("it was asked for", |_| !errands.is_empty());
    let Errand::Get(build) = errands.recv().unwrap() else {
        panic!("another errand")
    };
    assert_eq!(build.id, "rocm7.14-gfx1151");
    let progress = Progress::Fetching {
        done_bytes: 1 << 30,
        total_bytes: 2 << 30,
    };
    say.send(Ok(progress)).unwrap();
    bench.until("it is seen how far it is", |bench| {
        bench.has("1.0 GiB of 2.0 GiB")
    });
    say.send(Ok(Progress::Trying)).unwrap();
    bench.until("it is tried", |bench| {
        bench.has("Trying whether it computes right")
    });
    say.send(Err(Ok(true))).unwrap();
    bench.until("it is there", |bench| bench.has("The next job uses it"));
}

#[test]
fn a_failure_says_what_to_do_and_the_button_is_there_again() {
    let (mut bench, say, _errands) = bench(get());
    bench.press("Get it");
    let err = JobError::new(JobErrorKind::Device, "this libtorch hangs at a convolution");
    say.send(Err(Err(err.advise("Choose another libtorch"))))
        .unwrap();
    bench.until("it failed", |bench| {
        bench.has("This libtorch hangs at a convolution")
    });
    bench.assert_shows("Choose another libtorch");
    bench.press("Get it");
    bench.until("it runs", |bench| bench.has("Stop the download"));
    bench.press("Stop the download");
    say.send(Err(Ok(true))).unwrap();
    bench.until("it has stopped", |bench| {
        bench.app().runtimes.state == RuntimeState::Idle
    });
}

#[test]
fn one_that_is_here_is_used_and_what_has_to_be_mended_is_said_with_its_command() {
    let advice = Advice::Use {
        gpu: gpu(),
        id: "environment".to_owned(),
    };
    let (mut bench, say, errands) = bench(advice);
    bench.assert_shows("The libtorch “environment” on this disk serves it");
    bench.press("Use it");
    bench.until("it was asked for", |_| !errands.is_empty());
    assert_eq!(
        errands.recv().unwrap(),
        Errand::Use("environment".to_owned())
    );
    drop(say);

    let refusal = Refusal {
        what: "the GPU cannot be opened".to_owned(),
        advice: "Add yourself to the group render, then log in again".to_owned(),
        command: "sudo usermod -aG render \"$USER\"".to_owned(),
    };
    let (bench, _say, _errands) = self::bench(Advice::Mend {
        gpu: gpu(),
        refusal,
    });
    bench.assert_shows("The GPU cannot be opened");
    bench.assert_shows("Add yourself to the group render");
    assert!(!bench.has("Get it"));
}

#[test]
fn where_there_is_nothing_to_do_there_is_no_card() {
    let (bench, _say, _errands) = bench(Advice::NoGpu);
    assert!(!bench.has("Safelight runs on the CPU"));
}
