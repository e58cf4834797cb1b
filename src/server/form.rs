//! Multipart forms: text fields as a typed request, and files as uploads.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::context::ServerContext;
use super::error::{ApiError, ApiJson, json_error};

/// Fields that are numbers or booleans, which a form writes as text.
const PLAIN: [&str; 8] = [
    "n",
    "seed",
    "steps",
    "stream",
    "cfg_scale",
    "strength",
    "partial_images",
    "output_compression",
];

/// A form, or a JSON request with the same fields and no files.
pub struct ApiForm<T> {
    pub order: T,
    /// Name of the field and the stored file.
    pub files: Vec<(String, PathBuf)>,
}

impl<T: DeserializeOwned> FromRequest<ServerContext> for ApiForm<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, context: &ServerContext) -> Result<Self, ApiError> {
        let mut files = Vec::new();
        let kind = request.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data")) {
            let ApiJson(order) = ApiJson::from_request(request, context).await?;
            return Ok(Self { order, files });
        }
        let invalid = |status, text| ApiError::new(status, "invalid_form", text);
        let form = Multipart::from_request(request, context).await;
        let mut form = form.map_err(|err| invalid(err.status(), err.body_text()))?;
        let mut fields = Map::new();
        while let Some(field) = form.next_field().await? {
            let name = field.name().unwrap_or_default().to_owned();
            if let Some(file) = field.file_name().map(ToOwned::to_owned) {
                files.push((name, context.store_stream(field, &file).await?));
                continue;
            }
            let text = field.text().await?;
            let plain = PLAIN.contains(&name.as_str());
            let value = plain.then(|| serde_json::from_str(text.trim()).ok());
            fields.insert(name, value.flatten().unwrap_or(Value::String(text)));
        }
        let text = Value::Object(fields).to_string();
        let read = Json::from_bytes(text.as_bytes());
        let Json(order) = read.map_err(|err| json_error(&err))?;
        Ok(Self { order, files })
    }
}
