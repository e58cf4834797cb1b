//! The ways in which a convolution over time or attention can be computed, beside each other.
//!
//! One JSON object a case and way. Decides nothing about what is good enough.

mod attention;
mod conv;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::EngineError;
use crate::place::dtype_name;
use crate::runtime::{self, LIBTORCH_VERSION, Runtime};
use clap::Parser;
use safelight_core::job::DeviceChoice;
use serde::Serialize;
use tch::{Device, Kind};

use crate::bench::arguments::{read, runs};
use crate::bench::error::BenchError;
use crate::bench::measure::{Measured, rounded, write_line};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    Conv,
    Attention,
}

impl Ways {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "conv" => Some(Self::Conv),
            "attention" => Some(Self::Attention),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct WaysArguments {
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    #[arg(long, default_value = "5", value_parser = runs)]
    pub runs: usize,
    /// A fraction of the work.
    #[arg(long)]
    pub small: bool,
    /// Cases by name; all where there are none.
    pub cases: Vec<String>,
}

impl WaysArguments {
    pub fn parse(
        ways: Ways,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, BenchError> {
        let parsed: Self = read(arguments)?;
        let is_known = |name: &&String| names(ways).any(|known| known == name.as_str());
        match parsed.cases.iter().find(|name| !is_known(name)) {
            None => Ok(parsed),
            Some(name) => Err(BenchError::Arguments(format!(
                "expected a case ({}), found {name:?}",
                names(ways).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    fn has(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }
}

fn names(ways: Ways) -> Box<dyn Iterator<Item = &'static str>> {
    match ways {
        Ways::Conv => Box::new(conv::names()),
        Ways::Attention => Box::new(attention::names()),
    }
}

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    /// A backend of convolutions, or what was chosen for attention.
    way: &'a str,
    #[serde(flatten)]
    found: Option<Found>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    device: &'a str,
    dtype: &'a str,
    libtorch: &'a str,
    small: bool,
}

#[derive(Debug, Serialize)]
struct Found {
    #[serde(flatten)]
    measured: Measured,
    /// The most that was allocated in a run beyond what lies there between runs.
    transient_gib: f64,
    /// Relative, from the definition in f32.
    error: f64,
    /// What libtorch computes it with, or `sliced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'static str>,
}

impl Found {
    fn new(measured: Measured, error: f64, kernel: Option<&'static str>) -> Self {
        Self {
            transient_gib: rounded(measured.peak_gib - measured.weights_gib),
            measured,
            // JSON has no infinity.
            error: error.min(f64::MAX),
            kernel,
        }
    }
}

/// What the cases are measured with.
struct Setting<'a> {
    arguments: &'a WaysArguments,
    device: Device,
    kind: Kind,
}

/// Measures what `arguments` ask for. `false` when a way failed; its line says why.
pub fn run(ways: Ways, arguments: &WaysArguments, out: &mut dyn Write) -> Result<bool, BenchError> {
    runtime::count_cpu_tensors();
    let runtime = Runtime::open(arguments.device)?;
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    let setting = Setting {
        arguments,
        device: runtime.device,
        kind,
    };
    let mut all_well = true;
    let mut report =
        |case: &str, way: &str, measure: &mut dyn FnMut() -> Result<Found, EngineError>| {
            let found = catch_unwind(AssertUnwindSafe(measure))
                .unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())));
            runtime::empty_cache(setting.device);
            all_well &= found.is_ok();
            let failure = found.as_ref().err().map(ToString::to_string);
            let line = Line {
                case,
                way,
                found: found.ok(),
                failure,
                device: &runtime.device_name,
                dtype: dtype_name(kind),
                libtorch: LIBTORCH_VERSION,
                small: arguments.small,
            };
            write_line(out, &line)
        };
    let _no_grad = tch::no_grad_guard();
    match ways {
        Ways::Conv => conv::measure(&setting, &mut report)?,
        Ways::Attention => attention::measure(&setting, &mut report)?,
    }
    Ok(all_well)
}

/// Takes a case, a way and what measures it.
type Report<'a> =
    dyn FnMut(&str, &str, &mut dyn FnMut() -> Result<Found, EngineError>) -> io::Result<()> + 'a;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn lines(ways: Ways, line: &str) -> Vec<Value> {
        let arguments = line.split_whitespace().map(str::to_owned);
        let arguments = WaysArguments::parse(ways, arguments).unwrap();
        let mut out = Vec::new();
        assert!(run(ways, &arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    #[test]
    fn every_backend_of_a_convolution_has_a_line_with_its_error() {
        let case = "conv_c384_1f_32x32";
        let lines = lines(Ways::Conv, &format!("--device cpu --small --runs 1 {case}"));
        let ways: Vec<_> = lines.iter().map(|line| line["way"].as_str()).collect();
        assert_eq!(ways, [Some("direct"), Some("no_miopen"), Some("frames")]);
        for line in lines {
            assert_eq!(line["case"], case);
            assert!(line["error"].as_f64().unwrap() < 1e-5, "{line}");
            assert!(line["median_s"].as_f64().unwrap() > 0.0, "{line}");
        }
    }

    #[test]
    fn every_choice_of_attention_has_a_line_that_names_its_kernel() {
        let lines = lines(
            Ways::Attention,
            "--device cpu --small --runs 1 attention_flux_1024",
        );
        let found: Vec<_> = lines
            .iter()
            .map(|line| {
                (
                    line["way"].as_str().unwrap(),
                    line["kernel"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(found[0], ("auto", "flash"));
        assert_eq!(found[3], ("sliced", "sliced"));
        for line in lines {
            assert!(line["error"].as_f64().unwrap() < 1e-5, "{line}");
        }
    }

    #[test]
    fn a_case_that_is_not_there_is_refused() {
        let err = WaysArguments::parse(Ways::Conv, ["attention_flux_1024".to_owned()]).unwrap_err();
        let text = err.to_string();
        assert!(text.starts_with("expected a case (conv_"), "{text}");
        assert_eq!(err.exit_code(), 2);
    }
}
