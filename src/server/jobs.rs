//! Jobs of the queue: submit, list, change, follow as server-sent events, and get their files.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_lite::Stream;
use safelight_core::fitting;
use safelight_core::job::{
    FormInputs, GenerateForm, GenerateRequest, JobId, SizeChoice, random_seed,
};
use safelight_core::media::{self, RgbPixels};
use safelight_core::model::ModelSpec;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tower_http::services::ServeFile;

use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::link::{JobChange, JobEvent, JobStatus, JobView, ServerCall};
use super::uploads::{blocking, open_image, open_video};

/// Longer edge of thumbnails, in pixels.
const THUMB_SIDE: u32 = 512;

pub fn routes() -> Router<ServerContext> {
    Router::new()
        .route("/api/models", get(models))
        .route("/api/jobs", get(list).post(submit))
        .route("/api/jobs/{id}", get(look).patch(change).delete(cancel))
        .route("/api/jobs/{id}/files/{index}", get(file))
        .route("/api/jobs/{id}/thumbnail", get(thumbnail))
        .route("/api/events", get(events))
        .route("/api/uploads", post(upload))
}

async fn models(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let models = context.models().await?;
    let specs = models.specs.iter().map(|spec| {
        json!({
            "id": spec.id,
            "name": spec.name,
            "kind": text_of_kind(spec),
            "family": spec.family.id,
            "licence": spec.licence,
            "start_image": spec.start_image,
            "end_image": spec.end_image,
            "mask": spec.mask,
            "max_references": spec.limits.max_references,
            "defaults": spec.defaults,
            "limits": spec.limits,
            "is_chosen": models.chosen.as_ref() == Some(&spec.id),
        })
    });
    Ok(Json(json!({ "models": specs.collect::<Vec<_>>() })))
}

/// `image` or `video`.
pub fn text_of_kind(spec: &ModelSpec) -> &'static str {
    if spec.family.makes_images {
        "image"
    } else {
        "video"
    }
}

/// Settings of a job: those of a result's metadata, or a form's fields. Files are uploads, by their names.
#[derive(Deserialize)]
struct JobOrder {
    /// As in the metadata of a result: everything that makes it again.
    request: Option<GenerateRequest>,
    /// Fields of the form; with `request`, in place of those.
    #[serde(default)]
    form: serde_json::Map<String, Value>,
    start_image: Option<String>,
    end_image: Option<String>,
    mask: Option<String>,
    /// To be continued by a model that can, else to be changed.
    video: Option<String>,
    #[serde(default)]
    references: Vec<String>,
}

async fn submit(
    State(context): State<ServerContext>,
    ApiJson(mut order): ApiJson<JobOrder>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let base = order.request.as_ref().map(GenerateForm::from);
    let mut fields = match serde_json::to_value(base.unwrap_or_default()) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let has_seed = order.request.is_some() || order.form.contains_key("seed");
    let has_edge = order.form.contains_key("width") || order.form.contains_key("height");
    if has_edge && !order.form.contains_key("size") {
        order
            .form
            .insert("size".to_owned(), json!(SizeChoice::Custom));
    }
    fields.extend(order.form);
    let form: Result<GenerateForm, _> = serde_json::from_value(fields.into());
    let mut form = form.map_err(|err| ApiError::invalid("form", err.to_string()))?;
    // Files of this computer are not for clients to name.
    form.inputs = FormInputs::default();
    form.out = PathBuf::new();
    form.options.capture = None;
    if !has_seed {
        form.set_seed(random_seed());
    }
    context.choose_loras(&mut form).await?;
    let image = async |name: &Option<String>, param: &str| match name {
        Some(name) => open_image(context.upload(name)?, param).await.map(Some),
        None => Ok(None),
    };
    form.inputs.image = image(&order.start_image, "start_image").await?;
    form.inputs.last_image = image(&order.end_image, "end_image").await?;
    form.inputs.mask = image(&order.mask, "mask").await?;
    for name in &order.references {
        let reference = open_image(context.upload(name)?, "references").await?;
        form.inputs.references.push(reference);
    }
    if let Some(name) = &order.video {
        let video = open_video(context.upload(name)?, "video").await?;
        let models = context.models().await?;
        let mut specs = models.specs.iter();
        let spec = specs.find(|spec| Some(&spec.id) == form.model.as_ref());
        if spec.is_some_and(ModelSpec::can_extend) && !form.remakes_video {
            form.inputs.extend = Some(video);
        } else {
            form.inputs.source_video = Some(video);
        }
    }
    if form.model.is_none() {
        form.model = context.models().await?.chosen;
    }
    let request = order.request.as_ref();
    let mut warnings = request.map_or_else(Vec::new, |request| unused(request, &form));
    let submitted = context.submit(form).await?;
    warnings.extend(submitted.notices);
    let ids: Vec<String> = submitted.ids.iter().map(JobId::to_string).collect();
    let answer = json!({ "jobs": ids, "warnings": warnings });
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// A sentence for each input of settings that was not sent.
fn unused(request: &GenerateRequest, form: &GenerateForm) -> Vec<String> {
    let inputs = &form.inputs;
    let had_video = request.extend.is_some() || request.source_video.is_some();
    let pairs = [
        (
            "start image",
            request.image.is_some(),
            inputs.image.is_some(),
        ),
        (
            "end image",
            request.last_image.is_some(),
            inputs.last_image.is_some(),
        ),
        ("mask", request.mask.is_some(), inputs.mask.is_some()),
        ("video", had_video, inputs.video().is_some()),
        (
            "references",
            !request.references.is_empty(),
            !inputs.references.is_empty(),
        ),
        ("control images", !request.controls.is_empty(), false),
        ("image prompts", !request.prompt_images.is_empty(), false),
    ];
    let missing = pairs.iter().filter(|(_, had, has)| *had && !has);
    missing
        .map(|(name, ..)| format!("The {name} of the settings are not used: none was sent."))
        .collect()
}

async fn list(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({ "jobs": context.jobs().await? })))
}

async fn look(
    State(context): State<ServerContext>,
    Path(id): Path<u64>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(context.job(JobId(id)).await?))
}

/// Action on a job.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChangeOrder {
    Pause,
    Resume,
    /// To this place among those that wait, from 0.
    Move(usize),
}

#[derive(Deserialize)]
struct JobPatch {
    action: ChangeOrder,
}

async fn change(
    State(context): State<ServerContext>,
    Path(id): Path<u64>,
    ApiJson(patch): ApiJson<JobPatch>,
) -> Result<Json<JobView>, ApiError> {
    let change = match patch.action {
        ChangeOrder::Pause => JobChange::Pause,
        ChangeOrder::Resume => JobChange::Resume,
        ChangeOrder::Move(place) => JobChange::Move(place),
    };
    context.change(JobId(id), change).await.map(Json)
}

async fn cancel(
    State(context): State<ServerContext>,
    Path(id): Path<u64>,
) -> Result<Json<JobView>, ApiError> {
    context.change(JobId(id), JobChange::Cancel).await.map(Json)
}

impl ServerContext {
    /// Replaces LoRAs by those of this computer with their names: clients name no other files.
    async fn choose_loras(&self, form: &mut GenerateForm) -> Result<(), ApiError> {
        if form.loras.is_empty() {
            return Ok(());
        }
        let models = self.models().await?;
        let Some(paths) = models.paths else {
            return Err(ApiError::not_found("folder of LoRAs"));
        };
        let files = blocking(move || Ok(fitting::find(&paths, &models.settings))).await?;
        for lora in &mut form.loras {
            let name = lora.path.to_string_lossy().into_owned();
            let known = files.iter().find(|file| {
                let names = [file.file_name(), file.file_stem()];
                **file == lora.path || names.contains(&Some(lora.path.as_os_str()))
            });
            let known = known.ok_or_else(|| ApiError::not_found(&format!("LoRA {name:?}")))?;
            lora.path.clone_from(known);
        }
        Ok(())
    }

    /// Returns the job as it was before.
    pub async fn change(&self, id: JobId, change: JobChange) -> Result<JobView, ApiError> {
        let link = &self.0.link;
        let job = link.ask(|reply| ServerCall::Change(id, change, reply));
        let job = job.await?;
        job.ok_or_else(|| ApiError::not_found(&format!("job {id}")))
    }

    pub async fn result_file(&self, id: JobId, index: usize) -> Result<PathBuf, ApiError> {
        let job = self.job(id).await?;
        let path = job.paths.get(index).filter(|path| path.is_file());
        path.cloned()
            .ok_or_else(|| ApiError::not_found(&format!("file {index} of job {id}")))
    }
}

/// A result, whole or the bytes of a Range header.
pub async fn send_file(path: PathBuf, request: Request) -> Response {
    let sent = ServeFile::new(path).try_call(request).await;
    match sent {
        Ok(response) => response.map(axum::body::Body::new),
        Err(err) => {
            let message = format!("the file cannot be read: {err}");
            ApiError::new(StatusCode::GONE, "gone", message).into_response()
        }
    }
}

async fn file(
    State(context): State<ServerContext>,
    Path((id, index)): Path<(u64, usize)>,
    request: Request,
) -> Result<Response, ApiError> {
    let path = context.result_file(JobId(id), index).await?;
    Ok(send_file(path, request).await)
}

#[derive(Deserialize)]
struct ThumbQuery {
    #[serde(default)]
    index: usize,
}

async fn thumbnail(
    State(context): State<ServerContext>,
    Path(id): Path<u64>,
    Query(query): Query<ThumbQuery>,
) -> Result<Response, ApiError> {
    let path = context.result_file(JobId(id), query.index).await?;
    let image = blocking(move || {
        let image = media::open_rgb(&path).or_else(|_| media::last_frame(&path));
        let thumb = image.and_then(|image| media::thumbnail(&image, THUMB_SIDE, THUMB_SIDE));
        thumb.map_err(|err| ApiError::new(StatusCode::GONE, "gone", err.to_string()))
    });
    let bytes = context.preview(Arc::new(image.await?)).await?;
    let headers = [
        (CONTENT_TYPE, "image/jpeg"),
        (CACHE_CONTROL, "private, max-age=31536000, immutable"),
    ];
    Ok((headers, bytes).into_response())
}

#[derive(Deserialize)]
struct UploadQuery {
    #[serde(default)]
    name: String,
}

/// Takes a file as the body; its name is for `POST /api/jobs`.
async fn upload(
    State(context): State<ServerContext>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let path = context
        .store_stream(request.into_body(), &query.name)
        .await?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok((StatusCode::CREATED, Json(json!({ "upload": name }))))
}

/// Events `job` with a job, and `preview` with its id and a JPEG as base64. First come all jobs as they are.
async fn events(
    State(context): State<ServerContext>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let permit = Arc::clone(&context.0.streams).try_acquire_owned();
    let permit = permit.map_err(|_full| {
        let message = "too many clients follow the events: close some of them";
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message)
    })?;
    let receiver = context.0.link.events.subscribe();
    let first = context.jobs().await?;
    let is_running = |id: &JobId| {
        let mut running = first.iter().filter(|job| job.status == JobStatus::Running);
        running.any(|job| job.id == *id)
    };
    let shown = context.last_preview().filter(|(id, _)| is_running(id));
    let state = EventStream {
        context,
        _permit: permit,
        shown,
        receiver,
        first: first.into_iter().rev().collect(),
    };
    let stream = futures_lite::stream::unfold(state, |mut state| async {
        let event = state.next().await?;
        Some((Ok(event), state))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

struct EventStream {
    context: ServerContext,
    _permit: OwnedSemaphorePermit,
    receiver: Receiver<JobEvent>,
    /// Preview that a new client has not seen.
    shown: Option<(JobId, Arc<RgbPixels>)>,
    /// Jobs that are yet to be sent, the last one first.
    first: Vec<JobView>,
}

impl EventStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(job) = self.first.pop() {
                return job_event(&job);
            }
            if let Some((id, image)) = self.shown.take()
                && let Some(event) = self.preview(id, image).await
            {
                return Some(event);
            }
            match self.receiver.recv().await {
                Ok(JobEvent::Changed(job)) => return job_event(&job),
                Ok(JobEvent::Preview(id, image)) => {
                    if let Some(event) = self.preview(id, image).await {
                        return Some(event);
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    let jobs = self.context.jobs().await.ok()?;
                    self.first = jobs.into_iter().rev().collect();
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    async fn preview(&self, id: JobId, image: Arc<RgbPixels>) -> Option<Event> {
        let bytes = self.context.preview(image).await.ok()?;
        let data = json!({ "id": id.to_string(), "jpeg": BASE64_STANDARD.encode(bytes) });
        Event::default().event("preview").json_data(data).ok()
    }
}

fn job_event(job: &JobView) -> Option<Event> {
    Event::default().event("job").json_data(job).ok()
}
