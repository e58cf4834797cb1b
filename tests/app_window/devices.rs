//! Several devices: one queue, a job on each of them at a time, and what the window shows of it.

use safelight::telemetry::TelemetryDevice;
use safelight::window::app::StartupOptions;
use safelight::window::memory::planning::PlanBasis;
use safelight::worker::{TimeEstimates, WorkerEvent};
use safelight_core::families::{read_footprint, wan};
use safelight_core::job::{DeviceChoice, QueueFile};
use safelight_core::memory::{DeviceClass, DeviceFacts};
use safelight_core::model::ModelFiles;
use safelight_core::plan::PeakCorrections;

use crate::app_window::prelude::*;

const GIB: u64 = 1 << 30;

/// A window of a machine with these GPUs, by their memory in GiB.
fn with_gpus(memory: &'static [u64]) -> Bench {
    in_home(tempfile::tempdir().unwrap(), memory, |_| {})
}

fn discrete(total_gib: u64) -> DeviceFacts {
    DeviceFacts {
        class: DeviceClass::Discrete,
        total_bytes: total_gib * GIB,
        used_bytes: 0,
        host_available_bytes: 64 * GIB,
    }
}

fn in_home(
    home: tempfile::TempDir,
    memory: &'static [u64],
    change: impl FnOnce(&mut StartupOptions),
) -> Bench {
    let mut bench = Bench::in_home(home, move |startup| {
        startup.find_gpus = Arc::new(move |_| {
            let found = memory.iter().enumerate();
            let found = found.map(|(index, total)| (DeviceChoice::Cuda(index), discrete(*total)));
            found.collect()
        });
        change(startup);
    });
    bench.until("the devices are known", |bench| {
        bench.app().devices.list.len() == memory.len()
    });
    bench
}

/// The job that the worker of GPU 1 got.
fn sent_to_second(bench: &mut Bench) -> SentJob {
    let mut sent = None;
    bench.until("the second device gets a job", |bench| {
        sent = bench.more.lock().unwrap()[0].commands.try_recv().ok();
        sent.is_some()
    });
    let command = sent.unwrap();
    assert_eq!(command.device, DeviceChoice::Cuda(1));
    SentJob {
        id: command.id,
        request: command.request.generate().unwrap().clone(),
        cancel: command.cancel,
        resume: command.resume,
    }
}

fn say_on_second(bench: &mut Bench, id: JobId, update: JobUpdate) {
    let event = WorkerEvent { id, update };
    bench.more.lock().unwrap()[0].events.send(event).unwrap();
    bench.harness.step();
    bench.settle();
}

/// Two jobs that run, and one that waits.
fn busy() -> (Bench, SentJob, SentJob) {
    let mut bench = with_gpus(&[24, 24]);
    bench.queue_prompts(&["one", "two", "three"]);
    let first = bench.next_job();
    let second = sent_to_second(&mut bench);
    (bench, first, second)
}

fn running(bench: &mut Bench) -> Vec<(String, String)> {
    let running = bench.app().queue.running.iter();
    let named = running.map(|job| (job.request.title().into_owned(), job.device_name.clone()));
    named.collect()
}

#[test]
fn two_jobs_run_at_once_and_the_next_one_gets_the_device_that_is_free_first() {
    let (mut bench, first, second) = busy();
    assert_eq!(
        (
            first.request.prompt.as_str(),
            second.request.prompt.as_str()
        ),
        ("one", "two")
    );
    bench.assert_no_job();
    bench.assert_shows("2 running, 1 waiting|GPU 0: |GPU 1: ");
    let made = output(&second, 2);
    say_on_second(
        &mut bench,
        second.id,
        JobUpdate::Ended(JobOutcome::Finished(made)),
    );
    let third = sent_to_second(&mut bench);
    assert_eq!(third.request.prompt, "three");
    let named = |prompt: &str, device: &str| (prompt.to_owned(), device.to_owned());
    assert_eq!(
        running(&mut bench),
        [named("one", "GPU 0"), named("three", "GPU 1")]
    );
    assert_eq!(bench.app().queue.results.len(), 1);
}

#[test]
fn on_one_device_jobs_keep_their_order_and_no_device_is_named() {
    let mut bench = with_gpus(&[24]);
    bench.queue_prompts(&["one", "two"]);
    for prompt in ["one", "two"] {
        let sent = bench.next_job();
        assert_eq!(sent.request.prompt, prompt);
        bench.assert_no_job();
        bench.assert_hides("GPU 0|This computer|Any device");
        bench.finish_job(&sent, 2);
    }
}

#[test]
fn a_pinned_job_waits_for_its_device_and_lets_others_pass() {
    let (mut bench, first, second) = busy();
    bench.queue_prompts(&["four"]);
    let third = bench.app().queue.waiting[0].id;
    bench.push(QueueCommand::Pin(third, DeviceChoice::Cuda(1)));
    bench.settle();
    bench.assert_shows("On GPU 1 · ");
    bench.finish_job(&first, 2);
    assert_eq!(bench.next_job().request.prompt, "four");
    say_on_second(
        &mut bench,
        second.id,
        JobUpdate::Ended(JobOutcome::Cancelled),
    );
    assert_eq!(sent_to_second(&mut bench).request.prompt, "three");
}

#[test]
fn a_job_that_several_devices_share_waits_for_all_and_has_them_alone() {
    let mut bench = with_gpus(&[24, 24]);
    bench.queue_prompts(&["one"]);
    let first = bench.next_job();
    bench.change_settings(|settings| settings.memory.devices = 2);
    bench.queue_prompts(&["shared"]);
    bench.change_settings(|settings| settings.memory.devices = 1);
    bench.queue_prompts(&["three"]);
    bench.assert_no_job();
    assert!(bench.more.lock().unwrap()[0].commands.try_recv().is_err());
    bench.finish_job(&first, 2);
    let shared = bench.next_job();
    assert_eq!(shared.request.prompt, "shared");
    bench.settle();
    assert!(bench.more.lock().unwrap()[0].commands.try_recv().is_err());
    bench.finish_job(&shared, 2);
    assert_eq!(bench.next_job().request.prompt, "three");
}

#[test]
fn new_jobs_go_to_the_device_that_the_form_names() {
    let mut bench = with_gpus(&[24, 24]);
    bench.click(Role::ComboBox, "Device");
    bench.click(Role::Button, "GPU 1");
    bench.queue_prompts(&["one", "two"]);
    assert_eq!(sent_to_second(&mut bench).request.prompt, "one");
    bench.assert_no_job();
    assert_eq!(bench.app().queue.waiting.len(), 1);
}

#[test]
fn cancel_and_set_aside_act_on_the_job_of_the_row_and_the_other_continues() {
    let (mut bench, first, second) = busy();
    bench.press("Set aside: two");
    assert!(second.cancel.is_paused() && !first.cancel.is_cancelled());
    say_on_second(&mut bench, second.id, JobUpdate::Ended(JobOutcome::Paused));
    assert_eq!(bench.app().queue.stopped[0].job.id, second.id);
    let third = sent_to_second(&mut bench);
    bench.press("Cancel: one");
    assert!(first.cancel.is_cancelled() && !first.cancel.is_paused());
    assert!(!third.cancel.is_cancelled());
}

#[test]
fn a_pause_stops_all_jobs_and_they_resume_in_their_order() {
    let (mut bench, first, second) = busy();
    bench.push(QueueCommand::PauseAll);
    bench.settle();
    assert!(first.cancel.is_paused() && second.cancel.is_paused());
    bench.say_end(first.id, JobOutcome::Paused);
    say_on_second(&mut bench, second.id, JobUpdate::Ended(JobOutcome::Paused));
    let waiting: Vec<JobId> = bench.app().queue.waiting.iter().map(|job| job.id).collect();
    assert_eq!(waiting[..2], [first.id, second.id]);
    bench.assert_no_job();
    bench.push(QueueCommand::GoOn);
    assert_eq!(bench.next_job().id, first.id);
    assert_eq!(sent_to_second(&mut bench).id, second.id);
}

#[test]
fn the_job_of_a_lost_device_continues_on_another_and_new_jobs_avoid_it() {
    let (mut bench, first, second) = busy();
    let folder = bench.job_folder(&second).path().to_owned();
    let mut err = JobError::new(JobErrorKind::EngineLost, "the engine ended unexpectedly");
    err.kept = Some(folder.clone());
    say_on_second(
        &mut bench,
        second.id,
        JobUpdate::Ended(JobOutcome::Failed(err)),
    );
    bench.assert_shows("GPU 1: the engine ended unexpectedly");
    assert!(!first.cancel.is_cancelled());
    assert!(bench.app().queue.stopped.is_empty(), "it has not failed");
    bench.assert_no_job();
    bench.finish_job(&first, 2);
    let moved = bench.next_job();
    assert_eq!((moved.id, moved.resume), (second.id, Some(folder)));
    assert!(bench.more.lock().unwrap()[0].commands.is_empty());
}

#[test]
fn a_job_waits_for_the_device_that_its_plan_fits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
    let files = ModelFiles::of_folder(&folder).expect("the fixture is a pipeline");
    let weights = read_footprint(wan::FAMILY, &files, &[], &[]).expect("its headers can be read");
    let mut bench = in_home(tempfile::tempdir().unwrap(), &[1, 24], move |startup| {
        startup.read_plan = Arc::new(move |_, _, _| {
            Some(PlanBasis {
                weights: weights.clone(),
                machine: TelemetryDevice {
                    name: "a card".to_owned(),
                    facts: discrete(24),
                    physical_bytes: 0,
                },
                corrections: PeakCorrections::default(),
                times: TimeEstimates::default(),
                alternatives: Vec::new(),
            })
        });
    });
    bench.queue_prompts(&["one", "two"]);
    bench.until("a job runs", |bench| !bench.app().queue.running.is_empty());
    assert_eq!(
        running(&mut bench),
        [("one".to_owned(), "GPU 1".to_owned())]
    );
    let first = sent_to_second(&mut bench);
    bench.assert_no_job();
    say_on_second(
        &mut bench,
        first.id,
        JobUpdate::Ended(JobOutcome::Cancelled),
    );
    assert_eq!(sent_to_second(&mut bench).request.prompt, "two");
}

#[test]
fn after_a_crash_both_running_jobs_are_offered_and_resume_side_by_side() {
    let (mut bench, first, second) = busy();
    let folders = [&first, &second].map(|sent| bench.job_folder(sent).path().to_owned());
    let path = bench.paths().queue_file();
    bench.until("the queue is written", |_| {
        QueueFile::load(&path).is_ok_and(|file| file.jobs.len() == 3)
    });
    let mut bench = in_home(bench.die(), &[24, 24], |_| {});
    bench.wait_for("3 jobs are left from last time");
    bench.press("Resume");
    let (again, other) = (bench.next_job(), sent_to_second(&mut bench));
    assert_eq!([again.id, other.id], [first.id, second.id]);
    assert_eq!([again.resume, other.resume], folders.map(Some));
}

#[test]
fn the_memory_panel_and_the_strip_switch_between_the_running_jobs() {
    let (mut bench, first, second) = busy();
    bench.say_preview(first.id, 0, 1, image(64, [200, 0, 0]));
    bench.say(first.id, sample(1.0, 300, 50, 80, 24 << 10));
    say_on_second(&mut bench, second.id, sample(1.0, 700, 50, 80, 24 << 10));
    bench.press_until("Show memory", "Used 300 MiB");
    bench.click(Role::Button, "GPU 1");
    bench.assert_shows("Used 700 MiB");
    let live = bench.app().queue.live().map(|job| job.id);
    assert_eq!(live, Some(second.id));
    bench.press("Watch GPU 0: one");
    bench.assert_shows("Used 300 MiB");
}

#[test]
fn automatic_sharing_gives_a_single_job_all_gpus_and_several_jobs_one_each() {
    let mut bench = with_gpus(&[24, 24]);
    bench.change_settings(|settings| settings.memory.devices = 0);
    bench.queue_prompts(&["one"]);
    let first = bench.next_job();
    assert_eq!(first.request.num_devices(), 2);
    bench.queue_prompts(&["two", "three"]);
    bench.assert_no_job();
    bench.finish_job(&first, 2);
    let second = bench.next_job();
    let third = sent_to_second(&mut bench);
    assert_eq!(
        [&second, &third].map(|job| job.request.num_devices()),
        [1, 1]
    );
}
