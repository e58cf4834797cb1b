//! The worker's side of a job: what the window sends, and what a test says in the worker's place.

use std::sync::Arc;
use std::thread;

use egui::accesskit::Role;
use egui_kittest::kittest::{AccessKitNode, Queryable as _};
use safelight::window::commands::QueueCommand;
use safelight::worker::{JobSources, WorkerCommand, WorkerEvent};
use safelight_core::job::{
    GenerateRequest, JobError, JobErrorKind, JobFolder, JobId, JobRequest, PostprocessRequest,
    Recipe, Stage,
};
use safelight_core::job_update::{JobOutcome, JobOutput, JobUpdate, PreviewFrame, StageTime};
use safelight_core::media::RgbPixels;

use super::{Bench, SentJob, output};

impl Bench {
    /// The next job that the worker gets, which settles it.
    pub fn next_command(&mut self) -> WorkerCommand {
        let mut sent = None;
        self.until("a job is sent", |bench| {
            sent = bench.far.commands.try_recv().ok();
            sent.is_some()
        });
        let mut command = sent.expect("it was waited for");
        let cx = &self.app().cx;
        let paths = cx.paths.clone().expect("a window has folders");
        let sources = JobSources::new(&paths, &cx.settings);
        let (request, notices) = sources.settle(&command).expect("it can be made");
        command.request = request.clone();
        let request = Box::new(request);
        self.say(command.id, JobUpdate::Settled { request, notices });
        command
    }

    pub fn next_job(&mut self) -> SentJob {
        self.next_sent(|request| match request {
            JobRequest::Generate(request) => Some(*request),
            JobRequest::Finish(_) => None,
        })
    }

    pub fn next_finish(&mut self) -> SentJob<PostprocessRequest> {
        self.next_sent(|request| match request {
            JobRequest::Finish(request) => Some(*request),
            JobRequest::Generate(_) => None,
        })
    }

    fn next_sent<R>(&mut self, request_of: impl FnOnce(JobRequest) -> Option<R>) -> SentJob<R> {
        let command = self.next_command();
        SentJob {
            id: command.id,
            request: request_of(command.request).expect("a job of this kind"),
            cancel: command.cancel,
            resume: command.resume,
        }
    }

    /// Asserts that the worker is given nothing, after the file thread had its time.
    pub fn assert_no_job(&mut self) {
        for _ in 0..20 {
            self.harness.step();
            thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(self.far.commands.try_recv().is_err(), "a job was sent");
    }

    pub fn send(&self, id: JobId, update: JobUpdate) {
        let event = WorkerEvent { id, update };
        self.far.events.send(event).expect("the window listens");
    }

    pub fn say(&mut self, id: JobId, update: JobUpdate) {
        self.send(id, update);
        self.harness.step();
        self.settle();
    }

    pub fn say_stage(&mut self, id: JobId, stage: Stage) {
        self.say(id, stage_update(stage, 0));
    }

    pub fn say_step(&mut self, id: JobId, stage: Stage, step: u32, num_steps: u32) {
        self.say(id, step_update(stage, step, num_steps));
    }

    pub fn say_preview(&mut self, id: JobId, index: u32, count: u32, image: Arc<RgbPixels>) {
        self.say(id, JobUpdate::Preview(frame(index, count, image)));
    }

    pub fn say_frame(&mut self, id: JobId, index: u32, count: u32, image: Arc<RgbPixels>) {
        self.say(id, JobUpdate::Frame(frame(index, count, image)));
    }

    pub fn say_stage_ended(&mut self, id: JobId, stage: Stage, secs: f64) {
        let section = 0;
        let time = StageTime {
            stage,
            section,
            secs,
        };
        self.say(id, JobUpdate::StageEnded(time));
    }

    /// The folder that the worker makes for a job.
    pub fn job_folder(&self, sent: &SentJob) -> JobFolder {
        let request = sent.request.clone().into();
        JobFolder::create(&self.paths().jobs(), sent.id, &request).expect("a folder")
    }

    pub fn say_end(&mut self, id: JobId, outcome: JobOutcome) {
        self.say(id, JobUpdate::Ended(outcome));
    }

    pub fn cancel_job(&mut self, sent: &SentJob) {
        self.say_end(sent.id, JobOutcome::Cancelled);
    }

    pub fn fail_job(&mut self, sent: &SentJob, kind: JobErrorKind, summary: &str) {
        self.say_end(sent.id, JobOutcome::Failed(JobError::new(kind, summary)));
    }

    pub fn press_generate(&mut self) {
        self.settle();
        let is_it = |node: &AccessKitNode<'_>| {
            let label = node.label().unwrap_or_default();
            node.role() == Role::Button && label.starts_with("Generate")
        };
        self.harness.get_by(is_it).click();
        self.settle();
    }

    /// What Generate sends, which is cancelled at once.
    pub fn request(&mut self) -> GenerateRequest {
        self.press_generate();
        self.next_request()
    }

    /// What the next job is, which is cancelled at once.
    pub fn next_request(&mut self) -> GenerateRequest {
        let sent = self.next_job();
        self.cancel_job(&sent);
        sent.request
    }

    pub fn queue_prompts(&mut self, prompts: &[&str]) {
        for prompt in prompts {
            self.form().prompt = (*prompt).to_owned();
            // A click is lost when a job starts at that moment and the form grows.
            self.push(QueueCommand::Submit);
            self.settle();
        }
    }

    pub fn start_job(&mut self) -> SentJob {
        let app = self.app();
        let example = app.cx.model().and_then(|spec| spec.example_prompts.first());
        if let Some(example) = example.cloned().filter(|_| app.cx.form.prompt.is_empty()) {
            app.cx.form.prompt = example;
        }
        self.press_generate();
        let sent = self.next_job();
        self.say(
            sent.id,
            JobUpdate::Started(Recipe::from_request(&sent.request)),
        );
        sent
    }

    pub fn finish_job(&mut self, sent: &SentJob, num_frames: u8) {
        let output = output(sent, num_frames);
        self.end_job(sent, output);
    }

    pub fn make_video(&mut self, num_frames: u8) -> SentJob {
        let sent = self.start_job();
        self.finish_job(&sent, num_frames);
        sent
    }

    pub fn end_job(&mut self, sent: &SentJob, output: JobOutput) {
        self.say_end(sent.id, JobOutcome::Finished(output));
        self.until_image_is_shown();
    }
}

fn frame(index: u32, count: u32, image: Arc<RgbPixels>) -> PreviewFrame {
    PreviewFrame {
        index,
        count,
        image,
    }
}

pub fn stage_update(stage: Stage, section: u32) -> JobUpdate {
    JobUpdate::Stage {
        stage,
        section,
        resumed: false,
    }
}

pub fn step_update(stage: Stage, step: u32, num_steps: u32) -> JobUpdate {
    JobUpdate::Step {
        stage,
        step,
        num_steps,
        secs_left: 60.0,
    }
}
