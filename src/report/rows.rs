//! Rows of a report: JSON lines of `safelight-engine` and `safelight-bench`, checks of the doctor, targets.

use safelight_core::measured::ParityLine;
use safelight_core::sanitize::sentence;
use safelight_core::self_test::SelfTest;
use safelight_core::speed::SpeedProbe;
use serde::Deserialize as _;
use serde_json::Value;

use super::{MachineReport, ReportFigure, ReportRow, ReportSection};
use crate::doctor::{CheckResult, CheckStatus};

pub(super) fn fact(label: &str, note: String) -> ReportRow {
    ReportRow {
        label: label.to_owned(),
        note,
        ..ReportRow::default()
    }
}

pub(super) fn check(check: &CheckResult) -> ReportRow {
    let parts = [&check.message, &check.advice].into_iter();
    let parts = parts
        .filter(|part| !part.is_empty())
        .map(|part| sentence(part));
    let verdict = if check.status == CheckStatus::Warn {
        "Note: "
    } else {
        ""
    };
    let text = format!("{verdict}{}", parts.collect::<Vec<_>>().join(". "));
    ReportRow {
        is_bad: check.status == CheckStatus::Fail,
        ..fact(check.name, text)
    }
}

/// Turns a line into a row. `None` for lines without a case, and for those that only announce one.
pub(super) fn from_line(line: &Value) -> Option<ReportRow> {
    let text = |key: &str| line[key].as_str().filter(|text| !text.is_empty());
    let names = ["case", "cache", "probe", "trial"];
    let names: Vec<&str> = names.into_iter().filter_map(text).collect();
    if names.is_empty() || is_announcement(line) {
        return None;
    }
    let probe = SpeedProbe::deserialize(&line["probe"]).ok();
    let trial = SelfTest::deserialize(&line["trial"]).ok();
    let parity = ParityLine::deserialize(line).ok();
    let label = probe
        .map(SpeedProbe::label)
        .or_else(|| trial.map(SelfTest::label));
    let label = match &parity {
        Some(parity) => parity.label.clone(),
        None => label.map_or_else(|| names.join(" "), sentence),
    };
    let mut row = fact(&label, String::new());
    row.id = names.join("_");
    row.figures = match (probe, line["rate"].as_f64()) {
        (Some(probe), Some(rate)) => vec![ReportFigure::new("rate", rate, probe.unit())],
        (Some(_), None) => Vec::new(),
        (None, _) => figures("", line),
    };
    let is_above = line["limit"].is_number() && line["error"].as_f64() > line["limit"].as_f64();
    let is_far = parity.is_some_and(|parity| parity.error.is_none() && !parity.is_well());
    let faults = [
        text("error")
            .or_else(|| text("reason"))
            .map(|why| format!("failed: {why}")),
        is_above.then(|| format!("above {}", line["limit"])),
        is_far.then(|| format!("above {}", line["limits"])),
        (line["is_whole"] == false)
            .then(|| "the bytes on the device differ from the file".to_owned()),
        (line["is_same"] == false)
            .then(|| "differs from the result with all weights on the device".to_owned()),
    ];
    if let Some(threshold) = line["threshold"].as_f64() {
        row.label = format!("{} {threshold}", row.label);
    }
    if let Some(preserved) = line["preserved_gib"].as_f64() {
        row.id.push_str("_streamed");
        row.label = format!("{}, {preserved} GiB kept free", row.label);
    }
    row.is_bad = faults.iter().any(Option::is_some);
    let notes = [
        text("size"),
        (line["keeps_scores"] == true).then_some("all scores kept in memory"),
        (line["is_same"] == true).then_some("equal to the last bit"),
    ];
    let notes = notes.map(|note| note.map(str::to_owned));
    let computed = line["computed"].as_u64();
    let computed = computed.map(|it| format!("{it} of {} steps computed", line["steps"]));
    let notes = notes.into_iter().chain([computed]).chain(faults).flatten();
    row.note = notes.collect::<Vec<_>>().join(", ");
    Some(row)
}

/// A JSON line of the engine as one line for people; other lines as they are.
pub fn line_text(line: &str) -> String {
    let row = serde_json::from_str(line).ok();
    let Some(row) = row.as_ref().and_then(from_line) else {
        return line.to_owned();
    };
    let text = format!("{:24} {}  {}", row.label, row.figures_text(), row.note);
    text.trim_end().to_owned()
}

/// Returns true for the line before a case that may hang.
pub(super) fn is_announcement(line: &Value) -> bool {
    line["state"] == "begin" || line["line"] == "begin"
}

/// Numbers of a line that have a unit by their names, median or rate first.
fn figures(prefix: &str, line: &Value) -> Vec<ReportFigure> {
    let mut figures = Vec::new();
    for (key, value) in line.as_object().into_iter().flatten() {
        figures.extend(self::figures(&format!("{key} "), value));
        let named = name_and_unit(key).zip(value.as_f64());
        figures.extend(named.map(|((name, unit), value)| {
            ReportFigure::new(&format!("{prefix}{name}"), value, unit)
        }));
    }
    figures.sort_by_key(|figure| !["median", "rate"].contains(&figure.name.as_str()));
    figures
}

/// `None` for fields that are not results.
fn name_and_unit(key: &str) -> Option<(String, &'static str)> {
    const ENDINGS: [(&str, &str); 4] = [
        ("gib_per_s", "GiB/s"),
        ("_gib", "GiB"),
        ("_ms", "ms"),
        ("_s", "s"),
    ];
    match key {
        "min_s" | "total_s" | "preserved_gib" | "cap_gib" => None,
        "secs" => Some(("time".to_owned(), "s")),
        "error" | "relative_l2" | "from_shipped" | "in_f32" | "in_half" => {
            Some((key.replace('_', " "), ""))
        }
        _ => ENDINGS.iter().find_map(|(ending, unit)| {
            let name = key
                .strip_suffix(ending)?
                .trim_end_matches('_')
                .replace('_', " ");
            Some((
                if name.is_empty() {
                    "rate".to_owned()
                } else {
                    name
                },
                *unit,
            ))
        }),
    }
}

/// GiB of a Flux checkpoint in 16 bits.
const CHECKPOINT_GIB: f64 = 22.2;
/// Model calls of the target video: 20 steps with CFG.
const VIDEO_CALLS: f64 = 40.0;
const GB_PER_GIB: f64 = 1.073_741_824;

/// The targets of this project on Strix Halo, and values computed from this report.
pub(super) fn targets(report: &MachineReport) -> ReportSection {
    let rate = |name| report.figure("loading", "load_large", name);
    let network = |row, name| report.figure("networks", row, name);
    let peaks = (report.sections.iter())
        .filter(|section| section.id == "networks")
        .flat_map(|section| &section.rows)
        .flat_map(|row| &row.figures)
        .filter(|figure| figure.name == "peak");
    let peak = peaks.map(|figure| figure.value).max_by(f64::total_cmp);
    let call = network("wan14b_320_17f", "median");
    let decode = network("vae_wan_320_17f", "first");
    let rows = [
        (
            "Loading a Flux checkpoint",
            // A CPU maps files and loads nothing.
            peak.and_then(|_| rate("cold rate").or_else(|| rate("rate")))
                .map(|rate| CHECKPOINT_GIB / rate),
            (30.0, "s"),
            "22.2 GiB at the measured rate from disk to device",
        ),
        (
            "First decode of an image of 1024×1024",
            network("vae_flux_1024_bands", "first"),
            (10.0, "s"),
            "in a new process, with everything that is compiled on first use",
        ),
        (
            "Wan 14B, 320×320 with 17 frames",
            call.zip(decode)
                .map(|(call, decode)| call * VIDEO_CALLS + decode),
            (100.0, "s"),
            "20 steps with CFG at the measured time of a call, and a first decode",
        ),
        (
            "Peak memory of any network",
            peak.map(|peak| peak * GB_PER_GIB),
            (50.0, "GB"),
            "the allocator's count, of everything measured here",
        ),
    ];
    let rows = rows.map(|(label, measured, (target, unit), note)| {
        let figures = [("measured", measured), ("target", Some(target))].into_iter();
        let figures =
            figures.filter_map(|(name, value)| Some(ReportFigure::new(name, value?, unit)));
        let is_bad = measured.is_some_and(|measured| measured >= target);
        let note = match measured {
            None => "not measured".to_owned(),
            Some(_) if is_bad => format!("missed: {note}"),
            Some(_) => note.to_owned(),
        };
        ReportRow {
            figures: figures.collect(),
            is_bad,
            ..fact(label, note)
        }
    });
    let mut section = ReportSection::new("targets", "Targets", rows.into());
    section.about =
        "Values that should stay below those this project set for Strix Halo.".to_owned();
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_engine_are_rows_with_names_units_and_faults() {
        let row = |line: &str| from_line(&serde_json::from_str(line).unwrap());
        let figures = |row: &ReportRow| -> Vec<String> {
            let text = |it: &ReportFigure| format!("{} {} {}", it.name, it.value, it.unit);
            row.figures.iter().map(text).collect()
        };
        let begin = r#"{"probe":"attention","state":"begin"}"#;
        assert_eq!(row(begin), None);
        let speed =
            r#"{"probe":"matrix_bf16","state":"done","rate":31.5,"size":"4096","secs":0.004}"#;
        let speed = row(speed).unwrap();
        let expected = ("Matrices in bf16", "4096");
        assert_eq!((speed.label.as_str(), speed.note.as_str()), expected);
        assert_eq!(figures(&speed), ["rate 31.5 TFLOP/s"]);
        let load = r#"{"case":"load_large","gib":1.0,"median_s":0.5,"runs":3,"gib_per_s":2.0,"cold":{"gib_per_s":1.0},"is_whole":false}"#;
        let load = row(load).unwrap();
        let expected = ["rate 2 GiB/s", "median 0.5 s", "cold rate 1 GiB/s"];
        assert_eq!(figures(&load), expected);
        assert!(load.is_bad && load.note.contains("differ from the file"));
        let streamed = r#"{"case":"a","preserved_gib":2.0,"median_s":0.1,"is_same":true}"#;
        let streamed = row(streamed).unwrap();
        let expected = ("a_streamed", "equal to the last bit");
        assert_eq!((streamed.id.as_str(), streamed.note.as_str()), expected);
        let far = r#"{"line":"done","trial":"convolution","error":0.2,"limit":0.1}"#;
        assert!(row(far).unwrap().is_bad);
        let parity = r#"{"family":"wan","case":"block","label":"Wan: a block","from_shipped":1e-3,"in_f32":null,"in_half":null,"limits":[1e-5,1e-4,1e-2]}"#;
        let parity = row(parity).unwrap();
        assert_eq!((parity.is_bad, &*parity.label), (true, "Wan: a block"));
        let failed = row(r#"{"case":"b","error":"no kernel"}"#).unwrap();
        let expected = ("b", "failed: no kernel");
        assert_eq!((failed.label.as_str(), failed.note.as_str()), expected);
        let text = line_text(r#"{"case":"flux_1024","median_s":0.121,"peak_gib":22.6,"runs":5}"#);
        let expected = "flux_1024                median 0.121 s, peak 22.6 GiB";
        assert_eq!(text, expected);
        assert_eq!(line_text("no JSON"), "no JSON");
    }

    #[test]
    fn targets_appear_next_to_measurements_or_alone_without_one() {
        let row = |id: &str, figures: &[(&str, f64, &str)]| ReportRow {
            id: id.to_owned(),
            figures: figures
                .iter()
                .map(|it| ReportFigure::new(it.0, it.1, it.2))
                .collect(),
            ..ReportRow::default()
        };
        let section = |id: &str, rows| ReportSection {
            id: id.to_owned(),
            rows,
            ..ReportSection::default()
        };
        let measured = |report: &MachineReport| -> Vec<Option<f64>> {
            let rows = targets(report).rows.into_iter();
            rows.map(|row| {
                let [.., target] = &row.figures[..] else {
                    panic!("{row:?}");
                };
                assert_eq!(target.name, "target");
                (row.figures.len() == 2).then(|| row.figures[0].value)
            })
            .collect()
        };
        let mut report = MachineReport::default();
        assert_eq!(measured(&report), [None; 4]);
        let rates = [("rate", 40.0, "GiB/s"), ("cold rate", 2.0, "GiB/s")];
        let step = [("median", 1.5, "s"), ("peak", 27.0, "GiB")];
        let decode = [("first", 4.0, "s"), ("peak", 2.0, "GiB")];
        let networks = vec![
            row("wan14b_320_17f", &step),
            row("vae_wan_320_17f", &decode),
        ];
        report.sections = vec![
            section("loading", vec![row("load_large", &rates)]),
            section("networks", networks),
        ];
        let found = measured(&report);
        assert_eq!(found[..3], [Some(11.1), None, Some(64.0)]);
        assert!(found[3].is_some_and(|gb| (gb - 28.99).abs() < 0.01));
    }
}
