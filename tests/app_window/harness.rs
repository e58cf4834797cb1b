//! The real window without a display, with a test in the worker's place.

#[path = "made_files.rs"]
mod made_files;
#[path = "specs.rs"]
mod specs;
#[path = "steps.rs"]
mod steps;
#[path = "worker_side.rs"]
mod worker_side;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use egui_kittest::{Harness, Node};
use safelight::runtimes::RuntimeOverview;
use safelight::window::AppWindow;
use safelight::window::app::{SafelightApp, StartupOptions};
use safelight::window::commands::AppCommand;
use safelight::window::desktop::DesktopLinks;
use safelight::window::library::models::FoundModels;
use safelight::worker::{WorkerFarEnd, WorkerHandle};
use safelight_core::job::{CancelToken, GenerateForm, GenerateRequest, JobId, Stage, Video};
use safelight_core::job_update::{JobOutput, JobUpdate, MemorySample, StageTime};
use safelight_core::media::RgbPixels;
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, LoadedSettings};
use tempfile::TempDir;

pub use made_files::{made_with, write_made};
pub use specs::{experts_spec, flux_spec, framepack_spec, pair_spec, spec};
pub use steps::{key_event, primary_button};
pub use worker_side::{stage_update, step_update};

/// The window, the worker's end of its channels, and a folder that is this user's whole home.
pub struct Bench {
    pub harness: Harness<'static, AppWindow>,
    pub far: WorkerFarEnd,
    /// Ends of the workers of further devices.
    pub more: Arc<Mutex<Vec<WorkerFarEnd>>>,
    pub home: TempDir,
}

/// What a job that the window sent consists of.
pub struct SentJob<R = GenerateRequest> {
    pub id: JobId,
    pub request: R,
    pub cancel: CancelToken,
    /// The folder of a job that continues.
    pub resume: Option<PathBuf>,
}

impl SentJob {
    /// The request without the name of its result, which has the time in it.
    pub fn unnamed(&self) -> GenerateRequest {
        GenerateRequest {
            out: PathBuf::new(),
            ..self.request.clone()
        }
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A window that has begun a job, and that job.
    pub fn at_work() -> (Self, SentJob) {
        let mut bench = Self::new();
        let sent = bench.start_job();
        (bench, sent)
    }

    pub fn of(spec: ModelSpec) -> Self {
        Self::of_models(vec![spec])
    }

    pub fn of_models(specs: Vec<ModelSpec>) -> Self {
        Self::with(|startup| startup.models = Some(found(specs)))
    }

    /// With something changed before the window opens.
    pub fn with(change: impl FnOnce(&mut StartupOptions)) -> Self {
        Self::in_home(tempfile::tempdir().expect("a temporary folder"), change)
    }

    /// With what an earlier window left in its home.
    pub fn in_home(home: TempDir, change: impl FnOnce(&mut StartupOptions)) -> Self {
        let (worker, far) = WorkerHandle::detached();
        let mut worker = Some(worker);
        let more = Arc::<Mutex<Vec<WorkerFarEnd>>>::default();
        let others = Arc::clone(&more);
        let start_worker = Box::new(move || {
            Ok(worker.take().unwrap_or_else(|| {
                let (worker, far) = WorkerHandle::detached();
                others.lock().unwrap().push(far);
                worker
            }))
        });
        let mut startup =
            StartupOptions::new(LoadedSettings::default(), AppPaths::under(home.path()));
        startup.models = Some(found(vec![spec()]));
        startup.library.check_engine = Arc::new(|_| Ok(()));
        startup.desktop = DesktopLinks::none();
        startup.examine = Arc::new(|_, _| {});
        startup.measure = Arc::new(|_, _| panic!("this test asks for no report"));
        startup.library.survey = Arc::new(|_, _| {});
        startup.runtimes.look = Arc::new(|_| RuntimeOverview::default());
        change(&mut startup);
        let harness = Harness::builder()
            .with_size(egui::vec2(1100.0, 760.0))
            .with_max_steps(60)
            .build_eframe(|cc| AppWindow::new(cc, start_worker, startup));
        let mut bench = Self {
            harness,
            far,
            more,
            home,
        };
        bench.settle();
        // Or it comes later, and moves what a test is about to click on.
        let is_known = |bench: &mut Self| bench.app().runtimes.overview.is_some();
        bench.until("the machine is known", is_known);
        bench
    }

    pub fn reopened(self) -> Self {
        Self::in_home(self.close(), |_| {})
    }

    pub fn restarted(self) -> Self {
        Self::in_home(self.die(), |_| {})
    }

    pub fn close(mut self) -> TempDir {
        self.app().close();
        self.die()
    }

    pub fn die(self) -> TempDir {
        let Self { harness, home, .. } = self;
        drop(harness);
        home
    }

    pub fn app(&mut self) -> &mut SafelightApp {
        &mut self.harness.state_mut().app
    }

    pub fn paths(&self) -> AppPaths {
        AppPaths::under(self.home.path())
    }

    pub fn form(&mut self) -> &mut GenerateForm {
        &mut self.app().cx.form
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut GenerateForm)) {
        change(self.form());
        self.settle();
    }

    /// Compares the window with an image in `tests/snapshots`, after fixing the seed, which may be random.
    pub fn snapshot(&mut self, name: &str) {
        self.edit(|form| form.seed = 1234);
        self.harness.snapshot(name);
    }

    pub fn push(&mut self, command: impl Into<AppCommand>) {
        self.app().cx.push(command);
    }

    pub fn panels(&mut self) -> &mut safelight::window::layout::view::PanelStates {
        &mut self.harness.state_mut().panels
    }

    /// Runs until nothing more asks for an immediate repaint, and checks that every input has a name.
    pub fn settle(&mut self) {
        self.harness.run();
    }

    /// Runs until the background threads have brought something about.
    ///
    /// Little of the window's own time passes: what it shows for a while stays, however long a busy machine takes.
    pub fn until(&mut self, what: &str, is_so: impl FnMut(&mut Self) -> bool) {
        self.run_until(what, 0.01, is_so);
    }

    /// Runs until the window does by itself what it does after a while.
    pub fn until_later(&mut self, what: &str, is_so: impl FnMut(&mut Self) -> bool) {
        self.run_until(what, 0.25, is_so);
    }

    pub fn step_after(&mut self, secs: f64) {
        let now = self.harness.ctx.input(|input| input.time);
        self.harness.input_mut().time = Some(now + secs);
        self.harness.step();
        self.harness.input_mut().time = None;
    }

    fn run_until(&mut self, what: &str, secs: f64, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..2000 {
            self.step_after(secs);
            if is_so(self) {
                self.settle();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("this never happened: {what}");
    }

    pub fn is_disabled(&self, button: &str) -> bool {
        self.node(Role::Button, button)
            .accesskit_node()
            .is_disabled()
    }

    pub fn press(&mut self, name: &str) {
        if self.is_disabled(name) {
            let can_be_pressed = |bench: &mut Self| !bench.is_disabled(name);
            self.until(&format!("{name} can be pressed"), can_be_pressed);
        }
        self.click(Role::Button, name);
    }

    pub fn press_until(&mut self, name: &str, shown: &str) {
        self.press(name);
        self.wait_for(shown);
    }

    pub fn press_more_until(&mut self, name: &str, shown: &str) {
        self.press_more(name);
        self.wait_for(shown);
    }

    pub fn press_in_vain(&mut self, name: &str) {
        assert!(self.is_disabled(name), "{name} can be pressed");
        self.click(Role::Button, name);
    }

    pub fn click(&mut self, role: Role, name: &str) {
        self.node(role, name).click();
        self.settle();
    }

    pub fn click_label(&mut self, name: &str) {
        self.labelled(name).click();
        self.settle();
    }

    pub fn type_into(&mut self, name: &str, text: &str) {
        self.labelled(name).focus();
        self.settle();
        self.labelled(name).type_text(text);
        self.settle();
    }

    pub fn press_key(&mut self, key: egui::Key) {
        self.press_keys(egui::Modifiers::NONE, key);
    }

    pub fn press_keys(&mut self, modifiers: egui::Modifiers, key: egui::Key) {
        self.harness.key_press_modifiers(modifiers, key);
        self.settle();
    }

    pub fn resize(&mut self, size: egui::Vec2) {
        self.harness.set_size(size);
        self.settle();
    }

    pub fn node<'a>(&'a self, role: Role, name: &'a str) -> Node<'a> {
        self.harness.get_by_role_and_label(role, name)
    }

    pub fn labelled<'a>(&'a self, name: &'a str) -> Node<'a> {
        self.harness.get_by_label(name)
    }

    pub fn scroll_to(&mut self, name: &str) {
        self.labelled(name).scroll_to_me();
        self.settle();
    }

    pub fn has(&self, text: &str) -> bool {
        self.harness
            .query_all_by_label_contains(text)
            .next()
            .is_some()
    }

    /// Asserts that every text is shown; `|` separates texts.
    pub fn assert_shows(&self, texts: &str) {
        for text in texts.split('|') {
            let root = self.harness.root();
            assert!(self.has(text), "expected to read {text:?} in:\n{root:#?}");
        }
    }

    /// Asserts that no text is shown; `|` separates texts.
    pub fn assert_hides(&self, texts: &str) {
        for text in texts.split('|') {
            assert!(!self.has(text), "{text:?} is shown");
        }
    }

    /// Waits until every text is shown; `|` separates texts.
    pub fn wait_for(&mut self, texts: &str) {
        let are_shown = |bench: &mut Self| texts.split('|').all(|text| bench.has(text));
        self.until(texts, are_shown);
    }

    pub fn wait_until_gone(&mut self, text: &str) {
        self.until(&format!("no {text}"), |bench| !bench.has(text));
    }

    pub fn use_model(&mut self, name: &str) {
        self.look_at_model(name);
        self.press("Use this model");
    }

    pub fn look_at_model(&mut self, name: &str) {
        self.click(Role::ComboBox, "Model");
        // It may be far down.
        self.node(Role::TextInput, "Search models").type_text(name);
        self.settle();
        self.click(Role::ListBoxOption, name);
    }

    pub fn write_prompt(&mut self, text: &str) {
        self.focus_and_type(Role::MultilineTextInput, "Prompt", text);
    }

    /// When the window wants to be painted again; `None` when nothing is planned.
    pub fn next_repaint(&self) -> Option<Duration> {
        let root = &self.harness.output().viewport_output[&egui::ViewportId::ROOT];
        (root.repaint_delay < Duration::from_hours(1)).then_some(root.repaint_delay)
    }
}

pub fn found(specs: Vec<ModelSpec>) -> FoundModels {
    FoundModels {
        specs,
        ..FoundModels::default()
    }
}

pub fn image(side: u32, colour: [u8; 3]) -> Arc<RgbPixels> {
    Arc::new(RgbPixels::from_fn(side, side, |_, _| colour).expect("it has pixels"))
}

pub fn output(sent: &SentJob, num_frames: u8) -> JobOutput {
    let frames = (0..num_frames).map(|index| image(64, [index * 10, 40, 30]));
    JobOutput {
        seed: Some(sent.request.seed),
        ..output_file(&sent.request.out, frames.collect(), 8.0)
    }
}

pub fn output_file(path: &Path, frames: Vec<Arc<RgbPixels>>, fps: f64) -> JobOutput {
    JobOutput {
        paths: vec![path.to_owned()],
        num_frames: frames.len() as u32,
        video: Arc::new(Video { frames, fps }),
        seed: None,
        secs: 9.0,
        stages: vec![StageTime {
            stage: Stage::Denoise,
            section: 0,
            secs: 9.0,
        }],
        peak_bytes: 1 << 30,
        warnings: Vec::new(),
        plan: None,
        rungs: Vec::new(),
    }
}

/// A sample in MiB.
pub fn sample(at_secs: f64, used: u64, allocated: u64, reserved: u64, total: u64) -> JobUpdate {
    JobUpdate::Memory(MemorySample {
        at_secs,
        used_bytes: used << 20,
        allocated_bytes: allocated << 20,
        reserved_bytes: reserved << 20,
        total_bytes: total << 20,
        ..MemorySample::default()
    })
}
