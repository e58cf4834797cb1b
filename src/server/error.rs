//! Errors of requests, in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::extract::multipart::MultipartError;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use safelight_core::job::{FieldError, JobError, JobErrorKind};
use safelight_core::sanitize::sentence;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::link::{AppBusy, JobProblem, MAX_WAITING, SubmitError};

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

    pub fn to_json(&self) -> serde_json::Value {
        json!({ "error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        }})
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
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::JsonDataError(err)) => {
                let text = err.body_text();
                let fault = text.strip_prefix(JSON_FAULT).unwrap_or(&text);
                let field = fault.split_once(": ").map_or("", |(field, _)| field);
                Err(ApiError::invalid(
                    field,
                    format!("the request has a wrong value: {fault}"),
                ))
            }
            Err(err) => Err(ApiError::new(err.status(), "invalid_json", err.body_text())),
        }
    }
}

pub async fn no_such_address(request: Request) -> ApiError {
    ApiError::not_found(&format!("address {}", request.uri().path()))
}
