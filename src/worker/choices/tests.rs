//! What is measured with engines that hang, crash, lie or run out of memory, and that a job that waits ends it.

use std::fs;
use std::time::Instant;

use safelight_core::families::{framepack, wan};
use safelight_core::memory::tiers::AttentionChoice;

use super::*;
use crate::worker::request_of_tests::request;
use crate::worker::scripts::write_script;

/// An engine that runs `script`, whose `$way` is what is left out so far.
fn fake(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("engine");
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/calls\"\n\
         trying() {{ echo \"{{\\\"alternative\\\":$1,\\\"state\\\":\\\"trying\\\",\\\"is_first\\\":true}}\"; }}\n\
         done_() {{ echo \"{{\\\"alternative\\\":$1,\\\"state\\\":\\\"done\\\",$2}}\"; }}\n\
         {script}\n"
    );
    write_script(&path, &text);
    path
}

const OWN: &str = r"'{}'";
const FLASH: &str = r#"'{"attention":"flash"}'"#;
const SLICED: &str = r#"'{"attention":"sliced"}'"#;
const SLOW: &str = r#"'"end":"right","secs":0.2,"error":0.001'"#;
const FAST: &str = r#"'"end":"right","secs":0.1,"error":0.001'"#;

fn key() -> ChoiceKey {
    ChoiceKey {
        choice: Choice::Attention,
        device: "a GPU".to_owned(),
        driver: "1".to_owned(),
        libtorch: "2.11.0".to_owned(),
        dtype: "bf16".to_owned(),
        shape: "small".to_owned(),
    }
}

fn target() -> Target {
    Target {
        device: DeviceChoice::Cuda(0),
        shapes: Shapes::default(),
        tier: Some(ConvolutionTier::Frames),
    }
}

/// What came of each way, and the arguments of each call.
fn measure(script: &str) -> (Outcome, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = fake(folder.path(), script);
    let limits = Limits {
        first: Duration::from_secs(2),
        later: Duration::from_secs(2),
    };
    let mut command = || Some(Command::new(&engine));
    let outcome = measured_within(limits, &key(), &target(), &mut command, &|| false);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    (outcome, calls.lines().map(str::to_owned).collect())
}

fn ends(outcome: &Outcome) -> Vec<(AttentionChoice, TierEnd)> {
    let Outcome::Measured(measured) = outcome else {
        panic!("{outcome:?}");
    };
    let ways = measured.alternatives.iter();
    ways.map(|it| (it.choices.attention, it.end.clone()))
        .collect()
}

fn best(outcome: &Outcome) -> AttentionChoice {
    let Outcome::Measured(measured) = outcome else {
        panic!("{outcome:?}");
    };
    measured.best(Choices::default()).attention
}

#[test]
fn the_engine_is_told_what_to_measure_and_the_fastest_right_way_is_best() {
    let (outcome, calls) = measure(&format!(
        "trying {OWN}; echo noise; trying {FLASH}; done_ {OWN} {SLOW}; done_ {FLASH} {FAST}; exit 1"
    ));
    assert_eq!(best(&outcome), AttentionChoice::Flash);
    let shapes = serde_json::to_string(&Shapes::default()).unwrap();
    let expected = format!(
        "probe-choices --json --device cuda:0 --choice attention --shapes {shapes} --dtype bf16 --tier frames"
    );
    assert_eq!(calls, [expected]);
}

#[test]
fn a_way_that_crashes_is_left_out_and_the_others_are_measured_without_it() {
    let (outcome, calls) = measure(&format!(
        "case \"$*\" in *without*) done_ {OWN} {SLOW}; done_ {SLICED} {FAST};; \
         *) trying {OWN}; trying {FLASH}; kill -SEGV $$;; esac"
    ));
    let found = ends(&outcome);
    assert_eq!(found.len(), 3);
    assert_eq!(found[1].0, AttentionChoice::Flash);
    let TierEnd::Failed { reason } = &found[1].1 else {
        panic!("{found:?}");
    };
    assert!(reason.contains("signal 11"), "{reason}");
    assert_eq!(best(&outcome), AttentionChoice::Sliced);
    assert_eq!(calls.len(), 2);
    assert!(calls[1].ends_with(r#"--without {"attention":"flash"}"#));
}

#[test]
fn a_way_that_hangs_is_ended_and_never_best() {
    let (outcome, _) = measure(&format!(
        "case \"$*\" in *without*) done_ {OWN} {SLOW};; *) trying {FLASH}; sleep 60;; esac"
    ));
    let hung = TierEnd::TimedOut { secs: 2.0 };
    assert_eq!(ends(&outcome)[1], (AttentionChoice::Flash, hung));
    assert_eq!(best(&outcome), AttentionChoice::Auto);
}

#[test]
fn want_of_memory_is_not_remembered_and_without_its_own_way_there_is_nothing_to_compare_with() {
    let full = r#"'"end":"failed","reason":"out of memory: tried to allocate 2 GiB"'"#;
    let (outcome, _) = measure(&format!("done_ {OWN} {SLOW}; done_ {FLASH} {full}"));
    assert_eq!(ends(&outcome).len(), 1);
    let (outcome, _) = measure(&format!("done_ {OWN} {full}; done_ {FLASH} {FAST}"));
    assert!(matches!(outcome, Outcome::Nothing(_)), "{outcome:?}");
    let (outcome, _) = measure("exit 3");
    assert!(matches!(outcome, Outcome::Nothing(why) if why.contains("exit code 3")));
}

fn order(engine: &Path) -> ProbeOrder {
    ProbeOrder {
        command: Command::new(engine),
        driver: "1".to_owned(),
        libtorch: "2.11.0".to_owned(),
        others: Vec::new(),
    }
}

#[test]
fn a_job_that_waits_ends_the_measurement_at_once_and_what_was_measured_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("choices.json");
    let engine = fake(
        folder.path(),
        &format!(
            "case \"$*\" in *attention*) done_ {OWN} {SLOW}; done_ {FLASH} {FAST};; \
             *) trying {OWN}; sleep 60;; esac"
        ),
    );
    let mut store = Store::load(Some(file.clone()));
    let copies = ChoiceKey {
        choice: Choice::Copies,
        ..key()
    };
    let keys = vec![key(), copies.clone()];
    let hand = Choices::default();
    assert_eq!(store.settle(hand, keys.clone(), &target()), hand);
    assert!(store.has_wishes());
    let began = Instant::now();
    // The job comes when the second measurement has begun.
    let is_second = || {
        let calls = fs::read_to_string(folder.path().join("calls"));
        calls.is_ok_and(|calls| calls.lines().count() > 1)
    };
    store.measure(&mut |_| Some(order(&engine)), &is_second);
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(store.has_wishes(), "the second is still wished for");
    let mut again = Store::load(Some(file));
    let settled = again.settle(hand, keys, &target());
    assert_eq!(settled.attention, AttentionChoice::Flash);
    assert_eq!(again.wished, [(copies, target())]);
    again.forget_wishes();
    assert!(!again.has_wishes());
}

#[test]
fn what_cannot_be_measured_is_not_tried_again_and_again() {
    let mut store = Store::load(None);
    store.settle(Choices::default(), vec![key()], &target());
    store.measure(&mut |_| None, &|| false);
    assert!(!store.has_wishes());
}

#[test]
fn both_halves_are_measured_and_the_decoder_has_its_own_numbers() {
    let mut request = request();
    assert_eq!(dtypes(&request), [DtypeChoice::Bf16; 2]);
    request.family = framepack::FAMILY;
    assert_eq!(dtypes(&request), [DtypeChoice::Bf16, DtypeChoice::F16]);
    request.dtype = DtypeChoice::F32;
    assert_eq!(dtypes(&request), [DtypeChoice::F32; 2]);
    request.family = wan::FAMILY;
    let report = EngineReport {
        protocol: 1,
        libtorch: String::new(),
        device: DeviceChoice::Cuda(0),
        device_name: "a GPU".to_owned(),
        pci: String::new(),
        total_bytes: 24 << 30,
        used_bytes: 0,
        class: None,
        line: String::new(),
        gpu_problem: None,
    };
    let order = order(Path::new("engine"));
    let keys = |dtype| keys(&report, &order, &Shapes::default(), [dtype; 2]);
    let of = |keys: &[ChoiceKey]| -> Vec<(Choice, String)> {
        keys.iter()
            .map(|key| (key.choice, key.dtype.clone()))
            .collect()
    };
    let name = str::to_owned;
    assert_eq!(
        of(&keys(DtypeChoice::Bf16)),
        [
            (Choice::Attention, name("bf16")),
            (Choice::Matrices, name("bf16")),
            (Choice::Chunk, name("bf16")),
            (Choice::Copies, name("")),
            (Choice::Attention, name("f16")),
            (Choice::Matrices, name("f16")),
        ]
    );
    assert_eq!(keys(DtypeChoice::F32).len(), 4);
}
