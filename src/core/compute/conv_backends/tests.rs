//! Choice among probe results, their storage, and their expiry.

use std::fs;

use super::*;

fn key(shape: ShapeClass) -> ConvBackendKey {
    ConvBackendKey {
        device: "Radeon 8060S".to_owned(),
        driver: "6.18.4".to_owned(),
        libtorch: "2.11.0+rocm7.1".to_owned(),
        dtype: "bf16".to_owned(),
        shape,
        convolutions: ConvDimensions::Videos,
    }
}

const QUICK: MiopenMode = MiopenMode::Quick;

fn records(ends: Vec<(ConvBackend, ProbeResult)>) -> Vec<ConvBackendRecord> {
    let ends = ends.into_iter();
    ends.map(|(backend, end)| ConvBackendRecord::probed(backend, QUICK, end))
        .collect()
}

fn right(secs: f64) -> ProbeResult {
    ProbeResult::Right { secs, error: 1e-3 }
}

#[test]
fn the_fastest_right_backend_is_chosen_and_the_cpu_if_none_is_right() {
    let verdict = |ends: Vec<(ConvBackend, ProbeResult)>| {
        ConvBackendVerdict::of_probe(key(ShapeClass::Large), records(ends), 0).backend
    };
    let [direct, no_miopen, frames] = ConvBackend::ON_DEVICE;
    let hung = ProbeResult::TimedOut { secs: 60.0 };
    let wrong = ProbeResult::Wrong { error: 0.7 };
    let reason = "no suitable algorithm".to_owned();
    let failed = ProbeResult::Failed { reason };
    let all = vec![
        (direct, hung),
        (no_miopen, right(0.5)),
        (frames, right(0.02)),
    ];
    for (ends, expected) in [
        (all, frames),
        (vec![(direct, wrong), (frames, right(f64::NAN))], frames),
        (vec![(direct, failed)], ConvBackend::Cpu),
    ] {
        assert_eq!(verdict(ends), expected);
    }
}

#[test]
fn a_verdict_comes_back_from_disk_with_its_counts_and_only_for_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache/conv_backends.json");
    let mut file = ConvBackendFile::load(&path);
    assert_eq!(file, ConvBackendFile::default());
    let ends = vec![(ConvBackend::Frames, right(0.02))];
    let verdict = ConvBackendVerdict::of_probe(key(ShapeClass::Small), records(ends), 7);
    file.put(verdict.clone());
    file.put(verdict);
    let known = file.find(&key(ShapeClass::Small)).unwrap();
    known.count(ConvBackend::Frames, QUICK, true);
    known.count(ConvBackend::Frames, QUICK, false);
    // Nobody probed it.
    known.count(ConvBackend::Direct, QUICK, true);
    crate::files::write_json(&path, &file).unwrap();
    let mut again = ConvBackendFile::load(&path);
    assert_eq!(again, file);
    assert_eq!(again.verdicts.len(), 1);
    assert!(again.find(&key(ShapeClass::Large)).is_none());
    let newer = ConvBackendKey {
        driver: "6.19".to_owned(),
        ..key(ShapeClass::Small)
    };
    assert!(again.find(&newer).is_none());
    let record = &again.find(&key(ShapeClass::Small)).unwrap().records[0];
    assert_eq!((record.attempts, record.successes), (3, 2));
}

#[test]
fn a_backend_that_crashed_in_a_stage_is_replaced_by_the_next_best() {
    let [direct, no_miopen, frames] = ConvBackend::ON_DEVICE;
    let ends = vec![
        (direct, right(0.1)),
        (no_miopen, right(0.3)),
        (frames, right(0.2)),
    ];
    let mut verdict = ConvBackendVerdict::of_probe(key(ShapeClass::Large), records(ends), 0);
    let order = [direct, frames, no_miopen].map(|backend| {
        assert_eq!(verdict.mode_of(backend), Some(QUICK));
        let chosen = verdict.backend;
        verdict.give_up(backend, QUICK, "no progress for 600 s", 5);
        (chosen, backend)
    });
    assert!(order.iter().all(|(chosen, backend)| chosen == backend));
    assert_eq!((verdict.backend, verdict.since_secs), (ConvBackend::Cpu, 5));
}

#[test]
fn another_mode_of_miopen_is_chosen_only_if_it_is_clearly_faster() {
    let [direct, _, frames] = ConvBackend::ON_DEVICE;
    let mut found = records(vec![(direct, right(1.0)), (frames, right(0.5))]);
    let searching = |secs| ConvBackendRecord::probed(frames, MiopenMode::Searching, right(secs));
    found.push(searching(0.48));
    let verdict = ConvBackendVerdict::of_probe(key(ShapeClass::Large), found.clone(), 0);
    assert_eq!((verdict.backend, verdict.mode), (frames, QUICK));
    found.push(searching(0.4));
    let mut verdict = ConvBackendVerdict::of_probe(key(ShapeClass::Large), found, 0);
    let chosen = (verdict.backend, verdict.mode);
    assert_eq!(chosen, (frames, MiopenMode::Searching));
    assert_eq!(verdict.mode_of(direct), Some(QUICK));
    let records = &mut verdict.records;
    records.retain(|it| it.mode == QUICK || it.probe == right(0.4));
    verdict.give_up(frames, MiopenMode::Searching, "signal 11", 0);
    assert_eq!((verdict.backend, verdict.mode), (frames, QUICK));
}

#[test]
fn timed_out_conv_backend_is_probed_again_after_a_week_but_a_wrong_one_is_not() {
    let [direct, _, frames] = ConvBackend::ON_DEVICE;
    let hung = ProbeResult::TimedOut { secs: 60.0 };
    let wrong = ProbeResult::Wrong { error: 0.5 };
    let since = 50 * RETRY_SECS;
    let of = |end| {
        let found = records(vec![(direct, end), (frames, right(0.1))]);
        ConvBackendVerdict::of_probe(key(ShapeClass::Large), found, since)
    };
    let verdict = of(hung);
    assert!(!verdict.is_due(since + RETRY_SECS - 1));
    assert!(verdict.is_due(since + RETRY_SECS));
    let mut other = of(right(0.2));
    let hung = ProbeResult::TimedOut { secs: 60.0 };
    let record = ConvBackendRecord::probed(frames, MiopenMode::Searching, hung);
    other.records.push(record);
    assert!(!other.is_due(since + RETRY_SECS));
    for end in [right(0.2), wrong] {
        assert!(!of(end).is_due(since + 9 * RETRY_SECS));
    }
}

#[test]
fn a_broken_file_counts_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conv_backends.json");
    for text in ["", "{", "[]", r#"{"verdicts": [{"backend": "magic"}]}"#] {
        fs::write(&path, text).unwrap();
        let found = ConvBackendFile::load(&path);
        assert_eq!(found, ConvBackendFile::default(), "{text}");
    }
}

#[test]
fn a_line_of_the_probe_is_flat_json() {
    let line = ProbeLine {
        backend: ConvBackend::NoMiopen,
        shape: ShapeClass::Small,
        convolutions: ConvDimensions::Images,
        dtype: "bf16".to_owned(),
        result: right(0.25),
    };
    let text = serde_json::to_string(&line).unwrap();
    assert_eq!(
        text,
        r#"{"backend":"no_miopen","shape":"small","convolutions":"images","dtype":"bf16","end":"right","secs":0.25,"error":0.001}"#
    );
    assert_eq!(serde_json::from_str::<ProbeLine>(&text).unwrap(), line);
}

#[test]
fn shapes_up_to_512_by_512_pixels_are_small() {
    assert_eq!(ShapeClass::of_pixels(512, 512), ShapeClass::Small);
    assert_eq!(ShapeClass::of_pixels(832, 480), ShapeClass::Large);
    assert_eq!(ShapeClass::of_pixels(u32::MAX, u32::MAX), ShapeClass::Large);
}
