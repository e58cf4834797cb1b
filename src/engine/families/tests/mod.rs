//! That the engine has every family, and the tests that all image transformers share: weights in every dialect and form,
//! LoRAs, streaming, skipped blocks, batches. Whole jobs are in `stages/tests`.
//!
//! The weights are a formula of their names, see `tests/fixtures/made_up.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::families::ModelFamily;
use safelight_core::job::{BlockSet, LoraChoice};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, limit};
use crate::denoise::ModelCall;
use crate::hooks::NoHooks;
use crate::stages::images::{
    ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, packed_size,
};
use crate::step_cache::SkipOptions;
use crate::tensor_files;
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::{made_up, write_lora_of};
use crate::weights::{Weights, WeightsError};

mod controls;
mod suite;

/// Strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;

/// A model's tensors by their names.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// A transformer with a tiny version, whose fixtures are in the folder of `tests/fixtures` with the family's name.
pub(crate) trait TinyModel: ImageModel {
    const FAMILY: &'static ImageFamily<Self>;

    fn facts() -> Facts;

    /// The authors' tensors from diffusers'; equal if there is one dialect.
    fn originals(diffusers: &Tensors) -> Tensors {
        let named = diffusers.iter();
        named
            .map(|(name, tensor)| (name.clone(), tensor.shallow_clone()))
            .collect()
    }

    /// A text of `tokens` tokens.
    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds;

    /// Made-up input of `num_images`, in the model's form.
    fn input(
        config: &Self::Config,
        shape: ImageLatentShape,
        name: &str,
        num_images: i64,
    ) -> Tensor {
        let _ = config;
        let mut size = packed_size::<Self>(shape);
        size[0] = num_images;
        made_up(name, &size)
    }
}

/// Differences between the tests of transformers.
pub(crate) struct Facts {
    pub fixtures: Fixtures,
    /// Timestep and image size of the recorded predictions.
    pub timestep: f32,
    pub size: (u32, u32),
    pub input: &'static str,
    /// Largest distance of a prediction from the recorded one, and with a LoRA, where sums have another order.
    pub limits: [f64; 2],
    /// Forms of LoRAs with recorded predictions.
    pub loras: &'static [&'static str],
    /// Forms that the reference cannot read.
    pub other_loras: &'static [&'static str],
    /// Two forms that are streamed together.
    pub streamed_loras: [&'static str; 2],
    /// Common part of all names of a component that a file may lack, and the tensor that is read first.
    pub named: [&'static str; 2],
    /// Largest distance of predictions of weights in fp8.
    pub fp8: f64,
    /// Set if predictions without some blocks were recorded.
    pub has_skips: bool,
}

/// Fixture files of a tiny transformer, below `tests/fixtures`.
pub(crate) struct Fixtures {
    pub config: &'static str,
    /// File of shapes, and the keys of the transformer's in it.
    pub shapes: (&'static str, &'static [&'static str]),
    /// LoRAs, and the prefix of their names.
    pub loras: (&'static str, &'static str),
    /// Recorded predictions with LoRAs, without an extension, and the prefix of their names.
    pub predictions: (&'static str, &'static str),
}

impl Fixtures {
    /// The files of most families.
    pub(crate) const fn of(
        config: &'static str,
        shapes: &'static str,
        loras: (&'static str, &'static str),
        predictions: &'static str,
    ) -> Self {
        Self {
            config,
            shapes: (shapes, &["tiny", "transformer"]),
            loras,
            predictions: (predictions, ""),
        }
    }
}

/// Pairs of names, a row each: `one -> other`.
pub(crate) fn table(rows: &str) -> impl Iterator<Item = (&str, &str)> {
    rows.lines()
        .map(|row| row.trim().split_once(" -> ").unwrap())
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(path)
}

pub(crate) fn json_of(path: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(path)).unwrap()).unwrap()
}

/// The tiny transformer's config.
pub(crate) fn config_of<M: TinyModel>() -> M::Config {
    serde_json::from_value(json_of(M::facts().fixtures.config)).unwrap()
}

/// Weights by diffusers' names.
pub(crate) fn diffusers<M: TinyModel>() -> Tensors {
    let (path, keys) = M::facts().fixtures.shapes;
    let mut shapes = json_of(path);
    for key in keys {
        shapes = shapes[key].take();
    }
    let shapes: BTreeMap<String, Vec<i64>> = serde_json::from_value(shapes).unwrap();
    let named = shapes.into_iter();
    named
        .map(|(name, shape)| {
            let tensor = made_up(&format!("transformer.{name}"), &shape);
            (name, tensor)
        })
        .collect()
}

pub(crate) fn originals<M: TinyModel>() -> Tensors {
    M::originals(&diffusers::<M>())
}

/// Equal weights in three files: with a prefix next to another component, in original names, in diffusers' names.
pub(crate) fn dialects<M: TinyModel>() -> [(&'static str, Tensors); 3] {
    let (original, diffusers) = (originals::<M>(), diffusers::<M>());
    let with_prefix = |(name, tensor): (&String, &Tensor)| {
        let name = format!("model.diffusion_model.{name}");
        (name, tensor.shallow_clone())
    };
    let mut prefixed: Tensors = original.iter().map(with_prefix).collect();
    let other = Tensor::from_slice(&[0_f32]);
    prefixed.insert("vae.decoder.conv_in.bias".to_owned(), other);
    [
        ("prefixed", prefixed),
        ("original", original),
        ("diffusers", diffusers),
    ]
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

/// The tiny transformer.
pub(crate) fn model_of<M: TinyModel>(tensors: &Tensors) -> M {
    let (_folder, path) = written(tensors);
    M::new(&config_of::<M>(), &opened(&path)).unwrap()
}

/// The only call of a schedule.
fn first_call() -> ModelCall {
    ModelCall {
        index: 0,
        number: 0,
        step: 0,
        num_steps: 1,
        timestep: 0.0,
        told: Tensor::from(0.0),
    }
}

/// A model's predictions for `input` at some timesteps.
pub(crate) fn predictions_of<M: ImageModel>(
    model: &M,
    input: &Tensor,
    conditioning: &ImageConditioning<'_, M>,
    timesteps: &[f32],
    skip: SkipOptions<'_>,
) -> Vec<Tensor> {
    let num_images = input.size()[0];
    let text = conditioning.prompt;
    let context = model
        .context(text, conditioning, num_images, &NoHooks)
        .unwrap();
    let modulations = model.modulations(timesteps, &context);
    let controls = conditioning.controls.modulations(model, timesteps);
    conditioning.controls.on_call(&first_call(), 0);
    let predictions = modulations.iter().zip(&controls).map(|(own, of_controls)| {
        let pass = ForwardPass {
            controls: Some((&conditioning.controls, of_controls)),
            ..ForwardPass::new(skip, &NoHooks)
        };
        model.predict(input, own, &context, &pass).unwrap()
    });
    predictions.collect()
}

/// Predictions for the recorded inputs at some timesteps, and keys that nothing read.
pub(crate) fn predictions<M: TinyModel>(
    config: &M::Config,
    w: &Weights,
    timesteps: &[f32],
    skip: SkipOptions<'_>,
) -> Result<(Vec<Tensor>, Vec<String>), WeightsError> {
    let model = M::new(config, w)?;
    let unread = M::dialect(w).unexpected_keys(w);
    let facts = M::facts();
    let (width, height) = facts.size;
    let shape = ImageLatentShape::new(M::latent_channels(config), width, height).unwrap();
    let text = M::text(config, 5);
    let input = M::input(config, shape, facts.input, 1);
    let conditioning = ImageConditioning::of_prompt(shape, &text);
    let all = predictions_of(&model, &input, &conditioning, timesteps, skip);
    Ok((all, unread))
}

/// The prediction for the recorded inputs and timestep.
pub(crate) fn prediction<M: TinyModel>(w: &Weights) -> Tensor {
    prediction_of_config::<M>(&config_of::<M>(), w)
}

/// The prediction of a transformer with another config.
pub(crate) fn prediction_of_config<M: TinyModel>(config: &M::Config, w: &Weights) -> Tensor {
    prediction_without::<M>(config, w, BlockSet::default())
}

fn prediction_without<M: TinyModel>(config: &M::Config, w: &Weights, without: BlockSet) -> Tensor {
    let skip = SkipOptions {
        without,
        ..SkipOptions::default()
    };
    let all = predictions::<M>(config, w, &[M::facts().timestep], skip);
    let (mut all, unread) = all.unwrap();
    assert_eq!(unread, Vec::<String>::new());
    all.remove(0)
}

/// The prediction of a file of `tensors`.
pub(crate) fn prediction_of<M: TinyModel>(tensors: &Tensors) -> Tensor {
    let (_folder, path) = written(tensors);
    prediction::<M>(&opened(&path))
}

pub(crate) fn recorded<M: TinyModel>(form: &str) -> Tensor {
    let (path, prefix) = M::facts().fixtures.predictions;
    let all = tensor_files::read(&fixture(path).with_extension("safetensors")).unwrap();
    let name = format!("{prefix}{form}");
    let found = all.into_iter().find(|(key, _)| *key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

pub(crate) fn limit_of<M: TinyModel>(form: &str) -> f64 {
    let facts = M::facts();
    let (path, prefix) = facts.fixtures.predictions;
    let base = facts.limits[usize::from(form != "none")];
    limit(path, &format!("{prefix}{form}"), base)
}

fn lora<M: TinyModel>(folder: &Path, form: &str, strength: f64) -> LoraChoice {
    let (path, prefix) = M::facts().fixtures.loras;
    let form = format!("{prefix}{form}");
    LoraChoice {
        path: write_lora_of(&fixture(path), folder, &form, None),
        strength,
        strength_2: None,
    }
}

/// Prediction without some blocks, recorded by `tests/fixtures/guiders/skipped.py`.
pub(crate) fn skipped(key: &str) -> Tensor {
    let all = tensor_files::read(&fixture("guiders/skipped.safetensors")).unwrap();
    let found = all.into_iter().find(|(name, _)| name == key);
    found.unwrap_or_else(|| panic!("no {key}")).1
}

/// Asserts that two images of a batch are each the one that is predicted alone.
pub(crate) fn assert_each_its_own(both: &Tensor, predict: impl Fn(&Tensor) -> Tensor) {
    let each = [0, 1].map(|index| predict(&both.narrow(0, index, 1)));
    assert_close("batch", &predict(both), &Tensor::cat(&each, 0), 1e-6);
}

/// A ControlNet of `tests/fixtures/control`: its config, its weights, and diffusers' prediction with it.
pub(crate) struct ControlFixture<C> {
    pub config: C,
    pub tensors: Tensors,
    pub answer: Tensor,
    fixture: String,
    kind: String,
}

/// Interface of image families for tests of whole jobs.
pub(crate) trait TinyFamily: EngineFamily {
    /// See [`TinyModel::originals`].
    fn originals(&self, diffusers: &Tensors) -> Tensors;
}

impl<M: TinyModel> TinyFamily for ImageFamily<M> {
    fn originals(&self, diffusers: &Tensors) -> Tensors {
        M::originals(diffusers)
    }
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
        let answers =
            tensor_files::read(&root.join(format!("{}.safetensors", family.id()))).unwrap();
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

#[test]
fn the_engine_has_every_family_of_the_registry() {
    for family in ModelFamily::all() {
        let mut own = FAMILIES.iter().filter(|own| own.id() == family.id);
        assert!(
            own.next().is_some() && own.next().is_none(),
            "{}",
            family.id
        );
    }
}
