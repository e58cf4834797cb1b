//! That the engine has every family, and the tests that all image transformers share: weights in every dialect and form,
//! LoRAs, streaming, skipped blocks, batches. Whole jobs are in `stages/tests`.
//!
//! The weights are a formula of their names, see `tests/fixtures/made_up.py`. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safelight_core::job::{BlockSet, LoraChoice};
use safelight_core::model::ModelFamily;
use safelight_core::networks::DenoiserConfig as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, limit};
use crate::denoise::ModelCall;
use crate::families::family::ImageFamily;
use crate::hooks::NoHooks;
use crate::stages::images::{
    ContextInput, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, WeightsDialect,
    packed_size,
};
use crate::step_cache::SkipOptions;
use crate::text::TextEmbeds;
use crate::weights::tests::fixtures::{self, fixture, tensors_of};
use crate::weights::tests::made_up::{lora, made_up, write_lora_of, write_named};
use crate::weights::{StreamBytes, Weights, WeightsError};

mod controls;
mod suite;
mod t5;

/// Strength of the recorded LoRAs.
const STRENGTH: f64 = 0.65;

/// A model's tensors by their names.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// A transformer with a tiny version, whose fixtures are in the folder of `tests/fixtures` with the family's name.
pub(crate) trait TinyModel: ImageModel {
    fn facts() -> Facts;

    /// The authors' tensors from diffusers'; equal if there is one dialect.
    fn originals(diffusers: &Tensors) -> Tensors {
        renamed("", diffusers)
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
    pub config: String,
    /// File of shapes, and the keys of the transformer's in it.
    pub shapes: (String, &'static [&'static str]),
    /// LoRAs, and the prefix of their names.
    pub loras: (String, String),
    /// Recorded predictions with LoRAs, without an extension, and the prefix of their names.
    pub predictions: (String, &'static str),
}

impl Fixtures {
    /// Those of most families, in a folder of the family's name.
    pub(crate) fn of(family: &str) -> Self {
        let file = |name: &str| format!("{family}/{name}");
        Self {
            config: file("transformer.json"),
            shapes: (file("shapes.json"), &["tiny", "transformer"]),
            loras: (file("lora.json"), format!("{family}.")),
            predictions: (file("lora"), ""),
        }
    }
}

/// Pairs of names, a row each: `one -> other`.
pub(crate) fn table(rows: &str) -> impl Iterator<Item = (&str, &str)> {
    rows.lines()
        .map(|row| row.trim().split_once(" -> ").unwrap())
}

/// The authors' tensors of diffusers'. Each row of `rows` is an original name and diffusers' names of what is joined there,
/// siblings of the first; `N` is a number. Other names stay.
pub(crate) fn renamed(rows: &str, diffusers: &Tensors) -> Tensors {
    let copies = diffusers.iter();
    let mut left: Tensors = copies
        .map(|(k, v)| (k.clone(), v.shallow_clone()))
        .collect();
    let mut made = Tensors::new();
    for (ours, names) in table(rows) {
        let numbers = if ours.contains(".N.") { 10 } else { 1 };
        for number in 0..numbers {
            let place = |name: &str| name.replace(".N.", &format!(".{number}."));
            let (first, others) = names.split_once(' ').unwrap_or((names, ""));
            let first = place(first);
            let (parent, _) = first.rsplit_once('.').unwrap_or(("", ""));
            let sibling = |name: &str| match name.strip_prefix("../") {
                Some(name) => format!("{}.{name}", parent.rsplit_once('.').unwrap().0),
                None => format!("{parent}.{name}"),
            };
            let ends = left.keys().filter_map(|name| name.strip_prefix(&first));
            let ends = ends.filter(|end| end.is_empty() || end.starts_with('.'));
            for end in ends.map(str::to_owned).collect::<Vec<_>>() {
                let all = [first.clone()].into_iter();
                let all = all.chain(others.split_whitespace().map(sibling));
                let parts = all.map(|name| left.remove(&format!("{name}{end}")).unwrap());
                let joined = Tensor::cat(&parts.collect::<Vec<_>>(), 0);
                made.insert(format!("{}{end}", place(ours)), joined);
            }
        }
    }
    made.extend(left);
    made
}

/// Exchanges scale and shift of the last layer, which diffusers has the other way round.
pub(crate) fn with_halves_swapped(mut tensors: Tensors) -> Tensors {
    for (name, tensor) in &mut tensors {
        if name.starts_with("final_layer.") && name.contains("adaLN_modulation.1.") {
            let halves = tensor.chunk(2, 0);
            *tensor = Tensor::cat(&[&halves[1], &halves[0]], 0);
        }
    }
    tensors
}

pub(crate) fn json_of(path: &str) -> Value {
    fixtures::json_of(&fixture(path))
}

/// The tiny transformer's config.
pub(crate) fn config_of<M: TinyModel>() -> M::Config {
    serde_json::from_value(json_of(&M::facts().fixtures.config)).unwrap()
}

/// Weights by diffusers' names.
pub(crate) fn diffusers<M: TinyModel>() -> Tensors {
    let (path, keys) = M::facts().fixtures.shapes;
    let mut shapes = json_of(&path);
    for key in keys {
        shapes = shapes[key].take();
    }
    tensors_of(&shapes, "transformer.").into_iter().collect()
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
    write_named(&path, tensors);
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
        sigma: 1.0,
        timestep_tensor: Tensor::from(0.0),
    }
}

/// A model's predictions for `input` at some timesteps.
pub(crate) fn predictions_of<M: ImageModel>(
    model: &M,
    latents: &Tensor,
    conditioning: &ImageConditioning<'_, M>,
    timesteps: &[f32],
    skip: SkipOptions<'_>,
) -> Vec<Tensor> {
    let num_images = latents.size()[0];
    let text = conditioning.prompt;
    let input = ContextInput {
        text,
        conditioning,
        num_images,
        timesteps,
        hooks: &NoHooks,
    };
    let context = model.context(&input).unwrap();
    let modulations = model.modulations(timesteps, &context);
    let controls = conditioning.controls.modulations(model, timesteps);
    conditioning.controls.on_call(&first_call(), 0);
    let predictions = modulations.iter().zip(&controls).map(|(own, of_controls)| {
        let pass = ForwardPass {
            context: &context,
            modulation: own,
            skip,
            controls: Some((&conditioning.controls, of_controls)),
            hooks: &NoHooks,
        };
        model.predict(latents, &pass).unwrap()
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
    let unread = WeightsDialect::of::<M>(w).unexpected_keys(w);
    let facts = M::facts();
    let (width, height) = facts.size;
    let shape = M::LATENTS
        .shape(config.latent_channels(), width, height)
        .unwrap();
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
    fixtures::recorded(&format!("{path}.safetensors"), &format!("{prefix}{form}"))
}

pub(crate) fn limit_of<M: TinyModel>(form: &str) -> f64 {
    let facts = M::facts();
    let (path, prefix) = facts.fixtures.predictions;
    let base = facts.limits[usize::from(form != "none")];
    limit(&path, &format!("{prefix}{form}"), base)
}

fn lora_of<M: TinyModel>(folder: &Path, form: &str, strength: f64) -> LoraChoice {
    let (path, prefix) = M::facts().fixtures.loras;
    let form = format!("{prefix}{form}");
    lora(
        write_lora_of(&fixture(&path), folder, &form, None),
        strength,
    )
}

/// Prediction without some blocks, recorded by `tests/fixtures/guiders/skipped.py`.
pub(crate) fn skipped(key: &str) -> Tensor {
    fixtures::recorded("guiders/skipped.safetensors", key)
}

/// Asserts that predictions are equal to the last bit however many bytes of weights stay on the device. `run`: predictions
/// with a budget, and what the weights took; without any budget at most one in `floor` bytes stays.
#[track_caller]
pub(crate) fn assert_equal_when_streamed(
    floor: u64,
    run: impl Fn(Option<u64>) -> (Vec<Tensor>, Option<StreamBytes>),
) {
    let (whole, none) = run(None);
    assert_eq!(none, None);
    let (found, all) = run(Some(u64::MAX));
    let all = all.unwrap();
    assert!(found == whole && all.window == 0);
    for budget in [0, all.resident / 2, all.resident - 1] {
        let (found, taken) = run(Some(budget));
        assert_eq!(found, whole, "{budget} bytes of {all:?}");
        let taken = taken.unwrap();
        let most = budget.max(all.resident / floor);
        assert!(taken.resident <= most, "{taken:?}");
        assert!(0 < taken.window && taken.window < all.resident, "{taken:?}");
    }
}

/// Asserts that two images of a batch are each the one that is predicted alone, but for the order of sums in kernels that a
/// processor has for another batch: 1.7e-6 with SDXL's convolutions on an AMD EPYC.
pub(crate) fn assert_each_its_own(both: &Tensor, predict: impl Fn(&Tensor) -> Tensor) {
    let each = [0, 1].map(|index| predict(&both.narrow(0, index, 1)));
    assert_close("batch", &predict(both), &Tensor::cat(&each, 0), 5e-6);
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
        let facts = json_of("control/networks.json")[family.id()][kind].take();
        let fixture = format!("control/{}", family.id());
        Self {
            config: serde_json::from_value(facts["config"].clone()).unwrap(),
            tensors: tensors_of(&facts["shapes"], "control.")
                .into_iter()
                .collect(),
            answer: fixtures::recorded(&format!("{fixture}.safetensors"), kind),
            fixture,
            kind: kind.to_owned(),
        }
    }

    pub(crate) fn assert_answer(&self, found: &Tensor, base: f64) {
        let limit = limit(&self.fixture, &self.kind, base);
        assert_close(&self.kind, found, &self.answer, limit);
    }
}

#[test]
fn the_engine_has_every_family_of_the_registry() {
    for family in ModelFamily::all() {
        let mut own = FAMILIES.iter().filter(|own| own.id() == family.id);
        assert!(own.next().is_some() && own.next().is_none(), "{family:?}");
    }
}
