//! Distances of tests' results from their expectation, and of the reference from itself.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

/// Limits in `tests/fixtures/spread.json`, written and explained by `spread.py` there.
#[derive(Deserialize)]
struct Reference {
    recorded_with: Frequencies,
    /// fixture: tensor
    spread: BTreeMap<String, BTreeMap<String, Spread>>,
}

/// Frequencies of a timestep, of 128, that are not the nearest number, and their distance in bits.
#[derive(Deserialize)]
struct Frequencies {
    changes: BTreeMap<usize, i32>,
}

/// Distance of the reference from its recording.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Spread {
    /// With sums in another order, or functions that end in another bit.
    roundings: f64,
    /// With the frequencies of another processor.
    frequencies: f64,
}

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/spread.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
});

thread_local! {
    static HAS_RECORDED_FREQUENCIES: Cell<bool> = const { Cell::new(false) };
}

/// Relative L2 distance of two tensors of one size, computed in double precision.
pub(crate) fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.size(), expected.size());
    let (found, expected) = (found.to_kind(Kind::Double), expected.to_kind(Kind::Double));
    let difference = (found - &expected).norm().double_value(&[]);
    difference / expected.norm().double_value(&[]).max(f64::MIN_POSITIVE)
}

#[track_caller]
#[expect(clippy::print_stderr, reason = "it is asked for")]
pub(crate) fn assert_close(what: &str, found: &Tensor, expected: &Tensor, limit: f64) {
    let distance = distance(found, expected);
    if std::env::var_os("SHOW_DISTANCES").is_some() {
        let place = std::panic::Location::caller();
        eprintln!("{place} {what}: {distance:.1e} of {limit:.0e}");
    }
    let holds = distance <= limit;
    assert!(holds, "{what}: {distance:.1e} is above {limit:.0e}");
}

/// At most one level apart, and in less than one number of a hundred.
#[track_caller]
pub(crate) fn assert_same_pixels(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.size(), expected.size(), "{what}");
    let off = (found.to_kind(Kind::Int) - expected.to_kind(Kind::Int)).abs();
    assert!(off.max().int64_value(&[]) <= 1, "{what}");
    let share = off.to_kind(Kind::Double).mean(Kind::Double);
    assert!(share.double_value(&[]) < 0.01, "{what}");
}

/// The limit for a tensor of `fixture`: `base`, or three times what the reference is from itself where that is more.
pub(crate) fn limit(fixture: &str, tensor: &str, base: f64) -> f64 {
    let of_fixture = REFERENCE.spread.get(fixture);
    let Some(spread) = of_fixture.and_then(|tensors| tensors.get(tensor)) else {
        return base;
    };
    let frequencies = if HAS_RECORDED_FREQUENCIES.get() {
        0.0
    } else {
        spread.frequencies
    };
    base.max(3.0 * spread.roundings.max(frequencies))
}

/// Runs `check` with the frequencies that this processor gives timesteps, then with those that the fixtures were recorded
/// with, where each [`limit`] leaves them out.
pub(crate) fn with_both_frequencies(check: impl Fn()) {
    check();
    let _recorded = RecordedFrequencies::new();
    check();
}

/// While it lives, this thread computes with the frequencies that the fixtures were recorded with.
struct RecordedFrequencies;

impl RecordedFrequencies {
    fn new() -> Self {
        HAS_RECORDED_FREQUENCIES.set(true);
        Self
    }
}

impl Drop for RecordedFrequencies {
    fn drop(&mut self) {
        HAS_RECORDED_FREQUENCIES.set(false);
    }
}

/// `count` exponents' powers of e that this thread is to compute with in the place of its processor's.
pub(crate) fn recorded_frequencies(count: i64, device: Device) -> Option<Tensor> {
    let is_recorded = HAS_RECORDED_FREQUENCIES.get() && count == 128;
    is_recorded.then(|| {
        let mut frequencies = nearest_frequencies(count);
        for (&place, &bits) in &REFERENCE.recorded_with.changes {
            let changed = frequencies[place].to_bits().wrapping_add_signed(bits);
            frequencies[place] = f32::from_bits(changed);
        }
        Tensor::from_slice(&frequencies).to_device(device)
    })
}

/// The frequencies of a timestep's embedding, each rounded once, at its end.
pub(crate) fn nearest_frequencies(count: i64) -> Vec<f32> {
    let step = Tensor::arange(count, (Kind::Float, Device::Cpu)) * -10000_f64.ln() / count as f64;
    let exponents: Vec<f32> = step.try_into().unwrap();
    exponents
        .iter()
        .map(|&exponent| f64::from(exponent).exp() as f32)
        .collect()
}
