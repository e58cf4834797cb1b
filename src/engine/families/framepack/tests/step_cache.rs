//! What stands in for the blocks where a step cache skips them.

use safelight_core::job::{SectionOrder, StepCache as Choice, StepCacheKind};

use super::*;
use crate::families::framepack::measured::measured;

#[test]
fn skipped_framepack_call_matches_the_computed_prediction() {
    for (name, case) in cases() {
        let (_folder, weights) = write(&tensors(&case.config), Kind::Float);
        let transformer = FramePackTransformer::new(&config(&case.config), &weights).unwrap();
        for kind in [
            StepCacheKind::TeaCache,
            StepCacheKind::MagCache,
            StepCacheKind::FirstBlock,
        ] {
            let choice = Choice {
                kind,
                threshold: 1.0,
            };
            let cache = ContextCache::new(choice, 3, measured(SectionOrder::F1, 640, 3)).unwrap();
            let answers =
                [0, 1, 2].map(|call| case.ask_cached(&name, &transformer, Some((&cache, call))));
            assert_eq!(cache.num_skipped(), 1, "{kind:?}");
            let expected = case.ask(&name, &transformer);
            assert_eq!(answers[0], expected, "{kind:?}");
            assert_eq!(answers[2], expected, "{kind:?}");
            let what = format!("{kind:?} {name}");
            assert_close(&what, &answers[1], &expected, CALL_LIMIT);
        }
    }
}
