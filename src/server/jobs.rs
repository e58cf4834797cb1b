//! Jobs of the queue: submit, list, change, follow as server-sent events, and get their files.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{delete, get, patch, post};
use futures_lite::Stream;
use safelight_core::job::JobId;
use safelight_core::model::ModelSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::api::{ApiRoutes, EVENTS};
use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::job_orders::{JobOrder, QueuedJobs, submit};
use super::link::{ChangeError, JobChange, JobEvent, JobStatus, JobView, PreviewImage, ServerCall};
use super::results::{send_file, send_thumbnail};

pub fn routes(api: &mut ApiRoutes) {
    api.tag("Jobs");
    api.add("GET /api/models", "Models on this computer", get(models))
        .answers::<ModelList>(200);
    api.add(
        "GET /api/jobs",
        "Jobs: the running ones, those that wait, those that stopped, and ended ones",
        get(list),
    )
    .answers::<JobList>(200);
    api.add("POST /api/jobs", "Queue the jobs of a form", post(submit))
        .body::<JobOrder>()
        .answers::<QueuedJobs>(202);
    api.add("GET /api/jobs/{id}", "A job", get(look))
        .answers::<JobView>(200);
    api.add("PATCH /api/jobs/{id}", "Pause, resume or move a job. A failed job that is resumed can get another id, which the answer has", patch(change))
    .body::<JobPatch>()
    .answers::<JobView>(200);
    api.add(
        "DELETE /api/jobs/{id}",
        "Cancel a job, or forget one that has ended",
        delete(cancel),
    )
    .answers::<JobView>(200);
    api.add(
        "GET /api/jobs/{id}/files/{index}",
        "A file of a finished job",
        get(file),
    )
    .sends(&["image/*", "video/*"]);
    api.add(
        "GET /api/jobs/{id}/thumbnail",
        "A small JPEG of a file",
        get(thumbnail),
    )
    .query::<ThumbQuery>()
    .sends(&["image/jpeg"]);
    api.add("GET /api/events", "Events `job` with a job, and `preview` with its id and a JPEG as base64. First come all jobs", get(events))
    .sends(&[EVENTS]);
    api.add(
        "POST /api/uploads",
        "Store an image or a video, which is the body; its name is for jobs",
        post(upload),
    )
    .query::<UploadQuery>()
    .upload()
    .answers::<StoredUpload>(201);
}

#[derive(Serialize, JsonSchema)]
struct ModelList {
    models: Vec<ModelView>,
}

#[derive(Serialize, JsonSchema)]
struct ModelView {
    id: String,
    name: String,
    /// `image` or `video`.
    kind: &'static str,
    family: &'static str,
    licence: String,
    /// `no`, `optional` or `required`, as `end_image` and `mask`.
    start_image: Value,
    end_image: Value,
    mask: Value,
    max_references: u32,
    defaults: Value,
    limits: Value,
    /// The form's model.
    is_chosen: bool,
}

async fn models(State(context): State<ServerContext>) -> Result<Json<ModelList>, ApiError> {
    let models = context.models().await?;
    let specs = models.specs.iter().map(|spec| ModelView {
        id: spec.id.clone(),
        name: spec.name.clone(),
        kind: text_of_kind(spec),
        family: spec.family.id,
        licence: spec.licence.clone(),
        start_image: json!(spec.start_image),
        end_image: json!(spec.end_image),
        mask: json!(spec.mask),
        max_references: spec.limits.max_references,
        defaults: json!(spec.defaults),
        limits: json!(spec.limits),
        is_chosen: models.chosen.as_ref() == Some(&spec.id),
    });
    Ok(Json(ModelList {
        models: specs.collect(),
    }))
}

/// `image` or `video`.
pub fn text_of_kind(spec: &ModelSpec) -> &'static str {
    if spec.family.makes_images {
        "image"
    } else {
        "video"
    }
}

#[derive(Serialize, JsonSchema)]
struct JobList {
    jobs: Vec<JobView>,
}

async fn list(State(context): State<ServerContext>) -> Result<Json<JobList>, ApiError> {
    let jobs = context.jobs().await?;
    Ok(Json(JobList { jobs }))
}

/// Id of a job, as text.
pub fn job_id(text: &str) -> Result<JobId, ApiError> {
    let id = text.trim().parse();
    id.map(JobId)
        .map_err(|_number| ApiError::not_found(&format!("job {text:?}")))
}

async fn look(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(context.job(job_id(&id)?).await?))
}

/// Action on a job.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ChangeOrder {
    Pause,
    Resume,
    /// To this place among those that wait, from 0.
    Move(usize),
}

#[derive(Deserialize, JsonSchema)]
struct JobPatch {
    action: ChangeOrder,
}

async fn change(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
    ApiJson(patch): ApiJson<JobPatch>,
) -> Result<Json<JobView>, ApiError> {
    let change = match patch.action {
        ChangeOrder::Pause => JobChange::Pause,
        ChangeOrder::Resume => JobChange::Resume,
        ChangeOrder::Move(place) => JobChange::Move(place),
    };
    context.change(job_id(&id)?, change).await.map(Json)
}

async fn cancel(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    let job = context.change(job_id(&id)?, JobChange::Cancel).await?;
    Ok(Json(job))
}

impl ServerContext {
    /// Returns the changed job.
    pub async fn change(&self, id: JobId, change: JobChange) -> Result<JobView, ApiError> {
        let link = &self.0.link;
        let job = link.ask(|reply| ServerCall::Change(id, change, reply));
        job.await?.map_err(|err| match err {
            ChangeError::NotFound => ApiError::not_found(&format!("job {id}")),
            ChangeError::NoEffect(status) => {
                let message = format!("nothing was changed: job {id} is {}", status.name());
                ApiError::new(StatusCode::CONFLICT, "no_effect", message)
            }
        })
    }

    pub async fn job_file(&self, id: JobId, index: usize) -> Result<PathBuf, ApiError> {
        let job = self.job(id).await?;
        let path = job.paths.get(index).filter(|path| path.is_file());
        path.cloned()
            .ok_or_else(|| ApiError::not_found(&format!("file {index} of job {id}")))
    }
}

async fn file(
    State(context): State<ServerContext>,
    Path((id, index)): Path<(String, usize)>,
    request: Request,
) -> Result<Response, ApiError> {
    let path = context.job_file(job_id(&id)?, index).await?;
    Ok(send_file(path, request).await)
}

#[derive(Deserialize, JsonSchema)]
struct ThumbQuery {
    /// Number of the file, from 0.
    #[serde(default)]
    index: usize,
}

async fn thumbnail(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
    Query(query): Query<ThumbQuery>,
) -> Result<Response, ApiError> {
    send_thumbnail(context.job_file(job_id(&id)?, query.index).await?).await
}

#[derive(Deserialize, JsonSchema)]
struct UploadQuery {
    /// The file's own name, whose extension counts where the content does not say the kind.
    #[serde(default)]
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct StoredUpload {
    upload: String,
}

async fn upload(
    State(context): State<ServerContext>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<StoredUpload>), ApiError> {
    let body = request.into_body().into_data_stream();
    let path = context.store_stream(body, &query.name).await?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let upload = name.into_owned();
    Ok((StatusCode::CREATED, Json(StoredUpload { upload })))
}

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
    shown: Option<(JobId, Arc<PreviewImage>)>,
    /// Jobs that are yet to be sent, the last one first.
    first: Vec<JobView>,
}

impl EventStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(job) = self.first.pop() {
                return job_event(&job);
            }
            if let Some((id, image)) = self.shown.take() {
                return preview_event(id, image).await;
            }
            match self.receiver.recv().await {
                Ok(JobEvent::Changed(job)) => return job_event(&job),
                Ok(JobEvent::Preview(id, image)) => return preview_event(id, image).await,
                Err(RecvError::Lagged(_)) => {
                    let jobs = self.context.jobs().await.ok()?;
                    self.first = jobs.into_iter().rev().collect();
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

async fn preview_event(id: JobId, image: Arc<PreviewImage>) -> Option<Event> {
    let data = json!({ "id": id.to_string(), "jpeg": image.base64().await });
    Event::default().event("preview").json_data(data).ok()
}

fn job_event(job: &JobView) -> Option<Event> {
    Event::default().event("job").json_data(job).ok()
}
