//! The arguments of `safelight-engine bench`: cases by name, all when none is named.
//!
//! `safelight bench` passes them on as they are, so every refusal is worded here.

use safelight_core::job::DeviceChoice;

use super::{BenchError, CASES, Case};

#[derive(Clone, Debug)]
pub struct BenchArguments {
    pub cases: Vec<&'static Case>,
    pub device: DeviceChoice,
    /// Small networks of the same structure.
    pub small: bool,
    /// Timed runs of each case; its own number when absent.
    pub runs: Option<usize>,
}

impl BenchArguments {
    /// `[--device DEVICE] [--runs N] [--small] [--] [CASE…]`; behind `--` everything is a case.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let mut parsed = Self {
            cases: Vec::new(),
            device: DeviceChoice::Auto,
            small: false,
            runs: None,
        };
        let mut arguments = arguments.into_iter();
        let mut are_cases = false;
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("expected a value after {argument}, found none"))
            };
            match argument.as_str() {
                name if are_cases => parsed.cases.push(refused(case(name))?),
                "--" => are_cases = true,
                "--small" => parsed.small = true,
                "--device" => parsed.device = refused(value().and_then(|text| text.parse()))?,
                "--runs" => parsed.runs = Some(refused(value().and_then(|text| runs(&text)))?),
                name => parsed.cases.push(refused(case(name))?),
            }
        }
        if parsed.cases.is_empty() {
            parsed.cases = CASES.iter().collect();
        }
        Ok(parsed)
    }
}

fn refused<T>(result: Result<T, String>) -> Result<T, BenchError> {
    result.map_err(BenchError::Arguments)
}

fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs) if (1..=1000).contains(&runs) => Ok(runs),
        _ => Err(format!("expected 1 to 1000 runs, found {text:?}")),
    }
}

fn case(name: &str) -> Result<&'static Case, String> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        format!("expected a case ({}), found {name:?}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<BenchArguments, BenchError> {
        BenchArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn without_names_all_cases_are_measured() {
        let all = parse("--device cpu --small --runs 7").unwrap();
        assert_eq!(all.cases.len(), CASES.len());
        assert_eq!(
            (all.device, all.small, all.runs),
            (DeviceChoice::Cpu, true, Some(7))
        );
        let some = parse("umt5xxl wan14b_320_17f").unwrap();
        let names: Vec<&str> = some.cases.iter().map(|case| case.name).collect();
        assert_eq!(names, ["umt5xxl", "wan14b_320_17f"]);
        let behind = parse("--small -- umt5xxl").unwrap();
        assert!(behind.small && behind.cases.len() == 1);
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        for (line, part) in [
            ("wan99b", "expected a case (wan14b_480p_81f,"),
            ("--runs 0", "expected 1 to 1000 runs, found \"0\""),
            ("--runs many", "found \"many\""),
            ("--device", "expected a value after --device"),
            ("--device npu", "expected a device"),
            ("--fast", "found \"--fast\""),
            ("-- --small", "expected a case (wan14b_480p_81f,"),
            ("-- umt5xxl --", "found \"--\""),
        ] {
            let err = parse(line).unwrap_err();
            assert_eq!(err.exit_code(), 2);
            let text = err.to_string();
            assert!(text.contains(part) && text.lines().count() == 1, "{text}");
        }
    }
}
