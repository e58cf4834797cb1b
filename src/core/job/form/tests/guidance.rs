//! Guiders and step caches: kept where they act, and named where they do not.

use super::images::schnell;
use super::*;
use crate::job::{BlockSet, GuidanceRange, Guider, GuiderKind, StepCacheKind};

#[test]
fn a_guider_and_a_guided_part_are_kept_where_there_is_guidance_and_named_elsewhere() {
    let range = GuidanceRange {
        start: 0.1,
        end: 0.8,
    };
    let guider = Guider::from(GuiderKind::Apg);
    let with = |form: &mut GenerateForm| {
        let sampling = &mut form.sampling;
        (sampling.guider, sampling.guidance_range) = (Some(guider), Some(range));
    };
    let (request, text) = noted(&test_spec(), with);
    let sampling = request.sampling;
    assert_eq!((sampling.guider, sampling.guidance_range), (guider, range));
    assert_eq!(text, "");
    assert!(request.starts_over());
    let written = serde_json::to_value(&request).unwrap();
    assert_eq!(written["guider"], "apg:0:15:-0.5");
    assert_eq!(written["guidance_range"], "0.1-0.8");
    assert_eq!(written_and_read(&request), request);
    assert_eq!(GenerateForm::from(&request).sampling, sampling.into());

    let (request, text) = noted(&schnell(), with);
    assert_eq!(request.sampling.guider, Guider::Cfg);
    assert_eq!(request.sampling.guidance_range, GuidanceRange::default());
    assert!(!request.starts_over());
    assert!(text.contains("The guider is not used"), "{text}");
    assert!(text.contains("The guided part of the steps is not used"));

    let error = refused(&test_spec(), |form| {
        form.sampling.guidance_range = Some(GuidanceRange {
            start: 0.8,
            end: 0.1,
        });
        form.sampling.guider = Some(Guider::CfgZero { zero_steps: 500 });
    });
    assert_contains(&error, "guider: the number of steps");
    assert_contains(&error, "guidance-range: ");
}

#[test]
fn a_step_cache_that_needs_numbers_is_used_where_they_are_published() {
    let used = |variant: &str, kind: StepCacheKind| {
        let mut spec = test_spec();
        spec.variant = variant.to_owned();
        let with = |form: &mut GenerateForm| form.options.step_cache = Some(kind.into());
        let (request, text) = noted(&spec, with);
        assert_eq!(
            request.options.step_cache.is_some(),
            text.is_empty(),
            "{text}"
        );
        if !text.is_empty() {
            assert_contains(&text, "needs numbers that nobody has measured");
            assert!(text.ends_with("First block, TaylorSeer"), "{text}");
        }
        text.is_empty()
    };
    let [tea, magnitudes] = [StepCacheKind::TeaCache, StepCacheKind::MagCache];
    for (variant, expected) in [
        ("T2V", [true, true]),
        ("I2V", [true, true]),
        ("T2V-A14B", [false, true]),
        ("TI2V", [false, true]),
        ("FLF2V", [false, false]),
        ("of somebody", [false, false]),
    ] {
        let found = [tea, magnitudes].map(|kind| used(variant, kind));
        assert_eq!(found, expected, "{variant}");
    }
}

#[test]
fn layers_are_skipped_with_guidance_and_without() {
    let guider = Guider::from(GuiderKind::SkipLayers);
    for spec in [test_spec(), schnell()] {
        let (request, text) = noted(&spec, |form| form.sampling.guider = Some(guider));
        assert_eq!((request.sampling.guider, &text[..]), (guider, ""));
        let written = serde_json::to_value(&request).unwrap();
        assert_eq!(written["guider"], "slg:9:2.8:0.01-0.2");
        assert_eq!(written_and_read(&request), request);
        let shown = GenerateForm::from(&request).as_shown(&spec);
        assert_eq!(shown.sampling.guider, Some(guider));
    }
    let none = Guider::SkipLayers {
        blocks: BlockSet::default(),
        scale: 2.8,
        part: GuidanceRange::default(),
    };
    let error = refused(&schnell(), |form| form.sampling.guider = Some(none));
    assert_contains(&error, "needs a block to skip");
}
