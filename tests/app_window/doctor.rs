//! The doctor's page and the graph's figures of the machine, as a person sees and uses them.

use std::sync::atomic::AtomicU32;

use safelight::doctor::{CheckGroup, CheckResult, CheckStatus};
use safelight::report::{ReportPath, ReportProgress};
use safelight::window::doctor::MadeReport;
use safelight_core::job_update::{MemoryReclaim, MemorySample};

use crate::app_window::prelude::*;

fn check(group: CheckGroup, name: &'static str, status: CheckStatus, message: &str) -> CheckResult {
    CheckResult {
        group,
        name,
        status,
        message: message.to_owned(),
        advice: String::new(),
        command: String::new(),
        figure: None,
    }
}

fn starts() -> CheckResult {
    check(CheckGroup::Engine, "engine", CheckStatus::Ok, "it starts")
}

/// A machine with something of every kind, and how often it was examined.
fn sick() -> (Bench, Arc<AtomicU32>) {
    let examined = Arc::<AtomicU32>::default();
    let count = Arc::clone(&examined);
    let bench = Bench::with(move |startup| {
        startup.examine = Arc::new(move |_, tell| {
            count.fetch_add(1, Ordering::Relaxed);
            let engine = "computes on the CPU";
            tell(check(CheckGroup::Engine, "engine", CheckStatus::Ok, engine));
            let access = "it cannot be opened";
            tell(CheckResult {
                advice: "Add yourself to the groups, then log in again".to_owned(),
                command: "sudo usermod -aG render".to_owned(),
                ..check(CheckGroup::Gpu, "gpu access", CheckStatus::Warn, access)
            });
            let disk = "no room for jobs";
            tell(check(CheckGroup::Files, "disk", CheckStatus::Fail, disk));
        });
    });
    (bench, examined)
}

#[test]
fn doctor_page_shows_all_results_and_repeats_the_checks_on_request() {
    let (mut bench, examined) = sick();
    bench.press_until("Doctor", "1 problem|1 note|1 fine|Computes on the CPU");
    bench.assert_shows("No room for jobs|Add yourself to the groups, then log in again");
    bench.wait_until_gone("Examining…");
    bench.press("Examine again");
    bench.until("it is told again", |bench| {
        bench.has("1 problem") && !bench.has("Examining…")
    });
    assert_eq!(examined.load(Ordering::Relaxed), 2);
    // Closed and opened, it still knows.
    bench.press("Close the doctor");
    bench.assert_hides("No room for jobs");
    bench.press_until("Doctor", "No room for jobs");
    assert_eq!(examined.load(Ordering::Relaxed), 2);
    // A started job brings its own view to the front.
    bench.start_job();
    bench.assert_hides("No room for jobs");
}

#[test]
fn only_checks_that_could_fail_get_a_check_mark() {
    let mut bench = Bench::with(|startup| {
        startup.examine = Arc::new(move |_, tell| {
            tell(starts());
            tell(check(CheckGroup::System, "kernel", CheckStatus::Ok, "6.12"));
            let gpu = "no supported GPU found";
            tell(check(CheckGroup::Gpu, "gpu", CheckStatus::Warn, gpu));
        });
    });
    bench.press_until("Doctor", "No supported GPU|1 fine|1 note|6.12");
    let ticks = bench.harness.query_all_by_label("Fine");
    assert_eq!(ticks.count(), 1);
}

#[test]
fn passed_checks_can_be_hidden_and_commands_and_report_copied() {
    let (mut bench, _) = sick();
    bench.press("Doctor");
    bench.until("it has ended", |bench| {
        bench.has("1 problem") && !bench.has("Examining…")
    });
    bench.click(Role::CheckBox, "Show only what needs attention");
    bench.assert_hides("Computes on the CPU");
    bench.assert_shows("It cannot be opened");
    let command = "sudo usermod -aG render";
    let copied = bench.copied_by(&format!("Copy command {command}"));
    assert_eq!(copied.as_deref(), Some(command));
    let copied = bench.copied_by("Copy as text").unwrap();
    assert!(copied.contains("FAIL  disk: no room for jobs"), "{copied}");
}

#[test]
fn memory_graph_shows_machine_samples_and_exports_telemetry_after_the_job() {
    let mut bench = Bench::new();
    bench.press("Show memory");
    bench.press("Memory details");
    let sent = bench.start_job();
    bench.say_stage(sent.id, Stage::Denoise);
    for second in 0..3 {
        let mut sample = MemorySample {
            at_secs: f64::from(second),
            used_bytes: 3 << 30,
            total_bytes: 8 << 30,
            ..MemorySample::default()
        };
        let machine = &mut sample.machine;
        machine.page_cache_bytes = Some(2 << 30);
        machine.host_available_bytes = Some(5 << 30);
        (machine.temperature_celsius, machine.power_watts) = (Some(61.0), Some(54.4));
        machine.busy_percent = Some(97.0);
        bench.say(sent.id, JobUpdate::Memory(sample));
    }
    let reclaimed = MemoryReclaim {
        boundary: "post-text-encoding".to_owned(),
        before_bytes: 2 << 30,
        after_bytes: 0,
    };
    bench.say(sent.id, JobUpdate::Reclaimed(reclaimed));
    bench.assert_shows("Page cache 2.0 GiB|Free 5.0 GiB|Busy 97 %|61 °C|54 W");
    bench.assert_hides("Export telemetry");
    bench.finish_job(&sent, 3);
    bench.labelled("Export telemetry");
}

/// A machine whose report stops at a half until somebody cancels or `goes_on` is sent, and how it was asked.
fn measured() -> (Bench, crossbeam_channel::Sender<()>) {
    let (goes_on, wait) = crossbeam_channel::bounded::<()>(1);
    let bench = Bench::with(move |startup| {
        startup.examine = Arc::new(move |_, tell| {
            tell(starts());
        });
        startup.measure = Arc::new(move |cancel, tell| {
            tell(ReportProgress {
                part: 0.5,
                what: "Loading weights".to_owned(),
            });
            while !cancel.is_cancelled() {
                if wait.recv_timeout(Duration::from_millis(5)).is_ok() {
                    break;
                }
            }
            Ok(MadeReport {
                path: ReportPath::new_in(Path::new("/nowhere")),
                is_whole: !cancel.is_cancelled(),
            })
        });
    });
    (bench, goes_on)
}

#[test]
fn report_shows_its_progress_and_can_be_opened_when_finished() {
    let (mut bench, goes_on) = measured();
    bench.press("Doctor");
    bench.press_until("Make a report", "Making a report: Loading weights|Cancel");
    goes_on.send(()).unwrap();
    bench.wait_for("Report ready|Open|Show folder");
    bench.assert_hides("Cancel");
    bench.snapshot("report_made");
}

#[test]
fn cancelled_report_keeps_its_measurements() {
    let (mut bench, _goes_on) = measured();
    bench.press("Doctor");
    bench.press_until("Make a report", "Loading weights");
    bench.snapshot("report_running");
    bench.press_until("Cancel", "what was measured until then is there|Open");
    // A job that runs is not measured beside.
    bench.start_job();
    bench.press("Doctor");
    assert!(bench.is_disabled("Make a report"));
}
