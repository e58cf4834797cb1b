//! Other computers that run jobs, over the user's own ssh.
//!
//! A [`client`] starts `ssh HOST safelight worker --stdio`. There a [`relay`] connects its standard streams with the
//! [`host`]: a process that owns the worker and the running job, and outlives the connection. Frames:
//! [`safelight_core::protocol`].

pub mod client;
mod clients;
pub mod host;
mod inputs;
pub mod link;
pub mod rank;
pub mod relay;
mod results;
mod sections;
mod ssh;
mod transfer;

pub use ssh::run_there;

use std::path::PathBuf;
use std::thread;

use safelight_core::job::{JobError, JobId, JobRequest};
use safelight_core::job_update::JobUpdate;
use safelight_core::model::ModelSpec;
use safelight_core::protocol::PixelHeader;
use serde::{Deserialize, Serialize};

use inputs::InputFile;
use results::ResultFile;
use sections::SectionHeader;
use transfer::FilePart;

/// Starts a thread. Where the system has no more, its channels close.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    if let Err(err) = thread.spawn(work) {
        tracing::warn!("no thread for {name}: {err}");
    }
}

/// Counted up when the messages change. Both computers need the same, and the same version of the program.
pub const PROTOCOL: u32 = 2;
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version, device and models of a computer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComputerInfo {
    pub protocol: u32,
    pub version: String,
    pub device: String,
    pub free_bytes: u64,
    pub total_bytes: u64,
    pub models: Vec<ModelSpec>,
    pub loras: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ClientMessage {
    Submit(Box<SubmittedJob>),
    Cancel(JobId),
    Pause(JobId),
    /// The job continues regardless of other programs' memory.
    WaitNoMore(JobId),
    /// Asks for part of a result file.
    Fetch(FilePart),
    /// Part of an input file, which follows.
    Part(FilePart),
    /// The client has the result.
    Forget(JobId),
}

impl ClientMessage {
    /// The job that it stops.
    fn stopped_job(&self) -> Option<JobId> {
        match self {
            Self::Cancel(id) | Self::Pause(id) => Some(*id),
            _ => None,
        }
    }
}

/// A job to run, or to continue to report on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SubmittedJob {
    id: JobId,
    request: JobRequest,
    inputs: Vec<InputFile>,
    /// Quality of lossy files.
    crf: u8,
    /// Number of the last event that the client has; 0 for none.
    after: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum HostMessage {
    /// The first message.
    Hello(Box<ComputerInfo>),
    /// The first and last message of a computer that cannot work.
    Refused(JobError),
    Event(HostEvent),
    /// Asks for part of an input file.
    Fetch(FilePart),
    /// Part of a result file, which follows.
    Part(FilePart),
}

/// Update of a job. Numbers grow, with gaps where updates were dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HostEvent {
    id: JobId,
    number: u64,
    update: HostUpdate,
    /// Files of the result, at the end.
    files: Vec<ResultFile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum HostUpdate {
    /// Pixels follow as raw RGB bytes.
    Preview(PixelHeader),
    /// Pixels follow as raw RGB bytes.
    Frame(PixelHeader),
    /// New frames follow as JPEG.
    Section(SectionHeader),
    Update(JobUpdate),
}
