//! A file's bytes on their way to a device, again and again: what a probe of the ways there runs.
//!
//! Measures no time and chooses no way: the readers take the one of the thread that asks.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use tch::{Device, Kind, Tensor};

use super::WeightsError;
use super::ring::{Part, Transfer};
use crate::error::EngineError;

const NAME: &str = "a trial of copies";

/// A file that lies in memory, and where its bytes go.
#[derive(Debug)]
pub(crate) struct CopyTrial {
    file: Arc<File>,
    bytes: Tensor,
    target: Tensor,
}

impl CopyTrial {
    /// `len`: bytes.
    pub(crate) fn new(len: usize, device: Device) -> Result<Self, EngineError> {
        let failed = |err: std::io::Error| EngineError::internal(format!("{NAME}: {err}"));
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC).map_err(|err| failed(err.into()))?;
        let mut file = File::from(file);
        let bytes: Vec<u8> = (0..len)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        file.write_all(&bytes).map_err(failed)?;
        Ok(Self {
            file: Arc::new(file),
            bytes: Tensor::f_from_slice(&bytes)?,
            target: Tensor::f_zeros([len as i64], (Kind::Uint8, device))?,
        })
    }

    /// All bytes once; the device is done with them then.
    pub(crate) fn run(&self) -> Result<(), EngineError> {
        let part = Part {
            start: 0,
            len: self.bytes.numel(),
            place: 0,
        };
        let transfer = Transfer::begin(&self.file, &[part], &self.target);
        let copied = transfer.and_then(|transfer| transfer.wait());
        copied.map_err(|err| WeightsError::staging(err, NAME, NAME.as_ref()).into())
    }

    /// Whether the device has them all, which it forgets then.
    pub(crate) fn is_right(&mut self) -> Result<bool, EngineError> {
        let is_right = self.target.f_to_device(Device::Cpu)?.f_equal(&self.bytes)?;
        drop(self.target.f_zero_()?);
        Ok(is_right)
    }
}
