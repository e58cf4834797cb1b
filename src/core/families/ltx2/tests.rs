//! LTX-2.3 from names and shapes alone: the published bundle, split files, and what is none of them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{FAMILY, LANGUAGE};
use crate::catalog::IdentityCard;
use crate::families::read_footprint;
use crate::footprint::PlannedNetwork;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, GenerateRequest, JobOptions, Recipe, Stage};
use crate::model::choices::SamplerKind;
use crate::model::{GuidanceMode, ModelComponent, ModelSpec};
use crate::networks::ltx2::*;
use crate::networks::{LanguageConfig, NetworkConfig};
use crate::testing::made_up::{Shapes, shapes_of, write, write_with_tokenizer};
use crate::testing::published::{behind, catalog_of};
use crate::testing::{assert_has, assert_not_opened};

const NAME: &str = "ltx-2.3-22b-distilled-1.1";
const TRANSFORMER: &str = "model.diffusion_model.";

fn shapes<C: NetworkConfig + Default>() -> Shapes {
    let tensors = C::default().tensors(&WeightSet::default()).into_iter();
    tensors.map(|tensor| (tensor.name, tensor.shape)).collect()
}

/// Tensors of the connectors with the transformer's prefix, and the projections.
fn texts() -> [Shapes; 2] {
    let (projections, connectors): (Shapes, Shapes) = shapes::<Ltx2ConnectorsConfig>()
        .into_iter()
        .partition(|(name, _)| name.starts_with("text_embedding_projection."));
    [behind(TRANSFORMER, &connectors), projections]
}

fn transformer() -> Shapes {
    behind(TRANSFORMER, &shapes::<Ltx2TransformerConfig>())
}

fn sound() -> Shapes {
    let mut all = behind("audio_vae.", &shapes::<Ltx2AudioVaeConfig>());
    all.extend(behind("vocoder.", &shapes::<Ltx2VocoderConfig>()));
    all
}

/// All that Lightricks publish in one file.
fn bundle() -> Shapes {
    let mut all = transformer();
    all.extend(texts().into_iter().flatten());
    all.extend(behind("vae.", &shapes::<Ltx2VaeConfig>()));
    all.extend(sound());
    all
}

/// Gemma 3 with its tokenizer and vision tower, as in ComfyUI's file.
fn write_gemma(place: &Path) {
    let language = LanguageConfig::gemma3_12b(LANGUAGE.tap);
    let mut shapes = behind(
        "model.",
        &shapes_of(language.tensors(&WeightSet::default())),
    );
    for part in ["weight", "bias"] {
        let name = format!("vision_model.embeddings.patch_embedding.{part}");
        shapes.insert(name, vec![1152]);
    }
    write_with_tokenizer(place, &shapes, "BF16", 262_144);
    // The first pieces become a trainer of byte pairs.
    let file = File::options().read(true).write(true).open(place).unwrap();
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).unwrap();
    let first = 8 + u64::from_le_bytes(length);
    file.write_all_at(&[0x12, 2, 0x18, 2], first).unwrap();
}

fn tree(root: &Path) -> PathBuf {
    write_gemma(&root.join("text_encoders/gemma_3_12B_it.safetensors"));
    root.to_owned()
}

fn write_upscaler(models: &Path) {
    let place = models.join("latent_upscale_models/ltx-2.3-spatial-upscaler-x2-1.1.safetensors");
    write(&place, &shapes::<LatentUpscalerConfig>(), "BF16");
}

fn bundle_in(models: &Path) -> PathBuf {
    let place = models.join(format!("checkpoints/{NAME}.safetensors"));
    write(&place, &bundle(), "BF16")
}

fn request(spec: &ModelSpec, width: u32, options: JobOptions) -> GenerateRequest {
    let mut form = GenerateForm {
        prompt: "a bell rings".to_owned(),
        options,
        ..GenerateForm::default()
    };
    form.set_size((width, 704));
    form.validate(spec).unwrap().request
}

#[test]
fn a_published_bundle_is_a_model_with_the_text_encoder_and_the_upscaler_next_to_it() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = bundle_in(&models);
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!((spec.family, &spec.variant[..]), (FAMILY, "distilled"));
    assert_eq!(spec.guidance, GuidanceMode::None);
    assert_eq!(
        (spec.limits.size_multiple, spec.limits.frame_stride),
        (32, 8)
    );
    assert_eq!((spec.defaults.num_frames, spec.defaults.fps), (121, 24.0));
    assert_eq!(spec.defaults.sampling.num_steps, 8);
    for part in [
        ModelComponent::TextConnectors,
        ModelComponent::TextProjection,
        ModelComponent::AudioVae,
        ModelComponent::Vocoder,
        ModelComponent::Vae,
    ] {
        assert_eq!(spec.files.path(part), Some(place.as_path()), "{part:?}");
    }
    assert_eq!(spec.files.path(ModelComponent::LatentUpscaler), None);
    write_upscaler(&models);
    let spec = ModelSpec::open(&place).unwrap();
    assert!(spec.files.path(ModelComponent::LatentUpscaler).is_some());
    let listed = &catalog_of(&models).available[0];
    assert_has(&listed.licence, &["10 million", "AI", "Gemma"]);
    let card = IdentityCard::read(&place).unwrap();
    assert!(card.is_runnable, "{:?}", card.problems);
    assert!(card.what.contains("LTX-2.3"), "{}", card.what);
}

#[test]
fn split_files_are_one_model() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let [connectors, projections] = texts();
    let mut with_connectors = transformer();
    with_connectors.extend(connectors);
    let name = "diffusion_models/ltx-2.3-22b-distilled_transformer_only_bf16.safetensors";
    let place = write(&models.join(name), &with_connectors, "BF16");
    assert_not_opened(&place, &["LTX-2.3 video VAE", "text projection", "vocoder"]);
    let vae = models.join("vae/LTX23_video_vae_bf16.safetensors");
    write(&vae, &shapes::<Ltx2VaeConfig>(), "BF16");
    let audio = models.join("vae/LTX23_audio_vae_bf16.safetensors");
    write(&audio, &sound(), "BF16");
    let texts = models.join("text_encoders/ltx-2.3_text_projection_bf16.safetensors");
    write(&texts, &projections, "BF16");
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.vae, vae);
    for (part, expected) in [
        (ModelComponent::TextConnectors, &place),
        (ModelComponent::TextProjection, &texts),
        (ModelComponent::AudioVae, &audio),
        (ModelComponent::Vocoder, &audio),
    ] {
        assert_eq!(spec.files.path(part), Some(expected.as_path()), "{part:?}");
    }
    // The projections count, which are in another file.
    let weights = read_footprint(FAMILY, &spec.files, &[], &[]).unwrap();
    let of = |part| weights.part(part).unwrap().bytes(2) as f64 / 1e9;
    assert!((6.3..6.4).contains(&of(PlannedNetwork::TextConnectors)));
    assert!((37.9..38.8).contains(&of(PlannedNetwork::Transformer)));
}

#[test]
fn relatives_and_parts_of_other_generations_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let with = |name: &str, shape: &[u64]| {
        let mut shapes = bundle();
        shapes.insert(format!("{TRANSFORMER}{name}"), shape.to_vec());
        shapes
    };
    let older = with("audio_caption_projection.linear_1.weight", &[2048, 3840]);
    let newer = with("keyframes_abs_pos_embedding", &[1, 4096]);
    let narrow = with(
        "video_embeddings_connector.learnable_registers",
        &[128, 3840],
    );
    for (name, shapes, words) in [
        ("ltx-2-19b-distilled", older, "an LTX-2 model"),
        ("ltx-2.5-22b-distilled", newer, "an LTX-2.5 model"),
        ("ltx-2.3-22b-dev", bundle(), "LTX-2.3 dev"),
        (
            "ltx-2.3-mixed",
            narrow,
            "those of another LTX-2, which are 3840 wide",
        ),
    ] {
        let place = models.join(format!("checkpoints/{name}.safetensors"));
        write(&place, &shapes, "BF16");
        assert_not_opened(&place, &[words]);
    }
}

#[test]
fn files_are_known_by_their_names_alone() {
    let root = tempfile::tempdir().unwrap();
    let [connectors, projections] = texts();
    for (shapes, words) in [
        (shapes::<Ltx2VaeConfig>(), "an LTX-2.3 video VAE"),
        (sound(), "an LTX-2.3 vocoder"),
        (connectors, "text connectors of LTX-2"),
        (projections, "a text projection of LTX-2.3"),
        (shapes::<LatentUpscalerConfig>(), "a latent upscaler of LTX"),
        (shapes::<Ltx2TransformerConfig>(), "an LTX-2.3 transformer"),
    ] {
        let place = root.path().join("file.safetensors");
        write(&place, &shapes, "BF16");
        let card = IdentityCard::read(&place).unwrap();
        assert!(card.what.contains(words), "{} is not {words}", card.what);
    }
}

#[test]
fn a_model_with_an_upscaler_makes_two_stages_unless_a_single_one_is_chosen() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = bundle_in(&models);
    let alone = ModelSpec::open(&place).unwrap();
    let one = request(&alone, 1280, JobOptions::default());
    assert_eq!((one.width, one.second_pass), (1280, None));
    write_upscaler(&models);
    let spec = ModelSpec::open(&place).unwrap();
    let two = request(&spec, 1280, JobOptions::default());
    assert_eq!((two.first_size(), two.width), ((640, 352), 1280));
    use Stage::{Decode, Denoise, EncodeImage, EncodeText, Save, Unload};
    let stages = [
        EncodeText,
        Denoise,
        Unload,
        EncodeImage,
        Denoise,
        Unload,
        Decode,
        Save,
    ];
    assert_eq!(Recipe::from_request(&two).stages, stages);
    // Edges of the first stage are whole latents, too.
    let two = request(&spec, 1248, JobOptions::default());
    assert_eq!((two.first_size().0, two.width), (640, 1280));
    let single = JobOptions {
        single_stage: true,
        ..JobOptions::default()
    };
    let one = request(&spec, 1248, single);
    assert_eq!((one.width, one.second_pass), (1248, None));
    // A form of an earlier result states the result's size, and the same stages.
    for request in [one, two] {
        let again = GenerateForm::from(&request)
            .validate(&spec)
            .unwrap()
            .request;
        assert_eq!(
            (again.width, again.second_pass),
            (request.width, request.second_pass)
        );
    }
}

#[test]
fn the_form_begins_with_values_that_the_model_can_make() {
    let root = tempfile::tempdir().unwrap();
    let spec = ModelSpec::open(&bundle_in(&tree(root.path()))).unwrap();
    let request = GenerateForm::default().validate(&spec).unwrap().request;
    assert_eq!(request.sampling.sampler, SamplerKind::Euler);
    assert_eq!(request.sampling.num_steps, 8);
}

#[test]
fn what_the_distilled_model_does_not_have_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let spec = ModelSpec::open(&bundle_in(&tree(root.path()))).unwrap();
    let mut form = GenerateForm::default();
    form.sampling.num_steps = Some(20);
    form.sampling.shift = Some(3.0);
    form.sampling.sampler = Some(SamplerKind::UniPc);
    let errors = form.validate(&spec).unwrap_err();
    let text = format!("{errors:?}");
    assert_has(
        &text,
        &[
            "at most 8 steps, not 20",
            "noise levels",
            "are fixed",
            "cannot be sampled with UniPC",
        ],
    );
}
