//! What is asked of a family: its cases by name, all when none is named, their sizes and how often they run.
//!
//! `safelight-bench` and reports pass these arguments on as they are, so every refusal is worded here, in one sentence.

use clap::{Args, Parser};
use safelight_core::job::DeviceChoice;
use serde::Serialize;

use crate::bench::cases::{self, Case};
use crate::bench::error::BenchError;
use crate::families;

/// What an executable's subject reads of its own arguments.
pub fn read<T: Parser>(arguments: impl IntoIterator<Item = String>) -> Result<T, BenchError> {
    T::try_parse_from(arguments).map_err(|err| {
        // What follows is how to get help, which there is none of here.
        let text = err.to_string();
        let sentence = text.lines().next().unwrap_or_default();
        BenchError::Arguments(sentence.trim_start_matches("error: ").to_owned())
    })
}

#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct BenchArguments {
    #[arg(skip)]
    pub cases: Vec<&'static Case>,
    /// Cases by name; all where there are none.
    names: Vec<String>,
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    /// Small networks of the same structure.
    #[arg(long)]
    pub small: bool,
    /// Timed runs of each case; its own number when absent.
    #[arg(long, value_parser = runs)]
    pub runs: Option<usize>,
    /// In place of the cases' own sizes.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Bytes that are kept free of weights, once each, beside a run with all weights on the device.
    #[arg(long, value_parser = gib, value_delimiter = ',', allow_negative_numbers = true)]
    pub preserved: Vec<u64>,
    /// Bytes that the device is used to, where weights stream.
    #[arg(long, value_parser = gib)]
    pub cap: Option<u64>,
}

/// Sizes that somebody asked for; what is absent is the case's own.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Pixels.
    #[arg(long, value_parser = size)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<i64>,
    /// Pixels.
    #[arg(long, value_parser = size)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<i64>,
    #[arg(long, value_parser = size)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<i64>,
    /// Texts or pictures at a time.
    #[arg(long, value_parser = size)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<i64>,
    /// Edge of tiles in pixels.
    #[arg(long, value_parser = size)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<i64>,
}

impl BenchArguments {
    /// A family's name, and then options and cases.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let mut arguments = arguments.into_iter();
        let family = arguments.next().unwrap_or_default();
        if !is_family(&family) {
            return Err(no_family(&family));
        }
        let mut parsed: Self = read(arguments)?;
        if parsed.cap.is_some() && parsed.preserved.is_empty() {
            let reason = "expected --preserved beside --cap, found none";
            return Err(BenchError::Arguments(reason.to_owned()));
        }
        let cases = parsed.names.iter().map(|name| case(&family, name));
        let cases: Result<_, String> = cases.collect();
        parsed.cases = cases.map_err(BenchError::Arguments)?;
        if parsed.cases.is_empty() {
            parsed.cases = of_family(&family).collect();
        }
        Ok(parsed)
    }
}

/// How often something runs or steps.
pub fn count(text: &str, what: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if (1..=1000).contains(&count) => Ok(count),
        _ => Err(format!("expected 1 to 1000 {what}, found {text:?}")),
    }
}

pub fn runs(text: &str) -> Result<usize, String> {
    count(text, "runs").map(|runs| runs as usize)
}

fn size(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(size) if (1..=16_384).contains(&size) => Ok(size),
        _ => Err(format!("expected 1 to 16384, found {text:?}")),
    }
}

/// A number of GiB, in bytes.
pub fn gib(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(gib) if (0.0..=1024.0).contains(&gib) => Ok((gib * f64::from(1 << 30)) as u64),
        _ => Err(format!("expected 0 to 1024 GiB, found {text:?}")),
    }
}

/// A family as the command line names it.
pub(super) fn name_of(id: &str) -> String {
    id.replace('_', "-")
}

pub(super) fn is_family(name: &str) -> bool {
    families::measured().any(|(id, _)| name_of(id) == name)
}

pub(super) fn no_family(found: &str) -> BenchError {
    let names: Vec<String> = families::measured().map(|(id, _)| name_of(id)).collect();
    let names = names.iter().map(String::as_str);
    BenchError::Arguments(expected("a family", names, found))
}

/// One case of a family.
pub(super) fn case_of(family: &str, name: &str) -> Result<&'static Case, BenchError> {
    if !is_family(family) {
        return Err(no_family(family));
    }
    case(family, name).map_err(BenchError::Arguments)
}

fn of_family(name: &str) -> impl Iterator<Item = &'static Case> {
    let all = cases::all().filter(move |(id, _)| name_of(id) == name);
    all.map(|(_, case)| case)
}

fn case(family: &str, name: &str) -> Result<&'static Case, String> {
    of_family(family)
        .find(|case| case.name == name)
        .ok_or_else(|| expected("a case", of_family(family).map(|case| case.name), name))
}

fn expected<'a>(what: &str, names: impl Iterator<Item = &'a str>, found: &str) -> String {
    let names: Vec<&str> = names.collect();
    format!("expected {what} ({}), found {found:?}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<BenchArguments, BenchError> {
        BenchArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn without_names_all_cases_are_measured() {
        let all = parse("wan --device cpu --small --runs 7").unwrap();
        assert_eq!(all.cases.len(), of_family("wan").count());
        assert_eq!(
            (all.device, all.small, all.runs),
            (DeviceChoice::Cpu, true, Some(7))
        );
        let some = parse("wan umt5xxl wan14b_320_17f").unwrap();
        let names: Vec<&str> = some.cases.iter().map(|case| case.name).collect();
        assert_eq!(names, ["umt5xxl", "wan14b_320_17f"]);
        let bounds = parse("flux --preserved 0,1.5 --cap 20 flux_1024").unwrap();
        let gib = 1 << 30;
        assert_eq!(
            (bounds.preserved, bounds.cap),
            (vec![0, 3 * gib / 2], Some(20 * gib))
        );
        let behind = parse("wan --small -- umt5xxl").unwrap();
        assert!(behind.small && behind.cases.len() == 1);
    }

    #[test]
    fn sizes_stand_in_place_of_the_cases_own() {
        let asked = parse("wan --width 640 --frames 33 umt5xxl --tile 256").unwrap();
        let sizes = Sizes {
            width: Some(640),
            frames: Some(33),
            tile: Some(256),
            ..Sizes::default()
        };
        assert_eq!(asked.sizes, sizes);
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<&str> = cases::all().map(|(_, case)| case.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        for (line, part) in [
            ("", "expected a family (framepack, wan, "),
            ("--small", "expected a family (framepack, wan, "),
            ("wan wan99b", "expected a case (wan14b_480p_81f,"),
            ("flux umt5xxl", "expected a case (flux_1024,"),
            ("wan --runs 0", "expected 1 to 1000 runs, found \"0\""),
            ("wan --runs many", "found \"many\""),
            ("wan --device", "a value is required for '--device"),
            ("wan --device npu", "is not a device"),
            ("wan --width 0", "'--width <WIDTH>': expected 1 to 16384"),
            ("wan --preserved 1,x", "expected 0 to 1024 GiB, found \"x\""),
            ("wan --preserved -1", "found \"-1\""),
            ("wan --cap 20", "expected --preserved beside --cap"),
            ("wan --fast", "unexpected argument '--fast'"),
            ("wan -- --small", "expected a case (wan14b_480p_81f,"),
            ("wan -- umt5xxl --", "found \"--\""),
        ] {
            let err = parse(line).unwrap_err();
            assert_eq!(err.exit_code(), 2);
            let text = err.to_string();
            assert!(text.contains(part) && text.lines().count() == 1, "{text}");
        }
    }
}
