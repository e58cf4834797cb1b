//! Asynchronous copies to a GPU with the CUDA or HIP driver, on a separate stream for each thread.
//!
//! libtorch's copies of pinned memory wait on the one compute stream. Handles no files and no tensors. If the driver
//! lacks a function there are none, and the caller works without.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::OnceLock;

use libloading::os::unix::Library;

use super::KernelError;
use super::compiler::succeeded;
use super::driver::{DriverHandle, current_stream, device_index};
use super::vendor::{
    CUDA, ContextFn, FunctionFinder, GetForInt, GetInt, HIP, PushContext, RetainContext, SetInt,
    libraries,
};
use crate::runtime::libtorch_folder;

type Result<T> = std::result::Result<T, KernelError>;

type AllocateFn = unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
type CopyFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int;
type CreateFn = unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_int;
type OfOne = unsafe extern "C" fn(*mut c_void) -> c_int;
type OfTwo = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type WaitFor = unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint) -> c_int;

/// Devices that are looked at; loading to the others uses libtorch's copies.
const MAX_DEVICES: usize = 16;
/// Both vendors' flag for host memory that every device can fetch from.
const PORTABLE: c_uint = 1;
/// Both vendors' flag for a stream that does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// Both vendors' flag for an event without a time.
const UNTIMED: c_uint = 2;

/// Names of one vendor's functions, whose signatures are equal.
struct CopyNames {
    allocate: &'static CStr,
    free: &'static CStr,
    copy: &'static CStr,
    create_stream: &'static CStr,
    create_event: &'static CStr,
    record: &'static CStr,
    destroy_event: &'static CStr,
    wait: &'static CStr,
    wait_on_stream: &'static CStr,
}

const CUDA_COPIES: CopyNames = CopyNames {
    allocate: c"cuMemHostAlloc",
    free: c"cuMemFreeHost",
    copy: c"cuMemcpyHtoDAsync_v2",
    create_stream: c"cuStreamCreate",
    create_event: c"cuEventCreate",
    record: c"cuEventRecord",
    destroy_event: c"cuEventDestroy_v2",
    wait: c"cuEventSynchronize",
    wait_on_stream: c"cuStreamWaitEvent",
};

const HIP_COPIES: CopyNames = CopyNames {
    allocate: c"hipHostMalloc",
    free: c"hipHostFree",
    copy: c"hipMemcpyHtoDAsync",
    create_stream: c"hipStreamCreateWithFlags",
    create_event: c"hipEventCreateWithFlags",
    record: c"hipEventRecord",
    destroy_event: c"hipEventDestroy",
    wait: c"hipEventSynchronize",
    wait_on_stream: c"hipStreamWaitEvent",
};

enum CurrentContext {
    Cuda {
        context: DriverHandle,
        push: PushContext,
        pop: ContextFn,
    },
    Hip {
        get: GetInt,
        set: SetInt,
    },
}

/// The driver's functions for one device.
pub(crate) struct CopyDriver {
    index: c_int,
    current: CurrentContext,
    allocate: AllocateFn,
    free: OfOne,
    copy: CopyFn,
    create_stream: CreateFn,
    create_event: CreateFn,
    record: OfTwo,
    destroy_event: OfOne,
    wait: OfOne,
    wait_on_stream: WaitFor,
    /// They stay for the life of the process.
    _libraries: Vec<Library>,
}

/// Work queued by libtorch at one moment.
pub(crate) struct CopyMark {
    copies: &'static CopyDriver,
    event: DriverHandle,
}

/// A stream of copies and the pinned buffers that they are from: one thread's own.
pub(crate) struct PinnedCopyStream {
    copies: &'static CopyDriver,
    stream: DriverHandle,
    slots: Vec<CopySlot>,
    len: usize,
}

struct CopySlot {
    buffer: DriverHandle,
    copied: DriverHandle,
}

impl CopyDriver {
    /// Those of `cuda:index`; looks for the functions on first use. `None` where there are none.
    pub(crate) fn for_device(index: usize) -> Option<&'static Self> {
        static SLOTS: [OnceLock<Result<CopyDriver>>; MAX_DEVICES] =
            [const { OnceLock::new() }; MAX_DEVICES];
        let found = SLOTS.get(index)?.get_or_init(|| {
            let opened = Self::open(index);
            if let Err(err) = &opened {
                tracing::warn!("weights take the slower way to cuda:{index}: {err}");
            }
            opened
        });
        found.as_ref().ok()
    }

    fn open(index: usize) -> Result<Self> {
        let folder = libtorch_folder().ok_or(KernelError::NoGpuHalf)?;
        let index = device_index(index)?;
        let has = |gpu_half: &str| folder.join(gpu_half).exists();
        if has(CUDA.gpu_half) {
            Self::open_cuda(&folder, index)
        } else if has(HIP.gpu_half) {
            let libraries = libraries(&folder, &HIP);
            let find = FunctionFinder(&libraries);
            let current = CurrentContext::Hip {
                get: find.function(c"hipGetDevice")?,
                set: find.function(c"hipSetDevice")?,
            };
            Self::with(index, current, &HIP_COPIES, libraries)
        } else {
            Err(KernelError::NoGpuHalf)
        }
    }

    fn open_cuda(folder: &Path, index: c_int) -> Result<Self> {
        let libraries = libraries(folder, &CUDA);
        let find = FunctionFinder(&libraries);
        let get: GetForInt = find.function(c"cuDeviceGet")?;
        let retain: RetainContext = find.function(c"cuDevicePrimaryCtxRetain")?;
        let mut device = 0;
        let mut context = ptr::null_mut();
        #[expect(unsafe_code, reason = "calls into the driver")]
        // SAFETY: the functions fill a number and a handle; the context is never released.
        unsafe {
            succeeded("cuDeviceGet", get(&raw mut device, index))?;
            let code = retain(&raw mut context, device);
            succeeded("cuDevicePrimaryCtxRetain", code)?;
        }
        let current = CurrentContext::Cuda {
            context: DriverHandle(context),
            push: find.function(c"cuCtxPushCurrent_v2")?,
            pop: find.function(c"cuCtxPopCurrent_v2")?,
        };
        Self::with(index, current, &CUDA_COPIES, libraries)
    }

    fn with(
        index: c_int,
        current: CurrentContext,
        names: &CopyNames,
        libraries: Vec<Library>,
    ) -> Result<Self> {
        let find = FunctionFinder(&libraries);
        Ok(Self {
            index,
            current,
            allocate: find.function(names.allocate)?,
            free: find.function(names.free)?,
            copy: find.function(names.copy)?,
            create_stream: find.function(names.create_stream)?,
            create_event: find.function(names.create_event)?,
            record: find.function(names.record)?,
            destroy_event: find.function(names.destroy_event)?,
            wait: find.function(names.wait)?,
            wait_on_stream: find.function(names.wait_on_stream)?,
            _libraries: libraries,
        })
    }

    /// All work that libtorch has queued so far on this thread's stream: it may still use memory that was reallocated
    /// since.
    pub(crate) fn mark(&'static self) -> Result<CopyMark> {
        let stream = current_stream(self.index)?;
        self.on_device(|| {
            let mark = CopyMark {
                copies: self,
                event: self.event()?,
            };
            #[expect(unsafe_code, reason = "calls into the driver")]
            // SAFETY: both handles belong to the driver and to this device.
            let code = unsafe { (self.record)(mark.event.0, stream.0) };
            succeeded("recording an event", code)?;
            Ok(mark)
        })?
    }

    /// A lane for the thread that calls this, whose device is this one from now on.
    pub(crate) fn lane(&'static self, num_slots: usize, len: usize) -> Result<PinnedCopyStream> {
        self.enter()?;
        let mut stream = ptr::null_mut();
        #[expect(unsafe_code, reason = "calls into the driver")]
        // SAFETY: the function fills a handle.
        let code = unsafe { (self.create_stream)(&raw mut stream, NON_BLOCKING) };
        succeeded("creating a stream", code)?;
        let mut lane = PinnedCopyStream {
            copies: self,
            stream: DriverHandle(stream),
            slots: Vec::new(),
            len,
        };
        for _ in 0..num_slots {
            let copied = self.event()?;
            let mut buffer = ptr::null_mut();
            #[expect(unsafe_code, reason = "calls into the driver")]
            // SAFETY: the function fills a pointer; `PinnedCopyStream` gives the memory back.
            let code = unsafe { (self.allocate)(&raw mut buffer, len, PORTABLE) };
            succeeded("pinning memory", code)?;
            #[expect(unsafe_code, reason = "the driver's memory holds anything at first")]
            // SAFETY: the buffer has `len` bytes and no other owner.
            unsafe {
                ptr::write_bytes(buffer.cast::<u8>(), 0, len);
            }
            lane.slots.push(CopySlot {
                buffer: DriverHandle(buffer),
                copied,
            });
        }
        Ok(lane)
    }

    /// Must be called with the device current.
    fn event(&self) -> Result<DriverHandle> {
        let mut event = ptr::null_mut();
        #[expect(unsafe_code, reason = "calls into the driver")]
        // SAFETY: the function fills a handle.
        let code = unsafe { (self.create_event)(&raw mut event, UNTIMED) };
        succeeded("creating an event", code)?;
        Ok(DriverHandle(event))
    }

    fn enter(&self) -> Result<()> {
        #[expect(unsafe_code, reason = "calls into the driver")]
        match &self.current {
            CurrentContext::Cuda { context, push, .. } => {
                // SAFETY: the handle is never released.
                succeeded("cuCtxPushCurrent", unsafe { push(context.0) })
            }
            CurrentContext::Hip { set, .. } => {
                // SAFETY: it takes a number.
                succeeded("hipSetDevice", unsafe { set(self.index) })
            }
        }
    }

    /// Calls with this device current on this thread, and leaves things as they were.
    fn on_device<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        let mut before = 0;
        if let CurrentContext::Hip { get, .. } = &self.current {
            #[expect(unsafe_code, reason = "calls into the driver")]
            // SAFETY: the function fills a number.
            succeeded("hipGetDevice", unsafe { get(&raw mut before) })?;
        }
        self.enter()?;
        let result = call();
        #[expect(unsafe_code, reason = "calls into the driver")]
        match &self.current {
            CurrentContext::Cuda { pop, .. } => {
                let mut context = ptr::null_mut();
                // SAFETY: what was entered is left again; the function fills a handle.
                succeeded("cuCtxPopCurrent", unsafe { pop(&raw mut context) })?;
            }
            CurrentContext::Hip { set, .. } => {
                // SAFETY: it takes a number.
                succeeded("hipSetDevice", unsafe { set(before) })?;
            }
        }
        Ok(result)
    }
}

impl PinnedCopyStream {
    /// The buffer of a slot, none of whose copies is under way.
    pub(crate) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        let buffer = self.slots[slot].buffer.0.cast();
        #[expect(unsafe_code, reason = "pinned memory is the driver's")]
        // SAFETY: the buffer has `len` initialised bytes and lives as long as `self`, which is borrowed mutably.
        unsafe {
            slice::from_raw_parts_mut(buffer, self.len)
        }
    }

    /// Starts copying the first `len` bytes of a slot's buffer, after the work queued at `mark`.
    #[expect(unsafe_code, reason = "a copy writes where its target points to")]
    /// # Safety
    /// `target` points to `len` bytes on this device that nothing else uses, and which, like the buffer, stay unchanged
    /// until
    /// [`Self::wait`] for this slot has returned.
    pub(crate) unsafe fn start(
        &mut self,
        slot: usize,
        target: *mut c_void,
        len: usize,
        mark: &CopyMark,
    ) -> Result<()> {
        assert!(len <= self.len, "a buffer has no more bytes than it has");
        let (copies, stream, slot) = (self.copies, self.stream.0, &self.slots[slot]);
        // SAFETY: all handles belong to the driver and to this device; the rest is as the caller promises.
        unsafe {
            let code = (copies.wait_on_stream)(stream, mark.event.0, 0);
            succeeded("waiting for an event", code)?;
            let code = (copies.copy)(target, slot.buffer.0, len, stream);
            succeeded("copying to the device", code)?;
            succeeded("recording an event", (copies.record)(slot.copied.0, stream))
        }
    }

    /// Until the last copy of a slot has ended.
    pub(crate) fn wait(&mut self, slot: usize) -> Result<()> {
        #[expect(unsafe_code, reason = "calls into the driver")]
        // SAFETY: the handle belongs to the driver.
        let code = unsafe { (self.copies.wait)(self.slots[slot].copied.0) };
        succeeded("copying to the device", code)
    }
}

impl Drop for CopyMark {
    fn drop(&mut self) {
        let destroy = || {
            #[expect(unsafe_code, reason = "gives an event back")]
            // SAFETY: the event belongs to the driver and is destroyed once; a pending wait for it continues.
            unsafe {
                (self.copies.destroy_event)(self.event.0)
            }
        };
        // An event that stays costs next to nothing.
        self.copies.on_device(destroy).ok();
    }
}

impl Drop for PinnedCopyStream {
    fn drop(&mut self) {
        for slot in &self.slots {
            #[expect(unsafe_code, reason = "gives pinned memory back")]
            // SAFETY: the memory was allocated by the same driver, and is freed once, after its last copy.
            unsafe {
                (self.copies.wait)(slot.copied.0);
                (self.copies.free)(slot.buffer.0);
            }
        }
    }
}
