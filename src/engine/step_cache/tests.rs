//! The algorithms on signals whose movements are known, and on a small network against diffusers' own
//! (`tests/fixtures/step_cache`).

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::*;
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{fixture, tensors_in};

/// A signal that is `level` everywhere, so that changes are relative to it.
struct Level(f64);

impl Level {
    fn everywhere(&self) -> Tensor {
        Tensor::full([1, 3, 4], self.0, (Kind::Float, Device::Cpu))
    }
}

impl SkipSignals for Level {
    fn modulated(&self) -> Tensor {
        self.everywhere()
    }

    fn first_residual(&self) -> Tensor {
        self.everywhere()
    }
}

/// With FramePack's polynomial, and ratios as those of most models: large at first, small at the end.
fn measured() -> CacheCalibration {
    let mut ratios = vec![1.02; 25];
    ratios[7] = 1.08;
    ratios[24] = 0.7;
    CacheCalibration {
        polynomial: Some([733.226126, -401.131952, 67.5869174, -3.149878, 0.0961237896].into()),
        magnitudes: Some(ResidualMagnitudes {
            ratios,
            max_skips: 2,
            retained: 5,
            max_change: 0.06,
        }),
    }
}

fn cache(kind: StepCacheKind, threshold: f64, num_calls: usize) -> ContextCache {
    let choice = Choice { kind, threshold };
    ContextCache::new(choice, num_calls, measured()).expect("everything was measured")
}

/// Which calls were skipped.
fn skipped(cache: &ContextCache, levels: &[f64]) -> Vec<usize> {
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
    let mut retained = measured();
    if let Some(polynomial) = &mut retained.polynomial {
        polynomial.retained = 4;
    }
    let choice = Choice {
        kind: StepCacheKind::TeaCache,
        threshold: 0.25,
    };
    let retained = ContextCache::new(choice, 9, retained).unwrap();
    assert_eq!(skipped(&retained, &[1.0; 9]), [4, 5, 7]);
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
    // By hand: two at most, none of the first five or whose ratio is off by more than 0.06.
    let found = skipped(&cache, &[1.0; 25]);
    assert_eq!(found, [5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23]);
}

#[test]
fn uncalibrated_step_cache_is_unavailable_if_its_kind_needs_calibration() {
    for kind in StepCacheKind::ALL {
        let cache = ContextCache::new(kind.into(), 5, CacheCalibration::default());
        let needs_nothing = StepCacheKind::OF_ANY_MODEL.contains(&kind);
        assert_eq!(cache.is_some(), needs_nothing, "{kind:?}");
    }
}

#[test]
fn a_table_is_stretched_to_the_nearest_of_its_numbers() {
    let table = [0.0, 1.0, 2.0, 3.0];
    assert_eq!(stretched(&table, 4), table);
    assert_eq!(stretched(&table, 7), [0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0]);
    assert_eq!(stretched(&table, 1), [3.0]);
}

/// The network of `tests/fixtures/step_cache/generate.py`.
struct Network {
    recorded: BTreeMap<String, Tensor>,
    told: Vec<f64>,
}

impl Network {
    fn open() -> Self {
        let recorded = tensors_in(&fixture("step_cache/recorded.safetensors"));
        let told = recorded["told"].to_kind(Kind::Double);
        Self {
            told: told.try_into().expect("a row of numbers"),
            recorded,
        }
    }

    fn block(&self, index: usize, xs: &Tensor, call: usize) -> Tensor {
        let weight = &self.recorded[&format!("weight.{index}")];
        xs + xs.matmul(weight).tanh() * self.told[call]
    }

    fn answer(&self, call: usize, cache: CallCache<'_>) -> Tensor {
        let mut xs = self.recorded[&format!("input.{call}")].copy();
        let mut skip = BlockSkipper::of(SkipOptions {
            cache,
            ..SkipOptions::default()
        });
        let mut known = skip.start(&xs, &xs);
        for index in 0..3 {
            if known.is_none() {
                xs = self.block(index, &xs, call);
            }
            if index == 0 && known.is_none() {
                known = skip.first(&xs);
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        xs * 0.5
    }
}

#[test]
fn every_cache_answers_as_that_of_diffusers() {
    let network = Network::open();
    let num_calls = network.told.len();
    let ratios = network.recorded["ratios"].to_kind(Kind::Double);
    let measured = CacheCalibration {
        polynomial: None,
        magnitudes: Some(ResidualMagnitudes {
            ratios: ratios.try_into().unwrap(),
            max_skips: 3,
            retained: (0.2 * num_calls as f64).round() as usize,
            max_change: f64::INFINITY,
        }),
    };
    for (name, num_skipped) in [
        ("first_block:0.05", 3),
        ("first_block:0.2", 6),
        ("magcache:0.1", 5),
        ("taylorseer:3", 5),
        ("taylorseer:5", 6),
    ] {
        let choice: Choice = name.parse().unwrap();
        let cache = ContextCache::new(choice, num_calls, measured.clone()).unwrap();
        for call in 0..num_calls {
            let make = || Some(network.answer(call, Some((&cache, call))));
            let found = cache.answer(call, make).unwrap();
            let expected = if call + 1 < num_calls {
                network.recorded[&format!("{name}.{call}")].copy()
            } else {
                // The last one is always computed here.
                network.answer(call, None)
            };
            assert_close(&format!("{name} {call}"), &found, &expected, 1e-6);
        }
        assert_eq!(cache.num_skipped(), num_skipped, "{name}");
    }
}

#[test]
fn a_call_that_is_made_again_is_computed_and_counts_once() {
    let network = Network::open();
    let answers = |calls: &[usize]| {
        let choice: Choice = "taylorseer:5".parse().unwrap();
        let cache = ContextCache::new(choice, 12, CacheCalibration::default()).unwrap();
        let answers = calls.iter().map(|&call| {
            let answer = cache.answer(call, || Some(network.answer(call, None)));
            answer.unwrap()
        });
        answers.last().unwrap()
    };
    assert_eq!(answers(&[0, 0, 1, 2, 3]), answers(&[0, 1, 2, 3]));
    assert_eq!(answers(&[0, 1, 2, 3, 3]), network.answer(3, None));
}

#[test]
fn reused_residual_is_the_last_change_made_by_the_blocks() {
    let cache = cache(StepCacheKind::FirstBlock, 0.5, 4);
    let level = Level(1.0);
    assert!(cache.stand_in(0, &level).is_none());
    cache.keep(&Level(2.0).everywhere(), &Level(5.0).everywhere());
    let residual = cache.stand_in(1, &level).unwrap();
    assert!(residual.equal(&Level(3.0).everywhere()));
}
