//! Step caches side by side: a family's case walked with each, with random weights.

use std::io::Write;

use clap::Parser;
use safelight_core::job::{DeviceChoice, StepCache};
use serde::Serialize;
use tch::{Device, Kind};

use crate::bench::arguments::{self, Sizes, read};
use crate::bench::cases::Case;
use crate::bench::error::BenchError;
use crate::bench::measure::write_line;
use crate::bench::networks::open_for;
use crate::bench::walks::{WalkLine, Walks};
use crate::runtime::LIBTORCH_VERSION;

/// What is compared where nobody names caches: first block at two thresholds, those that need numbers of the model at the
/// usual one, and TaylorSeer at two intervals.
const USUAL: [&str; 6] = [
    "first_block:0.08",
    "first_block:0.2",
    "teacache:0.15",
    "magcache:0.1",
    "taylorseer:2",
    "taylorseer:3",
];

/// The same, read.
pub fn usual() -> Vec<StepCache> {
    let read = |name: &str| name.parse().expect("these are step caches");
    USUAL.map(read).to_vec()
}

#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct CacheArguments {
    family: String,
    case: String,
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// A small network of the same structure.
    #[arg(long)]
    small: bool,
    #[arg(long, default_value = "30", value_parser = |text: &str| arguments::count(text, "steps"))]
    steps: u32,
    /// In place of the case's own.
    #[command(flatten)]
    sizes: Sizes,
    /// Which caches, each with its threshold or without.
    #[arg(long = "cache", value_name = "KIND[:X]")]
    caches: Vec<StepCache>,
}

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    #[serde(flatten)]
    walk: &'a WalkLine,
    device: &'a str,
    libtorch: &'a str,
    small: bool,
    #[serde(flatten)]
    sizes: Sizes,
}

/// Walks the case that `arguments` name: a family, a case, and options.
pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let arguments: CacheArguments = read(arguments)?;
    let case: &Case = arguments::case_of(&arguments.family, &arguments.case)?;
    let runtime = open_for(arguments.device, arguments.small)?;
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    let walks = Walks {
        steps: arguments.steps as usize,
        caches: if arguments.caches.is_empty() {
            usual()
        } else {
            arguments.caches.clone()
        },
    };
    let (small, sizes) = (arguments.small, arguments.sizes);
    let walked = case.walk(walks, (small, sizes), runtime.device, kind);
    let walked = walked.map_err(|err| BenchError::Failed(err.to_string()))?;
    if walked.is_empty() {
        let reason = format!(
            "{} is no step of a transformer that can be walked",
            case.name
        );
        return Err(BenchError::Arguments(reason));
    }
    for walk in &walked {
        let line = Line {
            case: case.name,
            walk,
            device: &runtime.device_name,
            libtorch: LIBTORCH_VERSION,
            small,
            sizes,
        };
        write_line(out, &line)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn lines(line: &str) -> Result<Vec<Value>, BenchError> {
        let mut out = Vec::new();
        run(line.split_whitespace().map(str::to_owned), &mut out)?;
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines();
        Ok(lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect())
    }

    #[test]
    fn each_cache_of_each_family_is_walked_beside_none() {
        for (case, unmeasured) in [
            ("wan wan13b_480p_81f", None),
            ("wan wan14b_480p_81f", None),
            ("flux flux_1024", None),
            ("qwen-image qwen_image_1024", Some("teacache")),
            ("z-image z_image_1024", Some("magcache")),
        ] {
            let found = lines(&format!("{case} --device cpu --small --steps 6")).unwrap();
            assert_eq!(found.len(), 1 + USUAL.len(), "{case}");
            assert_eq!(found[0]["cache"], "none");
            assert_eq!(
                (&found[0]["computed"], &found[0]["relative_l2"]),
                (&6.into(), &0.0.into())
            );
            for line in &found[1..] {
                let name = line["cache"].as_str().unwrap();
                let error = line["error"].as_str();
                assert_eq!(error.is_some(), line["computed"] == 0, "{case} {line}");
                if unmeasured == Some(name) {
                    assert!(error.is_some(), "{case} {line}");
                }
            }
            let interval = &found[6];
            assert_eq!(
                (&interval["cache"], &interval["computed"]),
                (&"taylorseer".into(), &5.into())
            );
            assert!(interval["relative_l2"].as_f64().unwrap() > 0.0, "{case}");
        }
    }

    #[test]
    fn what_cannot_be_walked_is_refused_in_one_sentence() {
        for (line, part) in [
            ("wan", "required arguments were not provided"),
            ("wan99 x", "expected a family"),
            ("wan x", "expected a case"),
            ("wan umt5xxl --device cpu --small", "umt5xxl is no step"),
            ("wan wan13b_480p_81f --cache quick", "quick"),
        ] {
            let text = lines(line).unwrap_err().to_string();
            assert!(text.contains(part) && text.lines().count() == 1, "{text}");
        }
    }
}
