//! The numbers of a tensor as a slice, and code compiled for the vector units that the machine has.
//!
//! Only for contiguous f32 tensors on the CPU: anything else is a bug and panics.

use std::marker::PhantomData;
use std::ops::Range;

use tch::{Device, Kind, Tensor};

use crate::runtime::for_each_range;

fn assert_plain(tensor: &Tensor) {
    assert!(
        tensor.kind() == Kind::Float && tensor.device() == Device::Cpu && tensor.is_contiguous(),
        "expected contiguous f32 numbers on the CPU, got {tensor:?}"
    );
}

/// The numbers of `tensor`, which nobody may write to meanwhile.
#[expect(unsafe_code, reason = "a view of a tensor without a copy")]
pub(super) fn floats(tensor: &Tensor) -> &[f32] {
    assert_plain(tensor);
    if tensor.numel() == 0 {
        return &[];
    }
    // SAFETY: the tensor is f32, contiguous and on the CPU, and stays alive as long as the slice.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel()) }
}

/// A tensor that several threads fill, each its own rows.
pub(super) struct SharedMut<'a> {
    start: *mut f32,
    len: usize,
    tensor: PhantomData<&'a Tensor>,
}

#[expect(unsafe_code, reason = "threads share the tensor but no row of it")]
// SAFETY: who asks for rows promises that no two threads hold the same, see `row`.
unsafe impl Sync for SharedMut<'_> {}

impl<'a> SharedMut<'a> {
    /// Nothing else may read or write the memory of `tensor` meanwhile.
    pub(super) fn new(tensor: &'a Tensor) -> Self {
        assert_plain(tensor);
        Self {
            start: tensor.data_ptr().cast(),
            len: tensor.numel(),
            tensor: PhantomData,
        }
    }

    /// `len` numbers from `start` on.
    ///
    /// # Safety
    /// No two rows that overlap may be alive together, in any thread.
    #[expect(
        unsafe_code,
        clippy::mut_from_ref,
        reason = "threads write to different rows"
    )]
    #[inline(always)]
    pub(super) unsafe fn row(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(
            start <= self.len && len <= self.len - start,
            "a row outside of the tensor"
        );
        // SAFETY: inside of the tensor, and the caller promises that nobody else holds it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// Work that is compiled once for each kind of vector unit.
pub(crate) trait VectorWork {
    /// Must be `inline(always)` down to its loops. `FUSED`: whether `a · b + c` is one instruction.
    fn run<const FUSED: bool>(self);
}

/// The same, of which threads take a range each.
pub(super) trait SharedWork: Sync {
    /// As [`VectorWork::run`].
    fn run<const FUSED: bool>(&self, range: Range<usize>);

    /// All of `0..len`, a thread at most `grain` at a time.
    fn run_all(&self, len: usize, grain: usize) {
        for_each_range(len, grain, &|range| vectorized(Share(self, range)));
    }
}

struct Share<'a, W: ?Sized>(&'a W, Range<usize>);

impl<W: SharedWork + ?Sized> VectorWork for Share<'_, W> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.0.run::<FUSED>(self.1);
    }
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
pub(super) fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    // Without the instruction, `mul_add` would be a slow function call.
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}
