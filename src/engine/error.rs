//! Errors of a stage and of the process. [`ResourceFault`] recognises messages about exhausted memory.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobError, JobErrorKind, disk_advice};
use safelight_core::media::MediaError;
use safelight_core::memory::ResourceFault;
use safelight_core::model::CatalogError;
use safelight_core::plan::{HostMemory, explain_shortage};
use thiserror::Error;

use crate::runtime::{RuntimeError, meminfo_bytes};
use crate::weights_error::{StreamFailure, WeightsError};

/// Why the process did not do what it was started for. One sentence each.
#[derive(Debug, Error)]
pub enum ProcessError {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Device(#[from] RuntimeError),
    #[error("{0}")]
    Failed(String),
    #[error("the results cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl ProcessError {
    /// 2 for invalid arguments, as in the rest of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_) => 2,
            Self::Device(_) | Self::Failed(_) | Self::Output(_) => 1,
        }
    }
}

#[derive(Debug, Error)]
pub enum EngineError {
    /// No failure: the stage was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The message comes from libtorch and contains the requested size.
    #[error("out of memory: {message}")]
    OutOfMemory {
        message: String,
        /// Memory that ran out.
        fault: ResourceFault,
    },
    /// The device can no longer be used by this process. The message comes from libtorch.
    #[error("the device failed: {message}")]
    DeviceFailed { message: String },
    #[error(transparent)]
    Weights(WeightsError),
    /// A component's files, configuration or tokenizer are invalid.
    #[error(transparent)]
    Catalog(CatalogError),
    /// This model cannot do what was requested.
    #[error("{reason}")]
    Request { reason: String },
    /// The autoencoder's output would become a black image.
    #[error(
        "the VAE gave invalid pixels (NaN): its file may be damaged, or its numbers too large for this dtype (try f32)"
    )]
    InvalidPixels,
    #[error("{reason}")]
    Device { reason: String },
    /// Of another rank of the job, or of the exchange with it.
    #[error("{}", .0.summary)]
    OtherRank(Box<JobError>),
    #[error("internal error: {reason}")]
    Internal { reason: String },
    #[error("{source}: {}", path.display())]
    Io { source: io::Error, path: PathBuf },
}

impl EngineError {
    pub fn internal(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Internal { reason }
    }

    pub fn request(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Request { reason }
    }

    /// Of a file of a model, or of a stage before.
    pub fn config(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::Catalog(CatalogError::config(reason, path))
    }

    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io {
            source,
            path: path.to_owned(),
        }
    }

    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// Fault that another attempt may avoid, if any.
    pub fn fault(&self) -> Option<ResourceFault> {
        match self {
            Self::OutOfMemory { fault, .. } => Some(*fault),
            Self::DeviceFailed { .. } => Some(ResourceFault::Device),
            Self::OtherRank(error) => error.fault,
            _ => None,
        }
    }

    /// Converts the error to one of a device that no longer works.
    pub fn of_dead_device(self) -> Self {
        Self::DeviceFailed {
            message: self.to_string(),
        }
    }

    /// Error from a caught panic: tch's infix operators report errors by panicking.
    pub fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let failure = payload.downcast_ref::<StreamFailure>();
        if let Some(err) = failure.and_then(|failure| failure.0.take()) {
            return err.into();
        }
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        Self::from_message(message)
    }

    pub fn to_job_error(&self) -> JobError {
        let (kind, advice) = match self {
            Self::OtherRank(error) => return JobError::clone(error),
            Self::OutOfMemory { .. } => (
                JobErrorKind::OutOfMemory,
                "Try a smaller size or fewer frames, or close other programs that use this device",
            ),
            Self::Weights(_) | Self::Catalog(_) => (
                JobErrorKind::BadModel,
                "Download the file again; the list of models says what is wrong with a model",
            ),
            Self::Request { .. } | Self::InvalidPixels => (JobErrorKind::InvalidRequest, ""),
            Self::DeviceFailed { .. } => (
                JobErrorKind::EngineLost,
                "Run the Doctor to check the GPU; a smaller size may help",
            ),
            Self::Device { .. } => (JobErrorKind::Device, "Run the Doctor to check the GPU"),
            Self::Io { source, .. } => (JobErrorKind::Disk, disk_advice(source)),
            Self::Internal { .. } | Self::Cancelled => {
                (JobErrorKind::Internal, "Please report it with the details")
            }
        };
        let mut error = JobError::from_error(kind, self)
            .advise(advice)
            .with_fault(self.fault());
        match self {
            Self::OutOfMemory { message, fault } => {
                error.summary = explain_shortage(*fault, message, host_memory());
            }
            Self::DeviceFailed { message } => {
                let first_line = message.lines().next().unwrap_or_default();
                error.summary = format!("the device failed: {first_line}");
            }
            _ => {}
        }
        error
    }

    fn from_message(message: &str) -> Self {
        // libtorch appends pages of C++ frames to its messages.
        let short = message
            .split("Exception raised from")
            .next()
            .unwrap_or(message)
            .trim_end()
            .to_owned();
        match ResourceFault::of(message) {
            Some(ResourceFault::Device) => Self::DeviceFailed { message: short },
            Some(fault) => Self::OutOfMemory {
                message: short,
                fault,
            },
            None => Self::Internal { reason: short },
        }
    }
}

/// The machine's own memory, which decides about the device's where they are one.
fn host_memory() -> HostMemory {
    HostMemory {
        available: meminfo_bytes("MemAvailable"),
        page_cache: meminfo_bytes("Cached"),
    }
}

impl From<MediaError> for EngineError {
    fn from(err: MediaError) -> Self {
        Self::request(err.to_string())
    }
}

impl From<tch::TchError> for EngineError {
    fn from(err: tch::TchError) -> Self {
        Self::from_message(&err.to_string())
    }
}

impl From<WeightsError> for EngineError {
    fn from(err: WeightsError) -> Self {
        match err {
            WeightsError::Tensor { source, .. }
                if ResourceFault::of(&source.to_string()).is_some() =>
            {
                source.into()
            }
            WeightsError::File(CatalogError::Io { source, path }) if is_of_system(&source) => {
                CatalogError::Io { source, path }.into()
            }
            err => Self::Weights(err),
        }
    }
}

/// Returns whether the system refused the read, which says nothing about the file's content.
fn is_of_system(err: &io::Error) -> bool {
    err.raw_os_error().is_some() || err.kind() == io::ErrorKind::OutOfMemory
}

impl From<CatalogError> for EngineError {
    fn from(err: CatalogError) -> Self {
        match err {
            CatalogError::Io { source, path } if source.kind() == io::ErrorKind::OutOfMemory => {
                Self::OutOfMemory {
                    message: format!("{source}: {}", path.display()),
                    fault: ResourceFault::HostMemory,
                }
            }
            CatalogError::Io { source, path } => Self::Io { source, path },
            CatalogError::Request { reason, .. } => Self::Request { reason },
            err => Self::Catalog(err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocator_and_device_panics_are_classified_with_a_clear_summary() {
        let text = "HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which \
            10.00 MiB is free.\nException raised from malloc at x.cpp:1\nframe #0: ...";
        let err = EngineError::from_panic(&text.to_owned());
        assert_eq!(err.fault(), Some(ResourceFault::DeviceMemory));
        let error = err.to_job_error();
        assert_eq!(
            (error.kind, error.fault),
            (JobErrorKind::OutOfMemory, Some(ResourceFault::DeviceMemory))
        );
        assert_eq!(
            error.summary,
            "the device ran out of memory (it needed 20 MiB more); 10 MiB of 24.0 GiB was free"
        );
        assert!(error.details.contains("HIP out of memory") && !error.details.contains("frame"));

        let text = "HIP error: an illegal memory access was encountered\nCompile with more";
        let err = EngineError::from_panic(&text.to_owned());
        assert!(!err.is_out_of_memory());
        let error = err.to_job_error();
        assert_eq!(
            (error.kind, error.fault),
            (JobErrorKind::EngineLost, Some(ResourceFault::Device))
        );
        assert!(!error.summary.contains('\n'), "{error}");
    }

    #[test]
    fn any_other_panic_is_internal_and_loses_its_cpp_frames() {
        let text = "The size of tensor a (3) must match\nException raised from infer at x.cpp:1";
        let err = EngineError::from_panic(&text);
        let found = err.to_string();
        assert_eq!(found, "internal error: The size of tensor a (3) must match");
    }

    #[test]
    fn weights_that_the_system_cannot_read_need_no_download() {
        let job_error = |source: io::Error| {
            let err = WeightsError::File(CatalogError::io(source, "model.safetensors"));
            EngineError::from(err).to_job_error()
        };
        let full = job_error(io::Error::from_raw_os_error(libc::ENOMEM));
        assert_eq!(
            (full.kind, full.fault),
            (JobErrorKind::OutOfMemory, Some(ResourceFault::HostMemory))
        );
        let holds = full.summary.contains("the computer ran out of memory");
        assert!(holds, "{full:?}");
        assert!(full.advice.contains("smaller size"), "{full:?}");
        assert!(full.details.contains("model.safetensors"), "{full:?}");
        let failed = io::Error::from_raw_os_error(libc::EIO);
        let advice = disk_advice(&failed);
        let failed = job_error(failed);
        assert_eq!((failed.kind, failed.fault), (JobErrorKind::Disk, None));
        assert_eq!(failed.advice, advice);
        // What is in the file is another matter.
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "shorter than it was");
        assert_eq!(job_error(cut).kind, JobErrorKind::BadModel);
    }

    #[test]
    fn an_allocation_beyond_any_machine_is_out_of_memory() {
        let huge = tch::Tensor::f_zeros([1 << 50], (tch::Kind::Float, tch::Device::Cpu));
        let err = EngineError::from(huge.unwrap_err());
        assert_eq!(err.fault(), Some(ResourceFault::HostMemory), "{err}");
    }
}
