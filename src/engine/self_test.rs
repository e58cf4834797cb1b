//! `safelight-engine try`: correctness of a device for the operations of jobs, each compared with the CPU.
//!
//! A second or two, for a libtorch that is new on this machine. A driver may hang or crash in it, so each trial is
//! announced before it begins. Measures no speed and remembers nothing.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use safelight_core::job::DeviceChoice;
use safelight_core::self_test::{SelfTest, TrialLine};
use tch::{Device, Kind, Tensor};

use crate::error::{EngineError, ProcessError};
use crate::runtime::DeviceRuntime;

/// Largest difference allowed, relative to the largest number: sums of some hundred products, rounded to eight bits, and
/// in f32.
const LIMIT_HALF: f64 = 2e-2;
const LIMIT_F32: f64 = 1e-4;

/// Runs every trial; `false` where a result is wrong.
pub fn run(device: DeviceChoice, out: &mut dyn Write) -> Result<bool, ProcessError> {
    let runtime = DeviceRuntime::open(device)?;
    let is_gpu = runtime.device != Device::Cpu;
    say(
        out,
        &TrialLine::Device {
            text: runtime.line.clone(),
            is_gpu,
            gpu_problem: runtime.gpu_problem.clone(),
        },
    )?;
    let mut all_well = runtime.gpu_problem.is_none();
    for trial in SelfTest::ALL {
        say(out, &TrialLine::Begin { trial })?;
        let line = tried(trial, runtime.device);
        all_well &= matches!(line, TrialLine::Done { error, limit, .. } if error <= limit);
        say(out, &line)?;
    }
    Ok(all_well)
}

fn say(out: &mut dyn Write, line: &TrialLine) -> Result<(), ProcessError> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn tried(trial: SelfTest, device: Device) -> TrialLine {
    let (kind, limit) = match device {
        Device::Cpu => (Kind::Float, LIMIT_F32),
        _ => (Kind::BFloat16, LIMIT_HALF),
    };
    let compared = || {
        let _no_grad = tch::no_grad_guard();
        compare(trial, device, kind)
    };
    match catch_unwind(AssertUnwindSafe(compared)) {
        Ok(error) => TrialLine::Done {
            trial,
            // JSON has no NaN and no infinity.
            error: if error.is_finite() { error } else { f64::MAX },
            limit,
        },
        Err(panic) => TrialLine::Failed {
            trial,
            reason: EngineError::from_panic(panic.as_ref()).to_string(),
        },
    }
}

/// The largest difference between a device and the CPU, relative to the largest number. Both get the same inputs,
/// rounded as the device has them; the CPU computes in f32.
fn compare(trial: SelfTest, device: Device, kind: Kind) -> f64 {
    let inputs = inputs(trial).map(|input| input.to_kind(kind));
    let on_device = inputs.each_ref().map(|input| input.to_device(device));
    let expected = compute(trial, &inputs.map(|input| input.to_kind(Kind::Float)));
    let found = compute(trial, &on_device);
    let found = found.to_device(Device::Cpu).to_kind(Kind::Float);
    let difference = (found - &expected).abs().max().double_value(&[]);
    difference / expected.abs().max().double_value(&[])
}

/// Sizes are no powers of two, so that edges are computed too.
fn inputs(trial: SelfTest) -> [Tensor; 3] {
    let shapes: [&[i64]; 3] = match trial {
        SelfTest::MatrixProduct => [&[300, 520], &[520, 260], &[260]],
        SelfTest::Convolution => [&[1, 32, 45, 39], &[48, 32, 3, 3], &[48]],
        SelfTest::Attention => [&[1, 4, 200, 64], &[1, 4, 200, 64], &[1, 4, 200, 64]],
    };
    // A sine has no repetitions here, and needs no generator.
    shapes.map(|shape| {
        let count: i64 = shape.iter().product();
        let numbers = Tensor::arange(count, (Kind::Float, Device::Cpu));
        ((numbers * 12.9898).sin() * 2.0).view(shape)
    })
}

fn compute(trial: SelfTest, [a, b, c]: &[Tensor; 3]) -> Tensor {
    match trial {
        // (300, 520) (520, 260) + (260) -> (300, 260)
        SelfTest::MatrixProduct => a.matmul(b) + c,
        // (1, 32, 45, 39) -> (1, 48, 45, 39)
        SelfTest::Convolution => a.conv2d(b, Some(c), [1, 1], [1, 1], [1, 1], 1),
        // (1, 4, 200, 64), as are queries, keys and values
        SelfTest::Attention => {
            Tensor::scaled_dot_product_attention(a, b, c, None::<&Tensor>, 0.0, false, None, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tests::fixtures::json_lines;

    #[test]
    fn the_cpu_agrees_with_itself_in_every_trial() {
        let mut out = Vec::new();
        assert!(run(DeviceChoice::Cpu, &mut out).unwrap());
        let lines: Vec<TrialLine> = json_lines(&out);
        assert!(matches!(lines[0], TrialLine::Device { is_gpu: false, .. }));
        let done = lines.iter().filter(|line| match line {
            TrialLine::Done { error, limit, .. } => error <= limit,
            _ => false,
        });
        assert_eq!(done.count(), SelfTest::ALL.len(), "{lines:?}");
    }

    #[test]
    fn halves_are_within_their_limit_and_another_result_is_not() {
        for trial in SelfTest::ALL {
            let error = compare(trial, Device::Cpu, Kind::BFloat16);
            assert!(error > 0.0 && error < LIMIT_HALF / 2.0, "{trial:?} {error}");
        }
        let right = compute(SelfTest::Attention, &inputs(SelfTest::Attention));
        let [a, b, c] = inputs(SelfTest::Attention);
        // A kernel that mixes up its rows.
        let wrong = compute(SelfTest::Attention, &[a, b, c.flip([2])]);
        let far = (wrong - &right).abs().max() / right.abs().max();
        assert!(far.double_value(&[]) > LIMIT_HALF, "{far}");
    }
}
