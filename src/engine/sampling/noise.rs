//! Noise: the numbers that `torch.randn(size, generator=torch.Generator("cpu").manual_seed(seed))` gives.
//!
//! Always drawn on the CPU, so that a seed means the same on every device.

use std::ffi::c_void;
use std::ptr::NonNull;

use tch::{Device, Kind, TchError, Tensor};

// See `noise.cpp`.
#[expect(unsafe_code, reason = "tch has no generators")]
unsafe extern "C" {
    fn safelight_generator(seed: u64) -> *mut c_void;
    fn safelight_generator_normal(
        generator: *mut c_void,
        sizes: *const i64,
        rank: usize,
    ) -> *mut c_void;
    fn safelight_generator_free(generator: *mut c_void);
}

/// `size` in f32. One draw: in parts, or in another shape, the numbers would be others.
pub fn noise(size: &[i64], seed: u64) -> Result<Tensor, TchError> {
    CpuGenerator::new(seed).normal(size)
}

/// A `torch.Generator("cpu")` without other users.
pub struct CpuGenerator {
    /// Absent when there was no memory for it.
    handle: Option<NonNull<c_void>>,
}

impl CpuGenerator {
    pub fn new(seed: u64) -> Self {
        #[expect(unsafe_code, reason = "tch has no generators")]
        // SAFETY: no requirements.
        let handle = unsafe { safelight_generator(seed) };
        Self {
            handle: NonNull::new(handle),
        }
    }

    /// Draws `size` standard normal values in f32.
    pub fn normal(&mut self, size: &[i64]) -> Result<Tensor, TchError> {
        let drawn = self.handle.as_mut().and_then(|handle| {
            #[expect(unsafe_code, reason = "tch has no generators")]
            // SAFETY: the handle comes from `safelight_generator` and is alive; pointer and length come from a slice, and nothing is kept.
            NonNull::new(unsafe {
                safelight_generator_normal(handle.as_ptr(), size.as_ptr(), size.len())
            })
        });
        let Some(drawn) = drawn else {
            // The ways to get here are no memory and a size that makes no sense: this one tells which.
            return Err(Tensor::f_empty(size, (Kind::Float, Device::Cpu))
                .err()
                .unwrap_or_else(|| TchError::Kind(format!("no memory for noise of {size:?}"))));
        };
        #[expect(unsafe_code, reason = "tch takes over a tensor made outside of it")]
        // SAFETY: the pointer is a fresh `at::Tensor *`, which tch wraps, and has no other owner.
        Ok(unsafe { Tensor::from_ptr(drawn.as_ptr().cast()) })
    }
}

impl Drop for CpuGenerator {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            #[expect(unsafe_code, reason = "tch has no generators")]
            // SAFETY: the handle comes from `safelight_generator`, and is freed only here.
            unsafe {
                safelight_generator_free(handle.as_ptr());
            }
        }
    }
}

/// Noise of the steps of a walk: draws of one generator an image, with consecutive seeds. Earlier draws are repeated, so
/// nothing has to be kept between steps.
pub(super) struct NoiseStream {
    seed: u64,
    /// Number of draws before the first call.
    pub(super) draws_before: usize,
    /// Generators, one per image, and their number of draws.
    generators: (Vec<CpuGenerator>, usize),
}

impl NoiseStream {
    pub(super) fn new(seed: u64, draws_before: usize) -> Self {
        Self {
            seed,
            draws_before,
            generators: (Vec::new(), 0),
        }
    }

    /// The draw after those before the first call and `done` others: `size`, whose first axis is that of images.
    pub(super) fn draw(&mut self, done: usize, size: &[i64]) -> Tensor {
        let images = size[0];
        let mut one = size.to_vec();
        one[0] = 1;
        let number = self.draws_before + done;
        let (generators, drawn) = &mut self.generators;
        if generators.is_empty() || *drawn > number {
            let seeds = (0..images as u64).map(|i| self.seed.wrapping_add(i));
            (*generators, *drawn) = (seeds.map(CpuGenerator::new).collect(), 0);
        }
        let mut draw = || {
            let draws = generators.iter_mut().map(|generator| {
                generator
                    .normal(&one)
                    .expect("the latents have a sound size")
            });
            Tensor::cat(&draws.collect::<Vec<_>>(), 0)
        };
        for _ in *drawn..number {
            drop(draw());
        }
        let noise = draw();
        *drawn = number + 1;
        noise
    }
}
