//! Results in their folders, also of earlier runs, and the files that clients name.

use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use safelight_core::gallery::GalleryItem;
use safelight_core::media;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_http::services::ServeFile;

use super::api::ApiRoutes;
use super::context::ServerContext;
use super::error::ApiError;
use super::jobs::job_id;
use super::link::{AppBusy, ServerCall, StoredResults, jpeg_of, result_id};
use super::uploads::blocking;

/// Longer edge of thumbnails, in pixels.
const THUMB_SIDE: u32 = 512;
/// Results of one answer.
const MAX_PAGE: usize = 200;
/// Longest wait for the folders to be read.
const LOADING: Duration = Duration::from_secs(5);

pub fn routes(api: &mut ApiRoutes) {
    api.tag("Results");
    api.add(
        "GET /api/results",
        "Results in their folders, newest first",
        get(list),
    )
    .query::<ResultQuery>()
    .answers::<ResultList>(200);
    api.add(
        "GET /api/results/{id}/file",
        "An image or a video",
        get(file),
    )
    .sends(&["image/*", "video/*"]);
    api.add(
        "GET /api/results/{id}/thumbnail",
        "A small JPEG",
        get(thumbnail),
    )
    .sends(&["image/jpeg"]);
}

#[derive(Deserialize, JsonSchema)]
struct ResultQuery {
    /// Results to leave out at the beginning.
    #[serde(default)]
    offset: usize,
    /// Results at most, 1 to 200; 50 without it.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct ResultList {
    results: Vec<ResultView>,
    /// Number of all results.
    total: usize,
    /// True until the folders have been read.
    are_loading: bool,
}

#[derive(Serialize, JsonSchema)]
struct ResultView {
    id: String,
    name: String,
    is_video: bool,
    /// Time of creation, such as `2026-11-28 11:00`.
    made: String,
    /// Size, prompt, model, seed and the other settings of the file.
    settings: Value,
}

impl From<&GalleryItem> for ResultView {
    fn from(item: &GalleryItem) -> Self {
        Self {
            id: result_id(&item.path),
            name: item.file_name(),
            is_video: item.is_video(),
            made: item.made.clone(),
            settings: json!(item.facts()),
        }
    }
}

async fn list(
    State(context): State<ServerContext>,
    Query(query): Query<ResultQuery>,
) -> Result<Json<ResultList>, ApiError> {
    let limit = query.limit.unwrap_or(50);
    if !(1..=MAX_PAGE).contains(&limit) {
        let message = format!("limit can be 1 to {MAX_PAGE}");
        return Err(ApiError::invalid("limit", message));
    }
    let stored = context.results().await?;
    let items = stored.items.iter().skip(query.offset).take(limit);
    Ok(Json(ResultList {
        results: items.map(|item| ResultView::from(&**item)).collect(),
        total: stored.items.len(),
        are_loading: stored.are_loading,
    }))
}

impl ServerContext {
    async fn results(&self) -> Result<StoredResults, AppBusy> {
        let begin = tokio::time::Instant::now();
        loop {
            let stored = self.0.link.ask(ServerCall::Results).await?;
            if !stored.are_loading || begin.elapsed() > LOADING {
                return Ok(stored);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// File of a result: of a job of this run, or one that is stored.
    async fn result(&self, id: &str) -> Result<PathBuf, ApiError> {
        let is_it = |path: &FilePath| result_id(path) == id;
        let jobs = self.jobs().await?;
        let path = jobs
            .iter()
            .flat_map(|job| &job.paths)
            .find(|path| is_it(path));
        let mut path = path.cloned();
        if path.is_none() {
            let items = self.results().await?.items.into_iter();
            path = items.map(|item| item.path.clone()).find(|path| is_it(path));
        }
        path.filter(|path| path.is_file())
            .ok_or_else(|| ApiError::not_found(&format!("result {id:?}")))
    }

    /// File that a client names: an upload, or the id of a result or of a job, whose first file it is.
    pub async fn given_file(&self, name: &str) -> Result<PathBuf, ApiError> {
        if name.contains(['.', '/']) {
            return self.upload(name);
        }
        match job_id(name) {
            Ok(id) => self.job_file(id, 0).await,
            Err(_) => self.result(name).await,
        }
    }
}

async fn file(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    Ok(send_file(context.result(&id).await?, request).await)
}

async fn thumbnail(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    send_thumbnail(context.result(&id).await?).await
}

/// A file, whole or the bytes of a Range header.
pub async fn send_file(path: PathBuf, request: Request) -> Response {
    match ServeFile::new(path).try_call(request).await {
        Ok(response) => response.map(Body::new),
        Err(err) => {
            let message = format!("the file cannot be read: {err}");
            ApiError::new(StatusCode::GONE, "gone", message).into_response()
        }
    }
}

pub async fn send_thumbnail(path: PathBuf) -> Result<Response, ApiError> {
    let bytes = blocking(move || {
        let image = media::open_rgb(&path).or_else(|_| media::last_frame(&path));
        let thumb = image.and_then(|image| media::thumbnail(&image, THUMB_SIDE, THUMB_SIDE));
        let jpeg = thumb
            .map_err(|err| err.to_string())
            .and_then(|thumb| jpeg_of(&thumb));
        jpeg.map_err(|_err| ApiError::new(StatusCode::GONE, "gone", "the file cannot be read"))
    });
    let headers = [
        (CONTENT_TYPE, "image/jpeg"),
        (CACHE_CONTROL, "private, max-age=31536000, immutable"),
    ];
    Ok((headers, bytes.await?).into_response())
}
