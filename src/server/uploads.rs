//! Images and videos that clients send: files named by their content, which jobs refer to.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_lite::{Stream, StreamExt as _};
use safelight_core::files::{make_private_folder, write_private};
use safelight_core::job::{InputMedia, JobId, SourceVideo, StartImage};
use safelight_core::media::{self, has_image_name, has_video_name};
use safelight_wheels::hex;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::context::ServerContext;
use super::error::ApiError;

/// Age at which uploads are removed when a server starts.
const KEPT_FOR: Duration = Duration::from_hours(30 * 24);
const NAME_DIGITS: usize = 32;

/// Beginnings of files and the extension that they get.
const KINDS: [(&[u8], &str); 5] = [
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"RIFF", "webp"),
    (b"\x1a\x45\xdf\xa3", "webm"),
];

pub fn remove_old(folder: &Path) {
    let is_old = |path: &Path| {
        let written = fs::metadata(path).and_then(|meta| meta.modified());
        let age = written.map(|written| SystemTime::now().duration_since(written));
        age.is_ok_and(|age| age.is_ok_and(|age| age > KEPT_FOR))
    };
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        if is_old(&entry.path()) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn extension_of(head: &[u8], name: &str) -> String {
    let is_mp4 = head.get(4..8) == Some(b"ftyp");
    let known = KINDS.iter().find(|(start, _)| head.starts_with(start));
    if let Some((_, extension)) = known {
        return (*extension).to_owned();
    }
    let path = Path::new(name);
    let own = path.extension().unwrap_or_default().to_string_lossy();
    match own.to_lowercase() {
        own if has_image_name(path) || has_video_name(path) => own,
        _ if is_mp4 => "mp4".to_owned(),
        _ => "bin".to_owned(),
    }
}

fn unwritten(err: &std::io::Error) -> ApiError {
    let message = format!("the file could not be stored: {err}");
    ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "disk", message)
}

impl ServerContext {
    /// Stores bytes; `name`: what the client calls the file.
    pub async fn store(&self, bytes: Vec<u8>, name: &str) -> Result<PathBuf, ApiError> {
        let folder = self.0.options.uploads.clone();
        let name = name.to_owned();
        blocking(move || {
            let hash = hex(&Sha256::digest(&bytes));
            let extension = extension_of(&bytes, &name);
            let path = folder.join(format!("{}.{extension}", &hash[..NAME_DIGITS]));
            make_private_folder(&folder).map_err(|err| unwritten(&err))?;
            write_private(&path, &bytes).map_err(|err| unwritten(&err))?;
            Ok(path)
        })
        .await
    }

    /// Stores a file as it comes.
    pub async fn store_stream<E: Display>(
        &self,
        chunks: impl Stream<Item = Result<Bytes, E>> + Unpin,
        name: &str,
    ) -> Result<PathBuf, ApiError> {
        let folder = &self.0.options.uploads;
        make_private_folder(folder).map_err(|err| unwritten(&err))?;
        let partial = folder.join(format!("{}.part", JobId::next()));
        let stored = self.write_stream(chunks, name, &partial).await;
        if stored.is_err() {
            fs::remove_file(&partial).ok();
        }
        stored
    }

    async fn write_stream<E: Display>(
        &self,
        mut chunks: impl Stream<Item = Result<Bytes, E>> + Unpin,
        name: &str,
        partial: &Path,
    ) -> Result<PathBuf, ApiError> {
        let mut options = tokio::fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let file = options.open(partial).await;
        let mut file = file.map_err(|err| unwritten(&err))?;
        let (mut hash, mut head) = (Sha256::new(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|err| {
                let message = format!("the upload ended in the middle: {err}");
                ApiError::new(StatusCode::BAD_REQUEST, "incomplete", message)
            })?;
            if head.len() < 16 {
                head.extend_from_slice(&chunk[..chunk.len().min(16)]);
            }
            hash.update(&chunk);
            file.write_all(&chunk)
                .await
                .map_err(|err| unwritten(&err))?;
        }
        if head.is_empty() {
            return Err(ApiError::invalid("body", "the file is empty"));
        }
        file.flush().await.map_err(|err| unwritten(&err))?;
        let hash = hex(&hash.finalize());
        let name = format!("{}.{}", &hash[..NAME_DIGITS], extension_of(&head, name));
        let path = self.0.options.uploads.join(name);
        let renamed = tokio::fs::rename(partial, &path).await;
        renamed.map_err(|err| unwritten(&err))?;
        Ok(path)
    }

    /// Path of an upload by the name that its client was given.
    pub fn upload(&self, name: &str) -> Result<PathBuf, ApiError> {
        let is_name = name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '.');
        let path = self.0.options.uploads.join(name);
        if is_name && !name.starts_with('.') && path.is_file() {
            return Ok(path);
        }
        Err(ApiError::not_found(&format!("upload {name:?}")))
    }

    /// Stores an image that a JSON request has as base64, plain or as a data URL.
    pub async fn store_base64(&self, text: &str, param: &str) -> Result<PathBuf, ApiError> {
        let data = match text.split_once(";base64,") {
            Some((head, data)) if head.starts_with("data:") => data,
            _ => text,
        };
        let bytes = BASE64_STANDARD.decode(data.trim());
        let bytes = bytes.map_err(|_text| ApiError::invalid(param, "the image is not base64"))?;
        self.store(bytes, "").await
    }

    /// File as base64.
    pub async fn encoded(&self, path: PathBuf) -> Result<String, ApiError> {
        let _permit = self.0.large.acquire().await;
        blocking(move || match fs::read(&path) {
            Ok(bytes) => Ok(BASE64_STANDARD.encode(bytes)),
            Err(err) => {
                let message = format!("the result cannot be read: {err}");
                Err(ApiError::new(StatusCode::GONE, "gone", message))
            }
        })
        .await
    }
}

/// Opens an image to start from or to refer to.
pub async fn open_image(path: PathBuf, param: &str) -> Result<StartImage, ApiError> {
    let param = param.to_owned();
    blocking(move || {
        let opened = media::open_image(&path);
        let opened = opened.map_err(|err| ApiError::unreadable(&param, &err))?;
        Ok(StartImage {
            path,
            width: opened.image.width,
            height: opened.image.height,
        })
    })
    .await
}

pub async fn open_video(path: PathBuf, param: &str) -> Result<SourceVideo, ApiError> {
    let param = param.to_owned();
    blocking(move || {
        let info = media::video_info(&path);
        let info = info.map_err(|err| ApiError::unreadable(&param, &err))?;
        Ok(SourceVideo { path, info })
    })
    .await
}

/// Opens an image, or a video.
pub async fn open_media(path: PathBuf, param: &str) -> Result<InputMedia, ApiError> {
    if let Ok(image) = open_image(path.clone(), param).await {
        return Ok(InputMedia::Image(image));
    }
    open_video(path, param).await.map(InputMedia::Video)
}

/// Runs work on a thread that may wait.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let message = "the file is damaged and cannot be read";
        Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_value",
            message,
        ))
    })
}
