//! How close small networks of every family come to what is known of them: on the CPU to values that ship with
//! Safelight, on a GPU to the CPU in the same run, in f32 and in the numbers of a job.
//!
//! The weights and inputs are random and alike on every device. With `--record` the values that ship are printed anew:
//! `safelight-engine bench parity --record > src/engine/bench/parity.json`, whenever a small network changes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Parser;
use safelight_core::job::DeviceChoice;
use safelight_core::measured::{CaseKind, ParityLine};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::arguments::name_of;
use super::cases::{self, Case, Told};
use super::error::BenchError;
use super::measure::{rounded, write_line};
use crate::error::EngineError;
use crate::runtime::{self, Runtime};

/// Made by `--record`.
const SHIPPED: &str = include_str!("parity.json");
/// Numbers of an answer that are kept.
const KEPT: i64 = 32;
/// From the shipped values, in f32, in the numbers of a job. Processors differ in f32 by up to 1e-4, as diffusers does
/// from itself; libraries of GPUs may round f32 to ten bits before they convolve; bf16 has eight bits, and a few layers
/// lie in between.
const LIMITS: [f64; 3] = [1e-3, 1e-2, 6e-2];

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct ParityArguments {
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    /// Print what the CPU gives, for the file that ships.
    #[arg(long)]
    pub record: bool,
}

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    shape: Vec<i64>,
    /// Root of the mean square of all numbers.
    rms: f64,
    /// Numbers at equal distances through the answer.
    values: Vec<f64>,
}

impl Kept {
    fn of(answer: &Tensor) -> Self {
        let flat = answer.flatten(0, -1).to_kind(Kind::Double);
        let count = flat.size()[0];
        let kept = KEPT.min(count);
        let places: Vec<i64> = (0..kept).map(|number| number * count / kept).collect();
        let values = flat.index_select(0, &Tensor::from_slice(&places));
        let rms = (&flat * &flat).mean(Kind::Double).sqrt();
        Self {
            shape: answer.size(),
            rms: rounded(rms.double_value(&[])),
            values: Vec::<f64>::try_from(values)
                .unwrap_or_default()
                .into_iter()
                .map(rounded)
                .collect(),
        }
    }

    /// Relative (L2), of the kept numbers; infinite where the shape is another.
    fn distance(&self, other: &Self) -> f64 {
        if self.shape != other.shape {
            return f64::MAX;
        }
        let pairs = || self.values.iter().zip(&other.values);
        let off: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
        let all: f64 = pairs().map(|(_, b)| b * b).sum();
        let values = (off / all.max(f64::MIN_POSITIVE)).sqrt();
        finite(values.max((self.rms / other.rms - 1.0).abs()))
    }
}

/// Compares every case of a report. `false` where one is farther away than it should be, or failed.
pub fn run(arguments: &ParityArguments, out: &mut dyn Write) -> Result<bool, BenchError> {
    runtime::count_cpu_tensors();
    let told = networks();
    if arguments.record {
        let mut kept = BTreeMap::new();
        for (_, case, _) in told {
            let answer = case.answer(Device::Cpu, Kind::Float);
            let answer = answer.map_err(|err| BenchError::Failed(err.to_string()))?;
            kept.insert(case.name, Kept::of(&answer));
        }
        serde_json::to_writer_pretty(&mut *out, &kept).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        return Ok(true);
    }
    let shipped: BTreeMap<String, Kept> =
        serde_json::from_str(SHIPPED).map_err(|err| BenchError::Failed(err.to_string()))?;
    let runtime = Runtime::open(arguments.device)?;
    let mut all_well = true;
    for (family, case, told) in told {
        let line = compared(family, case, told, runtime.device, &shipped);
        all_well &= line.is_well();
        write_line(out, &line)?;
    }
    Ok(all_well)
}

/// The cases that are compared, each network once.
fn networks() -> Vec<(&'static str, &'static Case, &'static Told)> {
    let mut found: Vec<(&str, &Case, &Told)> = Vec::new();
    for (family, case) in cases::all() {
        let Some(told) = case
            .told
            .as_ref()
            .filter(|told| told.kind != CaseKind::Streaming)
        else {
            continue;
        };
        if !found.iter().any(|other| name(other.2) == name(told)) {
            found.push((family, case, told));
        }
    }
    found
}

/// Of the network, without the size that it has elsewhere.
fn name(told: &Told) -> &str {
    let label = told.label.split(',').next().unwrap_or_default();
    label.trim_end_matches(" reads a prompt")
}

fn compared(
    family: &str,
    case: &Case,
    told: &Told,
    device: Device,
    shipped: &BTreeMap<String, Kept>,
) -> ParityLine {
    let mut line = ParityLine {
        family: name_of(family),
        case: case.name.to_owned(),
        label: name(told).to_owned(),
        limits: LIMITS,
        ..ParityLine::default()
    };
    let computed = catch_unwind(AssertUnwindSafe(|| {
        let expected = case.answer(Device::Cpu, Kind::Float)?;
        let found = Kept::of(&expected);
        line.from_shipped = shipped.get(case.name).map(|kept| found.distance(kept));
        if device != Device::Cpu {
            let off = |kind| Ok::<_, EngineError>(distance(&case.answer(device, kind)?, &expected));
            line.in_f32 = Some(off(Kind::Float)?);
            line.in_half = Some(off(Kind::BFloat16)?);
        }
        Ok(())
    }));
    let computed = computed.unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())));
    runtime::empty_cache(device);
    line.error = computed.err().map(|err: EngineError| err.to_string());
    line
}

/// Relative (L2).
fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    let [found, expected] = [found, expected].map(|xs| xs.to_kind(Kind::Double));
    finite(((found - &expected).norm() / expected.norm()).double_value(&[]))
}

/// JSON has neither infinity nor what is no number.
fn finite(distance: f64) -> f64 {
    if distance.is_finite() {
        distance
    } else {
        f64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_a_report_is_as_close_to_what_ships_as_it_should_be() {
        let mut out = Vec::new();
        let arguments = ParityArguments {
            device: DeviceChoice::Cpu,
            record: false,
        };
        let is_well = run(&arguments, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(is_well, "{text}");
        let lines: Vec<ParityLine> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), networks().len());
        for line in &lines {
            assert!(
                line.from_shipped.is_some() && line.in_f32.is_none(),
                "{line:?}"
            );
        }
    }

    #[test]
    fn other_numbers_and_other_shapes_are_far_away() {
        let kept = Kept::of(&Tensor::from_slice(&[1.0, 2.0, 3.0]));
        let other = Kept::of(&Tensor::from_slice(&[1.0, 2.0, 3.3]));
        assert_eq!(kept.distance(&kept), 0.0);
        assert!(other.distance(&kept) > 0.05);
        let longer = Kept::of(&Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0]));
        assert!(longer.distance(&kept) > 1.0);
    }
}
