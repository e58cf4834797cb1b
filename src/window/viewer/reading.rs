//! The frames that the viewer shows: in memory, or decoded from a file by a thread around the current position.
//!
//! The window's thread never waits: it gives its position and takes the frames that are there. [`FrameWindow`] decides which
//! are kept.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use safelight_core::job::Video;
use safelight_core::media::{FrameStarts, VideoReader, thumbnail};

use crate::window::background::guarded;
use crate::window::prelude::*;
use crate::window::viewer::window::{BUDGET_BYTES, FrameWindow};

pub type ViewerWake = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone, Debug)]
pub enum ViewerFrames {
    Memory(Arc<Video>),
    File(Arc<FileFrames>),
}

impl ViewerFrames {
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(video) => video.frames.len(),
            Self::File(file) => file.shared.lock().window.len(),
        }
    }

    /// `None` for an even frame rate.
    pub fn starts(&self) -> Option<&FrameStarts> {
        match self {
            Self::Memory(_) => None,
            Self::File(frames) => frames.starts.as_ref(),
        }
    }

    /// The frame, or the nearest one that has been read.
    pub fn image(&self, index: usize) -> Option<Arc<RgbPixels>> {
        match self {
            Self::Memory(video) => video.frames.get(index).cloned(),
            Self::File(file) => file.shared.lock().window.nearest(index).cloned(),
        }
    }

    /// The frame; `None` while it is being read.
    pub fn exact(&self, index: usize) -> Option<Arc<RgbPixels>> {
        match self {
            Self::Memory(video) => video.frames.get(index).cloned(),
            Self::File(file) => file.shared.lock().window.exact(index).cloned(),
        }
    }

    pub fn look_at(&self, index: usize, is_backward: bool) {
        if let Self::File(file) = self
            && file.shared.lock().window.look_at(index, is_backward)
        {
            file.shared.changed.notify_all();
        }
    }

    pub fn take_failure(&self) -> Option<MediaError> {
        match self {
            Self::Memory(_) => None,
            Self::File(file) => file.shared.lock().failure.take(),
        }
    }
}

/// Frames of a file. Its thread ends when it is dropped.
#[derive(Debug)]
pub struct FileFrames {
    shared: Arc<ParkedValue<SharedReading>>,
    starts: Option<FrameStarts>,
}

#[derive(Debug)]
struct SharedReading {
    window: FrameWindow,
    is_closed: bool,
    failure: Option<MediaError>,
    /// Largest edge of a texture, in pixels.
    max_side: u32,
}

impl FileFrames {
    pub fn start(reader: VideoReader, max_side: u32, wake: ViewerWake) -> std::io::Result<Self> {
        let (info, starts) = (reader.info(), reader.starts().cloned());
        let frame_bytes = info.width as usize * info.height as usize * 3;
        let shared = Arc::new(ParkedValue::new(SharedReading {
            window: FrameWindow::new(info.num_frames as usize, frame_bytes, BUDGET_BYTES),
            is_closed: false,
            failure: None,
            max_side: max_side.max(1),
        }));
        let far = Arc::clone(&shared);
        thread::Builder::new()
            .name("play".to_owned())
            .spawn(move || read(reader, &far, &wake))?;
        Ok(Self { shared, starts })
    }
}

impl Drop for FileFrames {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

/// Reads missing frames until the owner is dropped or nothing can be read.
fn read(mut reader: VideoReader, shared: &ParkedValue<SharedReading>, wake: &ViewerWake) {
    loop {
        let begin = shared.wait(|reading| {
            if reading.is_closed || reading.window.len() == 0 {
                return Some(None);
            }
            let missing = reading.window.next_missing()?;
            Some(Some(reading.window.begin_for(missing)))
        });
        let Some(begin) = begin else {
            return;
        };
        let mut end = begin;
        let mut has_broken_off = false;
        let read = guarded(|| {
            reader.read(begin as u32, &mut |number, image| {
                end = number as usize + 1;
                let taken = take(shared, wake, number as usize, image);
                has_broken_off = taken.is_break();
                taken
            })
        });
        let read = read.unwrap_or_else(|| {
            has_broken_off = false;
            Err(MediaError::damaged(
                "video",
                "its reader failed",
                reader.path(),
            ))
        });
        if !has_broken_off {
            // It has no more frames than these, whatever its header says.
            let mut reading = shared.lock();
            let is_shorter = end < reading.window.len() || read.is_err();
            reading.failure = read.err();
            let unwanted = is_shorter.then(|| reading.window.end_at(end));
            drop(reading);
            wake();
            drop(unwanted);
        }
    }
}

/// The image, scaled down where one of its sides is longer.
pub(super) fn within(image: RgbPixels, max_side: u32) -> RgbPixels {
    if image.width.max(image.height) <= max_side {
        return image;
    }
    thumbnail(&image, max_side, max_side).unwrap_or(image)
}

/// Keeps a frame, and waits until another one is wanted.
fn take(
    shared: &ParkedValue<SharedReading>,
    wake: &ViewerWake,
    number: usize,
    image: RgbPixels,
) -> ControlFlow<()> {
    let max_side = shared.lock().max_side;
    let image = Arc::new(within(image, max_side));
    let mut reading = shared.lock();
    let window = &mut reading.window;
    let is_awaited = number == window.at() || window.nearest(window.at()).is_none();
    let unwanted = window.insert(number, image);
    drop(reading);
    if is_awaited {
        wake();
    }
    // After the lock is free.
    drop(unwanted);
    shared.wait(|reading| {
        if reading.is_closed {
            return Some(ControlFlow::Break(()));
        }
        let goes_on = reading.window.goes_on(number + 1)?;
        Some(if goes_on {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })
}

/// A value that one thread changes and another waits for.
#[derive(Debug)]
struct ParkedValue<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> ParkedValue<T> {
    fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    /// A panic elsewhere does not make the value wrong: each change is whole.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<R>(&self, mut ask: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut value = self.lock();
        loop {
            if let Some(answer) = ask(&mut value) {
                return answer;
            }
            let woken = self.changed.wait(value);
            value = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use safelight_core::media::{VideoOptions, write_video};

    use super::*;

    impl FileFrames {
        /// A file of `len` frames of which the first `num_read` are read and no more will be.
        pub(in crate::window::viewer) fn unread(
            len: usize,
            num_read: usize,
            image: &Arc<RgbPixels>,
        ) -> Self {
            let mut window = FrameWindow::new(len, image.rgb.len(), BUDGET_BYTES);
            for index in 0..num_read {
                drop(window.insert(index, Arc::clone(image)));
            }
            let reading = SharedReading {
                window,
                is_closed: false,
                failure: None,
                max_side: 1,
            };
            let shared = Arc::new(ParkedValue::new(reading));
            Self {
                shared,
                starts: None,
            }
        }
    }

    fn start(num_frames: u8) -> (ViewerFrames, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("video.webp");
        let frames: Vec<RgbPixels> = (0..num_frames)
            .map(|index| RgbPixels::from_fn(16, 16, |_, _| [index * 4, 90, 90]).unwrap())
            .collect();
        write_video(&path, &frames, VideoOptions::default()).unwrap();
        let reader = VideoReader::open(&path).unwrap();
        let frames = FileFrames::start(reader, 4096, Arc::new(|| {})).unwrap();
        (ViewerFrames::File(Arc::new(frames)), folder)
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn requested_frame_is_decoded_in_the_background() {
        let (frames, _folder) = start(60);
        for index in [0, 40, 7, 59] {
            frames.look_at(index, false);
            until(|| frames.exact(index).is_some());
            let bright = frames.exact(index).unwrap().rgb[0];
            assert!(bright.abs_diff(index as u8 * 4) < 12, "{index}: {bright}");
        }
        assert_eq!(frames.len(), 60);
    }

    #[test]
    fn the_thread_ends_with_its_near_end() {
        let (frames, _folder) = start(5);
        let ViewerFrames::File(file) = frames else {
            panic!("it is a file");
        };
        let shared = Arc::downgrade(&file.shared);
        drop(file);
        until(|| shared.upgrade().is_none());
    }
}
