//! A slice in parts that threads may hold at the same time. Starts no threads, and trusts who calls that rows differ.

use std::marker::PhantomData;

/// Numbers that several threads write, each to its own rows.
pub struct SharedRows<'a> {
    start: *mut f32,
    len: usize,
    numbers: PhantomData<&'a mut [f32]>,
}

#[expect(unsafe_code, reason = "threads share the numbers but no row of them")]
// SAFETY: who asks for rows promises that no two threads hold the same, see `row`.
unsafe impl Sync for SharedRows<'_> {}

impl<'a> SharedRows<'a> {
    pub fn new(numbers: &'a mut [f32]) -> Self {
        Self {
            start: numbers.as_mut_ptr(),
            len: numbers.len(),
            numbers: PhantomData,
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
    pub(crate) unsafe fn row(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(
            start <= self.len && len <= self.len - start,
            "a row outside of the numbers"
        );
        // SAFETY: inside of the elements, and the caller promises exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
