//! Shared tests of image families: synthetic published files, made from names and shapes, and how each is recognised,
//! completed, described and refused.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::made_up::{Shapes, renamed, write};
use super::pipelines::{edit_json, searching, user, write_json};
use super::{json_fixture, project, table};
use crate::catalog::{IdentityCard, ModelCatalog};
use crate::families::text_readers;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, SamplerKind};
use crate::library::ControlNetwork;
use crate::model::{
    CatalogError, ComponentOverrides, GuidanceMode, ImageRole, InputUse, ModelFamily, ModelSpec,
};
use crate::networks::NetworkConfig;

/// A name in which `{N}` stands for the numbers from 0 on, how many there are, and the shape.
#[derive(Deserialize)]
struct Tensors(String, usize, Vec<u64>);

/// One of the files in a list of `tests/fixtures/headers`, which the script of the same name makes.
pub(crate) fn shapes_of(list: &str, name: &str) -> Shapes {
    let mut files: BTreeMap<String, Vec<Tensors>> = json_fixture(&format!("headers/{list}.json"));
    let mut shapes = Shapes::new();
    for Tensors(pattern, count, shape) in files.remove(name).unwrap() {
        if count == 0 {
            shapes.insert(pattern.clone(), shape.clone());
        }
        for number in 0..count {
            shapes.insert(pattern.replace("{N}", &number.to_string()), shape.clone());
        }
    }
    shapes
}

pub(crate) fn behind(prefix: &str, shapes: &Shapes) -> Shapes {
    renamed(shapes, |key| format!("{prefix}{key}"))
}

/// The same shapes but for one.
pub(crate) fn edited(mut shapes: Shapes, key: &str, shape: &[u64]) -> Shapes {
    shapes.insert(key.to_owned(), shape.to_vec());
    shapes
}

/// Shapes with every size `from` replaced by `to`.
pub(crate) fn resized(mut shapes: Shapes, from: u64, to: u64) -> Shapes {
    let sizes = shapes.values_mut().flatten();
    sizes.filter(|n| **n == from).for_each(|n| *n = to);
    shapes
}

pub(crate) fn count_numbers(shapes: &Shapes) -> u64 {
    let counts = shapes.values().map(|it| it.iter().product::<u64>());
    counts.sum()
}

/// The tokenizers that ship with the app.
pub(crate) fn shipped(name: &str) -> PathBuf {
    fs::canonicalize(project("assets/tokenizers"))
        .unwrap()
        .join(name)
}

/// The models of a user whose only folder is `models`, and who has the app's tokenizers.
pub(crate) fn catalog_of(models: &Path) -> ModelCatalog {
    let (root, mut paths) = user();
    paths.assets = Some(shipped("clip-l").ancestors().nth(2).unwrap().to_owned());
    let mut catalog = ModelCatalog::load(&paths, &searching(&[models]));
    drop(root);
    let is_ours = |spec: &ModelSpec| spec.id == crate::catalog::EMBEDDED_MODEL;
    catalog.available.retain(|spec| !is_ours(spec));
    catalog
}

/// A transformer in ComfyUI's `models` folder.
pub(crate) fn transformer_in(models: &Path, name: &str, shapes: &Shapes) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, shapes, "BF16")
}

/// A diffusers folder of published size.
pub(crate) struct Folder {
    /// What diffusers and transformers call the pipeline, its transformer, autoencoder, text encoder and tokenizer.
    pub classes: [&'static str; 5],
    /// What `model_index.json` says beside that.
    pub marks: Value,
    /// Of the scheduler, without its class.
    pub scheduler: Value,
    /// Of the transformer, the autoencoder and the text encoder; the former two without their classes.
    pub configs: [Value; 3],
    /// Of the same.
    pub shapes: [Shapes; 3],
    /// One that ships with the app.
    pub tokenizer: &'static str,
}

impl Folder {
    pub(crate) fn write(self, folder: &Path) {
        let [pipeline, transformer, vae, text, tokenizer] = self.classes;
        let scheduler = "FlowMatchEulerDiscreteScheduler";
        if self.marks.get("text_conditioner").is_some() {
            crate::families::anima::tests::write_adapter(folder);
        }
        let index = json!({
            "_class_name": pipeline,
            "scheduler": ["diffusers", scheduler],
            "text_encoder": ["transformers", text],
            "tokenizer": ["transformers", tokenizer],
            "transformer": ["diffusers", transformer],
            "vae": ["diffusers", vae],
        });
        write_json(&folder.join("model_index.json"), &with(self.marks, index));
        let of_class = json!({ "_class_name": scheduler });
        write_json(
            &folder.join("scheduler/scheduler_config.json"),
            &with(self.scheduler, of_class),
        );
        let stem = "diffusion_pytorch_model.safetensors";
        let components = [
            ("transformer", json!({ "_class_name": transformer }), stem),
            ("vae", json!({ "_class_name": vae }), stem),
            ("text_encoder", json!({}), "model.safetensors"),
        ];
        let parts = self.configs.into_iter().zip(self.shapes);
        for ((component, class, stem), (config, shapes)) in components.into_iter().zip(parts) {
            let place = folder.join(component);
            write_json(&place.join("config.json"), &with(config, class));
            write(&place.join(stem), &shapes, "BF16");
        }
        let tokenizer = shipped(self.tokenizer);
        std::os::unix::fs::symlink(tokenizer, folder.join("tokenizer")).unwrap();
    }
}

fn with(mut into: Value, others: Value) -> Value {
    let Value::Object(others) = others else {
        panic!("not an object: {others}");
    };
    for (name, value) in others {
        into[name] = value;
    }
    into
}

/// The config of FLUX.1's autoencoder.
pub(crate) fn kl_vae_config() -> Value {
    json!({
        "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
        "latent_channels": 16, "norm_num_groups": 32, "use_quant_conv": false, "use_post_quant_conv": false,
    })
}

/// The config of Qwen 3 4B.
pub(crate) fn qwen3_config() -> Value {
    json!({
        "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rms_norm_eps": 1e-6, "rope_theta": 1_000_000,
    })
}

/// The config of a network at a place, in diffusers' and transformers' terms.
pub(crate) fn json_of<T: NetworkConfig + Serialize>(place: &Path) -> Value {
    serde_json::to_value(T::read(place).unwrap()).unwrap()
}

/// Reads the config of a network at a place.
pub(crate) type ReadConfig<T> = fn(&Path) -> Result<T, CatalogError>;

/// Asserts that a network of these shapes reads all of them and no others -> its config.
pub(crate) fn assert_is_read<T: NetworkConfig>(shapes: &Shapes, what: &str) -> T {
    assert_is_read_but(T::read, shapes, &[], what)
}

/// Like [`assert_is_read`], but for tensors whose names contain one of `spare`.
pub(crate) fn assert_is_read_but<T: NetworkConfig>(
    read: ReadConfig<T>,
    shapes: &Shapes,
    spare: &[&str],
    what: &str,
) -> T {
    let root = tempfile::tempdir().unwrap();
    let place = write(&root.path().join("x.safetensors"), shapes, "BF16");
    let weights = WeightSet::open(&place).unwrap();
    let config = read(&place).unwrap();
    config.check_weights(&weights).unwrap();
    let known = config.tensors(&weights).into_iter();
    let known: Shapes = known
        .map(|tensor| {
            // diffusers keeps the attention's convolutions of one pixel as matrices.
            let found = shapes.get(&tensor.name).map_or(0, Vec::len);
            let is_matrix = tensor.name.contains(".attentions.0.to_") && found == 2;
            let axes = if is_matrix { 2 } else { tensor.shape.len() };
            (tensor.name, tensor.shape[..axes].to_vec())
        })
        .collect();
    let is_spare = |key: &str| !known.contains_key(key) && spare.iter().any(|it| key.contains(it));
    let mut expected = shapes.clone();
    expected.retain(|key, _| !is_spare(key));
    assert_eq!(known, expected, "{what}");
    config
}

/// Asserts that a transformer is read with every prefix, and that its config is the published one.
pub(crate) fn assert_is_whole_behind_prefixes<T>(shapes: &Shapes, published: &T)
where
    T: NetworkConfig + Debug + PartialEq,
{
    let diffusion = "model.diffusion_model.";
    for prefix in ["", diffusion, "diffusion_model.", "transformer."] {
        let config: T = assert_is_read(&behind(prefix, shapes), prefix);
        assert_eq!(&config, published, "{prefix}");
    }
}

/// Asserts that a file without any one of its tensors, or with one of another shape, is refused by the tensor's name.
/// `is_looked_at`: blocks of a list are tried once.
pub(crate) fn assert_needs_all<T: NetworkConfig>(
    shapes: &Shapes,
    is_looked_at: impl Fn(&str) -> bool,
) {
    assert_needs_all_read(T::read, shapes, is_looked_at);
}

/// Like [`assert_needs_all`], for all that is read of these shapes.
pub(crate) fn assert_needs_all_read<T: NetworkConfig>(
    read: ReadConfig<T>,
    shapes: &Shapes,
    is_looked_at: impl Fn(&str) -> bool,
) {
    let root = tempfile::tempdir().unwrap();
    let place = write(&root.path().join("x.safetensors"), shapes, "BF16");
    let config = read(&place).unwrap();
    let mut weights = WeightSet::open(&place).unwrap();
    let known = config.tensors(&weights);
    let refusal = |weights: &WeightSet| config.check_weights(weights).unwrap_err().to_string();
    let names = known.iter().map(|tensor| &tensor.name);
    for key in names.filter(|key| is_looked_at(key)) {
        let entry = weights.tensors.remove(key).unwrap();
        assert!(refusal(&weights).contains(key.as_str()), "{key}");
        let mut wrong = entry.clone();
        wrong.shape[0] += 1;
        weights.tensors.insert(key.clone(), wrong);
        assert!(refusal(&weights).contains(key.as_str()), "{key}");
        weights.tensors.insert(key.clone(), entry);
    }
    config.check_weights(&weights).unwrap();
}

/// Asserts that the tensors of each published transformer match the config under every prefix, and that none of the
/// first one's may be missing. `numbers`: parameters of each.
pub(crate) fn assert_published<T>(
    transformers: &[Shapes],
    config: &T,
    numbers: u64,
    is_looked_at: impl Fn(&str) -> bool,
) where
    T: NetworkConfig + Debug + PartialEq,
{
    for shapes in transformers {
        assert_is_whole_behind_prefixes(shapes, config);
        assert_eq!(count_numbers(shapes), numbers);
    }
    assert_needs_all::<T>(&transformers[0], is_looked_at);
}

/// That a whole diffusers folder with one other value in a config is refused in a sentence with a part.
fn assert_change_refused(folder: &Path, file: &str, key: &str, value: &Value, part: &str) {
    let path = folder.join(file).with_extension("json");
    let before = fs::read(&path).unwrap();
    edit_json(&path, |config| config[key] = value.clone());
    let text = ModelSpec::open(folder).unwrap_err().to_string();
    assert!(text.contains(part), "{file} {key} {value}: {text}");
    fs::write(&path, before).unwrap();
}

/// That each of these changes to the configs of a whole folder is refused. A row: file, key and value -> part.
pub(crate) fn assert_changes_refused(folder: &Path, rows: &str) {
    for (change, part) in table(rows) {
        let [file, key, value] = change.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{change}");
        };
        let value = serde_json::from_str(value).unwrap();
        assert_change_refused(folder, file, key, &value, part);
    }
    ModelSpec::open(folder).unwrap();
}

/// Asserts that a whole diffusers folder without one of these parts is refused by its name.
pub(crate) fn assert_needs_parts(folder: &Path, parts: &[&str]) {
    for part in parts {
        let (here, away) = (folder.join(part), folder.join("away"));
        fs::rename(&here, &away).unwrap();
        let text = ModelSpec::open(folder).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
        fs::rename(&away, &here).unwrap();
    }
}

/// Asserts that a file is no ControlNet that can be read, in a sentence with a part.
pub(crate) fn assert_no_control_network(shapes: &Shapes, part: &str) {
    let root = tempfile::tempdir().unwrap();
    let place = write(&root.path().join("other.safetensors"), shapes, "BF16");
    let text = crate::families::control_network(&place)
        .unwrap_err()
        .to_string();
    assert!(text.contains(part), "{text}");
}

/// The ControlNet in a file of these shapes.
pub(crate) fn control_network(shapes: &Shapes) -> ControlNetwork {
    let root = tempfile::tempdir().unwrap();
    let place = write(&root.path().join("control.safetensors"), shapes, "BF16");
    crate::families::control_network(&place).unwrap()
}

/// A model as it is offered when nothing is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Offered {
    pub family: ModelFamily,
    pub variant: &'static str,
    /// How it begins.
    pub licence: &'static str,
    pub num_steps: u32,
    pub guidance_scale: f64,
    pub shift: Option<f64>,
    pub sampler: SamplerKind,
    /// Width and height, pixels.
    pub edge: u32,
    /// Channels of its latents, where previews have their colours.
    pub preview_channels: Option<usize>,
    /// Pixels that edges are multiples of.
    pub step: u32,
    /// One that ships with the app.
    pub tokenizer: &'static str,
    /// The text encoder's name and how many tokens it reads.
    pub reader: (&'static str, usize),
    pub is_guided: bool,
}

impl Offered {
    /// Asserts that the model with this id makes images from text, an image and a mask, with these defaults.
    pub(crate) fn assert(&self, spec: &ModelSpec) {
        let variant = (spec.family, &spec.variant[..]);
        assert_eq!(variant, (self.family, self.variant));
        assert!(spec.licence.starts_with(self.licence), "{}", spec.licence);
        let sampling = &spec.defaults.sampling;
        let found = (sampling.num_steps, sampling.guidance_scale, sampling.shift);
        assert_eq!(found, (self.num_steps, self.guidance_scale, self.shift));
        assert_eq!(sampling.sampler, self.sampler);
        let size = (spec.defaults.width, spec.defaults.height);
        assert_eq!(size, (self.edge, self.edge));
        assert_eq!(spec.guidance, GuidanceMode::Cfg);
        let given = (spec.start_image, spec.mask, spec.end_image);
        let (optional, no) = (InputUse::Optional, InputUse::No);
        assert_eq!(given, (optional, optional, no));
        assert_eq!(spec.image_role, ImageRole::Base);
        let limits = (spec.limits.size_multiple, spec.limits.max_edge);
        assert_eq!(limits, (self.step, 8192));
        let channels = spec.latent_rgb.as_ref().map(|rgb| rgb.factors.len());
        assert_eq!(channels, self.preview_channels);
        assert_eq!(spec.files.tokenizer, shipped(self.tokenizer));
        // In the transformer's file, where there is one.
        let second = spec.files.text_encoder_2.as_ref();
        assert!(second.is_none_or(|it| *it == spec.files.transformer));
        let reader = &text_readers(spec)[0];
        assert_eq!((reader.name, reader.limit), self.reader);
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let checked = form.validate(spec).unwrap();
        assert!(checked.notices.is_empty(), "{:?}", checked.notices);
        assert_eq!(checked.request.is_guided(), self.is_guided);
    }
}

/// The models of a ComfyUI folder, of which so many are offered and nothing is wrong.
pub(crate) fn faultless_catalog(models: &Path, count: usize) -> ModelCatalog {
    let catalog = catalog_of(models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), count);
    catalog
}

/// That a file with all `parts`, each with what stands before its names, needs nothing around it.
pub(crate) fn assert_all_in_one(name: &str, parts: &[(&str, Shapes); 3]) {
    let root = tempfile::tempdir().unwrap();
    let all = parts.iter().map(|(prefix, shapes)| behind(prefix, shapes));
    let place = root.path().join(format!("checkpoints/{name}.safetensors"));
    write(&place, &all.flatten().collect(), "BF16");
    let files = ModelSpec::open(&place).unwrap().files;
    assert_eq!((&files.vae, &files.text_encoder), (&place, &place));
    let card = IdentityCard::read(&place).unwrap();
    let parts: Vec<&str> = card.components.iter().map(|part| &part.name[..]).collect();
    assert_eq!(parts, ["transformer", "vae", "text_encoder"]);
}

/// That a card says what a file is, and that it can run.
pub(crate) fn assert_described(place: &Path, family: &str, variant: &str, what: &str) {
    let card = IdentityCard::read(place).unwrap();
    assert_eq!((&card.family[..], &card.variant[..]), (family, variant));
    assert!(card.what.contains(what), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
}

/// That the card of a file without some companions, which go, names what is missing in one problem.
pub(crate) fn assert_lacks(place: &Path, models: &Path, gone: &[&str], missing: &[&str]) {
    for file in gone {
        fs::remove_file(models.join(format!("{file}.safetensors"))).unwrap();
    }
    let card = IdentityCard::read(place).unwrap();
    let [problem] = &card.problems[..] else {
        panic!("{:?}", card.problems);
    };
    for missing in missing {
        let missing = format!("{missing}.safetensors");
        assert!(problem.contains(&missing), "{problem}");
    }
}

pub(crate) fn with_text_encoder(place: PathBuf) -> ComponentOverrides {
    ComponentOverrides {
        text_encoder: Some(place),
        ..ComponentOverrides::default()
    }
}

pub(crate) fn with_vae(place: PathBuf) -> ComponentOverrides {
    ComponentOverrides {
        vae: Some(place),
        ..ComponentOverrides::default()
    }
}

/// A part of another model beside those of this one.
pub(crate) fn other_in(models: &Path, name: &str, shapes: &Shapes) -> PathBuf {
    let place = models.join(format!("other/{name}.safetensors"));
    write(&place, shapes, "BF16")
}

/// That a model of a ComfyUI folder with a part of another one is refused in a sentence with `parts`: the right file, and
/// what was found.
pub(crate) fn assert_refused_with(
    models: &Path,
    place: &Path,
    companions: &ComponentOverrides,
    parts: [&str; 2],
) {
    let catalog = catalog_of(models);
    let err = catalog.open_with(&place.to_string_lossy(), companions);
    let text = err.unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

fn assert_unsupported(place: &Path, part: &str) {
    let err = ModelSpec::open(place).unwrap_err();
    let is_unsupported = matches!(err, CatalogError::Unsupported { .. });
    assert!(is_unsupported, "{part}: {err}");
    assert!(err.to_string().contains(part), "{part}: {err}");
}

/// That a transformer in a ComfyUI folder is named as one that is not supported, in a sentence with `part`.
pub(crate) fn assert_file_unsupported(models: &Path, name: &str, shapes: &Shapes, part: &str) {
    assert_unsupported(&transformer_in(models, name, shapes), part);
}

/// The same of diffusers folders of pipelines.
pub(crate) fn assert_pipelines_unsupported(pipelines: &[(&str, &str)]) {
    let root = tempfile::tempdir().unwrap();
    for (class, part) in pipelines {
        let folder = root.path().join(class);
        let index = json!({ "_class_name": class });
        write_json(&folder.join("model_index.json"), &index);
        assert_unsupported(&folder, part);
    }
}

/// Asserts that each changed value of a transformer's config is refused with its part of a sentence.
pub(crate) fn assert_configs_refused(folder: Folder, refused: &[(&str, Value, &str)]) {
    let root = tempfile::tempdir().unwrap();
    folder.write(root.path());
    for (key, value, part) in refused {
        assert_change_refused(root.path(), "transformer/config", key, value, part);
    }
}
