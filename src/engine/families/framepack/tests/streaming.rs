//! FramePack with only a part of its weights on the device: the same numbers to the last bit.

use super::*;
use crate::families::tests::assert_equal_when_streamed;

#[test]
fn streamed_framepack_transformer_matches_the_resident_one() {
    for kind in [Kind::Float, Kind::BFloat16] {
        for (name, case) in cases() {
            let (_folder, weights) = write(&tensors(&case.config), kind);
            assert_equal_when_streamed(2, |resident_bytes| {
                let w = weights.with_residency(resident_bytes);
                let transformer = FramePackTransformer::new(&config(&case.config), &w).unwrap();
                let answers = [0, 1].map(|_| case.ask(&name, &transformer));
                (answers.into(), w.stream_bytes())
            });
        }
    }
}
