//! The worker's promises, against engines that are threads of the test: every job ends once, whatever dies or hangs.

mod controls;
mod convolutions;
mod fake_engine;
mod inputs;
mod ladder;
mod neighbour;
mod other_weights;
mod pausing;
mod prelude;
mod refused;
mod request;
mod sections;
mod settling;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use Stage::{Decode, Denoise, EncodeText, Save, Unload};
pub(crate) use fake_engine::FakeState;
use fake_engine::{Act, FakeLauncher};
use safelight::telemetry::SystemRoots;
use safelight::worker::link::EngineLauncher;
use safelight::worker::shared_memory::SharedMemory;
use safelight::worker::{WorkerCommand, WorkerHandle, WorkerOptions, spawn};
use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::job::{
    CancelToken, DeviceChoice, GenerateRequest, JobError, JobErrorKind, JobFolder, JobId,
    JobRequest, PostprocessRequest, Stage,
};
use safelight_core::job_update::{JobOutcome, JobOutput, JobUpdate};
use safelight_core::settings::{AppPaths, Settings};

pub(crate) fn finished(outcome: JobOutcome) -> JobOutput {
    match outcome {
        JobOutcome::Finished(output) => output,
        other => panic!("{other:?}"),
    }
}

fn failed(outcome: JobOutcome) -> JobError {
    match outcome {
        JobOutcome::Failed(err) => err,
        other => panic!("{other:?}"),
    }
}

fn paused(rig: &WorkerHarness, token: &CancelToken) -> PathBuf {
    rig.wait_for(Stage::Denoise);
    token.pause();
    let (_, outcome) = rig.hear();
    assert!(matches!(outcome, JobOutcome::Paused), "{outcome:?}");
    only_job(&rig.folder.path().join("jobs")).path().to_owned()
}

fn only_job(jobs: &Path) -> JobFolder {
    let mut jobs = std::fs::read_dir(jobs).unwrap();
    JobFolder::open(jobs.next().unwrap().unwrap().path())
}

/// Engines that do this in one stage, and work in all others.
fn always(stage: Stage, act: Act) -> impl Fn(u32, Stage) -> Act + Send + Sync {
    first(u32::MAX, stage, act)
}

/// As many engines that do this in one stage; the later ones work.
fn first(count: u32, stage: Stage, act: Act) -> impl Fn(u32, Stage) -> Act + Send + Sync {
    move |launch, entered| {
        let is_met = launch < count && entered == stage;
        if is_met { act } else { Act::Work }
    }
}

/// Engines that do this the time of `stage` that is counted from 0 over all engines, and work otherwise.
fn nth(stage: Stage, time: u32, act: Act) -> impl Fn(u32, Stage) -> Act + Send + Sync {
    let times = AtomicU32::new(0);
    move |_, entered| {
        let is_it = entered == stage && times.fetch_add(1, Ordering::Relaxed) == time;
        if is_it { act } else { Act::Work }
    }
}

fn warnings(updates: &[JobUpdate]) -> Vec<&str> {
    let told = updates.iter().filter_map(|update| match update {
        JobUpdate::Warning(text) => Some(text.as_str()),
        _ => None,
    });
    told.collect()
}

fn begun(updates: &[JobUpdate]) -> Vec<(Stage, bool)> {
    let begun = updates.iter().filter_map(|update| match update {
        JobUpdate::Stage { stage, resumed, .. } => Some((*stage, *resumed)),
        _ => None,
    });
    begun.collect()
}

fn resumed(updates: &[JobUpdate]) -> Vec<Stage> {
    let begun = begun(updates).into_iter();
    begun
        .filter_map(|(stage, resumed)| resumed.then_some(stage))
        .collect()
}

/// A worker with fake engines and a folder of its own.
pub(crate) struct WorkerHarness {
    handle: WorkerHandle,
    thread: JoinHandle<()>,
    folder: tempfile::TempDir,
    state: FakeState,
}

impl Deref for WorkerHarness {
    type Target = FakeState;

    fn deref(&self) -> &FakeState {
        &self.state
    }
}

impl WorkerHarness {
    fn new(script: impl Fn(u32, Stage) -> Act + Send + Sync + 'static) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), script)
    }

    fn working() -> Self {
        Self::new(|_, _| Act::Work)
    }

    fn in_folder(
        folder: tempfile::TempDir,
        script: impl Fn(u32, Stage) -> Act + Send + Sync + 'static,
    ) -> Self {
        // As long as no engine of these needs, on however busy a machine.
        Self::with_patience(Duration::from_mins(1), folder, script)
    }

    /// A worker whose engines look into the job's folder at the beginning of a stage.
    fn looking(
        folder: tempfile::TempDir,
        stage: Stage,
        look: impl Fn(&JobFolder) + Send + Sync + 'static,
    ) -> Self {
        let jobs = folder.path().join("jobs");
        Self::in_folder(folder, move |_, entered| {
            if entered == stage {
                look(&only_job(&jobs));
            }
            Act::Work
        })
    }

    /// A worker that soon gives up an engine that hangs.
    fn impatient(script: impl Fn(u32, Stage) -> Act + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::with_patience(Duration::from_secs(1), folder, script)
    }

    /// `patience`: how long an engine may be silent, or not stop when told to.
    fn with_patience(
        patience: Duration,
        folder: tempfile::TempDir,
        script: impl Fn(u32, Stage) -> Act + Send + Sync + 'static,
    ) -> Self {
        let state = FakeState::default();
        "2.11.0".clone_into(&mut state.libtorch.lock().unwrap());
        let launcher = FakeLauncher {
            script: Arc::new(script),
            state: state.clone(),
            mode: MiopenMode::default(),
        };
        Self::launching(patience, folder, launcher, state)
    }

    /// A worker whose engines this launcher starts.
    pub(crate) fn launching(
        patience: Duration,
        folder: tempfile::TempDir,
        launcher: impl EngineLauncher + 'static,
        state: FakeState,
    ) -> Self {
        let options = WorkerOptions {
            // Jobs, telemetry and counts are in the folder itself.
            paths: AppPaths {
                data: folder.path().to_owned(),
                ..AppPaths::under(folder.path())
            },
            finished_on: Box::new(|_| {}),
            roots: SystemRoots::under(folder.path()),
            memory: SharedMemory::default(),
            settings: Box::new(move || {
                let mut settings = Settings::default();
                settings.runtime.stall_limit_secs = patience.as_secs();
                settings.runtime.cancel_grace_secs = patience.as_secs();
                settings
            }),
        };
        let (handle, thread) = spawn(options, Box::new(launcher), Box::new(|| {})).unwrap();
        Self {
            handle,
            thread,
            folder,
            state,
        }
    }

    fn submit(&self, device: DeviceChoice) -> CancelToken {
        self.submit_with(device, |_| {})
    }

    fn submit_with(
        &self,
        device: DeviceChoice,
        change: impl FnOnce(&mut GenerateRequest),
    ) -> CancelToken {
        let mut request = request::plain(self.folder.path());
        change(&mut request);
        self.send(request.into(), device, None)
    }

    fn finish(&self, change: impl FnOnce(&mut PostprocessRequest)) {
        let mut request = request::enlarging(self.folder.path());
        change(&mut request);
        self.send(request.into(), DeviceChoice::Auto, None);
    }

    /// `resume`: the folder of a job that goes on.
    pub(crate) fn send(
        &self,
        request: JobRequest,
        device: DeviceChoice,
        resume: Option<PathBuf>,
    ) -> CancelToken {
        let cancel = CancelToken::default();
        let command = WorkerCommand {
            id: JobId::next(),
            request,
            device,
            cancel: cancel.clone(),
            resume,
        };
        self.handle.try_send(command).unwrap();
        cancel
    }

    pub(crate) fn hear(&self) -> (Vec<JobUpdate>, JobOutcome) {
        let mut updates = Vec::new();
        loop {
            match self.handle.wait().expect("the worker lives").update {
                JobUpdate::Ended(outcome) => return (updates, outcome),
                update => updates.push(update),
            }
        }
    }

    fn run(&self) -> (Vec<JobUpdate>, JobOutcome) {
        self.run_with(|_| {})
    }

    fn run_with(&self, change: impl FnOnce(&mut GenerateRequest)) -> (Vec<JobUpdate>, JobOutcome) {
        self.submit_with(DeviceChoice::Auto, change);
        self.hear()
    }

    fn finishes(&self, change: impl FnOnce(&mut GenerateRequest)) -> JobOutput {
        finished(self.run_with(change).1)
    }

    fn fails(&self, change: impl FnOnce(&mut GenerateRequest)) -> JobError {
        failed(self.run_with(change).1)
    }

    fn wait_for(&self, stage: Stage) {
        while !self.stages.lock().unwrap().contains(&stage) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn launches(&self) -> u32 {
        self.state.launches.load(Ordering::Relaxed)
    }

    fn job_folders(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("jobs")).map_or(0, Iterator::count)
    }
}

#[test]
fn a_job_walks_its_recipe_and_ends_once() {
    let rig = WorkerHarness::working();
    let (updates, outcome) = rig.run();
    let output = finished(outcome);
    assert!(output.path().exists());
    assert_eq!((output.video.frames.len(), output.peak_bytes), (5, 2));
    let stages: Vec<Stage> = begun(&updates).into_iter().map(|it| it.0).collect();
    assert_eq!(stages, [EncodeText, Denoise, Unload, Decode, Save]);
    assert_eq!(rig.job_folders(), 0, "a finished job leaves no folder");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(rig.handle.drain().count(), 0, "nothing comes after the end");
}

#[test]
fn engine_that_dies_in_any_stage_is_replaced_and_the_job_resumes_there() {
    for dying in [EncodeText, Denoise, Unload, Decode] {
        let rig = WorkerHarness::new(first(1, dying, Act::Die));
        let (updates, outcome) = rig.run();
        let output = finished(outcome);
        assert_eq!(output.video.frames.len(), 5, "{dying:?}");
        assert_eq!(output.warnings.len(), 1, "{dying:?}");
        assert_eq!(warnings(&updates).len(), 1, "{dying:?}");
        assert_eq!(resumed(&updates), [dying]);
        assert_eq!(rig.launches(), 2);
        let stages = rig.stages.lock().unwrap().clone();
        for finished in [EncodeText, Denoise] {
            let times = stages.iter().filter(|&&stage| stage == finished).count();
            let expected = 1 + usize::from(finished == dying);
            assert_eq!(times, expected, "{finished:?} of {stages:?}");
        }
    }
}

#[test]
fn remaining_time_counts_only_steps_of_the_current_stage() {
    let rig = WorkerHarness::new(|_, stage| match stage {
        Stage::DenoiseLow => Act::GoOn,
        _ => Act::Work,
    });
    let (updates, outcome) = rig.run_with(|request| {
        request.files.transformer_2 = Some(rig.folder.path().join("low"));
    });
    finished(outcome);
    let secs = updates.iter().find_map(|update| match update {
        JobUpdate::Step {
            step: 22,
            secs_left,
            ..
        } => Some(*secs_left),
        _ => None,
    });
    // 18 steps of 50 ms or more; two steps' time spread over 22 would be a tenth of it.
    assert!(secs.unwrap() > 0.4, "{secs:?}");
}

#[test]
fn an_engine_that_dies_twice_fails_the_job_with_a_reason_and_the_next_job_works() {
    let rig = WorkerHarness::new(first(2, Stage::Denoise, Act::Die));
    let err = rig.fails(|_| {});
    assert_eq!(err.kind, JobErrorKind::EngineLost);
    assert!(err.summary.contains("Denoising"), "{err}");
    assert!(err.summary.contains("signal 9"), "{err}");
    // No smaller size mends that.
    let advice = "Run the Doctor to check libtorch and the device";
    assert!(err.advice.starts_with(advice), "{err:?}");
    assert_eq!(rig.job_folders(), 1, "what was finished is kept");
    finished(rig.run().1);
}

#[test]
fn cancel_ends_a_job_and_keeps_an_engine_that_obeys() {
    let rig = WorkerHarness::new(always(Stage::Denoise, Act::UntilCancelled));
    let cancel = rig.submit(DeviceChoice::Auto);
    rig.wait_for(Stage::Denoise);
    cancel.cancel();
    let (_, outcome) = rig.hear();
    assert!(matches!(outcome, JobOutcome::Cancelled), "{outcome:?}");
    let again = rig.submit(DeviceChoice::Auto);
    again.cancel();
    assert!(matches!(rig.hear().1, JobOutcome::Cancelled));
    assert_eq!((rig.launches(), rig.job_folders()), (1, 0));
}

#[test]
fn an_engine_that_ignores_cancel_is_ended_after_its_grace_time_and_the_next_job_works() {
    let rig = WorkerHarness::impatient(first(1, Stage::Denoise, Act::Hang));
    let cancel = rig.submit(DeviceChoice::Auto);
    rig.wait_for(Stage::Denoise);
    cancel.cancel();
    assert!(matches!(rig.hear().1, JobOutcome::Cancelled));
    finished(rig.run().1);
    assert_eq!(rig.launches(), 2);
}

#[test]
fn a_panic_fails_that_job_only() {
    let rig = WorkerHarness::working();
    rig.submit(DeviceChoice::Cuda(99));
    let err = failed(rig.hear().1);
    assert_eq!(err.kind, JobErrorKind::Internal);
    finished(rig.run().1);
}

#[test]
fn a_window_that_does_not_read_loses_steps_but_never_the_end() {
    let rig = WorkerHarness::new(always(Stage::Denoise, Act::Flood));
    rig.submit(DeviceChoice::Auto);
    // Nobody reads while 4,000 lossy updates arrive: the worker must not wait for room for them.
    let deadline = Instant::now() + Duration::from_secs(20);
    while rig.worked.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < deadline, "the worker waits for the window");
        thread::sleep(Duration::from_millis(5));
    }
    let (updates, outcome) = rig.hear();
    finished(outcome);
    let is_step = |update: &&JobUpdate| matches!(update, JobUpdate::Step { .. });
    let steps = updates.iter().filter(is_step).count();
    assert!(steps < 2000, "lossy updates were kept: {steps}");
}

#[test]
fn dropping_the_handle_cancels_the_job_and_ends_the_thread() {
    for act in [Act::UntilCancelled, Act::Hang] {
        let rig = WorkerHarness::impatient(always(Stage::Denoise, act));
        rig.submit(DeviceChoice::Auto);
        rig.wait_for(Stage::Denoise);
        drop(rig.handle);
        rig.thread.join().unwrap();
    }
}

#[test]
fn a_libtorch_chosen_between_two_jobs_counts_for_the_second() {
    let rig = WorkerHarness::working();
    rig.run();
    rig.run();
    assert_eq!(rig.launches(), 1, "the engine is kept");
    *rig.runtime.lock().unwrap() = PathBuf::from("another");
    rig.run();
    assert_eq!(rig.launches(), 2);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_any_engine_starts() {
    let rig = WorkerHarness::working();
    std::fs::create_dir(rig.folder.path().join("video.mp4")).unwrap();
    assert_eq!(rig.fails(|_| {}).kind, JobErrorKind::InvalidRequest);
    assert_eq!(rig.launches(), 0);
}

#[test]
fn each_job_computed_on_the_cpu_instead_of_a_gpu_warns_once() {
    let rig = WorkerHarness::working();
    let problem = "libtorch_hip.so could not be loaded: libhipblas.so.3 is missing";
    *rig.gpu_problem.lock().unwrap() = Some(problem.to_owned());
    for _ in 0..2 {
        let (updates, outcome) = rig.run();
        let expected = format!("The CPU computes, which is slow: {problem}");
        assert_eq!(warnings(&updates), [expected.as_str()]);
        let output = finished(outcome);
        assert_eq!(output.warnings, [expected]);
    }
    // The second job is told of the engine that it found.
    assert_eq!(rig.launches(), 1);
}
