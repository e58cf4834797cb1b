//! The numbers of a tensor as a slice, and [loops](safelight_loops) over them on libtorch's threads.
//!
//! Only for contiguous f32 tensors on the CPU: anything else is a bug and panics.

use safelight_loops::{InRanges, SharedRows};
use tch::{Device, Kind, Tensor};

use crate::runtime::for_each_range;

fn assert_plain(tensor: &Tensor) {
    assert!(
        tensor.kind() == Kind::Float && tensor.device() == Device::Cpu && tensor.is_contiguous(),
        "expected contiguous f32 numbers on the CPU, got {tensor:?}"
    );
}

/// Elements of `tensor`, which must not be written meanwhile.
#[expect(unsafe_code, reason = "a view of a tensor without a copy")]
pub(super) fn floats(tensor: &Tensor) -> &[f32] {
    assert_plain(tensor);
    if tensor.numel() == 0 {
        return &[];
    }
    // SAFETY: the tensor is f32, contiguous and on the CPU, and stays alive as long as the slice.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), tensor.numel()) }
}

/// A tensor that several threads fill, each its own rows. Nothing else may read or write its memory meanwhile.
#[expect(unsafe_code, reason = "a view of a tensor without a copy")]
pub(super) fn shared(tensor: &Tensor) -> SharedRows<'_> {
    assert_plain(tensor);
    if tensor.numel() == 0 {
        return SharedRows::new(&mut []);
    }
    // SAFETY: the tensor is f32, contiguous and on the CPU, and stays alive as long as the slice.
    let numbers =
        unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast(), tensor.numel()) };
    SharedRows::new(numbers)
}

/// All of `0..len`, a thread at most `grain` items at a time.
pub(super) fn run_all(work: &impl InRanges, len: usize, grain: usize) {
    #[expect(unsafe_code, reason = "threads write to different items")]
    // SAFETY: each item is in one of the ranges.
    for_each_range(len, grain, &|range| unsafe { work.run(range) });
}
