//! Which networks of full size this machine can be asked for, and how long each may take.
//!
//! What is left out has one sentence that says why.

use std::time::Duration;

use safelight_core::measured::{CaseKind, CaseLine};
use safelight_core::units::rough_text;

/// What matrices alone reach is more than a network does.
const SHARE_OF_MATRICES: f64 = 0.5;
/// Convolutions are farther from it.
const SHARE_OF_DECODERS: f64 = 0.15;
/// An engine's start, until it computes.
const START_SECS: f64 = 6.0;
/// Random numbers, and files of them.
const FILL_GIB_PER_SEC: f64 = 10.0;
const WRITE_GIB_PER_SEC: f64 = 0.5;
/// What the driver keeps for itself in a process.
const CONTEXT_GIB: f64 = 0.7;
/// Until which something may take longer than expected before it counts as hung.
const PATIENCE: f64 = 5.0;
const LEAST_LIMIT: Duration = Duration::from_secs(45);

/// What there is on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    pub(super) is_gpu: bool,
    /// Memory of the device that no program has, within the cap that the settings name.
    pub(super) free_gib: f64,
    /// Of products of matrices in bf16; `None` where they were not measured.
    pub(super) tflops: Option<f64>,
    /// Of the disk that files are made on.
    pub(super) disk_gib: f64,
}

/// How a case is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) runs: u32,
    pub(super) secs: f64,
    pub(super) limit: Duration,
}

/// How one case is measured in the time that is left, or why it is not.
pub(super) fn plan(case: &CaseLine, means: &Means, left: Duration) -> Result<Planned, String> {
    if !means.is_gpu {
        return Err("Networks of full size need a GPU.".to_owned());
    }
    let needed = case.gib + CONTEXT_GIB;
    if needed > means.free_gib {
        let free = means.free_gib;
        return Err(format!(
            "It needs {needed:.1} GiB of the device, and {free:.1} GiB are free."
        ));
    }
    let file_gib = file_gib(case);
    if file_gib * 1.2 > means.disk_gib {
        let free = means.disk_gib;
        return Err(format!(
            "It makes a file of {file_gib:.1} GiB for a moment, and the disk has {free:.1} GiB."
        ));
    }
    let share = match case.kind {
        CaseKind::Decode => SHARE_OF_DECODERS,
        CaseKind::Step | CaseKind::Text | CaseKind::Streaming => SHARE_OF_MATRICES,
    };
    // A device that would not say is taken to be slow.
    let call = case.tflop / (means.tflops.unwrap_or(10.0) * share);
    let before = START_SECS + case.gib / FILL_GIB_PER_SEC + file_gib / WRITE_GIB_PER_SEC;
    // Streamed weights are measured twice over: all on the device, and then not.
    let rounds = if file_gib > 0.0 { 2.0 } else { 1.0 };
    // The cold calls, and then as many as fit into a few seconds.
    let secs_of = |runs: u32| before + rounds * call * f64::from(runs + 2);
    let runs = (1..=5)
        .rev()
        .find(|&runs| call * f64::from(runs) <= 8.0)
        .unwrap_or(1);
    let secs = secs_of(runs);
    if secs > left.as_secs_f64() {
        return Err(format!(
            "It would take about {}, and the report has {} left.",
            rough_text(secs.ceil() as u64),
            rough_text(left.as_secs())
        ));
    }
    let limit = Duration::try_from_secs_f64(secs * PATIENCE)
        .unwrap_or(left)
        .max(LEAST_LIMIT)
        .min(left);
    Ok(Planned { runs, secs, limit })
}

/// Of the file that a case makes for its weights.
fn file_gib(case: &CaseLine) -> f64 {
    if case.kind == CaseKind::Streaming {
        case.gib
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(gib: f64, tflop: f64) -> CaseLine {
        CaseLine {
            family: "a".to_owned(),
            case: "b".to_owned(),
            label: "A step".to_owned(),
            kind: CaseKind::Step,
            rank: 1,
            gib,
            tflop,
            options: Vec::new(),
        }
    }

    const LARGE: Means = Means {
        is_gpu: true,
        free_gib: 130.0,
        tflops: Some(700.0),
        disk_gib: 100.0,
    };
    const LEFT: Duration = Duration::from_mins(8);

    #[test]
    fn what_fits_is_measured_and_what_does_not_says_why() {
        let planned = plan(&case(24.0, 74.0), &LARGE, LEFT).unwrap();
        assert!(planned.runs == 5 && planned.secs < 20.0, "{planned:?}");
        assert!(planned.limit >= LEAST_LIMIT && planned.limit <= LEFT);
        let why = |means: &Means, left| plan(&case(24.0, 500.0), means, left).unwrap_err();
        let small = Means {
            free_gib: 12.0,
            ..LARGE
        };
        assert_eq!(
            why(&small, LEFT),
            "It needs 24.7 GiB of the device, and 12.0 GiB are free."
        );
        let slow = Means {
            tflops: Some(4.0),
            ..LARGE
        };
        assert!(
            why(&slow, LEFT).contains("the report has"),
            "{}",
            why(&slow, LEFT)
        );
        let processor = Means {
            is_gpu: false,
            ..LARGE
        };
        assert!(why(&processor, LEFT).contains("need a GPU"));
        let streaming = CaseLine {
            kind: CaseKind::Streaming,
            ..case(4.0, 6.0)
        };
        let full = Means {
            disk_gib: 1.0,
            ..LARGE
        };
        assert!(plan(&streaming, &full, LEFT).unwrap_err().contains("disk"));
    }
}
