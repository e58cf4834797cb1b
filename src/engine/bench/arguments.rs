//! Arguments of `bench FAMILY`, and values that all subjects read alike. Every refusal is one sentence.

use clap::Parser;
use safelight_core::job::DeviceChoice;

use crate::error::ProcessError;
use crate::families;
use crate::families::bench_cases::{BenchCase, SizeArguments, in_range};

/// Reads the arguments of a subject.
pub(crate) fn read<T: Parser>(
    arguments: impl IntoIterator<Item = String>,
) -> Result<T, ProcessError> {
    T::try_parse_from(arguments).map_err(|err| {
        if !err.use_stderr() {
            err.exit(); // The help.
        }
        // The next lines tell how to get help.
        let text = err.to_string();
        let sentence = text.lines().next().unwrap_or_default();
        ProcessError::Arguments(sentence.trim_start_matches("error: ").to_owned())
    })
}

/// Time and memory of a family's networks at full size with random weights
#[derive(Clone, Debug, Parser)]
#[command(name = "bench FAMILY", no_binary_name = true)]
pub(super) struct FamilyArguments {
    #[arg(skip)]
    pub(super) cases: Vec<&'static BenchCase>,
    /// Cases by name [default: all]
    #[arg(value_name = "CASE")]
    names: Vec<String>,
    /// auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    pub(super) device: DeviceChoice,
    /// Small networks of the same structure, for machines without a GPU
    #[arg(long)]
    pub(super) small: bool,
    /// Timed runs of each case
    #[arg(long, default_value = "5", value_parser = count)]
    pub(super) runs: usize,
    /// Devices that share each call, from the chosen one on
    #[arg(long, default_value = "1", value_parser = count)]
    pub(super) ranks: usize,
    #[command(flatten)]
    pub(super) sizes: SizeArguments,
    /// Also with this much kept free of weights, which stream from a temporary file
    #[arg(long, value_name = "GIB,…", value_parser = gib, value_delimiter = ',', allow_negative_numbers = true)]
    pub(super) preserved: Vec<u64>,
    /// Memory of the device that may be used where weights stream
    #[arg(long, value_name = "GIB", value_parser = gib, requires = "preserved")]
    pub(super) cap: Option<u64>,
}

impl FamilyArguments {
    /// Parses the name of a family, then options and cases.
    pub(super) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, ProcessError> {
        let mut arguments = arguments.into_iter();
        let family = arguments.next().unwrap_or_default();
        let refused = |what: &str, names: Vec<String>, found: &str| {
            let names = names.join(", ");
            ProcessError::Arguments(format!("expected {what} ({names}), found {found:?}"))
        };
        let own = || families::measured().filter(|(id, _)| name_of(id) == family);
        if own().next().is_none() {
            let names = families::MEASURED.map(|(id, _)| name_of(id)).to_vec();
            return Err(refused("a subject or a family", names, &family));
        }
        let mut parsed: Self = read(arguments)?;
        let case = |name: &String| {
            let case = own().find(|(_, case)| case.name == name.as_str());
            case.map(|(_, case)| case).ok_or_else(|| {
                let names = own().map(|(_, case)| case.name.to_owned()).collect();
                refused("a case", names, name)
            })
        };
        parsed.cases = parsed.names.iter().map(case).collect::<Result<_, _>>()?;
        if parsed.cases.is_empty() {
            parsed.cases = own().map(|(_, case)| case).collect();
        }
        Ok(parsed)
    }
}

/// A number of runs or steps.
pub(super) fn count(text: &str) -> Result<usize, String> {
    in_range(text, 1000).map(|count| count as usize)
}

/// A number of GiB, in bytes.
fn gib(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(gib) if (0.0..=1024.0).contains(&gib) => Ok((gib * f64::from(1 << 30)) as u64),
        _ => Err(format!("expected 0 to 1024 GiB, found {text:?}")),
    }
}

/// A family's name on the command line.
pub(super) fn name_of(id: &str) -> String {
    id.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<FamilyArguments, ProcessError> {
        FamilyArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn without_names_all_cases_are_measured() {
        let all = parse("wan --device cpu --small --runs 7").unwrap();
        assert!(all.cases.len() > 5);
        let found = (all.device, all.small, all.runs);
        assert_eq!(found, (DeviceChoice::Cpu, true, 7));
        let some = parse("wan umt5xxl wan14b_320_17f --width 640 --tile 256").unwrap();
        let names: Vec<&str> = some.cases.iter().map(|case| case.name).collect();
        assert_eq!(names, ["umt5xxl", "wan14b_320_17f"]);
        assert_eq!((some.sizes.width, some.sizes.tile), (Some(640), Some(256)));
        let bounds = parse("flux --preserved 0,1.5 --cap 20 flux_1024").unwrap();
        let gib = 1 << 30;
        let found = (bounds.preserved, bounds.cap);
        assert_eq!(found, (vec![0, 3 * gib / 2], Some(20 * gib)));
        let last = parse("wan --small -- umt5xxl").unwrap();
        assert!(last.small && last.cases.len() == 1);
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<&str> = families::measured().map(|(_, case)| case.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn invalid_arguments_are_refused_in_one_sentence() {
        for (line, part) in [
            ("", "expected a subject or a family (framepack, wan, "),
            (
                "--small",
                "expected a subject or a family (framepack, wan, ",
            ),
            ("wan wan99b", "expected a case (wan14b_480p_81f,"),
            ("flux umt5xxl", "expected a case (flux_1024,"),
            ("wan --runs 0", "expected 1 to 1000, found \"0\""),
            ("wan --runs many", "found \"many\""),
            ("wan --device", "a value is required for '--device"),
            ("wan --device npu", "is not a device"),
            ("wan --width 0", "'--width <WIDTH>': expected 1 to 16384"),
            ("wan --preserved 1,x", "expected 0 to 1024 GiB, found \"x\""),
            ("wan --preserved -1", "found \"-1\""),
            ("wan --cap 20", "required arguments were not provided"),
            ("wan --fast", "unexpected argument '--fast'"),
            ("wan -- --small", "expected a case (wan14b_480p_81f,"),
        ] {
            let err = parse(line).unwrap_err();
            assert_eq!(err.exit_code(), 2);
            let text = err.to_string();
            assert!(text.contains(part) && text.lines().count() == 1, "{text}");
        }
    }
}
