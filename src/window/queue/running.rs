//! A job that a worker has, with all that it said.
//!
//! Plain bookkeeping of what the worker reports.

use safelight_core::job::{DeviceChoice, Recipe, SectionOrder, Stage};
use safelight_core::job_update::{JobUpdate, MemoryWait, PreviewFrame};

use crate::window::memory::MemoryHistory;
use crate::window::memory::usual_share;
use crate::window::prelude::*;
use crate::window::queue::jobs::WaitingJob;
use crate::window::thumbnails::ThumbSource;
use crate::window::viewer::FramePlayer;

#[derive(Debug)]
pub struct RunningJob {
    pub id: JobId,
    /// As the queue held it.
    queued: JobRequest,
    /// As it is made: settled by the worker.
    pub request: JobRequest,
    /// As the queue held it: automatic where it may run on any.
    pub device: DeviceChoice,
    /// Name of the device or computer that it runs on.
    pub device_name: String,
    pub began: Instant,
    pub cancel: CancelToken,
    /// It is paused alone and set aside: others start.
    pub is_set_aside: bool,
    pub recipe: Option<Recipe>,
    pub stage: Option<Stage>,
    /// Run number of the stage, from 0.
    pub section: u32,
    pub has_resumed: bool,
    pub waiting: Option<MemoryWait>,
    /// Step and number of steps of the running stage.
    pub step: Option<(u32, u32)>,
    pub secs_left: Option<f64>,
    pub num_frames_decoded: u32,
    /// The latents as images, by latent frame.
    previews: Vec<Option<Arc<RgbPixels>>>,
    /// Previews and frames that have come.
    num_images: usize,
    /// The newest decoded frame, as opposed to a preview.
    pub frame: Option<PreviewFrame>,
    /// The video so far, where it grows section by section: it plays while the next section is made.
    pub growing: Option<FramePlayer>,
    pub memory: MemoryHistory,
}

impl RunningJob {
    pub fn new(job: WaitingJob, device_name: String, cancel: CancelToken) -> Self {
        Self {
            id: job.id,
            queued: job.request.clone(),
            request: job.request,
            device: job.device,
            device_name,
            began: Instant::now(),
            cancel,
            is_set_aside: false,
            recipe: None,
            stage: None,
            section: 0,
            has_resumed: false,
            waiting: None,
            step: None,
            secs_left: None,
            num_frames_decoded: 0,
            previews: Vec::new(),
            num_images: 0,
            frame: None,
            growing: None,
            memory: MemoryHistory::default(),
        }
    }

    /// The job as it is queued when it does not run, with the folder in which it resumes.
    pub(crate) fn to_idle(&self, resume: Option<PathBuf>) -> WaitingJob {
        WaitingJob {
            id: self.id,
            resume,
            ..WaitingJob::new(self.queued.clone(), self.device)
        }
    }

    pub(super) fn pause(&mut self, is_set_aside: bool) {
        if !self.cancel.is_cancelled() {
            self.is_set_aside = is_set_aside;
            self.cancel.pause();
        }
    }

    /// The newest frame, else the middle one of the latents.
    pub fn image(&self) -> Option<&Arc<RgbPixels>> {
        let frame = self.frame.as_ref().map(|frame| &frame.image);
        frame.or_else(|| self.preview(self.num_previews() / 2))
    }

    /// Thumbnail of its image; of the image before, while only that is ready.
    pub fn thumb(&self, is_ready: impl Fn(&ThumbSource) -> bool) -> Option<ThumbSource> {
        let image = self.image()?;
        let thumb = |number: usize| {
            // Numbers from the end are not those of the job's results.
            ThumbSource::Made(self.id, usize::MAX - number, Arc::clone(image))
        };
        let [newest, before] = [self.num_images, self.num_images.saturating_sub(1)].map(thumb);
        Some(if is_ready(&newest) || !is_ready(&before) {
            newest
        } else {
            before
        })
    }

    /// Applies an update of the worker. The app handles the end and warnings.
    pub fn apply(&mut self, update: JobUpdate) {
        match update {
            JobUpdate::Settled { request, .. } => self.request = *request,
            JobUpdate::Started(recipe) => self.recipe = Some(recipe),
            JobUpdate::Plan(plan) => {
                self.waiting = None;
                self.memory.plan = Some(plan);
            }
            JobUpdate::Stage {
                stage,
                section,
                resumed,
            } => {
                self.stage = Some(stage);
                self.section = section;
                self.waiting = None;
                if stage == Stage::Denoise {
                    // The last section's are not this one's.
                    self.previews.clear();
                }
                self.num_frames_decoded = 0;
                self.has_resumed |= resumed;
                if stage != Stage::DenoiseLow {
                    // The second expert counts on where the first one stopped.
                    self.step = None;
                }
                self.memory.begin(stage, section);
            }
            JobUpdate::StageEnded(_) => self.memory.end(),
            JobUpdate::Step {
                stage,
                step,
                num_steps,
                secs_left,
            } => {
                if self.stage == Some(stage) {
                    self.step = Some(self.whole_step(stage, step, num_steps));
                }
                self.secs_left = (secs_left.is_finite() && secs_left >= 0.0).then_some(secs_left);
            }
            JobUpdate::Preview(frame) => self.keep_preview(frame),
            JobUpdate::Frame(frame) => {
                self.num_frames_decoded = frame.index.saturating_add(1);
                self.num_images += 1;
                self.frame = Some(frame);
            }
            JobUpdate::Memory(sample) => self.memory.push(sample),
            JobUpdate::Waiting(crowded) => {
                self.secs_left = None;
                self.waiting = Some(crowded);
            }
            JobUpdate::Reclaimed(reclaim) => {
                let at_secs = self.memory.end_secs();
                self.memory.marks.push((at_secs, reclaim));
            }
            JobUpdate::Section(made) => {
                let sections = self.request.generate().and_then(|it| it.sections);
                let is_at_front =
                    sections.is_some_and(|sections| sections.order == SectionOrder::Original);
                match &mut self.growing {
                    Some(video) => video.grow(made.video, is_at_front),
                    None => self.growing = Some(FramePlayer::of_video(made.video)),
                }
            }
            JobUpdate::Device(_)
            | JobUpdate::Lora(_)
            | JobUpdate::Warning(_)
            | JobUpdate::Ended(_) => {}
        }
    }

    /// A step as one of all that both experts make, whether the engine counts over both or in each.
    fn whole_step(&self, stage: Stage, step: u32, num_steps: u32) -> (u32, u32) {
        let Some(request) = self.request.generate() else {
            return (step, num_steps);
        };
        let end = request
            .sampling
            .end_step
            .unwrap_or(request.sampling.num_steps);
        let all = end.saturating_sub(request.sampling.start_step);
        match stage {
            Stage::DenoiseHigh if num_steps < all => (step, all),
            Stage::DenoiseLow if num_steps < all => (step + (all - num_steps), all),
            _ => (step, num_steps),
        }
    }

    /// The image of one latent frame, counted around.
    pub fn preview(&self, turn: usize) -> Option<&Arc<RgbPixels>> {
        self.previews
            .iter()
            .flatten()
            .nth(turn % self.num_previews().max(1))
    }

    /// Number of latent frames with a preview.
    pub fn num_previews(&self) -> usize {
        self.previews.iter().flatten().count()
    }

    /// Stage, or what the job waits for.
    pub fn activity(&self) -> String {
        match (&self.waiting, self.stage) {
            (Some(waiting), _) => waiting.to_string(),
            (None, Some(stage)) => stage.label().to_owned(),
            (None, None) => "Starting the engine".to_owned(),
        }
    }

    /// Progress of the whole job, from 0 to 1: stages weighted by their usual durations.
    pub fn progress(&self) -> f32 {
        let Some(recipe) = &self.recipe else {
            return 0.0;
        };
        let running = self
            .stage
            .and_then(|stage| recipe.position(stage, self.section));
        let weights = |stages: &[Stage]| stages.iter().copied().map(weight).sum::<f32>();
        let is_high = |stage: &Stage| *stage == Stage::DenoiseHigh;
        let done = match (self.stage, self.step) {
            // One count over both experts, of whom each makes an unknown part.
            (Some(Stage::DenoiseHigh | Stage::DenoiseLow), Some((step, num_steps))) => {
                let high = recipe.stages.iter().position(is_high);
                let before = weights(&recipe.stages[..high.unwrap_or(recipe.stages.len())]);
                let both = weights(&[Stage::DenoiseHigh, Stage::DenoiseLow]);
                before + both * step as f32 / num_steps.max(1) as f32
            }
            (Some(stage), _) => running.map_or(0.0, |position| {
                weights(&recipe.stages[..position]) + weight(stage) * self.stage_progress()
            }),
            (None, _) => 0.0,
        };
        (done / weights(&recipe.stages).max(f32::EPSILON)).clamp(0.0, 1.0)
    }

    pub fn num_frames_of_stage(&self) -> usize {
        match self.request.generate().and_then(|it| it.sections) {
            Some(sections) => sections.decoded(self.section).num_frames as usize,
            None => self.request.num_decoded(),
        }
    }

    fn stage_progress(&self) -> f32 {
        match (self.stage, self.step) {
            (Some(Stage::Decode), None) => {
                self.num_frames_decoded as f32 / self.num_frames_of_stage().max(1) as f32
            }
            (_, Some((step, num_steps))) => step as f32 / num_steps.max(1) as f32,
            _ => 0.0,
        }
        .clamp(0.0, 1.0)
    }

    fn keep_preview(&mut self, frame: PreviewFrame) {
        // At most this number of latent frames: the worker's count is not trusted as a list size.
        let index = frame.index as usize;
        if index >= self.request.num_decoded().max(1) {
            return;
        }
        if self.previews.len() <= index {
            self.previews.resize(index + 1, None);
        }
        self.previews[index] = Some(frame.image);
        self.num_images += 1;
    }
}

fn weight(stage: Stage) -> f32 {
    usual_share(stage) as f32
}
