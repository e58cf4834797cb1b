//! The lines of engines and the doctor's checks as rows of a report.
//!
//! Judges nothing that the engine has not judged.

use safelight_core::measured::{CaseLine, ParityLine};
use safelight_core::shown::sentence;
use safelight_core::speed::{SpeedLine, SpeedState};
use safelight_core::trial::TrialLine;
use serde_json::Value;

use super::{Figure, Finding, Row};
use crate::doctor::{self, Status};

pub(super) fn finding(check: doctor::Check) -> Finding {
    let status = match check.status {
        Status::Ok => "ok",
        Status::Warn => "warn",
        Status::Fail => "fail",
    };
    Finding {
        status: status.to_owned(),
        name: check.name.to_owned(),
        message: check.message,
        advice: check.advice,
    }
}

pub(super) fn speed_row(line: &SpeedLine, id: &str) -> Option<Row> {
    let label = sentence(line.probe.label());
    match &line.state {
        SpeedState::Begin => None,
        SpeedState::Done {
            rate,
            size,
            keeps_scores,
            ..
        } => Some(Row {
            id: id.to_owned(),
            label,
            figures: vec![Figure::new("rate", *rate, line.probe.unit())],
            note: if *keeps_scores {
                format!("{size}, all scores kept in memory")
            } else {
                size.clone()
            },
            is_bad: false,
        }),
        SpeedState::Failed { reason } => Some(failed(id, &label, reason)),
    }
}

fn failed(id: &str, label: &str, reason: &str) -> Row {
    Row {
        id: id.to_owned(),
        label: label.to_owned(),
        note: format!("failed: {reason}"),
        is_bad: true,
        ..Row::default()
    }
}

/// The figures of a line that are numbers, by their names there.
fn figures(line: &Value, wanted: &[(&str, &str, &str)]) -> Vec<Figure> {
    let found = wanted.iter().filter_map(|(key, name, unit)| {
        let value = line.pointer(key)?.as_f64()?;
        Some(Figure::new(name, value, unit))
    });
    found.collect()
}

pub(super) fn loading_row(line: &Value) -> Row {
    let id = line["case"].as_str().unwrap_or_default();
    let is_whole = line["is_whole"] == Value::Bool(true);
    // Nothing is copied there: a rate would be that of looking at the file's list.
    let is_mapped = line["device"] == "CPU";
    let wanted = [
        ("/gib_per_s", "from memory", "GiB/s"),
        ("/cold/gib_per_s", "from disk", "GiB/s"),
        ("/cold/disk_gib_per_s", "the disk alone", "GiB/s"),
        ("/pinned_copy_gib_per_s", "a pinned copy", "GiB/s"),
        ("/host_gib", "memory of the host", "GiB"),
    ];
    Row {
        id: id.to_owned(),
        label: match id {
            "load_large" => "Large tensors".to_owned(),
            "load_tiny" => "Many tiny tensors".to_owned(),
            other => other.to_owned(),
        },
        figures: figures(line, if is_mapped { &[] } else { &wanted }),
        note: if is_whole && is_mapped {
            "right to the last byte; the processor computes from the file where it lies".to_owned()
        } else if is_whole {
            String::new()
        } else {
            "what came to the device is not what the file holds".to_owned()
        },
        is_bad: !is_whole,
    }
}

pub(super) fn trial_row(line: TrialLine) -> Option<Row> {
    match line {
        TrialLine::Done {
            trial,
            error,
            limit,
        } => {
            let label = sentence(trial.label());
            Some(Row {
                id: format!("try_{}", trial.label().replace(' ', "_")),
                label,
                figures: vec![Figure::new("off", error, "")],
                note: format!("at most {limit:.0e}"),
                is_bad: error > limit,
            })
        }
        TrialLine::Failed { trial, reason } => Some(failed("try", trial.label(), &reason)),
        _ => None,
    }
}

pub(super) fn parity_row(line: ParityLine) -> Row {
    let names = ["from shipped values", "in f32", "in bf16"];
    let distances = [line.from_shipped, line.in_f32, line.in_half];
    let pairs = names.iter().zip(distances);
    let is_bad = !line.is_well();
    Row {
        figures: pairs
            .filter_map(|(name, distance)| Some(Figure::new(name, distance?, "")))
            .collect(),
        note: match (&line.error, is_bad) {
            (Some(err), _) => format!("failed: {err}"),
            (None, true) => format!(
                "farther than {:.0e}, {:.0e}, {:.0e}",
                line.limits[0], line.limits[1], line.limits[2]
            ),
            (None, false) => String::new(),
        },
        id: line.case,
        label: line.label,
        is_bad,
    }
}

pub(super) fn network_row(case: &CaseLine, line: &Value) -> Row {
    if let Some(reason) = line["error"].as_str() {
        return failed(&case.case, &case.label, reason);
    }
    let preserved = line["preserved_gib"].as_f64();
    let is_same = line["is_same"].as_bool();
    let (id, label) = match preserved {
        Some(_) => (
            format!("{}_streamed", case.case),
            format!("{}: streamed", case.label),
        ),
        None => (case.case.clone(), case.label.clone()),
    };
    Row {
        id,
        label,
        figures: figures(
            line,
            &[
                ("/median_s", "a call", "s"),
                ("/first_s", "first", "s"),
                ("/peak_gib", "peak", "GiB"),
                ("/weights_gib", "weights", "GiB"),
                ("/resident_gib", "weights that stay", "GiB"),
                ("/device_gib", "used of the device", "GiB"),
            ],
        ),
        note: match is_same {
            Some(true) => "equal to the last bit".to_owned(),
            Some(false) => "not equal to what it was with all weights on the device".to_owned(),
            None => String::new(),
        },
        is_bad: is_same == Some(false),
    }
}

pub(super) fn way_row(line: &Value) -> Row {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let (id, label) = (
        format!("{}_{}", text("case"), text("way")),
        format!("{}: {}", text("case"), text("way")),
    );
    if let Some(reason) = line["failure"].as_str() {
        return failed(&id, &label, reason);
    }
    Row {
        id,
        label,
        figures: figures(
            line,
            &[
                ("/median_s", "a call", "s"),
                ("/first_s", "first", "s"),
                ("/transient_gib", "beside its result", "GiB"),
                ("/error", "off", ""),
            ],
        ),
        note: text("kernel").to_owned(),
        is_bad: false,
    }
}
