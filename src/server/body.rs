//! Bodies of requests: limits of size and time, and the rest of a body that is refused.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_lite::{StreamExt as _, stream};
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout};

use super::context::ServerContext;
use super::error::ApiError;

/// Bytes of a JSON request, which names images.
const MAX_JSON_BYTES: u64 = 4 << 20;
/// Bytes of one in which images are written as text.
const MAX_JSON_WITH_IMAGES_BYTES: u64 = 64 << 20;
/// Bytes of a form with images.
const MAX_FORM_BYTES: u64 = 256 << 20;
/// Bytes of one file.
const MAX_UPLOAD_BYTES: u64 = 4 << 30;
/// Larger JSON requests are read a few at a time, since they are held in memory.
const LARGE_JSON_BYTES: u64 = 1 << 20;
const MAX_JSON_TIME: Duration = Duration::from_mins(2);
/// Longest time without a byte.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Bytes that are read of a refused body, and the time for it. A client that still writes would lose the connection and
/// not read the answer.
const MAX_DISCARDED_BYTES: u64 = 1 << 30;
const MAX_DISCARD_TIME: Duration = Duration::from_secs(10);

/// Limits the body of a request; reads the rest of one that is refused before the answer.
pub async fn check(State(context): State<ServerContext>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let header = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let is_form = header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("multipart/"));
    let path = parts.uri.path();
    let has_images = ["/sdapi/", "/mcp"]
        .iter()
        .any(|start| path.starts_with(start));
    let (limit, is_json) = match path {
        "/api/uploads" => (MAX_UPLOAD_BYTES, false),
        _ if is_form => (MAX_FORM_BYTES, false),
        _ if has_images => (MAX_JSON_WITH_IMAGES_BYTES, true),
        _ => (MAX_JSON_BYTES, true),
    };
    let length = header(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let waits_for_answer = header(EXPECT).is_some();
    let mut body = RequestBody::new(body.into_data_stream(), limit);
    if length.is_some_and(|length| length > limit) {
        if !waits_for_answer {
            body.discard().await;
        }
        return too_large(limit).into_response();
    }
    if is_json && length.is_none_or(|length| length > LARGE_JSON_BYTES) {
        let place = Arc::clone(&context.0.large).acquire_owned();
        let Ok(Ok(place)) = timeout(MAX_SILENCE, place).await else {
            body.discard().await;
            let message = "too many large requests come at once: send this one later";
            let busy = StatusCode::SERVICE_UNAVAILABLE;
            return ApiError::new(busy, "busy", message).into_response();
        };
        body.place = Some(place);
        body.ends_at = Some(Instant::now() + MAX_JSON_TIME);
    }
    let body = Arc::new(Mutex::new(body));
    let chunks = stream::unfold(Arc::clone(&body), |body| async {
        let chunk = body.lock().await.next().await?;
        Some((chunk, body))
    });
    let request = Request::from_parts(parts, Body::from_stream(chunks));
    let response = next.run(request).await;
    // The handler still reads it while it answers.
    let Ok(mut body) = body.try_lock() else {
        return response;
    };
    if let Some(fault) = body.fault.take() {
        body.discard().await;
        return fault.into_response();
    }
    if !response.status().is_success() && !waits_for_answer {
        body.discard().await;
    }
    response
}

fn too_large(limit: u64) -> ApiError {
    let message = format!("the request is larger than {} MiB", limit >> 20);
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}

struct RequestBody {
    stream: BodyDataStream,
    limit: u64,
    num_read: u64,
    max_silence: Duration,
    ends_at: Option<Instant>,
    has_ended: bool,
    /// Error that replaces the handler's answer.
    fault: Option<ApiError>,
    /// Permit of a large request, released when all is read.
    place: Option<OwnedSemaphorePermit>,
}

impl RequestBody {
    fn new(stream: BodyDataStream, limit: u64) -> Self {
        Self {
            stream,
            limit,
            num_read: 0,
            max_silence: MAX_SILENCE,
            ends_at: None,
            has_ended: false,
            fault: None,
            place: None,
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        if self.has_ended || self.fault.is_some() {
            return None;
        }
        let left = self.ends_at.map(|end| end - Instant::now());
        let patience = left.map_or(self.max_silence, |left| left.min(self.max_silence));
        let Ok(chunk) = timeout(patience, self.stream.next()).await else {
            self.has_ended = true;
            let message = "the request came too slowly: send it again";
            let fault = ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message);
            return Some(self.fail(fault));
        };
        let Some(chunk) = chunk else {
            self.end();
            return None;
        };
        if let Ok(bytes) = &chunk {
            self.num_read += bytes.len() as u64;
            if self.num_read > self.limit {
                return Some(self.fail(too_large(self.limit)));
            }
        } else {
            self.end();
        }
        Some(chunk)
    }

    fn fail(&mut self, fault: ApiError) -> Result<Bytes, axum::Error> {
        let message = fault.message.clone();
        self.fault = Some(fault);
        self.place = None;
        Err(axum::Error::new(message))
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.place = None;
    }

    /// Reads and discards the rest, within limits.
    async fn discard(&mut self) {
        let most = self.num_read + MAX_DISCARDED_BYTES;
        let rest = async {
            while !self.has_ended && self.num_read < most {
                match self.stream.next().await {
                    Some(Ok(bytes)) => self.num_read += bytes.len() as u64,
                    _ => self.end(),
                }
            }
        };
        timeout(MAX_DISCARD_TIME, rest).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_stops_coming_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        runtime.block_on(async {
            let first = stream::once(Ok::<_, std::io::Error>(Bytes::from_static(b"abc")));
            let silent = Body::from_stream(first.chain(stream::pending()));
            let mut body = RequestBody::new(silent.into_data_stream(), 10);
            body.max_silence = Duration::from_millis(1);
            assert_eq!(body.next().await.unwrap().unwrap(), "abc");
            assert!(body.next().await.unwrap().is_err());
            assert_eq!(body.fault.unwrap().status, StatusCode::REQUEST_TIMEOUT);
        });
    }
}
