//! Distance of small networks of every family from known values: on the CPU from values that ship with Safelight, on a
//! GPU from the CPU in the same run, in f32 and in the dtype of a job. Weights and inputs are random and equal on every
//! device.
//!
//! `safelight-engine bench parity --record > src/engine/bench/parity.json` writes the values that ship, whenever a small
//! network changes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Parser;
use safelight_core::job::DeviceChoice;
use safelight_core::measured::{CaseKind, ParityLine};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::{failed, write_line};
use crate::error::{EngineError, ProcessError};
use crate::families;
use crate::families::bench_cases::{BenchCase, BenchPurpose, SizeArguments};
use crate::runtime::{self, DeviceRuntime};
use crate::timing::rounded;
use crate::weights::Weights;

/// Written by `--record`.
const SHIPPED: &str = include_str!("parity.json");
/// Numbers kept of an output.
const SAMPLES: i64 = 32;
/// Largest distances: from the shipped values, in f32, in the dtype of a job. Processors differ in f32 by up to 1e-4, as
/// diffusers does from itself; libraries of GPUs may round f32 to ten bits before they convolve; bf16 has eight bits,
/// and errors add up over a few layers.
const LIMITS: [f64; 3] = [1e-3, 1e-2, 6e-2];

#[derive(Debug, Parser)]
pub(super) struct ParityArguments {
    /// auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Print the values of the CPU, for the file that ships
    #[arg(long)]
    record: bool,
}

/// Part of an output that ships.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OutputSample {
    shape: Vec<i64>,
    /// Root mean square of all numbers.
    rms: f64,
    /// Numbers at equal distances.
    values: Vec<f64>,
}

impl OutputSample {
    fn of(output: &Tensor) -> Self {
        let flat = output.flatten(0, -1).to_kind(Kind::Double);
        let count = flat.size()[0];
        let samples = SAMPLES.min(count);
        let places: Vec<i64> = (0..samples).map(|index| index * count / samples).collect();
        let values = flat.index_select(0, &Tensor::from_slice(&places));
        let values = Vec::<f64>::try_from(values).unwrap_or_default();
        let rms = (&flat * &flat).mean(Kind::Double).sqrt();
        Self {
            shape: output.size(),
            rms: rounded(rms.double_value(&[])),
            values: values.into_iter().map(rounded).collect(),
        }
    }

    /// Relative L2 distance of the numbers kept; the largest number for another shape.
    fn distance(&self, other: &Self) -> f64 {
        if self.shape != other.shape {
            return f64::MAX;
        }
        let [found, expected] = [self, other].map(|it| Tensor::from_slice(&it.values));
        distance(&found, &expected).max(finite((self.rms / other.rms - 1.0).abs()))
    }
}

/// Compares the networks of a report. `false` where one is too far away, or failed.
pub(super) fn run(arguments: &ParityArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    if arguments.record {
        let mut samples = BTreeMap::new();
        for (case, _) in networks() {
            let output = output(case, Device::Cpu, Kind::Float).map_err(failed)?;
            samples.insert(case.name, OutputSample::of(&output));
        }
        serde_json::to_writer_pretty(&mut *out, &samples).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        return Ok(true);
    }
    let shipped: BTreeMap<String, OutputSample> = serde_json::from_str(SHIPPED).map_err(failed)?;
    let device = DeviceRuntime::open(arguments.device)?.device;
    let mut all_well = true;
    for (case, label) in networks() {
        let mut line = ParityLine {
            case: case.name.to_owned(),
            label: label.to_owned(),
            limits: LIMITS,
            ..ParityLine::default()
        };
        let compared = compare(case, device, shipped.get(case.name), &mut line);
        line.error = compared.err().map(|err| err.to_string());
        runtime::empty_cache(device);
        all_well &= line.is_well();
        write_line(out, &line)?;
    }
    Ok(all_well)
}

/// The cases of a report with their labels, each network once.
fn networks() -> Vec<(&'static BenchCase, &'static str)> {
    let mut found: Vec<(&BenchCase, &str)> = Vec::new();
    for (_, case) in families::measured() {
        let network = case.network();
        let Some(network) = network.filter(|_| case.kind != CaseKind::Streaming) else {
            continue;
        };
        if !found.iter().any(|other| other.1 == network) {
            found.push((case, network));
        }
    }
    found
}

/// Output of a small network in f32 on the CPU.
fn output(case: &'static BenchCase, device: Device, kind: Kind) -> Result<Tensor, EngineError> {
    let weights = Weights::random_alike(kind, device);
    let sizes = SizeArguments::default();
    let (_, output) = case.run(weights, (true, sizes), BenchPurpose::Comparison)?;
    let output = output.ok_or_else(|| EngineError::internal("this case has no output"))?;
    Ok(output.to_device(Device::Cpu).to_kind(Kind::Float))
}

fn compare(
    case: &'static BenchCase,
    device: Device,
    shipped: Option<&OutputSample>,
    line: &mut ParityLine,
) -> Result<(), EngineError> {
    let expected = output(case, Device::Cpu, Kind::Float)?;
    let found = OutputSample::of(&expected);
    line.from_shipped = shipped.map(|shipped| found.distance(shipped));
    if device != Device::Cpu {
        line.in_f32 = Some(distance(&output(case, device, Kind::Float)?, &expected));
        line.in_half = Some(distance(&output(case, device, Kind::BFloat16)?, &expected));
    }
    Ok(())
}

/// Relative L2 distance.
fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    let [found, expected] = [found, expected].map(|xs| xs.to_kind(Kind::Double));
    finite(((found - &expected).norm() / expected.norm()).double_value(&[]))
}

/// The largest number for NaN and infinity, which JSON does not have.
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
    use crate::weights::tests::fixtures::json_lines;

    #[test]
    fn every_network_of_a_report_is_close_to_the_values_that_ship() {
        let mut out = Vec::new();
        let arguments = ParityArguments {
            device: DeviceChoice::Cpu,
            record: false,
        };
        let is_well = run(&arguments, &mut out).unwrap();
        let lines: Vec<ParityLine> = json_lines(&out);
        assert!(is_well, "{lines:?}");
        assert_eq!(lines.len(), networks().len());
        for line in &lines {
            let holds = line.from_shipped.is_some() && line.in_f32.is_none();
            assert!(holds, "{line:?}");
        }
    }

    #[test]
    fn other_numbers_and_other_shapes_are_far_away() {
        let sample = OutputSample::of(&Tensor::from_slice(&[1.0, 2.0, 3.0]));
        let other = OutputSample::of(&Tensor::from_slice(&[1.0, 2.0, 3.3]));
        assert_eq!(sample.distance(&sample), 0.0);
        assert!(other.distance(&sample) > 0.05);
        let longer = OutputSample::of(&Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0]));
        assert!(longer.distance(&sample) > 1.0);
    }
}
