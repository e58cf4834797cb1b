//! Frames of a file, decoded on a thread of their own around the place that is looked at.
//!
//! The window's thread says where it is and takes what is there; it waits for nothing. What is held is [`Window`]'s.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use parking::Parking;
use safelight_core::media::{ClipReader, FrameStarts, MediaError, Picture, thumbnail};

use crate::app::background::guard::guarded;
use crate::app::player::window::{BUDGET_BYTES, Window};

pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The near end: dropped, its thread ends.
#[derive(Debug)]
pub struct FileFrames {
    shared: Arc<Parking<Reading>>,
    starts: Option<FrameStarts>,
}

/// What both ends know.
#[derive(Debug)]
struct Reading {
    window: Window,
    is_closed: bool,
    failure: Option<MediaError>,
    /// No texture can be larger.
    max_side: u32,
}

impl FileFrames {
    /// Begins to read.
    pub fn start(reader: ClipReader, max_side: u32, wake: Wake) -> std::io::Result<Self> {
        let (info, starts) = (reader.info(), reader.starts().cloned());
        let frame_bytes = info.width as usize * info.height as usize * 3;
        let shared = Arc::new(Parking::new(Reading {
            window: Window::new(info.num_frames as usize, frame_bytes, BUDGET_BYTES),
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

    /// A file of so many frames of which the first ones are read, and nothing more comes.
    #[cfg(test)]
    pub(super) fn unread(len: usize, num_read: usize, picture: &Arc<Picture>) -> Self {
        let mut window = Window::new(len, picture.rgb.len(), BUDGET_BYTES);
        for index in 0..num_read {
            drop(window.insert(index, Arc::clone(picture)));
        }
        let reading = Reading {
            window,
            is_closed: false,
            failure: None,
            max_side: 1,
        };
        let shared = Arc::new(Parking::new(reading));
        Self {
            shared,
            starts: None,
        }
    }

    /// How many frames there are, as far as is known.
    pub fn len(&self) -> usize {
        self.shared.with(|reading| reading.window.len())
    }

    /// Starts of the frames; `None` where they have an even rate.
    pub fn starts(&self) -> Option<&FrameStarts> {
        self.starts.as_ref()
    }

    /// This frame is looked at now.
    pub fn look_at(&self, index: usize, is_backward: bool) {
        self.shared
            .change(|reading| reading.window.look_at(index, is_backward));
    }

    /// The frame, or the nearest one that is there.
    pub fn picture(&self, index: usize) -> Option<Arc<Picture>> {
        self.shared
            .with(|reading| reading.window.nearest(index).cloned())
    }

    /// The frame itself, when it is there.
    pub fn exact(&self, index: usize) -> Option<Arc<Picture>> {
        self.shared
            .with(|reading| reading.window.exact(index).cloned())
    }

    /// What went wrong with the file, once.
    pub fn take_failure(&self) -> Option<MediaError> {
        self.shared.with(|reading| reading.failure.take())
    }
}

impl Drop for FileFrames {
    fn drop(&mut self) {
        self.shared.change(|reading| {
            reading.is_closed = true;
            true
        });
    }
}

/// The thread: reads what is missing until the near end is gone or nothing can be read.
fn read(mut reader: ClipReader, shared: &Parking<Reading>, wake: &Wake) {
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
            reader.read(begin as u32, &mut |number, picture| {
                end = number as usize + 1;
                let taken = take(shared, wake, number as usize, picture);
                has_broken_off = taken.is_break();
                taken
            })
        });
        let read = read.unwrap_or_else(|| {
            has_broken_off = false;
            Err(MediaError::Damaged {
                kind: "clip",
                detail: "its reader failed".to_owned(),
                path: reader.path().to_path_buf(),
            })
        });
        if !has_broken_off {
            // It has no more frames than these, whatever its header says.
            let unwanted = shared.with(|reading| {
                let is_shorter = end < reading.window.len() || read.is_err();
                reading.failure = read.err();
                is_shorter.then(|| reading.window.end_at(end))
            });
            wake();
            drop(unwanted);
        }
    }
}

/// Keeps a frame, and waits until another one is wanted.
fn take(
    shared: &Parking<Reading>,
    wake: &Wake,
    number: usize,
    picture: Picture,
) -> ControlFlow<()> {
    let max_side = shared.with(|reading| reading.max_side);
    let picture = if picture.width.max(picture.height) > max_side {
        thumbnail(&picture, max_side, max_side).unwrap_or(picture)
    } else {
        picture
    };
    let picture = Arc::new(picture);
    let (is_awaited, unwanted) = shared.with(|reading| {
        let window = &mut reading.window;
        let had_none = window.nearest(window.at()).is_none();
        let unwanted = window.insert(number, picture);
        (had_none || number == window.at(), unwanted)
    });
    if is_awaited {
        wake();
    }
    // Where nobody waits for the lock.
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
mod parking {
    use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    #[derive(Debug)]
    pub struct Parking<T> {
        value: Mutex<T>,
        changed: Condvar,
    }

    impl<T> Parking<T> {
        pub fn new(value: T) -> Self {
            Self {
                value: Mutex::new(value),
                changed: Condvar::new(),
            }
        }

        /// Looks at the value for a moment.
        pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
            look(&mut self.lock())
        }

        /// Changes the value, and wakes who waits when it says that it did.
        pub fn change(&self, change: impl FnOnce(&mut T) -> bool) {
            if change(&mut self.lock()) {
                self.changed.notify_all();
            }
        }

        /// Waits until the value gives an answer.
        pub fn wait<R>(&self, mut ask: impl FnMut(&mut T) -> Option<R>) -> R {
            let mut value = self.lock();
            loop {
                if let Some(answer) = ask(&mut value) {
                    return answer;
                }
                value = self
                    .changed
                    .wait(value)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }

        /// A panic elsewhere does not make the value wrong: each change is whole.
        fn lock(&self) -> MutexGuard<'_, T> {
            self.value.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use safelight_core::media::{ClipOptions, write_clip};

    use super::*;

    fn start(num_frames: u8) -> (FileFrames, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.webp");
        let frames: Vec<Picture> = (0..num_frames)
            .map(|index| Picture::from_fn(16, 16, |_, _| [index * 4, 90, 90]).unwrap())
            .collect();
        write_clip(&path, &frames, ClipOptions::default()).unwrap();
        let reader = ClipReader::open(&path).unwrap();
        let frames = FileFrames::start(reader, 4096, Arc::new(|| {})).unwrap();
        (frames, folder)
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn the_frame_that_is_looked_at_comes_by_itself() {
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
        let shared = Arc::downgrade(&frames.shared);
        drop(frames);
        until(|| shared.upgrade().is_none());
    }
}
