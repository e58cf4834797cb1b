//! Kernels of one device and dtype: compiled or read from the cache, checked once, then used for the life of the
//! process.
//!
//! On any failure one line is logged and the kernels stay unused.

use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tch::{Device, Kind, TchError, Tensor};

use super::binary_cache::StoredBinary;
use super::driver::{DriverHandle, KernelDriver, KernelModule, LaunchGrid};
use super::{KernelError, check};
use crate::error::EngineError;

/// Source passed to the compiler.
pub(super) const SOURCE: &str = concat!(
    include_str!("rows.cu"),
    include_str!("pixels.cu"),
    include_str!("expand.cu")
);

/// Checks that ended the engine this many times are not begun again.
const MAX_TRIES: u32 = 2;

/// Devices that are looked at; a machine with more uses libtorch's operations on the others.
const MAX_DEVICES: usize = 16;

/// Numbers of 16-byte pieces that a thread may hold: each row kernel exists for each of these.
pub(super) const HELD: [usize; 6] = [1, 2, 3, 4, 5, 8];

/// A kernel that exists for each number of pieces in [`HELD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKernel {
    Add,
    Norm,
    AddNorm,
    Rms,
}

impl RowKernel {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Add, "add"),
        (Self::Norm, "norm"),
        (Self::AddNorm, "add_norm"),
        (Self::Rms, "rms"),
    ];
}

/// A kernel that exists once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SingleKernel {
    Activate,
    ChannelMoments,
    JoinMoments,
    Affine,
    PlaceCorners,
    Softmax,
    ExpandBlocks,
    ExpandFp8,
    ExpandQuant,
}

impl SingleKernel {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Activate, "activate"),
        (Self::ChannelMoments, "channel_moments"),
        (Self::JoinMoments, "join_moments"),
        (Self::Affine, "affine"),
        (Self::PlaceCorners, "place_corners"),
        (Self::Softmax, "softmax"),
        (Self::ExpandBlocks, "expand_blocks"),
        (Self::ExpandFp8, "expand_fp8"),
        (Self::ExpandQuant, "expand_quant"),
    ];
}

/// Kernels that passed their check.
pub(super) struct KernelSet {
    driver: &'static KernelDriver,
    module: KernelModule,
    rows: [[DriverHandle; HELD.len()]; RowKernel::ALL.len()],
    pub(super) single: [DriverHandle; SingleKernel::ALL.len()],
    kind: Kind,
    /// For the doctor.
    line: String,
    /// A launch failed after the check: none is tried again.
    is_broken: AtomicBool,
}

type KernelSlot = OnceLock<Result<KernelSet, KernelError>>;

static SLOTS: [[KernelSlot; 3]; MAX_DEVICES] =
    [const { [const { OnceLock::new() }; 3] }; MAX_DEVICES];

/// The kernels for numbers like those of `xs`; compiles and checks them on first use.
pub(super) fn kernels_for(xs: &Tensor) -> Option<&'static KernelSet> {
    kernels_of(xs.device(), xs.kind())
}

pub(super) fn kernels_of(device: Device, kind: Kind) -> Option<&'static KernelSet> {
    let Device::Cuda(index) = device else {
        return None;
    };
    let kernels = opened(index, kind)?.as_ref().ok()?;
    (!kernels.is_broken.load(Ordering::Relaxed)).then_some(kernels)
}

fn opened(index: usize, kind: Kind) -> Option<&'static Result<KernelSet, KernelError>> {
    if !is_wanted() {
        return None;
    }
    let slot = &SLOTS.get(index)?[number_of(kind)?];
    Some(slot.get_or_init(|| {
        let kernels = KernelSet::open(index, kind);
        match &kernels {
            Ok(kernels) => tracing::debug!("own kernels on cuda:{index}: {}", kernels.line),
            Err(err) => tracing::warn!(
                "libtorch's operations stand in for our own kernels on cuda:{index} ({kind:?}): {err}"
            ),
        }
        kernels
    }))
}

/// `false` with `SAFELIGHT_KERNELS=off`, which is for comparisons.
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("SAFELIGHT_KERNELS").is_none_or(|value| value != "off"))
}

/// Index of the dtype in the source.
fn number_of(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Float => Some(0),
        Kind::Half => Some(1),
        Kind::BFloat16 => Some(2),
        _ => None,
    }
}

impl KernelSet {
    /// Compiles and checks without a look at what was tried before.
    pub(super) fn open(index: usize, kind: Kind) -> Result<Self, KernelError> {
        let number = number_of(kind).ok_or(KernelError::Nonsense { call: "the kind" })?;
        let driver = driver()?;
        let architecture = driver.architecture(index)?;
        let compiler = driver.compiler()?;
        let mut options = driver.options(&architecture);
        options.push(format!("-DKIND={number}"));

        let name = format!("{architecture}-{kind:?}");
        let mut what = vec![SOURCE, &*compiler];
        what.extend(options.iter().map(String::as_str));
        let stored = StoredBinary::of_this_user(&name, &what);
        if let Some(tries) = stored.as_ref().map(StoredBinary::tries)
            && tries >= MAX_TRIES
        {
            return Err(KernelError::Crashed { tries });
        }
        if let Some(stored) = &stored {
            stored.begin_try();
        }
        let origin = format!("{architecture}, {compiler}");
        let result = Self::load(driver, index, kind, &options, stored.as_ref(), &origin)
            .and_then(|kernels| kernels.checked(index));
        // A check that broke the device may not end the process before the next job does.
        let is_harmless = match &result {
            Err(KernelError::Torch { reason }) => {
                let err = EngineError::from(TchError::Torch(reason.clone()));
                matches!(err, EngineError::OutOfMemory { .. })
            }
            Err(KernelError::Call { .. }) => false,
            _ => true,
        };
        if let Some(stored) = stored
            && is_harmless
        {
            stored.end_try();
        }
        result
    }

    fn load(
        driver: &'static KernelDriver,
        index: usize,
        kind: Kind,
        options: &[String],
        stored: Option<&StoredBinary>,
        origin: &str,
    ) -> Result<Self, KernelError> {
        if let Some(binary) = stored.and_then(StoredBinary::read)
            && let Ok(module) = driver.load(index, &binary)
        {
            return Self::from_module(driver, module, kind, format!("{origin}, from the cache"));
        }
        let started = Instant::now();
        let source =
            CString::new(SOURCE).map_err(|_err| KernelError::Nonsense { call: "the source" })?;
        let binary = driver.compile(&source, options)?;
        let secs = started.elapsed().as_secs_f64();
        let module = driver.load(index, &binary)?;
        if let Some(stored) = stored {
            stored.write(&binary);
        }
        let line = format!("{origin}, compiled in {secs:.1} s");
        Self::from_module(driver, module, kind, line)
    }

    fn from_module(
        driver: &'static KernelDriver,
        module: KernelModule,
        kind: Kind,
        line: String,
    ) -> Result<Self, KernelError> {
        let find = |name: String| {
            let name = CString::new(name).map_err(|_err| KernelError::Nonsense {
                call: "a kernel's name",
            })?;
            driver.function(&module, &name)
        };
        let first = find(SingleKernel::ALL[0].1.to_owned())?;
        let mut single = [first; SingleKernel::ALL.len()];
        for (kernel, name) in SingleKernel::ALL {
            single[kernel as usize] = find(name.to_owned())?;
        }
        let mut rows = [[first; HELD.len()]; RowKernel::ALL.len()];
        for (kernel, name) in RowKernel::ALL {
            for (slot, held) in rows[kernel as usize].iter_mut().zip(HELD) {
                *slot = find(format!("{name}_{held}"))?;
            }
        }
        Ok(Self {
            driver,
            module,
            rows,
            single,
            kind,
            line,
            is_broken: AtomicBool::new(false),
        })
    }

    fn checked(self, index: usize) -> Result<Self, KernelError> {
        let checked = catch_unwind(AssertUnwindSafe(|| {
            check::check(&self, Device::Cuda(index))
        }));
        checked.unwrap_or_else(|panic| {
            Err(KernelError::Torch {
                reason: panic_line(&*panic),
            })
        })?;
        Ok(self)
    }
}

impl KernelSet {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The kernel for threads that hold `held` pieces.
    pub(super) fn row_kernel(&self, kernel: RowKernel, held: usize) -> Option<DriverHandle> {
        let number = HELD.iter().position(|&pieces| pieces == held)?;
        Some(self.rows[kernel as usize][number])
    }

    /// Queues a kernel; `None`, and the kernels are done with, where the driver refuses.
    #[expect(
        unsafe_code,
        reason = "a kernel reads and writes what its arguments point to"
    )]
    /// # Safety
    /// As for [`KernelDriver::launch`].
    pub(super) unsafe fn launch<T>(
        &self,
        kernel: DriverHandle,
        grid: LaunchGrid,
        args: &mut T,
    ) -> Option<()> {
        // SAFETY: as the caller promises.
        let launched = unsafe { self.driver.launch(&self.module, kernel, grid, args) };
        if let Err(err) = &launched
            && !self.is_broken.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("libtorch's operations stand in for our own kernels from now on: {err}");
        }
        launched.ok()
    }
}

fn driver() -> Result<&'static KernelDriver, KernelError> {
    static DRIVER: OnceLock<Result<KernelDriver, KernelError>> = OnceLock::new();
    DRIVER
        .get_or_init(KernelDriver::open)
        .as_ref()
        .map_err(Clone::clone)
}

fn panic_line(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("for no known reason");
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_has_no_kernels() {
        let xs = Tensor::zeros([4, 8], (Kind::Float, Device::Cpu));
        assert!(kernels_for(&xs).is_none());
    }

    #[test]
    fn a_device_without_a_driver_uses_none() {
        assert!(matches!(opened(0, Kind::BFloat16), Some(Err(_))));
        assert!(opened(MAX_DEVICES, Kind::BFloat16).is_none());
    }

    #[test]
    fn kernel_source_defines_every_requested_kernel() {
        for (_, name) in RowKernel::ALL {
            assert!(SOURCE.contains(&format!("KERNEL {name}_##V(")), "{name}");
        }
        for held in HELD {
            assert!(SOURCE.contains(&format!("ROW_KERNELS({held})\n")), "{held}");
        }
        for (_, name) in SingleKernel::ALL {
            assert!(SOURCE.contains(&format!("KERNEL {name}(")), "{name}");
        }
    }
}
