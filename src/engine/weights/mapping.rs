//! A file mapped read-only into memory, and tensors over it.
//!
//! A tensor keeps its mapping alive: the last one gone, whoever held it, the file is unmapped.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::Mmap;
use tch::{Kind, TchError, Tensor};

use crate::runtime;

// See `view.cpp`.
#[expect(
    unsafe_code,
    reason = "tch cannot tell when a tensor over foreign memory is gone"
)]
unsafe extern "C" {
    fn safelight_tensor_over(
        data: *mut c_void,
        sizes: *const i64,
        rank: usize,
        scalar_type: i8,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
    ) -> *mut c_void;
}

pub(in crate::weights) struct FileMapping {
    map: Mmap,
}

impl FileMapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "mapping a file cannot be done safely")]
        // SAFETY: the map is private to this process and read-only. A file that is shortened while mapped ends the
        // engine process with SIGBUS, which the worker survives; wrong values are no memory error.
        let map = unsafe { Mmap::map(file)? };
        runtime::count_mapped(map.len() as u64);
        Ok(Self { map })
    }

    /// A tensor over the bytes from `start` on: without a copy where they are aligned for `kind`.
    /// The caller has checked against the header that the bytes exist.
    pub(super) fn tensor(
        self: &Arc<Self>,
        start: usize,
        shape: &[i64],
        kind: Kind,
    ) -> Result<Tensor, TchError> {
        let width = kind.elt_size_in_bytes();
        let count = shape.iter().product::<i64>() as usize;
        let bytes = &self.map[start..start + count * width];
        let scalar_type = scalar_type_from_kind(kind);
        let (Some(scalar_type), 0) = (scalar_type, bytes.as_ptr() as usize % width) else {
            return Tensor::f_from_data_size(bytes, shape, kind);
        };
        let owner = Arc::into_raw(Arc::clone(self)).cast_mut().cast();
        #[expect(
            unsafe_code,
            reason = "tch cannot tell when a tensor over foreign memory is gone"
        )]
        // SAFETY: `bytes` is inside the map, has `count` elements and is aligned; `owner` keeps the map until
        // `release`, which is called once. Weights are never written to (the pages would refuse).
        let tensor = unsafe {
            safelight_tensor_over(
                bytes.as_ptr().cast_mut().cast(),
                shape.as_ptr(),
                shape.len(),
                scalar_type,
                owner,
                release,
            )
        };
        if tensor.is_null() {
            return Tensor::f_from_data_size(bytes, shape, kind);
        }
        #[expect(unsafe_code, reason = "tch takes over a tensor made outside of it")]
        // SAFETY: the pointer is a fresh `at::Tensor *`, which tch wraps, and has no other owner.
        Ok(unsafe { Tensor::from_ptr(tensor.cast()) })
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        runtime::count_unmapped(self.map.len() as u64);
    }
}

extern "C" fn release(owner: *mut c_void) {
    #[expect(
        unsafe_code,
        reason = "gives back the reference that `Mapping::tensor` lent"
    )]
    // SAFETY: `owner` came from `Arc::into_raw` in `FileMapping::tensor` and comes back once.
    drop(unsafe { Arc::from_raw(owner.cast::<FileMapping>()) });
}

/// Numbers of `c10::ScalarType`; `None` for kinds that files do not hold.
fn scalar_type_from_kind(kind: Kind) -> Option<i8> {
    Some(match kind {
        Kind::Uint8 => 0,
        Kind::Int8 => 1,
        Kind::Int16 => 2,
        Kind::Int => 3,
        Kind::Int64 => 4,
        Kind::Half => 5,
        Kind::Float => 6,
        Kind::Double => 7,
        Kind::BFloat16 => 15,
        Kind::Float8e5m2 => 23,
        Kind::Float8e4m3fn => 24,
        _ => return None,
    })
}
