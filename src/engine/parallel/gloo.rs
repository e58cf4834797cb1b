//! Exchanges between ranks on CPUs by Gloo, and the store where all ranks meet.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

use tch::Tensor;

use super::{ParallelError, RankPart};

// See `gloo.cpp`.
#[expect(unsafe_code, reason = "tch has no collectives")]
unsafe extern "C" {
    fn safelight_store(
        host: *const c_char,
        port: *mut u16,
        is_first: bool,
        error: *mut c_char,
        room: usize,
    ) -> *mut c_void;
    fn safelight_store_drop(store: *mut c_void);
    fn safelight_gloo(
        store: *mut c_void,
        host: *const c_char,
        rank: c_int,
        ranks: c_int,
        error: *mut c_char,
        room: usize,
    ) -> *mut c_void;
    fn safelight_gloo_drop(group: *mut c_void);
    fn safelight_gloo_exchange(
        group: *mut c_void,
        peers: *const c_int,
        count: c_int,
        outputs: *const *mut c_void,
        output_bytes: *const i64,
        inputs: *const *mut c_void,
        input_bytes: *const i64,
        error: *mut c_char,
        room: usize,
    ) -> bool;
}

/// Message of a failed call.
struct ErrorText([c_char; 1024]);

impl ErrorText {
    fn empty() -> Self {
        Self([0; 1024])
    }

    fn room(&mut self) -> (*mut c_char, usize) {
        (self.0.as_mut_ptr(), self.0.len())
    }

    fn into_error(self, call: &'static str) -> ParallelError {
        #[expect(unsafe_code, reason = "reads what the shim wrote")]
        // SAFETY: the buffer ends with a zero, as it began with zeros and the shim writes one after its text.
        let text = unsafe { CStr::from_ptr(self.0.as_ptr()) };
        let text = text.to_string_lossy();
        let first_line = text.lines().next().unwrap_or_default().to_owned();
        ParallelError::Call {
            call,
            reason: first_line,
        }
    }
}

/// Store of a group, which the first rank serves.
pub(super) struct RankStore {
    store: NonNull<c_void>,
    pub(super) port: u16,
}

impl RankStore {
    /// `port`: 0 on the first rank, which chooses a free one
    pub(super) fn open(host: &str, mut port: u16, is_first: bool) -> Result<Self, ParallelError> {
        let host = CString::new(host).map_err(|_err| ParallelError::Host)?;
        let mut error = ErrorText::empty();
        let (text, room) = error.room();
        #[expect(unsafe_code, reason = "calls the shim")]
        // SAFETY: the shim reads the host, fills port and text, and never throws.
        let store = unsafe { safelight_store(host.as_ptr(), &raw mut port, is_first, text, room) };
        let store = NonNull::new(store).ok_or_else(|| error.into_error("the ranks' store"))?;
        Ok(Self { store, port })
    }
}

impl Drop for RankStore {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "calls the shim")]
        // SAFETY: the shim made the pointer, and nothing else uses it.
        unsafe {
            safelight_store_drop(self.store.as_ptr());
        }
    }
}

pub(super) struct GlooGroup {
    group: NonNull<c_void>,
    /// Serves the ranks on the first one as long as the group lives.
    _store: RankStore,
}

impl GlooGroup {
    /// Returns when all ranks have come. `own`: address of this rank
    pub(super) fn join(
        store: RankStore,
        own: &str,
        rank: usize,
        ranks: usize,
    ) -> Result<Self, ParallelError> {
        let host = CString::new(own).map_err(|_err| ParallelError::Host)?;
        let mut error = ErrorText::empty();
        let (text, room) = error.room();
        let [rank, ranks] = [rank, ranks].map(|it| it as c_int);
        let host = host.as_ptr();
        #[expect(unsafe_code, reason = "calls the shim")]
        // SAFETY: store and host are alive, the shim fills the text and never throws.
        let group = unsafe { safelight_gloo(store.store.as_ptr(), host, rank, ranks, text, room) };
        let group = NonNull::new(group).ok_or_else(|| error.into_error("Gloo"))?;
        Ok(Self {
            group,
            _store: store,
        })
    }

    /// `parts`: for each other rank what it gets and what it sends, contiguous tensors on the CPU
    pub(super) fn exchange(&self, parts: &[RankPart<'_>]) -> Result<(), ParallelError> {
        let bytes = |xs: &Tensor| (xs.numel() * xs.kind().elt_size_in_bytes()) as i64;
        let peers: Vec<c_int> = parts.iter().map(|part| part.rank as c_int).collect();
        let [inputs, outputs] = [
            |part: &RankPart<'_>| part.send.data_ptr(),
            |part: &RankPart<'_>| part.receive.data_ptr(),
        ]
        .map(|pointer| parts.iter().map(pointer).collect::<Vec<_>>());
        let sent: Vec<i64> = parts.iter().map(|part| bytes(part.send)).collect();
        let received: Vec<i64> = parts.iter().map(|part| bytes(part.receive)).collect();
        let mut error = ErrorText::empty();
        let (text, room) = error.room();
        #[expect(unsafe_code, reason = "calls the shim")]
        // SAFETY: the tensors are contiguous, on the CPU, as long as the numbers say, and alive until the call returns,
        // which is when the exchange has ended; the shim never throws.
        let is_done = unsafe {
            safelight_gloo_exchange(
                self.group.as_ptr(),
                peers.as_ptr(),
                peers.len() as c_int,
                outputs.as_ptr(),
                received.as_ptr(),
                inputs.as_ptr(),
                sent.as_ptr(),
                text,
                room,
            )
        };
        if is_done {
            Ok(())
        } else {
            Err(error.into_error("Gloo"))
        }
    }
}

impl Drop for GlooGroup {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "calls the shim")]
        // SAFETY: the shim made the pointer, and nothing else uses it.
        unsafe {
            safelight_gloo_drop(self.group.as_ptr());
        }
    }
}
