//! The padding that one token represents.

use super::super::*;

#[test]
fn padding_that_is_alike_counts_from_the_end_and_text_never_does() {
    let row = |values: &[f32]| Tensor::from_slice(values).view([1, -1, 1]);
    for (rows, mask, expected) in [
        (
            &[1.0, 2.0, 3.0, 3.0, 3.0][..],
            &[1.0, 1.0, 0.0, 0.0, 0.0][..],
            3,
        ),
        (&[1.0, 3.0, 3.0, 2.0, 3.0], &[1.0, 1.0, 0.0, 0.0, 0.0], 1),
        (&[3.0, 3.0, 3.0], &[1.0, 1.0, 0.0], 1),
        (&[3.0, 3.0, 3.0], &[1.0, 1.0, 1.0], 1),
        (&[1.0, 3.0, 3.0], &[1.0, 0.0, 0.0], 2),
    ] {
        let mask = Tensor::from_slice(mask).view([1, -1]);
        assert_eq!(alike_at_end(&row(rows), &mask), expected, "{rows:?}");
    }
}

#[test]
fn scores_of_pairs_that_count_get_one_more_and_a_token_for_several_their_logarithm() {
    let mask = Tensor::from_slice(&[1.0_f32, 0.0, 0.0]);
    let found = bias(&mask, 5, 1);
    let log = 5_f32.ln();
    let expected = [
        [1.0, 0.0, log, 1.0],
        [0.0, 0.0, log, 0.0],
        [0.0, 0.0, log, 0.0],
        [1.0, 0.0, log, 1.0],
    ];
    assert_eq!(found.size(), [1, 1, 4, 4]);
    assert!(
        found
            .view([4, 4])
            .allclose(&Tensor::from_slice2(&expected), 1e-6, 0.0, false)
    );
}
