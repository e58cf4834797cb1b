//! The driver's memory pools, which asynchronous allocators use: configured to keep nothing.
//!
//! libtorch's usual allocator does not use them, and then there is nothing to release. The functions are looked up in
//! the loaded libraries; without them nothing happens.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use libloading::os::unix::Library;

type GetPool = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type TrimTo = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

const NAMES: [[&CStr; 2]; 2] = [
    [c"cudaDeviceGetDefaultMemPool", c"cudaMemPoolTrimTo"],
    [c"hipDeviceGetDefaultMemPool", c"hipMemPoolTrimTo"],
];

/// Gives what the pool of a device keeps unused back. `false` where there is no such thing.
pub(super) fn trim(index: usize) -> bool {
    let Ok(index) = c_int::try_from(index) else {
        return false;
    };
    let program = Library::this();
    NAMES.iter().any(|names| trim_as(&program, names, index))
}

#[expect(
    unsafe_code,
    reason = "calls into the runtime libraries, whose functions have no other binding"
)]
fn trim_as(program: &Library, [get_pool, trim_to]: &[&CStr; 2], index: c_int) -> bool {
    // SAFETY: the signatures are those of the vendors' stable C interfaces; the first function fills a handle, which
    // the second one takes.
    unsafe {
        let get_pool = program.get::<GetPool>(get_pool.to_bytes_with_nul());
        let trim_to = program.get::<TrimTo>(trim_to.to_bytes_with_nul());
        let (Ok(get_pool), Ok(trim_to)) = (get_pool, trim_to) else {
            return false;
        };
        let mut pool = ptr::null_mut();
        get_pool(&raw mut pool, index) == 0 && !pool.is_null() && trim_to(pool, 0) == 0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn without_a_gpu_there_is_no_pool_and_no_harm() {
        // Even where the libraries are there, no machine has so many devices.
        assert!(!super::trim(1000));
    }
}
