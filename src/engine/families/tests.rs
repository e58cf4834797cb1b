//! That the engine has every family, and what the tests of all transformers of pictures share: weights in every dialect
//! and form, and what is asked of each. Whole jobs are in `stages/tests`.
//!
//! The weights are a formula of their names, see `tests/fixtures/made_up.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::families::Family;
use safelight_core::job::{BlockSet, Lora};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::place::Placement;
use crate::step_cache::Shortcut;
use crate::store;
use crate::weights::tests::as_fp8::{FORMS, write_fp8};
use crate::weights::tests::made_up::{made_up, write_lora_of};
use crate::weights::tests::made_up_gguf::both_forms;
use crate::weights::{Weights, WeightsError};

/// The strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;

/// A model's tensors by their names.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// A family whose transformer is made up, tiny, of the fixtures in the folder of `tests/fixtures` that has the family's
/// name.
pub(crate) trait MadeUp: EngineFamily {
    fn facts(&self) -> Facts;

    /// The tensors as the authors have them, of those as diffusers has them; the same where there is one dialect.
    fn originals(&self, diffusers: &Tensors) -> Tensors {
        let named = diffusers.iter();
        named
            .map(|(name, tensor)| (name.clone(), tensor.shallow_clone()))
            .collect()
    }

    fn with_loras(&self, w: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError>;

    /// The answers to the recorded inputs at some timesteps, and the keys that nobody read.
    fn answers(
        &self,
        w: &Weights,
        timesteps: &[f32],
        shortcut: Shortcut<'_>,
    ) -> Result<(Vec<Tensor>, Vec<String>), WeightsError>;
}

/// What differs between the tests of transformers.
pub(crate) struct Facts {
    /// When the recorded answers were given, as the transformer is told it.
    pub recorded_at: f32,
    /// How far an answer is from the recorded one at most, and how far with a LoRA, where sums have another order.
    pub limits: [f64; 2],
    /// Forms of LoRAs, of which the reference's answers are recorded.
    pub loras: &'static [&'static str],
    /// Forms that the reference cannot read.
    pub other_loras: &'static [&'static str],
    /// Two forms that are streamed together.
    pub streamed_loras: [&'static str; 2],
    /// What all names of a part have that a file may lack, and the tensor that is asked for first.
    pub named: [&'static str; 2],
    /// How far answers of weights in fp8 are from true at most.
    pub fp8: f64,
}

/// Pairs of names, a row each: `one -> other`.
pub(crate) fn table(rows: &str) -> impl Iterator<Item = (&str, &str)> {
    rows.lines()
        .map(|row| row.trim().split_once(" -> ").unwrap())
}

fn fixture(family: &dyn MadeUp, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    root.join(family.id()).join(name)
}

fn json_of(family: &dyn MadeUp, name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(family, name)).unwrap()).unwrap()
}

/// The tiny transformer's config.
pub(crate) fn config_of<T: DeserializeOwned>(family: &dyn MadeUp) -> T {
    serde_json::from_value(json_of(family, "transformer.json")).unwrap()
}

/// In diffusers' names.
pub(crate) fn diffusers(family: &dyn MadeUp) -> Tensors {
    let shapes = json_of(family, "shapes.json")["tiny"]["transformer"].take();
    let shapes: BTreeMap<String, Vec<i64>> = serde_json::from_value(shapes).unwrap();
    let named = shapes.into_iter();
    named
        .map(|(name, shape)| {
            let tensor = made_up(&format!("transformer.{name}"), &shape);
            (name, tensor)
        })
        .collect()
}

pub(crate) fn originals(family: &dyn MadeUp) -> Tensors {
    family.originals(&diffusers(family))
}

/// The same weights behind a prefix with another component beside them, in the original names, and in diffusers'.
pub(crate) fn in_dialects(original: Tensors, diffusers: Tensors) -> [(&'static str, Tensors); 3] {
    let behind = |(name, tensor): (&String, &Tensor)| {
        let name = format!("model.diffusion_model.{name}");
        (name, tensor.shallow_clone())
    };
    let mut prefixed: Tensors = original.iter().map(behind).collect();
    let other = Tensor::from_slice(&[0_f32]);
    prefixed.insert("vae.decoder.conv_in.bias".to_owned(), other);
    [
        ("prefixed", prefixed),
        ("original", original),
        ("diffusers", diffusers),
    ]
}

fn dialects(family: &dyn MadeUp) -> [(&'static str, Tensors); 3] {
    in_dialects(originals(family), diffusers(family))
}

/// A file of `tensors`, which is gone with the folder.
pub(crate) fn written(tensors: &Tensors) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transformer.safetensors");
    let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
    Tensor::write_safetensors(&named, &path).unwrap();
    (folder, path)
}

pub(crate) fn opened(path: &Path) -> Weights {
    Weights::open(path, Kind::Float, Device::Cpu).unwrap()
}

/// The answer when those of the reference were recorded.
pub(crate) fn answer(family: &dyn MadeUp, w: &Weights) -> Tensor {
    answer_without(family, w, BlockSet::default())
}

/// The same without some blocks.
fn answer_without(family: &dyn MadeUp, w: &Weights, without: BlockSet) -> Tensor {
    let shortcut = Shortcut {
        without,
        ..Shortcut::default()
    };
    let answers = family.answers(w, &[family.facts().recorded_at], shortcut);
    let (mut answers, unread) = answers.unwrap();
    assert_eq!(unread, Vec::<String>::new());
    answers.remove(0)
}

/// The answer of a file of `tensors`.
pub(crate) fn answer_of(family: &dyn MadeUp, tensors: &Tensors) -> Tensor {
    let (_folder, path) = written(tensors);
    answer(family, &opened(&path))
}

fn expected(family: &dyn MadeUp, name: &str) -> Tensor {
    let all = store::read(&fixture(family, "lora.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

fn limit_of(family: &dyn MadeUp, form: &str) -> f64 {
    let base = family.facts().limits[usize::from(form != "none")];
    limit(&format!("{}/lora", family.id()), form, base)
}

fn lora(family: &dyn MadeUp, folder: &Path, form: &str, strength: f64) -> Lora {
    let form = format!("{}.{form}", family.id());
    Lora {
        path: write_lora_of(&fixture(family, "lora.json"), folder, &form, None),
        strength,
        strength_2: None,
    }
}

/// That every dialect gives the answer of the reference and leaves nothing unread.
pub(crate) fn assert_dialects(family: &dyn MadeUp) {
    with_both_frequencies(|| {
        let answers = dialects(family).map(|(name, tensors)| {
            let found = answer_of(family, &tensors);
            let limit = limit_of(family, "none");
            assert_close(name, &found, &expected(family, "none"), limit);
            found
        });
        assert_eq!(answers[0], answers[1]);
        assert!(distance(&answers[2], &answers[1]) < 1e-6);
    });
}

/// That a file that lacks a tensor, or has nothing of this network in it, is refused by what it lacks.
pub(crate) fn assert_lacking_is_named(family: &dyn MadeUp) {
    let [lost, first] = family.facts().named;
    let refusal = |tensors: &Tensors| {
        let (_folder, path) = written(tensors);
        let err = family
            .answers(&opened(&path), &[], Shortcut::default())
            .err()
            .unwrap();
        err.to_string()
    };
    for (name, mut tensors) in dialects(family) {
        let key = tensors.keys().find(|key| key.contains(lost)).unwrap();
        tensors.remove(&key.clone());
        let err = refusal(&tensors);
        assert!(err.contains(lost), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let err = refusal(&other);
    assert!(err.contains(first), "{err}");
}

/// That LoRAs of every form change every dialect as they change the reference.
pub(crate) fn assert_loras(family: &dyn MadeUp) {
    with_both_frequencies(|| {
        let folder = tempfile::tempdir().unwrap();
        let facts = family.facts();
        for (dialect, tensors) in dialects(family) {
            let (_model, path) = written(&tensors);
            let w = opened(&path);
            for form in facts.loras.iter().chain(facts.other_loras) {
                let one = lora(family, folder.path(), form, STRENGTH);
                let found = answer(family, &family.with_loras(&w, &[one]).unwrap());
                let what = format!("{form} on {dialect}");
                let far = distance(&found, &expected(family, "none"));
                assert!(far > 0.01, "{what}: {far}");
                if facts.loras.contains(form) {
                    let limit = limit_of(family, form);
                    assert_close(&what, &found, &expected(family, form), limit);
                }
            }
        }
    });
}

/// That a transformer in GGUF's blocks gives what its numbers give.
pub(crate) fn assert_blocks(family: &dyn MadeUp) {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals(family).into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, exact] = places.map(|place| answer(family, &opened(&place)));
    assert_eq!(found, exact);
    // Eight bits are near the truth, and not it.
    let far = distance(&found, &expected(family, "none"));
    assert!((1e-4..0.05).contains(&far), "{far}");
}

/// That a transformer in fp8 of any form gives what its numbers give.
pub(crate) fn assert_fp8(family: &dyn MadeUp) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let originals = originals(family);
    for (kind, scales, name) in FORMS {
        write_fp8(&path, &originals, kind, scales);
        let w = opened(&path);
        let found = answer(family, &w);
        let exact = originals.iter().map(|(key, tensor)| {
            let exact = w.tensor(key, &tensor.size()).unwrap();
            (key.clone(), exact)
        });
        let exact = answer_of(family, &exact.collect());
        assert_close(name, &found, &exact, 1e-6);
        let far = distance(&found, &expected(family, "none"));
        assert!((1e-3..family.facts().fp8).contains(&far), "{name}: {far}");
    }
}

/// That a transformer without some blocks gives what the reference without them gives; `last`: the number of its last.
pub(crate) fn assert_skips(family: &dyn MadeUp, last: u32) {
    let (_folder, path) = written(&originals(family));
    let w = opened(&path);
    with_both_frequencies(|| {
        let whole = answer(family, &w);
        for (name, blocks) in [
            ("0", "0".to_owned()),
            ("1", "1".to_owned()),
            ("0,last", format!("0,{last}")),
        ] {
            let found = answer_without(family, &w, blocks.parse().unwrap());
            assert!(distance(&found, &whole) > 0.01, "{name}");
            let key = format!("{}.{name}", family.id());
            assert_close(&key, &found, &skipped(&key), limit_of(family, "none"));
        }
    });
}

/// What `tests/fixtures/guiders/skipped.py` recorded.
pub(crate) fn skipped(key: &str) -> Tensor {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let all = store::read(&root.join("guiders/skipped.safetensors")).unwrap();
    let found = all.into_iter().find(|(name, _)| name == key);
    found.unwrap_or_else(|| panic!("no {key}")).1
}

/// That a transformer that streams gives what one that stays gives, to the last bit, in every dialect and in blocks.
pub(crate) fn assert_streams(family: &dyn MadeUp) {
    let folder = tempfile::tempdir().unwrap();
    let facts = family.facts();
    let loras = facts
        .streamed_loras
        .map(|form| lora(family, folder.path(), form, 0.7));
    let all: Vec<(String, Tensor)> = originals(family).into_iter().collect();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    let files = dialects(family).map(|(_, tensors)| written(&tensors));
    let places = files.iter().map(|(_, path)| (path, &loras[..]));
    let timesteps = [1.2, 0.7, 0.1].map(|part: f32| part * facts.recorded_at);
    for (path, loras) in places.chain([(&blocks, &[][..])]) {
        let run = |resident_bytes| {
            let place = Placement {
                device: Device::Cpu,
                kind: Kind::Float,
                resident_bytes,
                keeps: false,
            };
            let w = family
                .with_loras(&place.open(path).unwrap(), loras)
                .unwrap();
            let (answers, _) = family.answers(&w, &timesteps, Shortcut::default()).unwrap();
            (answers, w.stream_bytes())
        };
        let (whole, _) = run(None);
        let all = run(Some(u64::MAX)).1.unwrap();
        for budget in [0, all.resident / 2, all.resident - 1] {
            let (found, taken) = run(Some(budget));
            assert_eq!(found, whole, "{budget} bytes of {all:?}");
            let taken = taken.unwrap();
            assert!(taken.resident <= budget.max(all.resident / 4), "{taken:?}");
        }
    }
}

/// That two pictures that are asked for at once are each the one that is asked for alone.
pub(crate) fn assert_each_its_own(both: &Tensor, ask: impl Fn(&Tensor) -> Tensor) {
    let each = [0, 1].map(|index| ask(&both.narrow(0, index, 1)));
    assert_close("batch", &ask(both), &Tensor::cat(&each, 0), 1e-6);
}

/// A ControlNet of `tests/fixtures/control`: its config, its weights, and what diffusers' transformer answers with it.
pub(crate) struct ControlFixture<C> {
    pub config: C,
    pub tensors: Tensors,
    pub answer: Tensor,
    fixture: String,
    kind: String,
}

impl<C: DeserializeOwned> ControlFixture<C> {
    pub(crate) fn of(family: &dyn EngineFamily, kind: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/control");
        let facts = fs::read(root.join("networks.json")).unwrap();
        let mut facts: Value = serde_json::from_slice(&facts).unwrap();
        let facts = &mut facts[family.id()][kind];
        let shapes: BTreeMap<String, Vec<i64>> =
            serde_json::from_value(facts["shapes"].take()).unwrap();
        let named = shapes.into_iter();
        let answers = store::read(&root.join(format!("{}.safetensors", family.id()))).unwrap();
        let answer = answers.into_iter().find(|(name, _)| name == kind);
        Self {
            config: serde_json::from_value(facts["config"].take()).unwrap(),
            tensors: named
                .map(|(name, shape)| {
                    let tensor = made_up(&format!("control.{name}"), &shape);
                    (name, tensor)
                })
                .collect(),
            answer: answer.unwrap().1,
            fixture: format!("control/{}", family.id()),
            kind: kind.to_owned(),
        }
    }

    pub(crate) fn assert_answer(&self, found: &Tensor) {
        let limit = limit(&self.fixture, &self.kind, 2e-6);
        assert_close(&self.kind, found, &self.answer, limit);
    }
}

/// The tests of a transformer.
macro_rules! tests_of {
    ($family:expr, $last:expr) => {
        #[test]
        fn every_dialect_gives_the_answer_of_the_reference_and_leaves_nothing_unread() {
            $crate::families::tests::assert_dialects(&$family);
        }

        #[test]
        fn a_file_that_lacks_a_tensor_or_has_no_such_network_in_it_is_named() {
            $crate::families::tests::assert_lacking_is_named(&$family);
        }

        #[test]
        fn loras_of_every_form_on_every_dialect_are_those_of_the_reference() {
            $crate::families::tests::assert_loras(&$family);
        }

        #[test]
        fn a_transformer_in_blocks_gives_what_its_numbers_give() {
            $crate::families::tests::assert_blocks(&$family);
        }

        #[test]
        fn a_transformer_of_fp8_gives_what_its_numbers_give_in_every_form() {
            $crate::families::tests::assert_fp8(&$family);
        }

        #[test]
        fn a_transformer_without_some_blocks_gives_what_the_reference_gives() {
            $crate::families::tests::assert_skips(&$family, $last);
        }

        #[test]
        fn a_transformer_that_streams_gives_what_one_that_stays_gives_to_the_last_bit() {
            $crate::families::tests::assert_streams(&$family);
        }
    };
}
pub(crate) use tests_of;

#[test]
fn the_engine_has_every_family_of_the_registry() {
    for family in Family::all() {
        let mut own = FAMILIES.iter().filter(|own| own.id() == family.id);
        assert!(
            own.next().is_some() && own.next().is_none(),
            "{}",
            family.id
        );
    }
}
