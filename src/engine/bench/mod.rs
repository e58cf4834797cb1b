//! `safelight-engine bench`: time and memory of networks with random weights, speed of loading, and distance of small
//! networks from known values. Writes one JSON object per line.
//!
//! Ships with every installation, for reports about the machine. Judges no figure but wrong results.

mod arguments;
mod load;
mod networks;
mod parity;

use std::fmt::Display;
use std::io::{self, Write};

use clap::Parser;
use safelight_core::job::DeviceChoice;
use serde::Serialize;
use tch::{Device, Kind};

pub(crate) use arguments::read;

use crate::error::ProcessError;
use crate::families;
use crate::runtime::DeviceRuntime;
use arguments::FamilyArguments;
use load::LoadArguments;
use parity::ParityArguments;

/// Measures with random weights, or: framepack, flux, wan, … [CASE…] for the networks of a family
#[derive(Debug, Parser)]
#[command(name = "bench", no_binary_name = true)]
enum BenchSubject {
    /// The cases of a report
    List,
    /// Loading of weights to the device, from page cache and from disk
    Load(LoadArguments),
    /// Distance of small networks from the values that ship, and of the device from the CPU
    Parity(ParityArguments),
    #[command(external_subcommand)]
    Family(Vec<String>),
}

/// Measures the subject that the arguments name. `false` when something failed; its line gives the reason.
pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, ProcessError> {
    match read(arguments)? {
        BenchSubject::List => list(out),
        BenchSubject::Load(arguments) => load::run(&arguments, out),
        BenchSubject::Parity(arguments) => parity::run(&arguments, out),
        BenchSubject::Family(arguments) => networks::run(&FamilyArguments::parse(arguments)?, out),
    }
}

fn list(out: &mut dyn Write) -> Result<bool, ProcessError> {
    for (family, case) in families::measured() {
        if let Some(line) = case.reported(&arguments::name_of(family)) {
            write_line(out, &line)?;
        }
    }
    Ok(true)
}

/// Opens the device, which must be a GPU unless the networks are small.
fn open(device: DeviceChoice, is_small: bool) -> Result<(DeviceRuntime, Kind), ProcessError> {
    let runtime = DeviceRuntime::open(device)?;
    if runtime.device == Device::Cpu && !is_small {
        let found = &runtime.line;
        return Err(ProcessError::Arguments(format!(
            "expected a GPU for networks of full size, found {found}; --small measures small ones of the same structure"
        )));
    }
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    Ok((runtime, kind))
}

fn failed(err: impl Display) -> ProcessError {
    ProcessError::Failed(err.to_string())
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use safelight_core::measured::CaseLine;

    use super::*;
    use crate::weights::tests::fixtures::json_lines;

    #[test]
    fn the_cases_of_a_report_are_listed_and_each_can_be_measured() {
        let mut out = Vec::new();
        assert!(run(["list".to_owned()].into_iter(), &mut out).unwrap());
        let lines: Vec<CaseLine> = json_lines(&out);
        assert!(lines.len() > 10, "{}", lines.len());
        for line in lines {
            assert!(FamilyArguments::parse([line.family, line.case]).is_ok());
            assert!(line.gib > 0.0 && line.tflop > 0.0);
        }
        assert!(run(["nonsense".to_owned()].into_iter(), &mut Vec::new()).is_err());
    }
}
