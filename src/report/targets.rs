//! What this project set out to reach on Strix Halo, beside what was measured here.
//!
//! Whole jobs are not run at full size: their times are computed from what was measured, and the note says how.

use super::{Report, Target};

/// Bytes of a Flux checkpoint in 16 bits, in GiB.
const CHECKPOINT_GIB: f64 = 22.2;
/// Of a clip of the target: steps, and calls of the model in each.
const STEPS: f64 = 20.0;
const CALLS: f64 = 2.0;
/// GB in a GiB.
const GB: f64 = 1.073_741_824;

pub(super) fn of(report: &Report) -> Vec<Target> {
    let target = |name: &str, below: f64, unit: &str, measured: Option<f64>, note: &str| Target {
        name: name.to_owned(),
        below,
        measured,
        unit: unit.to_owned(),
        note: note.to_owned(),
    };
    let rate = |name| report.figure("loading", "load_large", name);
    let load = rate("from disk").or_else(|| rate("from memory"));
    let (step, decode) = ("wan14b_320_17f", "vae_wan_320_17f");
    let network = |row, name| report.figure("networks", row, name);
    let clip = || {
        let calls = network(step, "a call")? * STEPS * CALLS;
        Some(calls + network(decode, "first")?)
    };
    let sections = ["networks", "streaming"];
    let rows = sections.into_iter().filter_map(|id| report.section(id));
    let peaks = rows
        .flat_map(|section| &section.rows)
        .flat_map(|row| &row.figures);
    let peaks = peaks
        .filter(|figure| figure.name == "peak")
        .map(|figure| figure.value * GB);
    let is_there = load.is_some()
        && report
            .section("networks")
            .is_some_and(|it| !it.rows.is_empty());
    vec![
        target(
            "Loading a Flux checkpoint",
            30.0,
            "s",
            load.filter(|_| is_there).map(|rate| CHECKPOINT_GIB / rate),
            "22.2 GiB at the rate that a file came from this disk to the device",
        ),
        target(
            "First decode of a picture of 1024×1024",
            10.0,
            "s",
            network("vae_flux_1024_bands", "first"),
            "in a new process, with all that is compiled and searched for on first use",
        ),
        target(
            "Wan 14B, 320×320 with 17 frames",
            100.0,
            "s",
            clip(),
            "20 steps with guidance at the measured time of a call, and a first decode",
        ),
        target(
            "Most memory of any network",
            50.0,
            "GB",
            peaks
                .fold(None, |most: Option<f64>, peak| {
                    Some(most.map_or(peak, |it| it.max(peak)))
                })
                .filter(|_| is_there),
            "what the allocator counted, of everything that was measured here",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{Figure, Row, Section};
    use super::*;

    #[test]
    fn targets_stand_beside_what_was_measured_and_are_empty_where_nothing_was() {
        let row = |id: &str, figures: &[(&str, f64, &str)]| Row {
            id: id.to_owned(),
            figures: figures
                .iter()
                .map(|&(name, value, unit)| Figure::new(name, value, unit))
                .collect(),
            ..Row::default()
        };
        let section = |id: &str, rows| Section {
            id: id.to_owned(),
            rows,
            ..Section::default()
        };
        let mut report = Report::default();
        assert!(of(&report).iter().all(|target| target.measured.is_none()));
        report.sections = vec![
            section(
                "loading",
                vec![row(
                    "load_large",
                    &[("from memory", 40.0, "GiB/s"), ("from disk", 2.0, "GiB/s")],
                )],
            ),
            section(
                "networks",
                vec![
                    row(
                        "wan14b_320_17f",
                        &[("a call", 1.5, "s"), ("peak", 27.0, "GiB")],
                    ),
                    row(
                        "vae_wan_320_17f",
                        &[
                            ("a call", 1.0, "s"),
                            ("first", 4.0, "s"),
                            ("peak", 2.0, "GiB"),
                        ],
                    ),
                ],
            ),
        ];
        let found: Vec<Option<f64>> = of(&report).iter().map(|target| target.measured).collect();
        assert_eq!(found[0], Some(11.1));
        assert_eq!(found[1], None);
        assert_eq!(found[2], Some(64.0));
        assert!(found[3].is_some_and(|gb| (gb - 28.99).abs() < 0.01));
    }
}
