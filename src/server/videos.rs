//! OpenAI's endpoints for videos: a job at once, its state, and its file when it is done.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use safelight_core::job::{GenerateForm, JobId, random_seed};
use safelight_core::model::{InputUse, ModelSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::ApiRoutes;
use super::context::ServerContext;
use super::error::ApiError;
use super::form::ApiForm;
use super::link::{JobChange, JobStatus, JobView};
use super::openai::size_of;
use super::results::send_file;
use super::uploads::open_image;

/// Before the number of a job.
const PREFIX: &str = "video_";

pub fn routes(api: &mut ApiRoutes) {
    api.tag("OpenAI videos");
    api.add("POST /v1/videos", "Queue a video", post(create))
        .form::<VideoOrder>(&["input_reference"])
        .body::<VideoOrder>()
        .answers::<VideoView>(200);
    api.add("GET /v1/videos", "Videos of this run", get(list))
        .answers::<VideoPage>(200);
    api.add("GET /v1/videos/{id}", "State of a video", get(look))
        .answers::<VideoView>(200);
    api.add(
        "DELETE /v1/videos/{id}",
        "Cancel a video, or forget one that has ended",
        delete(remove),
    )
    .answers::<DeletedVideo>(200);
    api.add(
        "GET /v1/videos/{id}/content",
        "File of a finished video",
        get(content),
    )
    .sends(&["video/*", "image/*"]);
}

#[derive(Deserialize, JsonSchema)]
struct VideoOrder {
    model: Option<String>,
    prompt: String,
    seconds: Option<VideoSeconds>,
    /// `1280x720` or `auto`.
    size: Option<String>,
    seed: Option<u64>,
    negative_prompt: Option<String>,
}

/// A number, or as OpenAI writes it, text.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum VideoSeconds {
    Number(f64),
    Text(String),
}

impl VideoSeconds {
    fn secs(&self) -> Result<f64, ApiError> {
        let secs = match self {
            Self::Number(secs) => Some(*secs),
            Self::Text(text) => text.trim().parse().ok(),
        };
        let secs = secs.filter(|secs| secs.is_finite() && *secs > 0.0);
        secs.ok_or_else(|| ApiError::invalid("seconds", "the length must be a number of seconds"))
    }
}

async fn create(
    State(context): State<ServerContext>,
    ApiForm { order, files }: ApiForm<VideoOrder>,
) -> Result<Json<VideoView>, ApiError> {
    let mut files = files.into_iter();
    let image = files.find(|(name, _)| name == "input_reference");
    let models = context.models().await?;
    let has_image = image.is_some();
    let fits = |spec: &ModelSpec| {
        let fits_image = match spec.start_image {
            InputUse::Required => has_image,
            InputUse::Optional => true,
            InputUse::No => !has_image,
        };
        !spec.family.makes_images && fits_image
    };
    let spec = models.find(order.model.as_deref(), fits)?;
    if spec.family.makes_images {
        let message = format!("{} makes images: use /v1/images/generations", spec.name);
        return Err(ApiError::invalid("model", message));
    }
    let mut form = GenerateForm {
        model: Some(spec.id.clone()),
        negative_prompt: order.negative_prompt.clone(),
        ..GenerateForm::default()
    };
    form.set_literal_prompt(order.prompt.clone());
    form.set_seed(order.seed.unwrap_or_else(random_seed));
    if let Some(size) = size_of(order.size.as_deref().unwrap_or_default())? {
        form.set_size(size);
    }
    if let Some(seconds) = &order.seconds {
        let secs = seconds.secs()?;
        if spec.section_order.is_some() {
            form.secs = Some(secs);
        } else {
            form.num_frames = Some(frames_of(secs, spec));
        }
    }
    if let Some((_, path)) = image {
        form.inputs.image = Some(open_image(path, "input_reference").await?);
    }
    let submitted = context.submit(form).await?;
    let id = submitted.ids.first().copied();
    let id = id.ok_or_else(|| ApiError::invalid("prompt", "the prompt makes no job"))?;
    let mut video = VideoView::from(&context.job(id).await?);
    video.warnings = submitted.notices;
    Ok(Json(video))
}

/// Nearest number of frames that a model makes.
pub fn frames_of(secs: f64, spec: &ModelSpec) -> u32 {
    let stride = f64::from(spec.limits.frame_stride.max(1));
    // More than any model makes is refused by the form.
    let strides = (secs * spec.defaults.fps / stride).round().clamp(1.0, 1e6);
    (strides * stride) as u32 + 1
}

#[derive(Serialize, JsonSchema)]
struct VideoView {
    id: String,
    object: &'static str,
    created_at: u64,
    completed_at: Option<u64>,
    /// `queued`, `in_progress`, `completed` or `failed`.
    status: &'static str,
    /// Percent.
    progress: u32,
    model: Option<String>,
    prompt: String,
    seconds: String,
    size: String,
    error: Option<VideoError>,
    /// Sentences on values that were changed or are not used.
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct VideoError {
    code: &'static str,
    message: String,
}

impl From<&JobView> for VideoView {
    fn from(job: &JobView) -> Self {
        let secs = f64::from(job.num_frames) / job.fps.max(1.0);
        Self {
            id: format!("{PREFIX}{}", job.id),
            object: "video",
            // The number of a job begins with its time, in microseconds and three digits.
            created_at: job.id.0 / 1_000_000_000,
            completed_at: job.ended_at,
            status: match job.status {
                JobStatus::Waiting | JobStatus::Paused => "queued",
                JobStatus::Running => "in_progress",
                JobStatus::Finished => "completed",
                JobStatus::Failed | JobStatus::Cancelled => "failed",
            },
            progress: (job.progress * 100.0) as u32,
            model: job.model.clone(),
            prompt: job.prompt.clone(),
            seconds: format!("{secs:.2}"),
            size: format!("{}x{}", job.width, job.height),
            error: job.error.as_ref().map(|problem| {
                let err = ApiError::from(problem);
                VideoError {
                    code: err.code,
                    message: err.message,
                }
            }),
            warnings: job.warnings.clone(),
        }
    }
}

fn id_of(text: &str) -> Result<JobId, ApiError> {
    let number = text.strip_prefix(PREFIX).and_then(|id| id.parse().ok());
    let number = number.ok_or_else(|| ApiError::not_found(&format!("video {text:?}")))?;
    Ok(JobId(number))
}

#[derive(Serialize, JsonSchema)]
struct VideoPage {
    object: &'static str,
    data: Vec<VideoView>,
    has_more: bool,
}

async fn list(State(context): State<ServerContext>) -> Result<Json<VideoPage>, ApiError> {
    let jobs = context.jobs().await?;
    let videos = jobs.iter().filter(|job| job.kind == "video");
    Ok(Json(VideoPage {
        object: "list",
        data: videos.map(VideoView::from).collect(),
        has_more: false,
    }))
}

async fn look(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<VideoView>, ApiError> {
    Ok(Json(VideoView::from(&context.job(id_of(&id)?).await?)))
}

#[derive(Serialize, JsonSchema)]
struct DeletedVideo {
    id: String,
    object: &'static str,
    deleted: bool,
}

async fn remove(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<DeletedVideo>, ApiError> {
    context.change(id_of(&id)?, JobChange::Cancel).await?;
    Ok(Json(DeletedVideo {
        id,
        object: "video.deleted",
        deleted: true,
    }))
}

async fn content(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let job = context.job(id_of(&id)?).await?;
    if job.status != JobStatus::Finished {
        let message = format!("the video is not finished: it is {}", job.status.name());
        return Err(ApiError::new(StatusCode::CONFLICT, "not_finished", message));
    }
    let path = context.job_file(job.id, 0).await?;
    Ok(send_file(path, request).await)
}
