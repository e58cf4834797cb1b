//! Helpers of this crate's tests: distances of tensors with their limits, random numbers, and hooks that
//! record reports.

pub(crate) mod closeness;
pub(crate) mod drawn;
pub(crate) mod hook_recorder;
