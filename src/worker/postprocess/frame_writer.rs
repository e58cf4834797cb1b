//! Encoding of frames to the job's folder, in threads, while the next frames are computed.
//!
//! Frames are written in runs that are encoded independently, several at a time; the result has the same bytes however
//! many that were. A crash costs the unfinished runs only.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{FrameSegments, MediaError, RgbPixels, SegmentWriter};

use crate::worker::save::error_of;

/// Frames of a run: a second of most videos.
const FRAMES_A_RUN: u32 = 24;
/// Longest time of a run, which a crash may cost.
const RUN_LASTS: Duration = Duration::from_mins(1);
/// Waiting frames of a run that is encoded alone.
const FRAMES_AHEAD: usize = 2;
/// Most runs that are encoded in parallel: more are quicker than any GPU.
const RUNS_AT_ONCE: usize = 8;
/// Bytes of frames that wait for parallel runs.
const BYTES_AHEAD: usize = 384 << 20;

pub(super) struct FrameWriter {
    runs: FrameSegments,
    writing: Option<RunThread>,
}

struct RunThread {
    frames: Sender<Arc<RgbPixels>>,
    thread: JoinHandle<Result<(), MediaError>>,
}

impl FrameWriter {
    pub(super) fn new(runs: FrameSegments) -> Self {
        Self {
            runs,
            writing: None,
        }
    }

    /// Number of frames on the disk.
    pub(super) fn num_frames(&self) -> u32 {
        self.runs.num_frames()
    }

    pub(super) fn runs(&self) -> FrameSegments {
        self.runs.clone()
    }

    /// Takes the next frame. Returns the error of an earlier one.
    pub(super) fn push(&mut self, image: Arc<RgbPixels>) -> Result<(), JobError> {
        if self.writing.is_none() {
            let (sender, frames) = bounded(FRAMES_AHEAD);
            let runs = self.runs.clone();
            let processors = thread::available_parallelism().map_or(1, usize::from);
            let thread = thread::Builder::new()
                .name("frame-writer".to_owned())
                .spawn(move || write(&runs, &frames, processors))
                .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
            self.writing = Some(RunThread {
                frames: sender,
                thread,
            });
        }
        let sent = self.writing.as_ref().map(|it| it.frames.send(image));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended with an error.
            _ => self.settle(),
        }
    }

    /// Waits until all frames are on the disk.
    pub(super) fn settle(&mut self) -> Result<(), JobError> {
        let Some(RunThread { frames, thread }) = self.writing.take() else {
            return Ok(());
        };
        drop(frames);
        match thread.join() {
            Ok(written) => written.map_err(error_of),
            Err(_) => Err(JobError::new(
                JobErrorKind::Internal,
                "an error in Safelight stopped the frames from being written",
            )),
        }
    }
}

/// Distributes frames to runs until there are no more. Returns the error of the earliest run that has one.
fn write(
    runs: &FrameSegments,
    frames: &Receiver<Arc<RgbPixels>>,
    processors: usize,
) -> Result<(), MediaError> {
    let run_frames = if runs.hold_one_frame() {
        1
    } else {
        FRAMES_A_RUN
    };
    let mut next = runs.num_frames();
    thread::scope(|scope| {
        let mut at_work = VecDeque::new();
        let mut is_well = true;
        while let (true, Ok(first)) = (is_well, frames.recv()) {
            let room = runs_at_once(&first, run_frames as usize, processors);
            while at_work.len() >= room {
                ended(at_work.pop_front())?;
            }
            // Parallel runs hold all their frames; one alone blocks the sender.
            let ahead = if room > 1 {
                run_frames as usize
            } else {
                FRAMES_AHEAD
            };
            let (sender, own) = bounded(ahead);
            let run = runs.begin(next);
            at_work.push_back(scope.spawn(move || write_run(run, &own)));
            let (began, mut count) = (Instant::now(), 0);
            let mut waiting = Some(first);
            while let Some(image) = waiting {
                // A run that takes no more has failed, with the error below.
                is_well = sender.send(image).is_ok();
                count += 1;
                let goes_on = is_well && count < run_frames && began.elapsed() < RUN_LASTS;
                waiting = goes_on.then(|| frames.recv().ok()).flatten();
            }
            next += count;
        }
        at_work.into_iter().try_for_each(|run| ended(Some(run)))
    })
}

/// Number of runs of frames of this size that may be encoded in parallel.
fn runs_at_once(frame: &RgbPixels, run_frames: usize, processors: usize) -> usize {
    let run_bytes = frame.rgb.len().saturating_mul(run_frames).max(1);
    (BYTES_AHEAD / run_bytes)
        .min(processors)
        .clamp(1, RUNS_AT_ONCE)
}

/// Waits for a run.
fn ended(run: Option<ScopedJoinHandle<'_, Result<(), MediaError>>>) -> Result<(), MediaError> {
    match run.map(ScopedJoinHandle::join) {
        None => Ok(()),
        Some(Ok(written)) => written,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
    }
}

fn write_run(mut run: SegmentWriter, frames: &Receiver<Arc<RgbPixels>>) -> Result<(), MediaError> {
    for image in frames {
        run.push(&image)?;
    }
    run.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safelight_core::media::VideoOptions;

    use super::*;

    fn moving(index: u32) -> Arc<RgbPixels> {
        let image = RgbPixels::from_fn(64, 48, |x, y| {
            let shade = (x * 3 + y * 5 + index * 7) as u8;
            [shade, 255 - shade, index as u8]
        });
        Arc::new(image.unwrap())
    }

    /// Returns the bytes of the video, and the number of runs that it was joined from.
    fn video(name: &str, count: u32, processors: usize) -> (Vec<u8>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let (parts, out) = (folder.path().join("parts"), folder.path().join(name));
        fs::create_dir(&parts).unwrap();
        let runs = FrameSegments::new(&parts, &out, VideoOptions::default()).unwrap();
        let (sender, frames) = bounded(FRAMES_AHEAD);
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| write(&runs, &frames, processors));
            (0..count).for_each(|index| sender.send(moving(index)).unwrap());
            drop(sender);
            writer.join().unwrap()
        });
        written.unwrap();
        assert_eq!(runs.num_frames(), count);
        let num_runs = fs::read_dir(&parts).unwrap().count();
        let path = runs.join(None, None, None).unwrap().remove(0);
        (fs::read(path).unwrap(), num_runs)
    }

    #[test]
    fn a_video_has_the_same_bytes_however_many_runs_were_encoded_side_by_side() {
        for (name, runs) in [("video.mp4", 5), ("video.gif", 100)] {
            let [alone, beside] = [1, 6].map(|processors| video(name, 100, processors));
            assert_eq!(alone.1, runs, "{name}");
            assert!(alone == beside, "{name}");
        }
    }

    #[test]
    fn a_run_that_cannot_be_written_ends_the_writing_with_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let no_folder = folder.path().join("parts");
        fs::write(&no_folder, b"").unwrap();
        let out = folder.path().join("video.mp4");
        let runs = FrameSegments::new(&no_folder, &out, VideoOptions::default()).unwrap();
        let mut writer = FrameWriter::new(runs);
        let pushed = (0..200).try_for_each(|index| writer.push(moving(index)));
        let err = pushed.and_then(|()| writer.settle()).unwrap_err();
        assert!(err.summary.starts_with("could not write"), "{err:?}");
    }

    #[test]
    fn large_frames_are_encoded_one_run_after_the_other() {
        let small = RgbPixels::from_fn(832, 480, |_, _| [0; 3]).unwrap();
        assert_eq!(runs_at_once(&small, 24, 16), 8);
        assert_eq!(runs_at_once(&small, 24, 2), 2);
        let large = RgbPixels::from_fn(3840, 2160, |_, _| [0; 3]).unwrap();
        assert_eq!(runs_at_once(&large, 24, 16), 1);
        assert_eq!(runs_at_once(&large, 1, 16), 8);
    }
}
