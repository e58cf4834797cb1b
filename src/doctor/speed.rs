//! Checks of the device's speed, measured by a separate engine that is ended when it hangs.
//!
//! Warns only of speeds with a known fix; a slow GPU is no problem.

use std::collections::BTreeMap;
use std::time::Duration;

use safelight_core::memory::DeviceClass;
use safelight_core::speed::{SpeedLine, SpeedProbe, SpeedState};

use super::check::CheckResult;
use super::inputs::DoctorProbes;
use crate::child::ChildExit;
use crate::worker::environment::EngineTarget;

/// Loading a GPU runtime takes most of it; measuring takes seconds.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// Reports on gfx1151 tell 32 TFLOP/s with hipBLASLt and 4 without.
const SLOW_HALO_TFLOPS: f64 = 10.0;
/// A card in a slot with too few lanes.
const SLOW_BUS_GBS: f64 = 3.0;
/// Speed of MIOpen's naive convolution, in TFLOP/s.
const NAIVE_TFLOPS: f64 = 0.3;

/// Tells each figure as it comes.
pub(super) fn all(
    instruments: &mut dyn DoctorProbes,
    target: Option<&EngineTarget>,
    tell: &mut dyn FnMut(CheckResult),
) {
    let mut rates: BTreeMap<SpeedProbe, f64> = BTreeMap::new();
    let mut begun = None;
    let ended = instruments.speed(&mut |SpeedLine { probe, state }| match state {
        SpeedState::Begin => begun = Some(probe),
        SpeedState::Done {
            rate,
            size,
            secs,
            keeps_scores,
        } => {
            begun = None;
            rates.insert(probe, rate);
            let (figure, time) = (figure(rate, probe.unit()), time(secs));
            let message = format!("{}: {figure} ({size}, {time})", probe.label());
            let check = judge(probe, rate, keeps_scores, message, &rates, target);
            tell(check.measured(rate, probe.unit()));
        }
        SpeedState::Failed { reason } => {
            begun = None;
            let message = format!("{} failed: {reason}", probe.label());
            tell(CheckResult::warn("speed", message).advise("Please report it with this output"));
        }
    });
    let at = begun.map_or_else(|| "the start".to_owned(), |probe| probe.label().to_owned());
    match ended {
        Ok(ChildExit::Well | ChildExit::Cancelled) => {}
        Ok(ChildExit::TooLate { secs }) => tell(
            CheckResult::fail(
                "speed",
                format!("the measurement did not end within {secs} s and was stopped at {at}"),
            )
            .advise("The driver may hang, or other programs use the device: close them, look at the kernel's log, and restart the computer if that does not help")
            .fix("sudo dmesg | tail -n 50"),
        ),
        Ok(ChildExit::Badly { how, complaint }) => {
            let last = complaint.lines().last().unwrap_or_default();
            let reason = if last.is_empty() { how } else { format!("{how}: {last}") };
            tell(
                CheckResult::fail("speed", format!("the engine ended while it measured, at {at} ({reason})"))
                    .fix("sudo dmesg | tail -n 50"),
            );
        }
        Err(err) => tell(CheckResult::fail("speed", err.summary).advise(err.advice)),
    }
}

fn judge(
    probe: SpeedProbe,
    rate: f64,
    keeps_scores: bool,
    message: String,
    rates: &BTreeMap<SpeedProbe, f64>,
    target: Option<&EngineTarget>,
) -> CheckResult {
    let is_gpu = target.is_some_and(|target| target.class != DeviceClass::Cpu);
    let is_rocm = target.is_some_and(|target| target.kind == "rocm");
    let is_halo =
        is_rocm && target.is_some_and(|target| target.gfx.iter().any(|gfx| gfx == "gfx1151"));
    let of = |probe| rates.get(&probe).copied().unwrap_or(0.0);
    let warn = |advice: &str| CheckResult::warn("speed", message.clone()).advise(advice);
    match probe {
        SpeedProbe::Attention if keeps_scores && is_gpu => CheckResult::fail(
            "speed",
            format!("{message}; all scores were kept in memory, which large images and videos cannot"),
        )
        .advise("The fast attention of this libtorch does not work on this GPU: get a libtorch that was built for it"),
        SpeedProbe::MatrixBf16 | SpeedProbe::MatrixF16 if is_halo && rate < SLOW_HALO_TFLOPS => {
            warn("gfx1151 reaches several times as much with hipBLASLt: use a libtorch for ROCm that was built with it, and keep TORCH_BLAS_PREFER_HIPBLASLT on")
        }
        SpeedProbe::MatrixBf16 if is_gpu && rate < of(SpeedProbe::MatrixF32) => {
            warn("Halves should be faster than f32 on a GPU: its matrix library is missing from this libtorch")
        }
        SpeedProbe::ConvolutionOverTime if is_gpu && rate < NAIVE_TFLOPS => {
            warn("Decoding videos needs another method on this device, which the next video tries out by itself")
        }
        SpeedProbe::CopyFromPinned
            if rate < SLOW_BUS_GBS
                && target.is_some_and(|target| target.class == DeviceClass::Discrete) =>
        {
            warn("The card may sit in a slot with few lanes, or its link saves power: weights that do not fit stream over it")
                .fix("lspci -vv | grep -E 'VGA|3D|LnkSta:'")
        }
        _ => CheckResult::ok("speed", message),
    }
}

/// Three digits, in the smaller unit below a tenth.
fn figure(rate: f64, unit: &str) -> String {
    if rate < 0.1 && unit == "TFLOP/s" {
        return format!("{:.0} GFLOP/s", rate * 1000.0);
    }
    let decimals = match rate {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{rate:.decimals$} {unit}")
}

fn time(secs: f64) -> String {
    if secs < 0.0995 {
        format!("{:.1} ms", secs * 1e3)
    } else {
        format!("{secs:.2} s")
    }
}
