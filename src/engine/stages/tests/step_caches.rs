//! Step caches in whole jobs of every family of images.

use safelight_core::job::{StepCache, StepCacheKind};

use super::images::TinyJobs;
use super::jobs::{Job, Run};
use super::*;
use crate::closeness::distance;

/// Runs whose answers are not all the same, with their families; [`flux`] makes its own jobs.
const RECORDED: [(&str, Option<&dyn TinyJobs>); 6] = [
    ("chroma/text_a", Some(&families::chroma::FAMILY)),
    ("flux/stages/dev_a", None),
    ("flux2/base_a", Some(&families::flux2::KLEIN)),
    ("krea2/turbo_a", Some(&families::krea2::FAMILY)),
    ("qwen_image/text_a", Some(&families::qwen_image::FAMILY)),
    ("z_image/base_a", Some(&families::z_image::FAMILY)),
];

/// The latents of a job whose text has been read.
fn latents(job: &mut Job, cache: Option<StepCache>) -> Tensor {
    job.request.options.step_cache = cache;
    job.stage(Stage::Denoise, false);
    let latents = job.latents();
    fs::remove_file(job.result(Stage::Denoise)).unwrap();
    latents
}

#[test]
fn step_cache_changes_the_result_only_above_a_zero_threshold() {
    for (name, family) in RECORDED {
        let run = Run::open(name.to_owned());
        let make = |family| images::recorded(family, &run);
        let mut job = family.map_or_else(|| flux::parity::job(&run), make);
        job.request.sampling.num_steps = 6;
        job.request.batch_size = 2;
        job.stage(Stage::EncodeText, false);
        let whole = latents(&mut job, None);
        let cache = |kind, threshold| Some(StepCache { kind, threshold });
        let exact = cache(StepCacheKind::FirstBlock, 0.0);
        assert_eq!(latents(&mut job, exact), whole, "{name}");
        // Made-up weights change much from step to step: all but the first and the last are skipped.
        for choice in [
            cache(StepCacheKind::FirstBlock, 1e9),
            cache(StepCacheKind::TaylorSeer, 3.0),
        ] {
            let far = distance(&latents(&mut job, choice), &whole);
            assert!(far > 1e-6 && far.is_finite(), "{name} {choice:?}: {far}");
        }
    }
}
