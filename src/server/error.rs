//! Errors of requests, in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::multipart::MultipartError;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use safelight_core::job::prompt::PromptError;
use safelight_core::job::{FieldError, JobError, JobErrorKind};
use safelight_core::media::MediaError;
use safelight_core::sanitize::sentence;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::link::{AppBusy, JobProblem, MAX_WAITING, SubmitError, without_folders};

/// Bytes of an error's text.
const MAX_PLAIN_BYTES: usize = 4096;

#[derive(Serialize, JsonSchema)]
pub struct ErrorBody {
    error: ErrorFields,
}

#[derive(Serialize, JsonSchema)]
struct ErrorFields {
    /// Sentences: what is wrong, and what to do.
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Field of the request that is wrong.
    param: Option<String>,
    code: &'static str,
}

#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    /// Sentences: what is wrong, and what to do.
    pub message: String,
    /// Field of the request that is wrong.
    pub param: Option<String>,
    pub code: &'static str,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            message: sentences([message.into().as_str()]),
            param: None,
            code,
        }
    }

    /// A value that cannot be used.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self {
            param: Some(param.to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid_value", message)
        }
    }

    /// A file that cannot be used.
    pub fn unreadable(param: &str, err: &MediaError) -> Self {
        Self::invalid(param, without_folders(&err.to_string()))
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no {what}"),
        )
    }

    pub fn cancelled() -> Self {
        Self::new(StatusCode::CONFLICT, "cancelled", "the job was cancelled")
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    pub fn to_json(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorFields {
                message: self.message.clone(),
                kind: self.kind(),
                param: self.param.clone(),
                code: self.code,
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.to_json())).into_response()
    }
}

impl From<AppBusy> for ApiError {
    fn from(AppBusy: AppBusy) -> Self {
        let message = "Safelight is busy or about to end: try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }
}

impl From<SubmitError> for ApiError {
    fn from(err: SubmitError) -> Self {
        match err {
            SubmitError::Model(message) => Self {
                param: Some("model".to_owned()),
                ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message)
            },
            SubmitError::Fields(fields) => Self::from(fields.as_slice()),
            SubmitError::QueueFull(count) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "queue_full",
                format!(
                    "{count} jobs wait, and the queue takes {MAX_WAITING}: send fewer, or wait until \
                     some are done"
                ),
            ),
        }
    }
}

impl From<&[FieldError]> for ApiError {
    fn from(fields: &[FieldError]) -> Self {
        let param = fields.first().map_or("", |err| err.field);
        let messages = fields.iter().map(|err| err.message.as_str());
        Self::invalid(param, sentences(messages))
    }
}

impl From<&JobProblem> for ApiError {
    fn from(problem: &JobProblem) -> Self {
        let (status, code) = match problem.kind {
            JobErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid_value"),
            JobErrorKind::OutOfMemory => (StatusCode::INSUFFICIENT_STORAGE, "out_of_memory"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "job_failed"),
        };
        let texts = [problem.message.as_str(), &problem.advice];
        Self::new(status, code, sentences(texts))
    }
}

impl From<PromptError> for ApiError {
    fn from(err: PromptError) -> Self {
        Self::invalid("prompt", err.to_string())
    }
}

impl From<MultipartError> for ApiError {
    fn from(err: MultipartError) -> Self {
        Self::new(err.status(), "invalid_form", err.body_text())
    }
}

impl From<JobError> for ApiError {
    fn from(err: JobError) -> Self {
        Self::from(&JobProblem::from(&err))
    }
}

/// Texts as sentences, each with its full stop.
pub fn sentences<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    let texts = texts.map(|text| {
        let text = sentence(text);
        let end = if text.ends_with(['.', '!', '?', '…']) {
            ""
        } else {
            "."
        };
        format!("{text}{end}")
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Start of axum's message on a wrong JSON value.
const JSON_FAULT: &str = "Failed to deserialize the JSON body into the target type: ";

/// JSON body; an error is one of ours.
pub struct ApiJson<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Json(value) = Json::from_request(request, state)
            .await
            .map_err(|err| json_error(&err))?;
        Ok(Self(value))
    }
}

/// Error that names the wrong field.
pub fn json_error(rejection: &JsonRejection) -> ApiError {
    let text = rejection.body_text();
    let JsonRejection::JsonDataError(_) = rejection else {
        return ApiError::new(rejection.status(), "invalid_json", text);
    };
    let fault = text.strip_prefix(JSON_FAULT).unwrap_or(&text);
    let field = fault.split_once(": ").map_or("", |(field, _)| field);
    ApiError::invalid(field, format!("the request has a wrong value: {fault}"))
}

/// Converts the plain-text errors of libraries to JSON errors.
pub async fn in_own_form(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_plain = kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !is_error || !is_plain {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, MAX_PLAIN_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let reason = status.canonical_reason().unwrap_or("the request failed");
    let message = if text.is_empty() { reason } else { &text };
    let mut own = ApiError::new(status, "invalid_request", message).into_response();
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    own.headers_mut().extend(parts.headers);
    own
}

pub async fn no_such_address(request: Request) -> ApiError {
    ApiError::not_found(&format!("address {}", request.uri().path()))
}
