//! Step caches in the loop of videos.

use safelight_core::job::{StepCache, StepCacheKind};

use super::variants::VariantRun;
use super::*;

/// The latents of a run with a step cache, and how many of its calls were skipped.
fn made(run: &mut Run, num_steps: u32, cache: Option<StepCache>) -> (Tensor, (usize, usize)) {
    run.request.sampling.num_steps = num_steps;
    run.request.options.step_cache = cache;
    let recorder = HookRecorder::default();
    let latents = run.denoise(None, &recorder).unwrap();
    (latents, recorder.skipped.get())
}

#[test]
fn step_cache_skips_calls_except_at_zero_threshold_or_without_calibration() {
    let mut run = Run::open("text_to_video");
    let parsed = |text: &str| text.parse::<StepCache>().unwrap();
    let mut made = |cache: Option<&str>| made(&mut run, 6, cache.map(parsed));
    let (whole, none) = made(None);
    assert_eq!(none, (0, 0));
    assert_eq!(made(Some("first_block:0")), (whole.copy(), (0, 6)));
    // Nobody has measured a polynomial of this one.
    assert_eq!(made(Some("teacache:1")), (whole.copy(), (0, 0)));
    for cache in ["taylorseer:3", "magcache:1", "first_block:1"] {
        let (found, (num_skipped, _)) = made(Some(cache));
        // Of six calls the fourth follows from the second and the third; the last is always made.
        assert!(num_skipped == 1 || cache != "taylorseer:3", "{num_skipped}");
        assert!(num_skipped > 0, "{cache}");
        assert!((1e-6..1.0).contains(&distance(&found, &whole)), "{cache}");
    }
}

#[test]
fn teacache_of_a_text_model_keeps_its_first_step_and_skips_others() {
    let mut variant = VariantRun::open("t2v");
    for (threshold, skipped) in [(0.0, (0, 8)), (1e9, (6, 8))] {
        let kind = StepCacheKind::TeaCache;
        let cache = StepCache { kind, threshold };
        assert_eq!(made(&mut variant.run, 8, Some(cache)).1, skipped);
    }
}
