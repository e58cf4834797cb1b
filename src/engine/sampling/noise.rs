//! Noise: the numbers that `torch.randn(size, generator=torch.Generator("cpu").manual_seed(seed))` gives.
//!
//! Always drawn on the CPU, so that a seed means the same on every device.

use std::ffi::c_void;

use tch::{Device, Kind, TchError, Tensor};

// See `noise.cpp`.
#[expect(unsafe_code, reason = "tch has no generators")]
unsafe extern "C" {
    fn safelight_noise(sizes: *const i64, rank: usize, seed: u64) -> *mut c_void;
}

/// `size` in f32. One draw: in parts, or in another shape, the numbers would be others.
pub fn noise(size: &[i64], seed: u64) -> Result<Tensor, TchError> {
    #[expect(unsafe_code, reason = "tch has no generators")]
    // SAFETY: the pointer and the length are those of a slice, and nothing is kept.
    let drawn = unsafe { safelight_noise(size.as_ptr(), size.len(), seed) };
    if drawn.is_null() {
        // The ways to get here are no memory and a size that makes no sense: this one tells which.
        return Tensor::f_empty(size, (Kind::Float, Device::Cpu));
    }
    #[expect(unsafe_code, reason = "tch takes over a tensor made outside of it")]
    // SAFETY: the pointer is a fresh `at::Tensor *`, which is what tch wraps, and nobody else has it.
    Ok(unsafe { Tensor::from_ptr(drawn.cast()) })
}
