//! Runs a closure on libtorch's own threads, all at once.
//!
//! Threads of our own would fight for the cores with libtorch's, which spin for a while after every operation.
//! libtorch has no door for this, but its OpenMP runtime has. Without one, the calling thread does all the work.

use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `GOMP_parallel(function, data, num_threads, flags)`: part of the fixed interface between gcc and OpenMP runtimes.
type ParallelFn = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

struct TeamJob<'a> {
    work: &'a (dyn Fn(Range<usize>) + Sync),
    len: usize,
    grain: usize,
    next: AtomicUsize,
    panicked: AtomicBool,
}

impl TeamJob<'_> {
    /// Takes one range after the other until none is left.
    fn run(&self) {
        loop {
            let start = self.next.fetch_add(self.grain, Ordering::Relaxed);
            if start >= self.len {
                return;
            }
            (self.work)(start..self.len.min(start + self.grain));
        }
    }
}

/// Calls `work` with ranges of at most `grain` that together cover `0..len`, on several threads.
pub(crate) fn for_each_range(len: usize, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    let job = TeamJob {
        work,
        len,
        grain: grain.max(1),
        next: AtomicUsize::new(0),
        panicked: AtomicBool::new(false),
    };
    let threads = tch::get_num_threads().max(1) as usize;
    let threads = threads.min(len.div_ceil(job.grain));
    match parallel() {
        Some(parallel) if threads > 1 => run_on_team(parallel, &job, threads),
        _ => job.run(),
    }
}

#[expect(unsafe_code, reason = "calls the OpenMP runtime that libtorch brings")]
fn run_on_team(parallel: ParallelFn, job: &TeamJob<'_>, threads: usize) {
    let data = std::ptr::from_ref(job).cast_mut().cast();
    // SAFETY: `member` reads `data` as the shared `TeamJob` that it is, and the call returns only after every member did.
    unsafe { parallel(member, data, threads as c_uint, 0) };
    assert!(
        !job.panicked.load(Ordering::Relaxed),
        "a thread of the team panicked"
    );
}

#[expect(unsafe_code, reason = "gets its argument from the OpenMP runtime")]
extern "C" fn member(data: *mut c_void) {
    // SAFETY: `run_on_team` passes a `TeamJob` that outlives the team; all members only share it.
    let job = unsafe { &*data.cast::<TeamJob<'_>>() };
    // A panic must not cross the C frames of the runtime.
    if panic::catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
        job.panicked.store(true, Ordering::Relaxed);
    }
}

#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "looks for the OpenMP runtime that libtorch brings"
)]
fn parallel() -> Option<ParallelFn> {
    static FOUND: OnceLock<Option<ParallelFn>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let program = libloading::os::unix::Library::this();
        // SAFETY: every runtime that has this symbol gives it this signature.
        let symbol = unsafe { program.get::<ParallelFn>(b"GOMP_parallel\0") };
        symbol.ok().map(|symbol| *symbol)
    })
}

#[cfg(not(unix))]
fn parallel() -> Option<ParallelFn> {
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::for_each_range;

    #[test]
    fn every_item_is_visited_exactly_once() {
        for (len, grain) in [(0, 4), (1, 4), (1000, 7), (64, 64), (65, 0)] {
            let visits: Vec<AtomicU32> = (0..len).map(|_| AtomicU32::new(0)).collect();
            for_each_range(len, grain, &|range| {
                for i in range {
                    visits[i].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(visits.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_of_a_member_reaches_the_caller() {
        let result = std::panic::catch_unwind(|| {
            for_each_range(100, 1, &|range| assert_ne!(range.start, 50));
        });
        assert!(result.is_err());
    }
}
