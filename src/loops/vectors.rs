//! Code that is compiled once for each kind of vector unit, and runs with the widest that the machine has. Shares no work
//! among threads: who calls does.

use std::ops::Range;

/// Numbers that the widest vectors hold.
pub(crate) const LANES: usize = 16;

/// Work that is compiled once for each kind of vector unit.
pub(crate) trait VectorWork {
    /// Must be `inline(always)` down to its loops. `FUSED`: whether `a · b + c` is one instruction.
    fn run<const FUSED: bool>(self);
}

/// Work on many items, of which threads take a range each.
pub trait InRanges: Sync {
    /// # Safety
    /// No two calls at the same time may have ranges that overlap.
    #[expect(unsafe_code, reason = "two threads could write to one item")]
    unsafe fn run(&self, range: Range<usize>);
}

/// As [`VectorWork`], on a range of items.
pub(crate) trait RangeWork {
    fn run_range<const FUSED: bool>(&self, range: Range<usize>);
}

struct WorkRange<'a, W>(&'a W, Range<usize>);

impl<W: RangeWork> VectorWork for WorkRange<'_, W> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.0.run_range::<FUSED>(self.1);
    }
}

/// [`vectorized`] for a range of items.
pub(crate) fn vectorized_range(work: &impl RangeWork, range: Range<usize>) {
    vectorized(WorkRange(work, range));
}

/// Runs `work` with the widest vectors of this machine.
#[expect(
    unsafe_code,
    reason = "code for a vector unit may only run where the unit is"
)]
pub(crate) fn vectorized(work: impl VectorWork) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the unit was just found.
            return unsafe { with_avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the unit was just found.
            return unsafe { with_avx2(work) };
        }
    }
    work.run::<false>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
fn with_avx512(work: impl VectorWork) {
    work.run::<true>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(work: impl VectorWork) {
    work.run::<true>();
}

/// `a · b + c`
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    // Without the instruction, `mul_add` would be a slow function call.
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Short rows: a call of the library's copy costs more than the copying.
#[inline(always)]
pub(crate) fn copy(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
