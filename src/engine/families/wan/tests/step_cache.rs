//! Step caches in the loop of clips.

use safelight_core::job::{StepCache, StepCacheKind};

use super::variants::VariantRun;
use super::*;

#[derive(Default)]
struct Counter(Cell<(usize, usize)>);

impl Hooks for Counter {
    fn report_skipped_calls(&self, num_skipped: usize, num_calls: usize) {
        self.0.set((num_skipped, num_calls));
    }
}

#[test]
fn a_step_cache_leaves_out_what_hardly_changes_and_nothing_at_zero() {
    let made = |cache: Option<&str>| {
        let mut run = Run::open("text_to_video");
        run.request.sampling.num_steps = 6;
        run.request.step_cache = cache.map(|text| text.parse::<StepCache>().unwrap());
        let counter = Counter::default();
        let latents = run
            .denoise(None, &mut StageCapture::off(), &counter)
            .unwrap();
        (latents, counter.0.get())
    };
    let (whole, none) = made(None);
    assert_eq!(none, (0, 0));
    assert_eq!(made(Some("first_block:0")), (whole.copy(), (0, 6)));
    // Of six calls the fourth follows from the second and the third; the last is always made.
    let (found, skipped) = made(Some("taylorseer:3"));
    assert_eq!(skipped, (1, 6));
    assert!((1e-6..1.0).contains(&distance(&found, &whole)));
    let (found, (num_skipped, _)) = made(Some("magcache:1"));
    assert!(num_skipped > 0);
    assert!((1e-6..1.0).contains(&distance(&found, &whole)));
    // Nobody has measured a polynomial of this one.
    assert_eq!(made(Some("teacache:1")), (whole.copy(), (0, 0)));
    let (found, (num_skipped, _)) = made(Some("first_block:1"));
    assert!(num_skipped > 0);
    assert!((1e-6..1.0).contains(&distance(&found, &whole)));
}

#[test]
fn teacache_of_a_text_model_keeps_its_first_step_and_skips_others() {
    let skipped = |threshold: f64| {
        let mut variant = VariantRun::open("t2v");
        let run = &mut variant.run;
        run.request.sampling.num_steps = 8;
        run.request.step_cache = Some(StepCache {
            kind: StepCacheKind::TeaCache,
            threshold,
        });
        let counter = Counter::default();
        let latents = run.denoise(None, &mut StageCapture::off(), &counter);
        assert!(latents.is_some());
        counter.0.get()
    };
    assert_eq!(skipped(0.0), (0, 8));
    assert_eq!(skipped(1e9), (6, 8));
}
