//! Calls of the server's threads to the app, and the app's events for clients.
//!
//! The app answers between two rounds, and never waits for a client.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::gallery::GalleryItem;
use safelight_core::job::{
    DeviceChoice, FieldError, GenerateForm, JobError, JobErrorKind, JobId, PostprocessRequest,
};
use safelight_core::media::{self, RgbPixels};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, Settings};
use safelight_wheels::hex;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::{broadcast, oneshot};

/// Calls that may wait until the app takes them.
const CALL_ROOM: usize = 256;
/// Jobs that may wait before clients get no more.
pub const MAX_WAITING: usize = 1000;
/// Previews are enlarged to about this edge, in pixels.
const PREVIEW_SIDE: u32 = 256;
const RESULT_ID_BYTES: usize = 16;
/// Events that are kept for slow clients.
const EVENT_ROOM: usize = 512;

/// Request to the app, with the channel of its answer.
pub enum ServerCall {
    /// Models that can be used, and the settings in effect.
    Models(oneshot::Sender<ServerModels>),
    Submit(NewJobs, oneshot::Sender<Result<SubmittedJobs, SubmitError>>),
    /// All jobs: first the running ones, then those that wait, in their order, those that stopped, and the ended ones,
    /// newest first.
    List(oneshot::Sender<Vec<JobView>>),
    /// Answered with the changed job; a failed job that restarts from its beginning has another id.
    Change(
        JobId,
        JobChange,
        oneshot::Sender<Result<JobView, ChangeError>>,
    ),
    /// Results in their folders, also of earlier runs.
    Results(oneshot::Sender<StoredResults>),
}

pub enum NewJobs {
    /// Jobs of a form whose model is set and whose inputs are open, and the device that they wait for.
    Generate(Box<GenerateForm>, DeviceChoice),
    Postprocess(PostprocessRequest),
}

impl From<GenerateForm> for NewJobs {
    fn from(form: GenerateForm) -> Self {
        Self::Generate(Box::new(form), DeviceChoice::Auto)
    }
}

impl From<PostprocessRequest> for NewJobs {
    fn from(request: PostprocessRequest) -> Self {
        Self::Postprocess(request)
    }
}

pub struct StoredResults {
    /// Newest first.
    pub items: Vec<Arc<GalleryItem>>,
    /// True until the folders have been read.
    pub are_loading: bool,
}

/// Queued jobs of one request.
#[derive(Default)]
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

/// Why a job was not changed.
#[derive(Clone, Copy, Debug)]
pub enum ChangeError {
    /// No job has this id.
    NotFound,
    /// The change has no effect on a job with this status.
    NoEffect(JobStatus),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }
}

/// A job as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobView {
    /// As text: JavaScript's numbers are not exact at this size.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
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
    /// Name of the device that runs it.
    pub device: Option<String>,
    /// Of the whole job, from 0 to 1.
    pub progress: f32,
    /// Sentence on what is computed, or waited for.
    pub activity: Option<String>,
    pub step: Option<u32>,
    pub num_steps: Option<u32>,
    pub seconds_left: Option<f64>,
    /// Duration of a finished job.
    pub seconds: Option<f64>,
    /// Time of its end, in Unix seconds.
    pub ended_at: Option<u64>,
    pub error: Option<JobProblem>,
    pub warnings: Vec<String>,
    /// Number of result files, see `/api/jobs/ID/files/0`.
    pub num_files: usize,
    /// Ids of these files among all results, see `/api/results`.
    pub results: Vec<String>,
    #[serde(skip)]
    pub paths: Vec<PathBuf>,
}

/// Why a job failed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobProblem {
    #[schemars(with = "String")]
    pub kind: JobErrorKind,
    pub message: String,
    pub advice: String,
}

impl From<&JobError> for JobProblem {
    fn from(err: &JobError) -> Self {
        Self {
            kind: err.kind,
            message: without_folders(&err.summary),
            advice: without_folders(&err.advice),
        }
    }
}

/// Text with file names in place of paths, which clients need not know.
pub fn without_folders(text: &str) -> String {
    let ends = |letter: char| letter.is_whitespace() || "\"'`(),;:".contains(letter);
    let words = text.split_inclusive(ends);
    let words = words.map(|word| match word.rsplit_once('/') {
        Some((folder, name)) if folder.starts_with('/') => name,
        _ => word,
    });
    words.collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn as_text<S: serde::Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Event of a job.
#[derive(Clone, Debug)]
pub enum JobEvent {
    Changed(Arc<JobView>),
    Preview(JobId, Arc<PreviewImage>),
}

/// Preview or decoded frame, encoded once for all clients that want it.
#[derive(Debug)]
pub struct PreviewImage {
    pub image: Arc<RgbPixels>,
    base64: OnceLock<Arc<str>>,
}

impl PreviewImage {
    pub fn new(image: Arc<RgbPixels>) -> Self {
        Self {
            image,
            base64: OnceLock::new(),
        }
    }

    /// JPEG as base64, empty where it cannot be encoded.
    pub async fn base64(self: Arc<Self>) -> Arc<str> {
        let encoded = tokio::task::spawn_blocking(move || self.encoded());
        encoded.await.unwrap_or_default()
    }

    fn encoded(&self) -> Arc<str> {
        let encode = || match jpeg_of(&self.image) {
            Ok(bytes) => BASE64_STANDARD.encode(bytes).into(),
            Err(err) => {
                tracing::warn!("a preview could not be encoded: {err}");
                Arc::default()
            }
        };
        Arc::clone(self.base64.get_or_init(encode))
    }
}

/// JPEG of an image; one of a few latents is enlarged.
pub fn jpeg_of(image: &RgbPixels) -> Result<Vec<u8>, String> {
    let factor = (PREVIEW_SIDE / image.width.max(image.height).max(1)).max(1);
    let (width, height) = (image.width * factor, image.height * factor);
    let enlarged = (factor > 1).then(|| media::resize_lanczos(image, width, height));
    let enlarged = enlarged.and_then(Result::ok);
    media::jpeg_bytes(enlarged.as_ref().unwrap_or(image))
}

/// Id of a result file for clients, derived from its path.
pub fn result_id(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hex(&digest[..RESULT_ID_BYTES])
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
