//! Copies from one thread to a device: the driver's asynchronous copies, or libtorch's blocking ones.

use std::io;
use std::path::Path;
use std::slice;

use tch::{Device, Kind, TchError, Tensor};
use thiserror::Error;

use crate::kernels::{CopyLane, CopyMark, KernelError};
use crate::weights_error::WeightsError;

#[derive(Debug, Error)]
pub(super) enum StagingError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tensor(#[from] TchError),
}

impl StagingError {
    /// Error of a tensor's transfer to its device.
    pub(super) fn of(self, key: &str, path: &Path) -> WeightsError {
        match self {
            Self::Io(source) => WeightsError::io(path)(source),
            Self::Tensor(source) => WeightsError::tensor(key, path)(source),
        }
    }
}

impl From<KernelError> for StagingError {
    fn from(err: KernelError) -> Self {
        Self::Tensor(TchError::Torch(err.to_string()))
    }
}

/// The way from one thread to a device.
pub(super) trait CopyStream {
    /// A buffer that no copy is under way from.
    fn buffer(&mut self, slot: usize) -> &mut [u8];
    /// Starts copying the first `len` bytes of a buffer to `target`, after the work queued at `mark`.
    fn start(
        &mut self,
        slot: usize,
        target: &mut Tensor,
        len: usize,
        mark: Option<&CopyMark>,
    ) -> Result<(), StagingError>;
    /// Until the copy from a buffer has ended.
    fn wait(&mut self, slot: usize) -> Result<(), StagingError>;
}

impl CopyStream for CopyLane {
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        Self::buffer(self, slot)
    }

    fn start(
        &mut self,
        slot: usize,
        target: &mut Tensor,
        len: usize,
        mark: Option<&CopyMark>,
    ) -> Result<(), StagingError> {
        let Some(mark) = mark else {
            return Err(io::Error::other("nothing says when its memory is free").into());
        };
        #[expect(unsafe_code, reason = "the driver writes into a tensor")]
        // SAFETY: the target is contiguous, has `len` bytes, is used by nothing else after the mark, and is kept with
        // its piece until the copy has ended.
        Ok(unsafe { Self::start(self, slot, target.data_ptr(), len, mark) }?)
    }

    fn wait(&mut self, slot: usize) -> Result<(), StagingError> {
        Ok(Self::wait(self, slot)?)
    }
}

/// libtorch's own copies, which have ended when they return.
pub(super) enum BlockingLane {
    /// Pinned where possible.
    Pinned(Tensor),
    /// Ordinary memory on the CPU: tensors there count as used memory, and this does not.
    Plain(Vec<u8>),
}

impl BlockingLane {
    pub(super) fn new(device: Device, len: usize) -> Result<Self, TchError> {
        let Device::Cuda(_) = device else {
            return Ok(Self::Plain(vec![0; len]));
        };
        let buffer = Tensor::f_zeros([len as i64], (Kind::Uint8, Device::Cpu))?;
        // Falls back to an ordinary, slower buffer if pinning fails.
        Ok(Self::Pinned(buffer.f_pin_memory(device).unwrap_or(buffer)))
    }
}

impl CopyStream for BlockingLane {
    fn buffer(&mut self, _slot: usize) -> &mut [u8] {
        let pinned = match self {
            Self::Pinned(buffer) => buffer,
            Self::Plain(buffer) => return buffer,
        };
        #[expect(unsafe_code, reason = "the bytes of a tensor are read from a file")]
        // SAFETY: the buffer is a contiguous CPU tensor of bytes, borrowed mutably and of no use to anybody else; every
        // copy out of it has ended, because copies here block.
        unsafe {
            slice::from_raw_parts_mut(pinned.data_ptr().cast::<u8>(), pinned.numel())
        }
    }

    fn start(
        &mut self,
        _slot: usize,
        target: &mut Tensor,
        len: usize,
        _mark: Option<&CopyMark>,
    ) -> Result<(), StagingError> {
        // Copies are on the compute stream, so after all queued work.
        match self {
            Self::Pinned(buffer) => target.f_copy_(&buffer.f_narrow(0, 0, len as i64)?)?,
            Self::Plain(buffer) => target.f_copy_(&Tensor::f_from_slice(&buffer[..len])?)?,
        }
        Ok(())
    }

    fn wait(&mut self, _slot: usize) -> Result<(), StagingError> {
        Ok(())
    }
}
