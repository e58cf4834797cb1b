//! Helpers of this crate's tests: distances of tensors with their limits, and random numbers.

pub(crate) mod closeness;
pub(crate) mod drawn;
