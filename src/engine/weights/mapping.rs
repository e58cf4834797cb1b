//! A file mapped read-only into memory, and the count of all such bytes that are alive.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;
use tch::{Kind, TchError, Tensor};

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

pub(super) struct Mapping {
    map: Mmap,
}

impl Mapping {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "mapping a file cannot be done safely")]
        // SAFETY: the map is private to this process and read-only. A file that somebody shortens while it is
        // mapped ends the engine process with SIGBUS, which the worker survives; wrong numbers are no memory error.
        let map = unsafe { Mmap::map(file)? };
        LIVE_BYTES.fetch_add(map.len() as u64, Ordering::Relaxed);
        Ok(Self { map })
    }

    /// The caller has checked against the header that the bytes exist.
    pub(super) fn tensor(
        self: &Arc<Self>,
        start: usize,
        shape: &[i64],
        kind: Kind,
    ) -> Result<Tensor, TchError> {
        let count = shape.iter().product::<i64>() as usize;
        let bytes = &self.map[start..start + count * kind.elt_size_in_bytes()];
        Tensor::f_from_data_size(bytes, shape, kind)
    }

    pub(super) fn live_bytes() -> u64 {
        LIVE_BYTES.load(Ordering::Relaxed)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        LIVE_BYTES.fetch_sub(self.map.len() as u64, Ordering::Relaxed);
    }
}
