//! Cost of reading a file: peak memory and processor time.
//!
//! The allocator counts per thread, so tests that run in parallel do not see each other's memory. Memory of C libraries
//! is not counted; the fuzzer limits the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Peak memory allowed for one call, beside the pixels that the file declares.
pub const MAX_BYTES: usize = 200 << 20;
/// Processor time allowed for one call; builds without optimisation take several times as long.
pub const MAX_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 3 } else { 1 });

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn took(bytes: usize) {
    // The cell is gone while a thread ends.
    let live = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add(bytes));
        live.get()
    });
    PEAK.try_with(|peak| peak.set(peak.get().max(live.unwrap_or(0))))
        .ok();
}

/// Saturates, because memory of another thread may be freed here.
fn gave(bytes: usize) {
    LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes)))
        .ok();
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        gave(layout.size());
        took(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub bytes: usize,
    pub time: Duration,
}

pub fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = LIVE.get();
    PEAK.set(before);
    let start = time();
    let done = work();
    let cost = Cost {
        bytes: PEAK.get().saturating_sub(before),
        time: time().saturating_sub(start),
    };
    (done, cost)
}

impl Cost {
    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            time: self.time.max(other.time),
        }
    }

    /// Error where the cost exceeds the limits for a file that declares this many pixels.
    pub fn objection(self, pixels: u64) -> Option<String> {
        // RGB, a second copy while rotating, and wider pixels inside decoders.
        let bytes = MAX_BYTES.saturating_add(usize::try_from(pixels * 12).unwrap_or(usize::MAX));
        let time = MAX_TIME + Duration::from_nanos(pixels * 1000);
        if self.bytes > bytes {
            let [found, most] = [self.bytes, bytes].map(|bytes| bytes >> 20);
            return Some(format!("it took {found} MiB of memory instead of {most}"));
        }
        let (found, most) = (self.time, time);
        (found > most)
            .then(|| format!("it took {found:.1?} of the processor instead of {most:.1?}"))
    }
}

fn time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
