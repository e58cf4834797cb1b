//! The three algorithms on signals whose movements are known.

use tch::{Device, Kind, Tensor};

use super::*;

/// A signal that is `level` everywhere, so that changes are relative to it.
struct Level(f64);

impl Level {
    fn everywhere(&self) -> Tensor {
        Tensor::full([1, 3, 4], self.0, (Kind::Float, Device::Cpu))
    }
}

impl Signals for Level {
    fn modulated(&self) -> Tensor {
        self.everywhere()
    }

    fn first_residual(&self) -> Tensor {
        self.everywhere()
    }
}

fn cache(kind: StepCacheKind, threshold: f64, num_calls: usize) -> StepCache {
    let walk = Walk {
        num_calls,
        order: SectionOrder::Original,
        side: 640,
    };
    StepCache::new(Choice { kind, threshold }, walk)
}

/// Which calls were skipped.
fn skipped(cache: &StepCache, levels: &[f64]) -> Vec<usize> {
    let zero = Level(0.0).everywhere();
    let asked = levels.iter().enumerate();
    let found: Vec<usize> = asked
        .filter_map(|(call, &level)| {
            let stands_in = cache.stand_in(call, &Level(level));
            match &stands_in {
                Some(residual) => assert!(residual.double_value(&[0, 0, 0]) > 0.0),
                None => cache.keep(&zero, &Level(call as f64 + 1.0).everywhere()),
            }
            stands_in.map(|_| call)
        })
        .collect();
    assert_eq!(cache.num_skipped(), found.len());
    found
}

#[test]
fn the_first_and_the_last_call_always_run() {
    for kind in [
        StepCacheKind::TeaCache,
        StepCacheKind::MagCache,
        StepCacheKind::FirstBlock,
    ] {
        for num_calls in [1, 2, 25] {
            let cache = cache(kind, 1e9, num_calls);
            let found = skipped(&cache, &vec![1.0; num_calls]);
            assert!(!found.contains(&0) && !found.contains(&(num_calls - 1)));
            assert_eq!(found.is_empty(), num_calls < 3, "{kind:?} {num_calls}");
        }
        let none = cache(kind, 0.0, 25);
        assert!(skipped(&none, &[1.0; 25]).is_empty(), "{kind:?}");
    }
}

#[test]
fn teacache_sums_movements_until_they_reach_the_threshold() {
    // An input that stands still moves the output by the polynomial's last number, 0.096, a call.
    let still = cache(StepCacheKind::TeaCache, 0.25, 9);
    assert_eq!(skipped(&still, &[1.0; 9]), [1, 2, 4, 5, 7]);
    // A tenth of movement is 0.0733 - 0.4011 + 0.6759 - 0.3150 + 0.0961 = 0.1292.
    let levels: Vec<f64> = (0..6).map(|call| 1.1_f64.powi(call)).collect();
    let at = |threshold| skipped(&cache(StepCacheKind::TeaCache, threshold, 6), &levels);
    assert_eq!(at(0.1290), [0_usize; 0]);
    assert_eq!(at(0.1295), [1, 3]);
}

#[test]
fn the_first_block_is_compared_with_the_call_in_which_all_ran() {
    let levels = [1.0, 1.04, 1.09, 1.2, 1.21, 1.22];
    let cache = cache(StepCacheKind::FirstBlock, 0.1, levels.len());
    assert!(cache.runs_first_block());
    assert_eq!(skipped(&cache, &levels), [1, 2, 4]);
}

#[test]
fn magcache_skips_where_residuals_are_known_to_be_alike() {
    let cache = cache(StepCacheKind::MagCache, 0.1, 25);
    assert!(!cache.runs_first_block());
    // By hand from the table of 25 steps: from step 6 on, two at most, none whose ratio is off by more than 0.06.
    assert_eq!(
        skipped(&cache, &[1.0; 25]),
        [6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 22]
    );
}

#[test]
fn what_stands_in_is_what_the_blocks_added_when_they_last_ran() {
    let cache = cache(StepCacheKind::FirstBlock, 0.5, 4);
    let level = Level(1.0);
    assert!(cache.stand_in(0, &level).is_none());
    cache.keep(&Level(2.0).everywhere(), &Level(5.0).everywhere());
    let residual = cache.stand_in(1, &level).unwrap();
    assert!(residual.equal(&Level(3.0).everywhere()));
}
