//! Streams of OpenAI's image events: previews, then the images.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_lite::stream;
use safelight_core::naming::now_secs;
use serde_json::{Value, json};

use super::context::ServerContext;
use super::error::ApiError;
use super::link::{JobView, PreviewImage};
use super::pending::{JobNews, PendingJobs, check_all};

/// State of a stream of images.
struct ImageStream {
    context: ServerContext,
    pending: Option<PendingJobs>,
    event: &'static str,
    /// Previews that may still be sent.
    left: u32,
    num_sent: u32,
    /// Files that are yet to be sent, the last one first.
    files: Vec<(Arc<JobView>, PathBuf)>,
}

pub fn stream_images(
    context: ServerContext,
    pending: PendingJobs,
    event: &'static str,
    left: u32,
) -> impl IntoResponse {
    let state = ImageStream {
        context,
        pending: Some(pending),
        event,
        left,
        num_sent: 0,
        files: Vec::new(),
    };
    let events = stream::unfold(state, |mut state| async {
        let event = state.next().await?;
        Some((Ok::<_, Infallible>(event), state))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl ImageStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((job, path)) = self.files.pop() {
                return Some(self.completed(&job, path).await);
            }
            let pending = self.pending.as_mut()?;
            match pending.next().await {
                Ok(JobNews::Preview(image)) if self.left > 0 => {
                    self.left -= 1;
                    return Some(self.partial(image).await);
                }
                Ok(JobNews::Preview(_) | JobNews::Progress(_)) => {}
                Ok(JobNews::Ended(jobs)) => {
                    self.pending = None;
                    if let Err(err) = check_all(&jobs) {
                        return Some(failed(&err));
                    }
                    let files = jobs.iter().flat_map(|job| {
                        job.paths.iter().map(|path| (Arc::clone(job), path.clone()))
                    });
                    self.files = files.collect();
                    self.files.reverse();
                }
                Err(err) => {
                    self.pending = None;
                    return Some(failed(&err));
                }
            }
        }
    }

    async fn partial(&mut self, preview: Arc<PreviewImage>) -> Event {
        let size = format!("{}x{}", preview.image.width, preview.image.height);
        self.num_sent += 1;
        event(
            &format!("{}.partial_image", self.event),
            json!({
                "b64_json": preview.base64().await,
                "partial_image_index": self.num_sent - 1,
                "size": size,
                "output_format": "jpeg",
            }),
        )
    }

    async fn completed(&self, job: &JobView, path: PathBuf) -> Event {
        let format = path.extension().unwrap_or_default().to_string_lossy();
        let format = if format == "jpg" {
            "jpeg".into()
        } else {
            format
        };
        let format = format.into_owned();
        match self.context.encoded(path).await {
            Ok(text) => event(
                &format!("{}.completed", self.event),
                json!({
                    "b64_json": text,
                    "size": format!("{}x{}", job.width, job.height),
                    "output_format": format,
                }),
            ),
            Err(err) => failed(&err),
        }
    }
}

/// An event with what all of OpenAI's have.
fn event(kind: &str, mut fields: Value) -> Event {
    fields["type"] = kind.into();
    fields["created_at"] = now_secs().into();
    fields["background"] = "opaque".into();
    fields["quality"] = "auto".into();
    let event = Event::default().event(kind);
    event.json_data(fields).unwrap_or_default()
}

fn failed(err: &ApiError) -> Event {
    let event = Event::default().event("error");
    event.json_data(err.to_json()).unwrap_or_default()
}
