//! What measures this machine: networks of full size with random weights, loading, single layers, and how close small
//! networks come to what is known of them. One JSON object a line.
//!
//! It comes with every installation, so that a report has figures of the machine that it is made on. Decides nothing
//! about what is good enough.

pub mod arguments;
pub mod caches;
pub mod cases;
pub mod error;
pub mod load;
pub mod measure;
pub mod networks;
pub mod parity;
mod streamed;
pub mod walks;
pub mod ways;

use std::io::Write;

use safelight_core::measured::CaseLine;

use arguments::BenchArguments;
use error::BenchError;
use load::LoadArguments;
use parity::ParityArguments;
use ways::{Ways, WaysArguments};

/// What is measured, by name, and then that subject's own arguments. `false` when something failed; its line says why.
pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let mut arguments = arguments.peekable();
    let subject = arguments.peek().cloned().unwrap_or_default();
    if arguments::is_family(&subject) {
        return networks::run(&BenchArguments::parse(arguments)?, out);
    }
    let arguments = arguments.skip(1);
    if let Some(ways) = Ways::from_name(&subject) {
        return ways::run(ways, &WaysArguments::parse(ways, arguments)?, out);
    }
    match subject.as_str() {
        "caches" => caches::run(arguments, out),
        "load" => load::run(&arguments::read::<LoadArguments>(arguments)?, out),
        "parity" => parity::run(&arguments::read::<ParityArguments>(arguments)?, out),
        "list" => list(out),
        // A family is what it most likely should have been: that says which there are.
        _ => Err(arguments::no_family(&subject)),
    }
}

/// The cases that a report has.
fn list(out: &mut dyn Write) -> Result<bool, BenchError> {
    for (family, case) in cases::all() {
        if let Some(told) = &case.told {
            let line = CaseLine {
                family: arguments::name_of(family),
                case: case.name.to_owned(),
                label: told.label.to_owned(),
                kind: told.kind,
                rank: told.rank,
                gib: told.gib,
                tflop: told.tflop,
                options: told.options.iter().map(|&it| it.to_owned()).collect(),
            };
            measure::write_line(out, &line)?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_of_a_report_are_listed_and_each_can_be_asked_for() {
        let mut out = Vec::new();
        assert!(run(["list".to_owned()].into_iter(), &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<CaseLine> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines.len() > 10, "{text}");
        for line in lines {
            let arguments = [vec![line.family, line.case], line.options].concat();
            assert!(BenchArguments::parse(arguments).is_ok());
            assert!(line.gib > 0.0 && line.tflop > 0.0);
        }
        assert!(run(["nonsense".to_owned()].into_iter(), &mut Vec::new()).is_err());
    }
}
