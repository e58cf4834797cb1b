//! Exchanges between GPUs by NCCL, or RCCL on AMD, which has the same functions: in the library that libtorch's GPU half
//! brings, on the stream that libtorch computes on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::Library;
use tch::{Device, Tensor};

use super::{ParallelError, RankPart};
use crate::kernels::{StreamMark, fork_stream, use_gpu};
use crate::runtime::libtorch_folder;

/// NVIDIA's, and AMD's.
const LIBRARIES: [&str; 2] = ["libnccl.so.2", "librccl.so.1"];
/// `ncclUint8`
const BYTES: c_int = 1;

/// Name of a group, the same on all ranks: `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct NcclId([u8; Self::LENGTH]);

impl NcclId {
    const LENGTH: usize = 128;

    pub(super) fn new() -> Result<Self, ParallelError> {
        let mut id = Self([0; Self::LENGTH]);
        #[expect(unsafe_code, reason = "calls NCCL")]
        // SAFETY: the function fills one id.
        let code = unsafe { (NcclFunctions::open()?.unique_id)(&raw mut id) };
        succeeded("ncclGetUniqueId", code)?;
        Ok(id)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, ParallelError> {
        let id = bytes.try_into().map_err(|_err| ParallelError::Host)?;
        Ok(Self(id))
    }
}

/// `ncclComm_t`
type Communicator = *mut c_void;

struct NcclFunctions {
    unique_id: unsafe extern "C" fn(*mut NcclId) -> c_int,
    init: unsafe extern "C" fn(*mut Communicator, c_int, NcclId, c_int) -> c_int,
    abort: unsafe extern "C" fn(Communicator) -> c_int,
    start: unsafe extern "C" fn() -> c_int,
    end: unsafe extern "C" fn() -> c_int,
    send: unsafe extern "C" fn(
        *const c_void,
        usize,
        c_int,
        c_int,
        Communicator,
        *mut c_void,
    ) -> c_int,
    receive:
        unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    _library: Library,
}

impl NcclFunctions {
    fn open() -> Result<&'static Self, ParallelError> {
        static FUNCTIONS: std::sync::OnceLock<Option<NcclFunctions>> = std::sync::OnceLock::new();
        let functions = FUNCTIONS.get_or_init(|| LIBRARIES.into_iter().find_map(Self::of));
        functions.as_ref().ok_or(ParallelError::NoLibrary)
    }

    #[expect(unsafe_code, reason = "opens a library of libtorch")]
    fn of(name: &str) -> Option<Self> {
        let beside = libtorch_folder().map(|folder| folder.join(name).into_os_string());
        let names = [Some(name.into()), beside].into_iter().flatten();
        // SAFETY: opening the library that libtorch itself was loaded with runs no code that has not run before.
        let library = { names }.find_map(|name| unsafe { Library::new(name) }.ok())?;
        // SAFETY: the types are those of `nccl.h`, which RCCL's `rccl.h` shares.
        unsafe {
            Some(Self {
                unique_id: *library.get(b"ncclGetUniqueId\0").ok()?,
                init: *library.get(b"ncclCommInitRank\0").ok()?,
                abort: *library.get(b"ncclCommAbort\0").ok()?,
                start: *library.get(b"ncclGroupStart\0").ok()?,
                end: *library.get(b"ncclGroupEnd\0").ok()?,
                send: *library.get(b"ncclSend\0").ok()?,
                receive: *library.get(b"ncclRecv\0").ok()?,
                error: *library.get(b"ncclGetErrorString\0").ok()?,
                _library: library,
            })
        }
    }
}

fn succeeded(call: &'static str, code: c_int) -> Result<(), ParallelError> {
    if code == 0 {
        return Ok(());
    }
    let functions = NcclFunctions::open()?;
    #[expect(unsafe_code, reason = "calls NCCL")]
    // SAFETY: the function returns a constant text for any number.
    let text = unsafe { CStr::from_ptr((functions.error)(code)) };
    let reason = text.to_string_lossy().into_owned();
    Err(ParallelError::Call { call, reason })
}

pub(super) struct NcclGroup {
    communicator: NcclHandle,
    functions: &'static NcclFunctions,
    device: Device,
}

/// Ends the exchanges of a group from any thread: kernels that wait for a lost rank return.
#[derive(Clone)]
pub(super) struct NcclHandle(Arc<AtomicPtr<c_void>>);

impl NcclHandle {
    pub(super) fn abort(&self) {
        let communicator = self.0.swap(ptr::null_mut(), Ordering::SeqCst);
        if communicator.is_null() {
            return;
        }
        if let Ok(functions) = NcclFunctions::open() {
            #[expect(unsafe_code, reason = "calls NCCL")]
            // SAFETY: the swap leaves null, so it is aborted once. A call in progress returns an error, as NCCL documents.
            unsafe {
                (functions.abort)(communicator);
            }
        }
    }
}

impl NcclGroup {
    /// Returns when all ranks have come. `device`: of this rank
    pub(super) fn join(
        id: NcclId,
        rank: usize,
        ranks: usize,
        device: Device,
    ) -> Result<Self, ParallelError> {
        let functions = NcclFunctions::open()?;
        if !use_gpu(device) {
            return Err(ParallelError::NoLibrary);
        }
        let mut communicator = ptr::null_mut();
        let [own, all] = [rank, ranks].map(|it| it as c_int);
        #[expect(unsafe_code, reason = "calls NCCL")]
        // SAFETY: the function fills one pointer.
        let code = unsafe { (functions.init)(&raw mut communicator, all, id, own) };
        succeeded("ncclCommInitRank", code)?;
        Ok(Self {
            communicator: NcclHandle(Arc::new(AtomicPtr::new(communicator))),
            functions,
            device,
        })
    }

    pub(super) fn handle(&self) -> NcclHandle {
        self.communicator.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.communicator.0.load(Ordering::SeqCst).is_null()
    }

    /// Starts after the work that libtorch's stream has now, next to what follows there. `parts`: for each other rank what it gets and what it sends, contiguous tensors on the
    /// device, kept until libtorch's stream waits for the mark
    pub(super) fn start(&self, parts: &[RankPart<'_>]) -> Result<StreamMark, ParallelError> {
        let communicator = self.communicator.0.load(Ordering::SeqCst);
        if communicator.is_null() {
            return Err(ParallelError::Lost);
        }
        let stream = fork_stream(self.device).ok_or(ParallelError::NoLibrary)?;
        let bytes = |xs: &Tensor| xs.numel() * xs.kind().elt_size_in_bytes();
        let functions = self.functions;
        #[expect(unsafe_code, reason = "calls NCCL")]
        // SAFETY: the tensors are contiguous, on the communicator's device, and kept until libtorch's stream has waited for
        // this one.
        unsafe {
            succeeded("ncclGroupStart", (functions.start)())?;
            for RankPart {
                rank,
                send,
                receive,
            } in parts
            {
                let rank = *rank as c_int;
                if send.numel() > 0 {
                    let (data, len) = (send.data_ptr().cast_const(), bytes(send));
                    let code = (functions.send)(data, len, BYTES, rank, communicator, stream);
                    succeeded("ncclSend", code)?;
                }
                if receive.numel() > 0 {
                    let (data, len) = (receive.data_ptr(), bytes(receive));
                    let code = (functions.receive)(data, len, BYTES, rank, communicator, stream);
                    succeeded("ncclRecv", code)?;
                }
            }
            succeeded("ncclGroupEnd", (functions.end)())?;
        }
        StreamMark::new(self.device).ok_or(ParallelError::Lost)
    }
}

impl Drop for NcclGroup {
    fn drop(&mut self) {
        self.communicator.abort();
    }
}
