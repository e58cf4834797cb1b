//! What is chosen of what a probe found, what is remembered of it, and when it is found anew.

use std::fs;

use super::*;

fn key(shape: ShapeClass) -> TierKey {
    TierKey {
        device: "Radeon 8060S".to_owned(),
        driver: "6.18.4".to_owned(),
        libtorch: "2.11.0+rocm7.1".to_owned(),
        dtype: "bf16".to_owned(),
        shape,
        convolutions: Convolutions::Clips,
    }
}

const QUICK: MiopenWay = MiopenWay::Quick;

fn records(ends: Vec<(ConvolutionTier, TierEnd)>) -> Vec<TierRecord> {
    let ends = ends.into_iter();
    ends.map(|(tier, end)| TierRecord::probed(tier, QUICK, end))
        .collect()
}

fn right(secs: f64) -> TierEnd {
    TierEnd::Right { secs, error: 1e-3 }
}

#[test]
fn the_fastest_tier_that_is_right_wins_and_the_cpu_where_none_is() {
    let verdict = |ends: Vec<(ConvolutionTier, TierEnd)>| {
        Verdict::of_probe(key(ShapeClass::Large), records(ends), 0).tier
    };
    let [direct, no_miopen, frames] = ConvolutionTier::ON_DEVICE;
    assert_eq!(
        verdict(vec![
            (direct, TierEnd::TimedOut { secs: 60.0 }),
            (no_miopen, right(0.5)),
            (frames, right(0.02)),
        ]),
        frames
    );
    let wrong = TierEnd::Wrong { error: 0.7 };
    assert_eq!(
        verdict(vec![(direct, wrong), (frames, right(f64::NAN))]),
        frames
    );
    let failed = TierEnd::Failed {
        reason: "no suitable algorithm".to_owned(),
    };
    assert_eq!(verdict(vec![(direct, failed)]), ConvolutionTier::Cpu);
}

#[test]
fn a_verdict_comes_back_from_disk_with_its_counts_and_only_for_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache/tiers.json");
    let mut file = TierFile::load(&path);
    assert_eq!(file, TierFile::default());
    let ends = vec![(ConvolutionTier::Frames, right(0.02))];
    let verdict = Verdict::of_probe(key(ShapeClass::Small), records(ends), 7);
    file.put(verdict.clone());
    file.put(verdict);
    let known = file.find(&key(ShapeClass::Small)).unwrap();
    known.count(ConvolutionTier::Frames, QUICK, true);
    known.count(ConvolutionTier::Frames, QUICK, false);
    // Nobody probed it.
    known.count(ConvolutionTier::Direct, QUICK, true);
    file.save(&path).unwrap();
    let mut again = TierFile::load(&path);
    assert_eq!(again, file);
    assert_eq!(again.verdicts.len(), 1);
    assert!(again.find(&key(ShapeClass::Large)).is_none());
    let newer = TierKey {
        driver: "6.19".to_owned(),
        ..key(ShapeClass::Small)
    };
    assert!(again.find(&newer).is_none());
    let record = &again.find(&key(ShapeClass::Small)).unwrap().records[0];
    assert_eq!((record.attempts, record.successes), (3, 2));
}

#[test]
fn a_tier_that_a_stage_was_lost_with_gives_way_to_the_next_best() {
    let [direct, no_miopen, frames] = ConvolutionTier::ON_DEVICE;
    let ends = vec![
        (direct, right(0.1)),
        (no_miopen, right(0.3)),
        (frames, right(0.2)),
    ];
    let mut verdict = Verdict::of_probe(key(ShapeClass::Large), records(ends), 0);
    let order = [direct, frames, no_miopen].map(|tier| {
        assert_eq!(verdict.way_of(tier), Some(QUICK));
        let chosen = verdict.tier;
        verdict.give_up(tier, QUICK, "no progress for 600 s", 5);
        (chosen, tier)
    });
    assert!(order.iter().all(|(chosen, tier)| chosen == tier));
    assert_eq!(
        (verdict.tier, verdict.since_secs),
        (ConvolutionTier::Cpu, 5)
    );
}

#[test]
fn another_way_of_miopen_is_taken_where_it_is_worth_it() {
    let [direct, _, frames] = ConvolutionTier::ON_DEVICE;
    let mut found = records(vec![(direct, right(1.0)), (frames, right(0.5))]);
    let searching = |secs| TierRecord::probed(frames, MiopenWay::Searching, right(secs));
    found.push(searching(0.48));
    let verdict = Verdict::of_probe(key(ShapeClass::Large), found.clone(), 0);
    assert_eq!((verdict.tier, verdict.way), (frames, QUICK));
    found.push(searching(0.4));
    let mut verdict = Verdict::of_probe(key(ShapeClass::Large), found, 0);
    assert_eq!((verdict.tier, verdict.way), (frames, MiopenWay::Searching));
    assert_eq!(verdict.way_of(direct), Some(QUICK));
    verdict
        .records
        .retain(|record| record.way == QUICK || record.probe == right(0.4));
    verdict.give_up(frames, MiopenWay::Searching, "signal 11", 0);
    assert_eq!((verdict.tier, verdict.way), (frames, QUICK));
}

#[test]
fn what_failed_is_tried_again_after_a_week_and_what_is_right_is_not() {
    let [direct, _, frames] = ConvolutionTier::ON_DEVICE;
    let hung = TierEnd::TimedOut { secs: 60.0 };
    let wrong = TierEnd::Wrong { error: 0.5 };
    let since = 50 * PATIENCE_SECS;
    let of = |end| {
        let found = records(vec![(direct, end), (frames, right(0.1))]);
        Verdict::of_probe(key(ShapeClass::Large), found, since)
    };
    let verdict = of(hung);
    assert!(!verdict.is_due(since + PATIENCE_SECS - 1));
    assert!(verdict.is_due(since + PATIENCE_SECS));
    let mut other = of(right(0.2));
    let hung = TierEnd::TimedOut { secs: 60.0 };
    let way = MiopenWay::Searching;
    other.records.push(TierRecord::probed(frames, way, hung));
    assert!(!other.is_due(since + PATIENCE_SECS));
    for end in [right(0.2), wrong] {
        assert!(!of(end).is_due(since + 9 * PATIENCE_SECS));
    }
}

#[test]
fn a_file_of_an_earlier_version_opens_and_is_of_clips_without_a_search() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiers.json");
    let text = r#"{"verdicts": [{"device": "Radeon 8060S", "driver": "6.18.4",
        "libtorch": "2.11.0+rocm7.1", "dtype": "bf16", "shape": "large", "tier": "frames", "records": [
        {"tier": "direct", "attempts": 1, "successes": 0, "probe": {"end": "timed_out", "secs": 60.0}},
        {"tier": "frames", "attempts": 9, "successes": 9,
         "probe": {"end": "right", "secs": 0.1, "error": 0.001}}]}]}"#;
    fs::write(&path, text).unwrap();
    let mut file = TierFile::load(&path);
    let known = file.find(&key(ShapeClass::Large)).unwrap();
    assert_eq!((known.tier, known.way), (ConvolutionTier::Frames, QUICK));
    assert_eq!(known.records[1].attempts, 9);
    assert!(known.is_due(1_800_000_000), "it never says when");
}

#[test]
fn a_broken_file_counts_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiers.json");
    for text in ["", "{", "[]", r#"{"verdicts": [{"tier": "magic"}]}"#] {
        fs::write(&path, text).unwrap();
        assert_eq!(TierFile::load(&path), TierFile::default(), "{text}");
    }
}

#[test]
fn a_line_of_the_probe_is_flat_json() {
    let line = ProbeLine {
        tier: ConvolutionTier::NoMiopen,
        shape: ShapeClass::Small,
        convolutions: Convolutions::Pictures,
        dtype: "bf16".to_owned(),
        end: right(0.25),
    };
    let text = serde_json::to_string(&line).unwrap();
    assert_eq!(
        text,
        r#"{"tier":"no_miopen","shape":"small","convolutions":"pictures","dtype":"bf16","end":"right","secs":0.25,"error":0.001}"#
    );
    assert_eq!(serde_json::from_str::<ProbeLine>(&text).unwrap(), line);
}

#[test]
fn what_fits_into_a_tile_of_512_pixels_is_small() {
    assert_eq!(ShapeClass::of_pixels(512, 512), ShapeClass::Small);
    assert_eq!(ShapeClass::of_pixels(832, 480), ShapeClass::Large);
    assert_eq!(ShapeClass::of_pixels(u32::MAX, u32::MAX), ShapeClass::Large);
}
