//! The frames of a result on their way to the disk: encoded by a thread of their own while the next ones are computed.
//!
//! What is done lies in the job's folder in runs; the last run, which is not whole yet, is all that a crash costs.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{MediaError, Picture, Runs};

use crate::worker::save::error_of;

/// Frames of a run: a second of most clips.
const FRAMES_A_RUN: u32 = 24;
/// A run takes no longer, so that a crash costs no more.
const RUN_LASTS: Duration = Duration::from_mins(1);
/// Frames that wait to be encoded.
const FRAMES_AHEAD: usize = 2;

/// Writes runs.
pub(super) struct Parts {
    runs: Runs,
    writing: Option<Writing>,
}

struct Writing {
    frames: Sender<Arc<Picture>>,
    thread: JoinHandle<Result<(), MediaError>>,
}

impl Parts {
    pub(super) fn new(runs: Runs) -> Self {
        Self {
            runs,
            writing: None,
        }
    }

    /// How many frames are on the disk.
    pub(super) fn num_frames(&self) -> u32 {
        self.runs.num_frames()
    }

    pub(super) fn runs(&self) -> Runs {
        self.runs.clone()
    }

    /// Takes the next frame. The error is that of an earlier one.
    pub(super) fn push(&mut self, picture: Arc<Picture>) -> Result<(), JobError> {
        if self.writing.is_none() {
            let (sender, frames) = bounded(FRAMES_AHEAD);
            let runs = self.runs.clone();
            let thread = thread::Builder::new()
                .name("finish-writer".to_owned())
                .spawn(move || write(&runs, &frames))
                .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
            self.writing = Some(Writing {
                frames: sender,
                thread,
            });
        }
        let sent = self.writing.as_ref().map(|it| it.frames.send(picture));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended, and says why.
            _ => self.settle(),
        }
    }

    /// Waits until all frames that were taken are on the disk.
    pub(super) fn settle(&mut self) -> Result<(), JobError> {
        let Some(Writing { frames, thread }) = self.writing.take() else {
            return Ok(());
        };
        drop(frames);
        match thread.join() {
            Ok(written) => written.map_err(|err| error_of(&err)),
            Err(_) => Err(JobError::new(
                JobErrorKind::Internal,
                "an error in Safelight stopped the frames from being written",
            )),
        }
    }
}

/// Writes frames in runs until there are no more.
fn write(runs: &Runs, frames: &Receiver<Arc<Picture>>) -> Result<(), MediaError> {
    let mut next = runs.num_frames();
    loop {
        let mut run = runs.begin(next);
        let began = Instant::now();
        while !run.is_full() && run.len() < FRAMES_A_RUN && began.elapsed() < RUN_LASTS {
            let Ok(picture) = frames.recv() else {
                return run.finish();
            };
            run.push(&picture)?;
        }
        next += run.len();
        run.finish()?;
    }
}
