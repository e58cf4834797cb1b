//! Step caches in whole jobs of every family of pictures.

use safelight_core::job::{StepCache, StepCacheKind};

use super::jobs::{Job, Run};
use super::*;
use crate::closeness::distance;

/// A run whose answers are not all the same, and what makes a job of it.
type Recorded = (&'static str, fn(&Run) -> Job);

const RECORDED: [Recorded; 6] = [
    ("chroma/text_a", |run| {
        images::recorded(&families::chroma::FAMILY, run)
    }),
    ("flux/stages/dev_a", flux::parity::job),
    ("flux2/base_a", |run| {
        images::recorded(&families::flux2::FAMILY, run)
    }),
    ("krea2/turbo_a", |run| {
        images::recorded(&families::krea2::FAMILY, run)
    }),
    ("qwen_image/text_a", |run| {
        images::recorded(&families::qwen_image::FAMILY, run)
    }),
    ("z_image/base_a", |run| {
        images::recorded(&families::z_image::FAMILY, run)
    }),
];

/// The latents of a job whose text has been read.
fn latents(job: &mut Job, cache: Option<StepCache>) -> Tensor {
    job.request.step_cache = cache;
    job.stage(Stage::Denoise, false);
    let latents = job.latents();
    let left = JobFolder::open(job.folder.path()).result(Stage::Denoise);
    fs::remove_file(left.expect("denoising leaves a file")).expect("it can be removed");
    latents
}

#[test]
fn a_step_cache_takes_over_what_hardly_changes_for_each_picture_by_itself_and_nothing_at_zero() {
    for (name, job) in RECORDED {
        let mut job = job(&Run::open(name.to_owned()));
        job.request.sampling.num_steps = 6;
        job.request.batch_size = 2;
        job.stage(Stage::EncodeText, false);
        let whole = latents(&mut job, None);
        let cache = |kind, threshold| Some(StepCache { kind, threshold });
        let exact = cache(StepCacheKind::FirstBlock, 0.0);
        assert_eq!(latents(&mut job, exact), whole, "{name}");
        // Made-up weights change much from step to step: all but the first and the last are skipped.
        for wish in [
            cache(StepCacheKind::FirstBlock, 1e9),
            cache(StepCacheKind::TaylorSeer, 3.0),
        ] {
            let far = distance(&latents(&mut job, wish), &whole);
            assert!(far > 1e-6 && far.is_finite(), "{name} {wish:?}: {far}");
        }
    }
}
