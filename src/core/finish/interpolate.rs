//! What a user asks to have more frames a second, and whether it can: the one place where that is checked.

use std::path::PathBuf;

use super::form::{check_out, fingerprint, invalid, look_for, unusable};
use super::{FinishRequest, FinishWork, Retiming};
use crate::job::{DtypeChoice, JobError};
use crate::media::ClipInfo;
use crate::memory::MemoryChoice;
use crate::networks::IfnetConfig;

/// How many frames a second the result is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NewRate {
    /// So many for each.
    Times(u32),
    /// So many a second.
    Fps(f64),
}

/// What is asked for: checked as a whole by [`validate`](Self::validate).
#[derive(Clone, Debug, PartialEq)]
pub struct InterpolateForm {
    pub source: PathBuf,
    pub network: PathBuf,
    pub rate: NewRate,
    pub out: PathBuf,
    pub is_out_automatic: bool,
    pub dtype: DtypeChoice,
    pub memory: MemoryChoice,
    pub crf: u8,
}

impl InterpolateForm {
    /// The request, or one sentence on why there can be none. Reads headers, and the source once.
    pub fn validate(self) -> Result<FinishRequest, JobError> {
        IfnetConfig::read(&self.network).map_err(|err| JobError::from(&err))?;
        let (is_picture, before) = look_for(&self.source, &self.out)?;
        let retiming = match self.rate {
            NewRate::Times(times) => Retiming::times(before.num_frames, before.fps, times),
            NewRate::Fps(fps) => Retiming::to_fps(before.num_frames, before.fps, fps),
        };
        let retiming = retiming.map_err(invalid)?;
        let after = ClipInfo {
            fps: retiming.fps(),
            num_frames: retiming.num_frames(),
            ..before
        };
        check_out(&self.out, is_picture, &after)?;
        let fingerprint = fingerprint(&self.source, is_picture).map_err(|err| unusable(&err))?;
        Ok(FinishRequest {
            source: self.source,
            fingerprint,
            is_picture,
            before,
            after,
            work: FinishWork::Interpolate {
                network: self.network,
            },
            dtype: self.dtype,
            tile: None,
            memory: self.memory,
            crf: self.crf,
            out: self.out,
            is_out_automatic: self.is_out_automatic,
        })
    }
}

#[cfg(test)]
mod tests;
