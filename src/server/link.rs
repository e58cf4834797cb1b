//! Calls of the server's threads to the app, and the app's events for clients.
//!
//! The app answers between two rounds, and never waits for a client.

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{FieldError, GenerateForm, JobError, JobErrorKind, JobId};
use safelight_core::media::RgbPixels;
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, Settings};
use serde::Serialize;
use tokio::sync::{broadcast, oneshot};

/// Calls that may wait until the app takes them.
const CALL_ROOM: usize = 256;
/// Jobs that may wait before clients get no more.
pub const MAX_WAITING: usize = 1000;
/// Events that are kept for slow clients.
const EVENT_ROOM: usize = 512;

/// Request to the app, with the channel of its answer.
pub enum ServerCall {
    /// Models that can be used, and the settings in effect.
    Models(oneshot::Sender<ServerModels>),
    /// Queues the jobs of a form whose model is set and whose inputs are open.
    Submit(
        Box<GenerateForm>,
        oneshot::Sender<Result<SubmittedJobs, SubmitError>>,
    ),
    /// All jobs: first the running one, then those that wait, in their order, those that stopped, and the ended ones,
    /// newest first.
    List(oneshot::Sender<Vec<JobView>>),
    Change(JobId, JobChange, oneshot::Sender<Option<JobView>>),
}

/// Queued jobs of one form.
pub struct SubmittedJobs {
    pub ids: Vec<JobId>,
    /// Sentences on values that were changed or are not used.
    pub notices: Vec<String>,
}

#[derive(Clone)]
pub struct ServerModels {
    pub specs: Vec<ModelSpec>,
    /// Id of the form's model.
    pub chosen: Option<String>,
    pub settings: Settings,
    /// True until the search for models has ended.
    pub are_loading: bool,
    pub paths: Option<AppPaths>,
}

#[derive(Debug)]
pub enum SubmitError {
    /// No model with this name.
    Model(String),
    Fields(Vec<FieldError>),
    /// So many jobs wait already.
    QueueFull(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Cancels a job, or forgets one that has finished or failed.
    Cancel,
    Pause,
    Resume,
    /// To this place among those that wait, from 0.
    Move(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Waiting,
    Running,
    Paused,
    Finished,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }
}

/// A job as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobView {
    /// As text: JavaScript's numbers are not exact at this size.
    #[serde(serialize_with = "as_text")]
    pub id: JobId,
    pub status: JobStatus,
    /// `image`, `video`, or the post-processing.
    pub kind: &'static str,
    pub model: Option<String>,
    pub prompt: String,
    pub seed: Option<u64>,
    pub width: u32,
    pub height: u32,
    pub num_frames: u32,
    pub fps: f64,
    /// Of the whole job, from 0 to 1.
    pub progress: f32,
    /// Sentence on what is computed, or waited for.
    pub activity: Option<String>,
    pub step: Option<u32>,
    pub num_steps: Option<u32>,
    pub seconds_left: Option<f64>,
    /// Duration of a finished job.
    pub seconds: Option<f64>,
    pub error: Option<JobProblem>,
    pub warnings: Vec<String>,
    /// Number of result files, see `/api/jobs/ID/files/0`.
    pub num_files: usize,
    #[serde(skip)]
    pub paths: Vec<PathBuf>,
}

/// Why a job failed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobProblem {
    pub kind: JobErrorKind,
    pub message: String,
    pub advice: String,
}

impl From<&JobError> for JobProblem {
    fn from(err: &JobError) -> Self {
        Self {
            kind: err.kind,
            message: err.summary.clone(),
            advice: err.advice.clone(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn as_text<S: serde::Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Event of a job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    Changed(Arc<JobView>),
    /// Preview, or a decoded frame.
    Preview(JobId, Arc<RgbPixels>),
}

/// The server's end: any thread may call.
#[derive(Clone)]
pub struct ServerLink {
    calls: Sender<ServerCall>,
    pub events: broadcast::Sender<JobEvent>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// The app's end.
pub struct AppLink {
    pub calls: Receiver<ServerCall>,
    pub events: broadcast::Sender<JobEvent>,
}

/// Both ends; `wake` starts the app's next round.
pub fn link(wake: impl Fn() + Send + Sync + 'static) -> (ServerLink, AppLink) {
    let (calls, received) = bounded(CALL_ROOM);
    let (events, _) = broadcast::channel(EVENT_ROOM);
    let server = ServerLink {
        calls,
        events: events.clone(),
        wake: Arc::new(wake),
    };
    let app = AppLink {
        calls: received,
        events,
    };
    (server, app)
}

/// The app is about to end, or takes no more calls.
#[derive(Clone, Copy, Debug)]
pub struct AppBusy;

impl ServerLink {
    /// Asks the app, and waits for the answer.
    pub async fn ask<T>(
        &self,
        call: impl FnOnce(oneshot::Sender<T>) -> ServerCall,
    ) -> Result<T, AppBusy> {
        let (reply, answer) = oneshot::channel();
        self.tell(call(reply))?;
        answer.await.map_err(|_gone| AppBusy)
    }

    /// Like [`Self::ask`], without waiting.
    pub fn tell(&self, call: ServerCall) -> Result<(), AppBusy> {
        self.calls.try_send(call).map_err(|_unsent| AppBusy)?;
        (self.wake)();
        Ok(())
    }
}
