//! The real window without a display, with a test in the worker's place.

#[path = "made_files.rs"]
mod made_files;
#[path = "specs.rs"]
mod specs;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use egui::accesskit::Role;
use egui_kittest::kittest::{AccessKitNode, NodeT as _, Queryable as _};
use egui_kittest::{Harness, Node};
use safelight::app::commands::AppCommand;
use safelight::app::desktop::DesktopLinks;
use safelight::app::models::FoundModels;
use safelight::app::{App, StartupOptions};
use safelight::runtimes::Overview;
use safelight::window::Window;
use safelight::worker::{WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
use safelight_core::job::{
    CancelToken, Clip, GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId, JobOutcome,
    JobOutput, JobRequest, JobUpdate, MemorySample, Recipe, Stage, StageTime,
};
use safelight_core::media::Picture;
use safelight_core::model::ModelSpec;
use safelight_core::settings::{LoadedSettings, Paths};
use tempfile::TempDir;

pub use specs::{flux_spec, framepack_spec, pair_spec, spec};

/// The window, the worker's end of its channels, and a folder that is this user's whole home.
pub struct Bench {
    pub harness: Harness<'static, Window>,
    pub far: WorkerFarEnd,
    pub home: TempDir,
}

/// What a job that the window sent consists of.
pub struct Sent {
    pub id: JobId,
    pub request: GenerateRequest,
    pub cancel: CancelToken,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With one other model.
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
        let mut startup = StartupOptions::new(LoadedSettings::default(), Paths::under(home.path()));
        startup.models = Some(found(vec![spec()]));
        startup.library.check_engine = Arc::new(|_| Ok(()));
        startup.desktop = DesktopLinks::none();
        startup.examine = Arc::new(|_, _| {});
        startup.measure = Arc::new(|_, _| panic!("this test asks for no report"));
        startup.library.survey = Arc::new(|_, _| {});
        startup.runtimes.look = Arc::new(|_| Overview::default());
        change(&mut startup);
        let harness = Harness::builder()
            .with_size(egui::vec2(1100.0, 760.0))
            .with_max_steps(60)
            .build_eframe(|cc| Window::new(cc, worker, startup));
        let mut bench = Self { harness, far, home };
        bench.settle();
        // Or it comes later, and moves what a test is about to click on.
        let is_known = |bench: &mut Self| bench.app().runtimes.overview.is_some();
        bench.until("the machine is known", is_known);
        bench
    }

    /// Closes the window; gives its home to the next one.
    pub fn close(mut self) -> TempDir {
        self.app().close();
        self.die()
    }

    /// The program dies; gives its home to the next one.
    pub fn die(self) -> TempDir {
        let Self { harness, home, .. } = self;
        drop(harness);
        home
    }

    pub fn app(&mut self) -> &mut App {
        &mut self.harness.state_mut().app
    }

    pub fn form(&mut self) -> &mut GenerateForm {
        &mut self.app().cx.form
    }

    /// Gives the app a command, as a panel does.
    pub fn push(&mut self, command: impl Into<AppCommand>) {
        self.app().cx.push(command);
    }

    pub fn panels(&mut self) -> &mut safelight::ui::Panels {
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

    /// The next frame, this much later by the window's clock.
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

    /// Presses a button; one that waits for a background thread, once it can be pressed.
    pub fn press(&mut self, name: &str) {
        if self.is_disabled(name) {
            let can_be_pressed = |bench: &mut Self| !bench.is_disabled(name);
            self.until(&format!("{name} can be pressed"), can_be_pressed);
        }
        self.click(Role::Button, name);
    }

    /// Presses a button that must do nothing.
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

    /// Scrolls until the control of this name can be clicked.
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

    pub fn assert_shows(&self, text: &str) {
        assert!(
            self.has(text),
            "expected to read {text:?} in:\n{:#?}",
            self.harness.root()
        );
    }

    /// Runs until the text is shown.
    pub fn wait_for(&mut self, text: &str) {
        self.until(text, |bench| bench.has(text));
    }

    /// Runs until all of these are shown at once.
    pub fn wait_for_all(&mut self, texts: &[&str]) {
        self.until(&texts.join(", "), |bench| {
            texts.iter().all(|text| bench.has(text))
        });
    }

    pub fn wait_until_gone(&mut self, text: &str) {
        self.until(&format!("no {text}"), |bench| !bench.has(text));
    }

    /// Opens the list of models and works with the one of this name.
    pub fn use_model(&mut self, name: &str) {
        self.look_at_model(name);
        self.press("Use this model");
    }

    /// Opens the list of models and looks at the one of this name.
    pub fn look_at_model(&mut self, name: &str) {
        self.click(Role::ComboBox, "Model");
        // It may be far down.
        self.node(Role::TextInput, "Search models").type_text(name);
        self.settle();
        self.click(Role::ListBoxOption, name);
    }

    pub fn write_prompt(&mut self, text: &str) {
        let role = Role::MultilineTextInput;
        self.node(role, "Prompt").focus();
        self.settle();
        self.node(role, "Prompt").type_text(text);
        self.settle();
    }

    /// The job that the window hands to the worker.
    pub fn next_job(&mut self) -> Sent {
        let mut sent = None;
        self.until("a job is sent", |bench| {
            sent = bench.far.commands.try_recv().ok();
            sent.is_some()
        });
        let Some(WorkerCommand {
            id,
            request: JobRequest::Generate(request),
            cancel,
            ..
        }) = sent
        else {
            panic!("a job to generate was waited for");
        };
        Sent {
            id,
            request: *request,
            cancel,
        }
    }

    /// Asserts that the worker is given nothing, after the file thread had its time.
    pub fn assert_no_job(&mut self) {
        for _ in 0..20 {
            self.harness.step();
            thread::sleep(Duration::from_millis(2));
        }
        assert!(self.far.commands.try_recv().is_err(), "a job was sent");
    }

    /// The worker says something about a job.
    pub fn say(&mut self, id: JobId, update: JobUpdate) {
        let event = WorkerEvent { id, update };
        self.far.events.send(event).expect("the window listens");
        self.harness.step();
        self.settle();
    }

    /// The job enters this stage.
    pub fn say_stage(&mut self, id: JobId, stage: Stage) {
        let (section, resumed) = (0, false);
        self.say(
            id,
            JobUpdate::Stage {
                stage,
                section,
                resumed,
            },
        );
    }

    pub fn say_end(&mut self, id: JobId, outcome: JobOutcome) {
        self.say(id, JobUpdate::Ended(outcome));
    }

    pub fn fail_job(&mut self, sent: &Sent, kind: JobErrorKind, summary: &str) {
        self.say_end(sent.id, JobOutcome::Failed(JobError::new(kind, summary)));
    }

    /// Presses Generate, however many results it says that it makes.
    pub fn press_generate(&mut self) {
        self.settle();
        let is_it = |node: &AccessKitNode<'_>| {
            let label = node.label().unwrap_or_default();
            node.role() == Role::Button && label.starts_with("Generate")
        };
        self.harness.get_by(is_it).click();
        self.settle();
    }

    /// Writes a prompt where there is none, presses Generate and begins the job.
    pub fn start_job(&mut self) -> Sent {
        let app = self.app();
        let example = app.cx.model().and_then(|spec| spec.example_prompts.first());
        if let Some(example) = example.cloned().filter(|_| app.cx.form.prompt.is_empty()) {
            app.cx.form.prompt = example;
        }
        self.press_generate();
        let sent = self.next_job();
        self.say(sent.id, JobUpdate::Started(Recipe::of(&sent.request)));
        sent
    }

    /// Makes a whole clip of so many frames.
    pub fn finish_job(&mut self, sent: &Sent, num_frames: u8) {
        let output = output(sent, num_frames);
        self.end_job(sent, output);
    }

    /// The job has made this, and its small pictures are there.
    pub fn end_job(&mut self, sent: &Sent, output: JobOutput) {
        self.say_end(sent.id, JobOutcome::Finished(output));
        self.until_pictured();
    }

    /// Runs until all small pictures that are seen are there.
    pub fn until_pictured(&mut self) {
        let are_there = |bench: &mut Self| !bench.app().cx.thumbs.is_busy();
        self.until("the small pictures are there", are_there);
    }

    /// What the cards say, the oldest first.
    pub fn told(&mut self) -> Vec<String> {
        let notices = self.app().cx.notices.all().iter();
        notices.map(|notice| notice.summary.clone()).collect()
    }

    /// When the window wants to be painted again; `None` when nothing is planned.
    pub fn next_repaint(&self) -> Option<Duration> {
        let root = &self.harness.output().viewport_output[&egui::ViewportId::ROOT];
        (root.repaint_delay < Duration::from_hours(1)).then_some(root.repaint_delay)
    }

    /// What was put on the clipboard in the last frame.
    pub fn copied(&self) -> Option<String> {
        self.harness
            .output()
            .platform_output
            .commands
            .iter()
            .find_map(|command| match command {
                egui::OutputCommand::CopyText(text) => Some(text.clone()),
                _ => None,
            })
    }

    /// Presses a button, and gives what it put on the clipboard.
    pub fn copied_by(&mut self, name: &str) -> Option<String> {
        self.node(Role::Button, name).click();
        self.until_copied()
    }

    pub fn copied_by_label(&mut self, name: &str) -> Option<String> {
        self.labelled(name).click();
        self.until_copied()
    }

    /// Returns the text that the next frames copy to the clipboard.
    pub fn until_copied(&mut self) -> Option<String> {
        let mut copied = None;
        for _ in 0..4 {
            self.harness.step();
            copied = copied.or_else(|| self.copied());
        }
        copied
    }
}

/// A search that found these models alone.
pub fn found(specs: Vec<ModelSpec>) -> FoundModels {
    FoundModels {
        specs,
        ..FoundModels::default()
    }
}

/// The event of the mouse's first button.
pub fn primary_button(pos: egui::Pos2, pressed: bool) -> egui::Event {
    egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: egui::Modifiers::NONE,
    }
}

/// A picture of one colour.
pub fn picture(side: u32, colour: [u8; 3]) -> Arc<Picture> {
    Arc::new(Picture::from_fn(side, side, |_, _| colour).expect("it has pixels"))
}

/// A finished clip whose frames get brighter.
pub fn output(sent: &Sent, num_frames: u8) -> JobOutput {
    let frames = (0..num_frames)
        .map(|index| picture(64, [index * 10, 40, 30]))
        .collect();
    JobOutput {
        paths: vec![sent.request.out.clone()],
        clip: Arc::new(Clip { frames, fps: 8.0 }),
        num_frames: num_frames.into(),
        seed: Some(sent.request.seed),
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
