//! The transformer on several ranks.

use super::*;
use crate::parallel::tests::on_ranks;

#[test]
fn several_ranks_predict_what_one_does_with_history() {
    let made = || {
        cases()
            .into_iter()
            .map(|(name, case)| {
                let (_folder, weights) = write(&tensors(&case.config), Kind::Float);
                let transformer =
                    FramePackTransformer::new(&config(&case.config), &weights).unwrap();
                case.ask(&name, &transformer)
            })
            .collect::<Vec<_>>()
    };
    let whole = made();
    for ranks in [2, 3, 4, 8] {
        for found in on_ranks(ranks, made) {
            for (found, whole) in found.iter().zip(&whole) {
                assert_close(&format!("{ranks} ranks"), found, whole, CALL_LIMIT);
            }
        }
    }
}
