//! Position ids of tokens, and the schedule's shift.

use super::super::*;

#[test]
fn ids_are_time_row_and_column_of_images_and_the_order_of_text() {
    let row = |ids: &Tensor, index: i64| -> Vec<i64> { ids.get(index).try_into().unwrap() };
    assert_eq!(row(&text_ids(7), 5), [0, 0, 0, 5]);
    let [shape, small] = [(48, 32), (32, 16)].map(|(w, h)| ImageLatentShape::new(3, w, h).unwrap());
    assert_eq!(row(&img_ids(0, [&shape]), 5), [0, 1, 2, 0]);
    let seen = img_ids(1, [&shape, &small]);
    assert_eq!(seen.size(), [8, 4]);
    assert_eq!(row(&seen, 5), [10, 1, 2, 0]);
    assert_eq!(row(&seen, 7), [20, 0, 1, 0]);
}

#[test]
fn the_shift_is_that_of_diffusers() {
    for (tokens, steps, expected) in [
        (15, 4, 1.945_131_570_631_874),
        (4096, 4, 2.291_179_894_115_571),
        (4096, 50, 2.023_351_157_129_263),
        (4300, 28, 2.170_851_489_658_105),
        (4301, 28, 1.184_696_93),
    ] {
        let found = mu(tokens, steps);
        assert!(
            (found - expected).abs() < 1e-12,
            "{tokens} {steps}: {found}"
        );
    }
}
