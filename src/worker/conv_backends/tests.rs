//! Choice of a backend after probes that hang, crash, are wrong, or take long to compile.

use std::fs;
use std::path::Path;
use std::time::Instant;

use safelight_core::compute::conv_backends::ConvDimensions;
use safelight_core::families::{flux, framepack, wan};
use safelight_core::job::DtypeChoice;

use super::*;
use crate::worker::scripts::write_script;
use crate::worker::testing::request;

fn key() -> ConvBackendKey {
    ConvBackendKey {
        device: "Radeon 8060S".to_owned(),
        driver: "6.18.4".to_owned(),
        libtorch: "2.11.0+rocm7.1".to_owned(),
        dtype: "bf16".to_owned(),
        shape: ShapeClass::Large,
        convolutions: ConvDimensions::Videos,
    }
}

/// Creates an engine whose answer for each backend is a branch of a shell's `case`.
fn fake(folder: &Path, cases: &str) -> PathBuf {
    let path = folder.join("engine");
    // probe --device D --backend B --shape S --convolutions C --dtype K
    let script = format!(
        "#!/bin/sh\nc=$9\nanswer() {{ echo \"{{\\\"backend\\\":\\\"$1\\\",\\\"shape\\\":\\\"$2\\\",\\\"convolutions\\\":\\\"$c\\\",\\\"dtype\\\":\\\"bf16\\\",$3}}\"; }}\n\
         echo \"$@\" >> \"$(dirname \"$0\")/calls\"\ncase \"$5\" in\n{cases}\nesac\n"
    );
    write_script(&path, &script);
    path
}

fn order(engine: &Path) -> ProbeOrder {
    ProbeOrder {
        command: Command::new(engine),
        driver: String::new(),
        libtorch: String::new(),
        others: Vec::new(),
    }
}

const AUTO: DeviceChoice = DeviceChoice::Auto;

/// Backends that probe with an engine whose answers are these, in a folder.
fn probed(cases: &str, limits: ProbeLimits) -> (ConvBackends, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = fake(folder.path(), cases);
    let mut backends = ConvBackends::load(folder.path().join("conv_backends.json"));
    backends.limits = limits;
    let mut order = |_| Some(order(&engine));
    backends.probe(&key(), AUTO, &mut order, &|| false).unwrap();
    (backends, folder)
}

/// Probes with such an engine: what it chose, what is remembered, and how long it took.
fn probe(cases: &str) -> (Option<ConvBackend>, Vec<ProbeResult>, Duration) {
    let began = Instant::now();
    let (mut backends, folder) = probed(cases, short());
    let took = began.elapsed();
    let backend = |backends: &mut ConvBackends| backends.backend(&key(), wan::FAMILY);
    let chosen = backend(&mut backends);
    let mut again = ConvBackends::load(folder.path().join("conv_backends.json"));
    assert_eq!(backend(&mut again), chosen);
    let records = &again.known.find(&key()).unwrap().records;
    let ends = records.iter().map(|record| record.probe.clone()).collect();
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let first =
        "probe --device auto --backend direct --shape large --convolutions videos --dtype bf16";
    assert_eq!(calls.lines().next(), Some(first));
    (chosen.map(|(backend, _)| backend), ends, took)
}

const QUICK: MiopenMode = MiopenMode::Quick;

fn short() -> ProbeLimits {
    let moment = Duration::from_millis(1500);
    ProbeLimits {
        warm: moment,
        other: moment,
        timed: moment,
    }
}

const RIGHT: &str = r#"'"end":"right","secs":0.2,"error":0.001'"#;
const FASTER: &str = r#"'"end":"right","secs":0.1,"error":0.001'"#;
const FASTEST: &str = r#"'"end":"right","secs":0.05,"error":0.001'"#;
const WRONG: &str = r#"'"end":"wrong","error":0.9'"#;

#[test]
fn a_backend_that_hangs_is_killed_and_the_fastest_other_one_is_chosen() {
    let (backend, ends, took) = probe(&format!(
        "direct) sleep 60;;\nno_miopen) answer $5 $7 {RIGHT};;\nframes) answer $5 $7 {FASTER};;"
    ));
    assert_eq!(backend, Some(ConvBackend::Frames));
    assert_eq!(ends[0], ProbeResult::TimedOut { secs: 1.5 });
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_backend_that_crashes_or_is_wrong_is_not_chosen() {
    let (backend, ends, _) = probe(&format!(
        "direct) kill -SEGV $$;;\nno_miopen) answer $5 $7 {WRONG};;\nframes) answer $5 $7 {RIGHT};;"
    ));
    assert_eq!(backend, Some(ConvBackend::Frames));
    let ProbeResult::Failed { reason } = &ends[0] else {
        panic!("{ends:?}");
    };
    assert!(reason.contains("signal 11"), "{reason}");
    assert_eq!(ends[1], ProbeResult::Wrong { error: 0.9 });
}

#[test]
fn probe_result_counts_although_its_process_hangs_or_crashes_afterwards() {
    let (backend, ends, _) = probe(&format!(
        "direct) answer $5 $7 {FASTER}; sleep 60;;\nno_miopen) answer $5 $7 {RIGHT}; kill -SEGV $$;;\n\
         frames) echo noise; answer frames small {FASTER};;"
    ));
    assert_eq!(backend, Some(ConvBackend::Direct));
    assert!(matches!(ends[1], ProbeResult::Right { .. }));
    // Noise, and an answer to another question.
    assert!(matches!(ends[2], ProbeResult::Failed { .. }));
}

#[test]
fn where_nothing_works_the_cpu_is_left_and_a_missing_engine_is_no_panic() {
    let (backend, ..) = probe("*) exit 1;;");
    assert_eq!(backend, Some(ConvBackend::Cpu));
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    let missing = &mut |_| Some(order(Path::new("/nowhere/engine")));
    let done = backends.probe(&key(), AUTO, missing, &|| false);
    let backend = backends.backend(&key(), wan::FAMILY);
    let cpu = (ConvBackend::Cpu, QUICK);
    assert_eq!((done, backend), (Some(()), Some(cpu)));
}

#[test]
fn a_cancelled_probe_ends_at_once_and_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let engine = fake(folder.path(), "*) sleep 60;;");
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    let began = Instant::now();
    let is_cancelled = || began.elapsed() > Duration::from_millis(100);
    let done = backends.probe(&key(), AUTO, &mut |_| Some(order(&engine)), &is_cancelled);
    assert_eq!((done, backends.backend(&key(), wan::FAMILY)), (None, None));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn stages_are_counted_for_the_backend_that_they_ran_with() {
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    let [direct, _, frames] = ConvBackend::ON_DEVICE;
    backends.count(&key(), (frames, QUICK), true, None);
    let right = |secs| ProbeResult::Right { secs, error: 0.0 };
    let records = vec![
        ConvBackendRecord::probed(direct, QUICK, right(0.1)),
        ConvBackendRecord::probed(frames, QUICK, right(0.2)),
    ];
    let verdict = ConvBackendVerdict::of_probe(key(), records, now_secs());
    backends.known.put(verdict);
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some((direct, QUICK)));
    let expected = Some((frames, QUICK));
    assert_eq!(backends.backend(&key(), framepack::FAMILY), expected);
    backends.count(&key(), (frames, QUICK), true, None);
    backends.count(&key(), (frames, QUICK), false, None);
    let records = &backends.known.find(&key()).unwrap().records;
    let counts = records.iter().map(|it| (it.attempts, it.successes));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 1), (3, 2)]);
    // The ladder deals with want of memory, a hang is the backend's.
    backends.count(&key(), (direct, QUICK), false, Some("CUDA out of memory"));
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some((direct, QUICK)));
    let hang = Some("no progress for 600 s");
    backends.count(&key(), (direct, QUICK), false, hang);
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some((frames, QUICK)));
}

#[test]
fn a_choice_of_the_user_is_never_probed_and_only_amd_is() {
    use ConvBackendChoice::{Auto, Frames};
    for (choice, stage, is_probed, expected) in [
        (Frames, Stage::Decode, true, Some(ConvBackend::Frames)),
        (Frames, Stage::Denoise, true, Some(ConvBackend::Direct)),
        (Auto, Stage::Decode, true, None),
        (Auto, Stage::Decode, false, Some(ConvBackend::Direct)),
        (Auto, Stage::EncodeImage, true, None),
        (Auto, Stage::Denoise, true, Some(ConvBackend::Direct)),
    ] {
        assert_eq!(chosen(choice, stage, is_probed), expected, "{choice:?}");
    }
}

#[test]
fn image_vae_gets_its_own_backend_verdict_when_miopen_hangs() {
    let request = request();
    let [images, videos] = [flux::FAMILY, wan::FAMILY].map(|family| key_of(family, &request));
    assert_eq!(images.convolutions, ConvDimensions::Images);
    assert_eq!(videos.convolutions, ConvDimensions::Videos);

    let folder = tempfile::tempdir().unwrap();
    let cases = format!("direct) sleep 60;;\nno_miopen) answer $5 $7 {RIGHT};;");
    let engine = fake(folder.path(), &cases);
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    backends.limits = short();
    let mut order = |_| Some(self::order(&engine));
    backends
        .probe(&images, AUTO, &mut order, &|| false)
        .unwrap();
    let backend = backends.backend(&images, flux::FAMILY);
    assert_eq!(backend, Some((ConvBackend::NoMiopen, QUICK)));
    assert_eq!(backends.backend(&videos, wan::FAMILY), None);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    // 2D convolutions have no backend frame by frame.
    assert_eq!(calls.lines().count(), 2, "{calls}");
}

/// What a verdict for such a job of another family would be kept under.
fn key_of(family: ModelFamily, request: &GenerateRequest) -> ConvBackendKey {
    let report = EngineReport {
        protocol: 1,
        libtorch: String::new(),
        device: DeviceChoice::Cuda(0),
        device_name: key().device,
        pci: String::new(),
        total_bytes: 0,
        used_bytes: 0,
        class: None,
        line: String::new(),
        gpu_problem: None,
        addresses: None,
    };
    let request = GenerateRequest {
        family,
        ..request.clone()
    };
    let order = order(Path::new("engine"));
    super::key(&report, &order, &request, FallbackLevel::Ground)
}

#[test]
fn a_verdict_is_of_the_numbers_that_the_autoencoder_computes_in() {
    let mut request = request();
    let dtype = |family, request: &GenerateRequest| key_of(family, request).dtype;
    assert_eq!(dtype(wan::FAMILY, &request), "bf16");
    assert_eq!(dtype(framepack::FAMILY, &request), "f16");
    request.options.dtype = DtypeChoice::F32;
    assert_eq!(dtype(framepack::FAMILY, &request), "f32");
}

#[test]
fn compile_time_is_excluded_from_the_probe_limit_and_a_later_hang_is_detected() {
    let cases = format!(
        "direct) sleep 2; echo '{WARM_LINE}'; answer $5 $7 {FASTER};;\nno_miopen) exit 1;;\n\
         frames) echo '{WARM_LINE}'; sleep 600;;"
    );
    let limits = ProbeLimits {
        warm: Duration::from_mins(5),
        timed: Duration::from_secs(1),
        ..short()
    };
    let (mut backends, _folder) = probed(&cases, limits);
    let records = &backends.known.find(&key()).unwrap().records;
    let is_right = matches!(records[0].probe, ProbeResult::Right { .. });
    assert!(is_right, "{records:?}");
    assert_eq!(records[2].probe, ProbeResult::TimedOut { secs: 1.0 });
}

#[test]
fn only_the_best_backend_of_miopen_is_probed_in_its_other_modes() {
    let folder = tempfile::tempdir().unwrap();
    let cases = format!(
        "direct) exit 1;;\nno_miopen) answer $5 $7 {FASTER};;\n\
         frames) if [ $MODE = searching ]; then answer $5 $7 {FASTEST}; else answer $5 $7 {RIGHT}; fi;;"
    );
    let engine = fake(folder.path(), &cases);
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    backends.limits = short();
    let mut tried = Vec::new();
    let mut order = |mode: MiopenMode| {
        tried.push(mode);
        let mut order = order(&engine);
        order.command.env("MODE", mode.name());
        order.others = vec![MiopenMode::Searching, MiopenMode::Innermost];
        Some(order)
    };
    backends.probe(&key(), AUTO, &mut order, &|| false).unwrap();
    let [searching, innermost] = [MiopenMode::Searching, MiopenMode::Innermost];
    assert_eq!(tried, [QUICK, QUICK, QUICK, searching, innermost]);
    let chosen = (ConvBackend::Frames, searching);
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some(chosen));
    // A stage that is lost with it goes back to the first mode, or to what is faster.
    backends.count(&key(), chosen, false, Some("signal 11"));
    let next = (ConvBackend::NoMiopen, QUICK);
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some(next));
    let of_frames = (ConvBackend::Frames, QUICK);
    assert_eq!(backends.backend(&key(), framepack::FAMILY), Some(of_frames));
}

#[test]
fn expired_verdict_counts_as_unknown_until_probed_again() {
    let mut backends = ConvBackends::load(PathBuf::from("/dev/null/none"));
    let hung = ProbeResult::TimedOut { secs: 60.0 };
    let records = vec![ConvBackendRecord::probed(ConvBackend::Direct, QUICK, hung)];
    let since = |secs| ConvBackendVerdict::of_probe(key(), records.clone(), secs);
    backends.known.put(since(now_secs()));
    let cpu = (ConvBackend::Cpu, QUICK);
    assert_eq!(backends.backend(&key(), wan::FAMILY), Some(cpu));
    backends.known.put(since(0));
    assert_eq!(backends.backend(&key(), wan::FAMILY), None);
}
