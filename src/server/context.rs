//! Shared state of the handlers: the link to the app, options, limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use safelight_core::job::{JobError, JobId};
use safelight_core::settings::AppPaths;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;

use super::access_token::keep_token;
use super::error::ApiError;
use super::link::{AppBusy, JobEvent, PreviewImage, ServerCall, ServerLink, ServerModels};

/// Large JSON requests that are read, and results that are encoded, at the same time.
const MAX_LARGE: usize = 4;
/// Clients that follow the events.
const MAX_STREAMS: usize = 64;

pub struct ServerOptions {
    pub address: SocketAddr,
    /// Secret that each request must state; `None` on an address of this computer alone.
    pub token: Option<String>,
    /// Folder of the images and videos that clients send.
    pub uploads: PathBuf,
}

impl ServerOptions {
    /// Options of a user, whose token is made where the address needs one.
    pub fn new(address: SocketAddr, paths: &AppPaths) -> Result<Self, JobError> {
        let token = (!address.ip().is_loopback()).then(|| keep_token(&paths.server_token()));
        let token = token.transpose();
        Ok(Self {
            address,
            token: token.map_err(|err| JobError::disk("the token cannot be stored", &err))?,
            uploads: paths.uploads(),
        })
    }
}

#[derive(Clone)]
pub struct ServerContext(pub Arc<ContextParts>);

pub struct ContextParts {
    pub link: ServerLink,
    pub options: ServerOptions,
    /// Places of large JSON requests and of results that are encoded.
    pub large: Arc<Semaphore>,
    pub streams: Arc<Semaphore>,
    /// Model that a client of A1111's endpoints chose.
    pub checkpoint: Mutex<Option<String>>,
    /// The newest preview and its job.
    pub shown: Mutex<Option<(JobId, Arc<PreviewImage>)>>,
}

impl ServerContext {
    pub fn new(link: ServerLink, options: ServerOptions) -> Self {
        Self(Arc::new(ContextParts {
            link,
            options,
            large: Arc::new(Semaphore::new(MAX_LARGE)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            checkpoint: Mutex::default(),
            shown: Mutex::default(),
        }))
    }

    pub async fn models(&self) -> Result<ServerModels, ApiError> {
        // The search for models may still run.
        for _ in 0..100 {
            let models = self.0.link.ask(ServerCall::Models).await?;
            if !models.are_loading {
                return Ok(models);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(AppBusy.into())
    }

    /// The newest preview and its job.
    pub fn last_preview(&self) -> Option<(JobId, Arc<PreviewImage>)> {
        let shown = self.0.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the newest preview for clients that ask for it now and then.
    pub async fn watch(self) {
        let mut events = self.0.link.events.subscribe();
        loop {
            match events.recv().await {
                Ok(JobEvent::Preview(id, image)) => {
                    let mut shown = self.0.shown.lock().unwrap_or_else(PoisonError::into_inner);
                    *shown = Some((id, image));
                }
                Ok(JobEvent::Changed(_)) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}
