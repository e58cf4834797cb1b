//! What can go wrong in a stage, and the one place that recognises "out of memory".
//!
//! Gives no advice: the worker turns these into sentences for people.

use std::any::Any;
use std::io;
use std::path::PathBuf;

use safelight_core::catalog::CatalogError;
use safelight_core::job::{JobError, JobErrorKind};
use thiserror::Error;

use crate::vae::VaeError;
use crate::weights::{StreamFailure, WeightsError};

#[derive(Debug, Error)]
pub enum EngineError {
    /// The message is libtorch's own: it says how much was asked for.
    #[error("out of memory: {message}")]
    OutOfMemory { message: String },
    #[error(transparent)]
    Weights(WeightsError),
    /// A model's configuration or tokenizer: unreadable, unsound, or of a model that is not supported.
    #[error("{reason}: {}", path.display())]
    Config { reason: String, path: PathBuf },
    /// What the catalogue found wrong with a component.
    #[error(transparent)]
    Catalog(CatalogError),
    /// What the request asks for cannot be made with this model.
    #[error("{reason}")]
    Request { reason: String },
    #[error("{reason}")]
    Device { reason: String },
    #[error("internal error: {reason}")]
    Internal { reason: String },
    #[error("{source}: {}", path.display())]
    Io { source: io::Error, path: PathBuf },
}

impl EngineError {
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// What a caught panic means: tch's infix operators report errors by panicking.
    pub fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let failure = payload.downcast_ref::<StreamFailure>();
        if let Some(err) = failure.and_then(StreamFailure::take) {
            return err.into();
        }
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        Self::from_message(message)
    }

    /// The error as its user can act on it.
    pub fn to_job_error(&self) -> JobError {
        let (kind, advice) = match self {
            Self::OutOfMemory { .. } => (
                JobErrorKind::OutOfMemory,
                "Try a smaller size or fewer frames, or close other programs that use this device",
            ),
            Self::Weights(_) | Self::Config { .. } | Self::Catalog(_) => (
                JobErrorKind::BadModel,
                "Fetch the named file again, or check the folder with `safelight inspect`",
            ),
            Self::Request { .. } => (JobErrorKind::InvalidRequest, ""),
            Self::Device { .. } => (JobErrorKind::Device, "See `safelight doctor`"),
            Self::Io { .. } => (
                JobErrorKind::Disk,
                "Free some space or choose another folder",
            ),
            Self::Internal { .. } => (JobErrorKind::Internal, "Please report it with the details"),
        };
        JobError::from_error(kind, self).advise(advice)
    }

    fn from_message(message: &str) -> Self {
        // libtorch appends pages of C++ frames to its messages.
        let short = message
            .split("Exception raised from")
            .next()
            .unwrap_or(message)
            .trim_end()
            .to_owned();
        if says_out_of_memory(message) {
            Self::OutOfMemory { message: short }
        } else {
            Self::Internal { reason: short }
        }
    }
}

/// Each allocator and library has its own words for it.
fn says_out_of_memory(message: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "out of memory",
        "can't allocate memory",
        "not enough memory",
        "cannot allocate memory",
        "bad_alloc",
        "outofmemory",
        "_alloc_failed",
        "blockallocator::alloc failed",
        "failed to allocate",
    ];
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

impl From<tch::TchError> for EngineError {
    fn from(err: tch::TchError) -> Self {
        Self::from_message(&err.to_string())
    }
}

impl From<WeightsError> for EngineError {
    fn from(err: WeightsError) -> Self {
        match &err {
            WeightsError::Tensor { source, .. } if says_out_of_memory(&source.to_string()) => {
                Self::from_message(&source.to_string())
            }
            _ => Self::Weights(err),
        }
    }
}

impl From<CatalogError> for EngineError {
    fn from(err: CatalogError) -> Self {
        match err {
            CatalogError::Io { source, path } => Self::Io { source, path },
            CatalogError::Config { reason, path } => Self::Config { reason, path },
            err => Self::Catalog(err),
        }
    }
}

impl From<VaeError> for EngineError {
    fn from(err: VaeError) -> Self {
        match err {
            VaeError::Io { source, path } => Self::Io { source, path },
            VaeError::Config { reason, path } => Self::Config { reason, path },
            VaeError::Weights(err) => err.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_is_recognised_in_the_words_of_every_allocator() {
        for message in [
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...",
            "HIP out of memory. Tried to allocate 20.00 MiB",
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "hipErrorOutOfMemory",
            "std::bad_alloc",
        ] {
            let err = EngineError::from_panic(&message.to_owned());
            assert!(err.is_out_of_memory(), "{message}");
        }
    }

    #[test]
    fn any_other_panic_is_internal_and_loses_its_cpp_frames() {
        let text = "The size of tensor a (3) must match\nException raised from infer at x.cpp:1";
        let err = EngineError::from_panic(&text);
        assert_eq!(
            err.to_string(),
            "internal error: The size of tensor a (3) must match"
        );
    }

    #[test]
    fn an_allocation_beyond_any_machine_is_out_of_memory() {
        let huge = tch::Tensor::f_zeros([1 << 50], (tch::Kind::Float, tch::Device::Cpu));
        let err = EngineError::from(huge.unwrap_err());
        assert!(err.is_out_of_memory(), "{err}");
    }
}
