//! OpenAI's endpoints for videos: a job at once, its state, and its file when it is done.

use std::path::PathBuf;

use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use safelight_core::job::{GenerateForm, JobId, random_seed};
use safelight_core::model::{InputUse, ModelSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::jobs::send_file;
use super::link::{JobChange, JobStatus, JobView};
use super::openai::{now, size_of};
use super::uploads::open_image;

const MAX_FORM_BYTES: usize = 256 << 20;
/// Before the number of a job.
const PREFIX: &str = "video_";

pub fn routes() -> Router<ServerContext> {
    let create = post(create).layer(DefaultBodyLimit::max(MAX_FORM_BYTES));
    Router::new()
        .route("/v1/videos", create.get(list))
        .route("/v1/videos/{id}", get(look).delete(delete))
        .route("/v1/videos/{id}/content", get(content))
}

#[derive(Default, Deserialize)]
struct VideoOrder {
    model: Option<String>,
    prompt: String,
    seconds: Option<Value>,
    size: Option<String>,
    seed: Option<u64>,
    negative_prompt: Option<String>,
    #[serde(skip)]
    image: Option<PathBuf>,
}

impl VideoOrder {
    async fn read(context: &ServerContext, request: Request) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE);
        let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data"));
        if !is_form {
            let ApiJson(order) = ApiJson::from_request(request, &()).await?;
            return Ok(order);
        }
        let fields = Multipart::from_request(request, &()).await;
        let mut fields =
            fields.map_err(|err| ApiError::new(err.status(), "invalid_form", err.body_text()))?;
        let mut order = Self::default();
        while let Some(field) = fields.next_field().await? {
            let name = field.name().unwrap_or_default().to_owned();
            let file = field.file_name().unwrap_or_default().to_owned();
            if name == "input_reference" {
                let bytes = field.bytes().await?.to_vec();
                order.image = Some(context.store(bytes, &file).await?);
                continue;
            }
            let text = field.text().await?;
            match name.as_str() {
                "model" => order.model = Some(text),
                "prompt" => order.prompt = text,
                "seconds" => order.seconds = Some(text.into()),
                "size" => order.size = Some(text),
                "negative_prompt" => order.negative_prompt = Some(text),
                "seed" => {
                    let seed = text.trim().parse();
                    let wrong = |_| ApiError::invalid("seed", format!("{text:?} is no number"));
                    order.seed = Some(seed.map_err(wrong)?);
                }
                _ => {}
            }
        }
        Ok(order)
    }

    /// Seconds, as a number or, like OpenAI, as text.
    fn secs(&self) -> Result<Option<f64>, ApiError> {
        let Some(value) = &self.seconds else {
            return Ok(None);
        };
        let number = value
            .as_f64()
            .or_else(|| value.as_str()?.trim().parse().ok());
        let number = number.filter(|secs| secs.is_finite() && *secs > 0.0);
        number
            .map(Some)
            .ok_or_else(|| ApiError::invalid("seconds", format!("{value} is no number of seconds")))
    }
}

async fn create(
    State(context): State<ServerContext>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let order = VideoOrder::read(&context, request).await?;
    let models = context.models().await?;
    let has_image = order.image.is_some();
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
    if let Some(secs) = order.secs()? {
        if spec.section_order.is_some() {
            form.secs = Some(secs);
        } else {
            form.num_frames = Some(frames_of(secs, spec));
        }
    }
    if let Some(path) = order.image {
        form.inputs.image = Some(open_image(path, "input_reference").await?);
    }
    let submitted = context.submit(form).await?;
    let id = submitted.ids.first().copied();
    let id = id.ok_or_else(|| ApiError::invalid("prompt", "the prompt makes no job"))?;
    let mut video = video_json(&context.job(id).await?);
    video["warnings"] = json!(submitted.notices);
    Ok(Json(video))
}

/// Nearest number of frames that a model makes.
pub fn frames_of(secs: f64, spec: &ModelSpec) -> u32 {
    let stride = f64::from(spec.limits.frame_stride.max(1));
    // More than any model makes is refused by the form.
    let strides = (secs * spec.defaults.fps / stride).round().clamp(1.0, 1e6);
    (strides * stride) as u32 + 1
}

fn video_json(job: &JobView) -> Value {
    let status = match job.status {
        JobStatus::Waiting | JobStatus::Paused => "queued",
        JobStatus::Running => "in_progress",
        JobStatus::Finished => "completed",
        JobStatus::Failed | JobStatus::Cancelled => "failed",
    };
    let secs = f64::from(job.num_frames) / job.fps.max(1.0);
    let error = job.error.as_ref().map(|problem| {
        let err = ApiError::from(problem);
        json!({ "code": err.code, "message": err.message })
    });
    // The number of a job begins with its time, in microseconds and three digits.
    let created = job.id.0 / 1_000_000_000;
    json!({
        "id": format!("{PREFIX}{}", job.id),
        "object": "video",
        "created_at": created,
        "completed_at": job.status.has_ended().then(now),
        "status": status,
        "progress": (job.progress * 100.0) as u32,
        "model": job.model,
        "prompt": job.prompt,
        "seconds": format!("{secs:.2}"),
        "size": format!("{}x{}", job.width, job.height),
        "error": error,
    })
}

fn id_of(text: &str) -> Result<JobId, ApiError> {
    let number = text.strip_prefix(PREFIX).and_then(|id| id.parse().ok());
    let number = number.ok_or_else(|| ApiError::not_found(&format!("video {text:?}")))?;
    Ok(JobId(number))
}

async fn list(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let jobs = context.jobs().await?;
    let videos = jobs.iter().filter(|job| job.kind == "video");
    let videos: Vec<Value> = videos.map(video_json).collect();
    Ok(Json(
        json!({ "object": "list", "data": videos, "has_more": false }),
    ))
}

async fn look(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(video_json(&context.job(id_of(&id)?).await?)))
}

async fn delete(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    context.change(id_of(&id)?, JobChange::Cancel).await?;
    Ok(Json(
        json!({ "id": id, "object": "video.deleted", "deleted": true }),
    ))
}

async fn content(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let job = context.job(id_of(&id)?).await?;
    if job.status != JobStatus::Finished {
        let message = format!("the video is not finished: it is {:?}", job.status);
        return Err(ApiError::new(StatusCode::CONFLICT, "not_finished", message));
    }
    let path = context.result_file(job.id, 0).await?;
    Ok(send_file(path, request).await)
}
