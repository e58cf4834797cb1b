//! Sigma schedules as ComfyUI and its node pack RES4LYF compute them for flow models: from a table of shifted sigmas,
//! whose smallest is their end, where diffusers ends at the model's own last sigma.

use safelight_core::job::SigmaSchedule;

use super::SigmaSpacing;
use super::schedule::{beta_quantile, karras, linspace, shifted};

/// All sigmas of a model.
pub(super) struct SigmaTable<'a> {
    pub(super) entries: usize,
    /// Sigma of a place among the entries, the smallest first; also between two of them.
    pub(super) sigma: &'a dyn Fn(f64) -> f64,
    /// Last place of schedules by equal distances.
    pub(super) end: f64,
}

/// Sigmas of a flow model without the final 0; `None` for diffusers' schedules. `entries`: length of the table.
pub(super) fn comfy_sigmas(spacing: &SigmaSpacing, entries: u32) -> Option<Vec<f64>> {
    let count = f64::from(entries);
    let sigma = |place: f64| shifted((place + 1.0) / count, spacing.shift);
    let table = SigmaTable {
        entries: entries as usize,
        // The shift acts twice here.
        end: sigma(0.0) * count - 1.0,
        sigma: &sigma,
    };
    let is_ours = !spacing.schedule.is_diffusers();
    is_ours.then(|| table_sigmas(spacing.schedule, spacing.num_steps, &table))
}

/// Sigmas of a schedule of ComfyUI's without the final 0.
pub(super) fn table_sigmas(
    schedule: SigmaSchedule,
    num_steps: usize,
    table: &SigmaTable<'_>,
) -> Vec<f64> {
    let (sigma, last) = (table.sigma, table.entries - 1);
    let entry = |index: usize| sigma(index as f64);
    let [smallest, largest] = [entry(0), entry(last)];
    let even = |count| linspace(last as f64, table.end, count).into_iter();
    let beta = |alpha, beta| {
        let quantiles = (0..num_steps).map(|i| {
            let probability = 1.0 - i as f64 / num_steps as f64;
            beta_quantile(probability, alpha, beta) * last as f64
        });
        let exact: Vec<f64> = quantiles.collect();
        let is_distinct = |pair: &[f64]| pair[0].round_ties_even() > pair[1].round_ties_even();
        // ComfyUI leaves out repeated entries, and with them steps; here they keep their fraction.
        let is_whole = exact.windows(2).all(is_distinct);
        let place = |exact: f64| {
            if is_whole {
                exact.round_ties_even()
            } else {
                exact
            }
        };
        exact.into_iter().map(|exact| sigma(place(exact))).collect()
    };
    match schedule {
        SigmaSchedule::Simple => {
            let stride = table.entries as f64 / num_steps as f64;
            let index = |i| last - (i as f64 * stride) as usize;
            (0..num_steps).map(|i| entry(index(i))).collect()
        }
        SigmaSchedule::Normal => even(num_steps).map(sigma).collect(),
        SigmaSchedule::SgmUniform => even(num_steps + 1).take(num_steps).map(sigma).collect(),
        SigmaSchedule::Beta => beta(0.6, 0.6),
        SigmaSchedule::Beta57 => beta(0.5, 0.7),
        SigmaSchedule::Karras => karras(largest, smallest, num_steps),
        SigmaSchedule::Exponential => {
            let logarithms = linspace(largest.ln(), smallest.ln(), num_steps).into_iter();
            logarithms.map(f64::exp).collect()
        }
        SigmaSchedule::KlOptimal => {
            let angles = linspace(largest.atan(), smallest.atan(), num_steps).into_iter();
            angles.map(f64::tan).collect()
        }
        SigmaSchedule::BongTangent => bong_tangent(num_steps),
        SigmaSchedule::Model
        | SigmaSchedule::BetaDiffusers
        | SigmaSchedule::KarrasDiffusers
        | SigmaSchedule::ExponentialDiffusers => Vec::new(),
    }
}

/// RES4LYF's schedule: one arctangent from 1 to 0.5, another from 0.5 to 0, both around the same point.
fn bong_tangent(num_steps: usize) -> Vec<f64> {
    let num_points = num_steps + 2;
    let pivot = (num_points as f64 * 0.6) as usize;
    let slope = 0.2 / (num_points as f64 / 40.0);
    let piece = |count: usize, pivot: f64, start: f64, end: f64| {
        let curve = move |i: usize| (-slope * (i as f64 - pivot)).atan();
        let (most, least) = (curve(0), curve(count - 1));
        // The last point begins the other piece, or is the final 0.
        (0..count - 1).map(move |i| (curve(i) - least) / (most - least) * (start - end) + end)
    };
    let first = piece(pivot, pivot as f64, 1.0, 0.5);
    let mut sigmas: Vec<f64> = first
        .chain(piece(num_points - pivot, 0.0, 0.5, 0.0))
        .collect();
    // With one step, the first piece is empty.
    if let Some(first) = sigmas.first_mut() {
        *first = 1.0;
    }
    sigmas
}
