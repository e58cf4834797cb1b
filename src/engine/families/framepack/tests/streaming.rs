//! FramePack with only a part of its weights on the device: the same numbers to the last bit.

use super::*;

#[test]
fn a_transformer_that_streams_gives_what_one_that_stays_gives() {
    for kind in [Kind::Float, Kind::BFloat16] {
        for (name, case) in cases() {
            let (_folder, weights) = write(&tensors(&case.config), kind);
            let answers = |resident_bytes| {
                let w = weights.with_residency(resident_bytes);
                let transformer = FramePackTransformer::new(&config(&case.config), &w).unwrap();
                let answers = [0, 1].map(|_| case.ask(&name, &transformer));
                (answers, w.stream_bytes())
            };
            let (expected, _) = answers(None);
            let (found, all) = answers(Some(u64::MAX));
            let all = all.unwrap();
            assert!(found == expected && all.window == 0);
            for budget in [0, all.resident / 2, all.resident - 1] {
                let (found, taken) = answers(Some(budget));
                let taken = taken.unwrap();
                assert_eq!(found, expected, "{name}: {budget} bytes of {all:?}");
                assert!(taken.resident <= budget.max(all.resident / 2), "{taken:?}");
                assert!(0 < taken.window && taken.window < all.resident);
            }
        }
    }
}
