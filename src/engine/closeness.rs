//! How far what tests find is from what they expect. For tests only; decides no limits.

use tch::{Kind, Tensor};

/// Relative L2 distance of two tensors of one size, computed in double precision.
pub(crate) fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.size(), expected.size());
    let (found, expected) = (found.to_kind(Kind::Double), expected.to_kind(Kind::Double));
    let difference = (found - &expected).norm().double_value(&[]);
    difference / expected.norm().double_value(&[]).max(f64::MIN_POSITIVE)
}

#[track_caller]
pub(crate) fn assert_close(what: &str, found: &Tensor, expected: &Tensor, limit: f64) {
    let distance = distance(found, expected);
    assert!(
        distance <= limit,
        "{what}: {distance:.1e} is above {limit:.0e}"
    );
}
