//! Random numbers for tests, the same in each run: libtorch's own generator is shared by all tests that run at once. For
//! tests only.

use std::cell::RefCell;

use tch::Tensor;

use crate::sampling::CpuGenerator;

thread_local! {
    /// Of this test: each runs in a thread of its own.
    static GENERATOR: RefCell<CpuGenerator> = RefCell::new(CpuGenerator::new(0));
}

/// Normal numbers in f32 on the CPU, others with each call of a test.
pub(crate) fn drawn(size: &[i64]) -> Tensor {
    GENERATOR.with_borrow_mut(|generator| generator.normal(size).unwrap())
}
