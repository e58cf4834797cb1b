//! Images as prompts: which files make them, where those are found, and what is checked of them.

use std::path::Path;

use serde_json::json;

use crate::catalog::ModelCatalog;
use crate::families::flux::tests::files::{flux_tree, framepack_shapes, shapes};
use crate::families::read_footprint;
use crate::footprint::PlannedNetwork;
use crate::job::{
    ChosenImage, FormInputs, GenerateForm, GenerateRequest, JobRequest, PromptImage, Recipe, Stage,
    StartImage,
};
use crate::model::ModelSpec;
use crate::networks::ReduxConfig;
use crate::testing::made_up::write;
use crate::testing::pipelines::write_json;
use crate::testing::published::{assert_is_read, catalog_of};

/// ComfyUI's folder with FLUX.1 dev.
fn with_dev(root: &Path) -> std::path::PathBuf {
    let models = flux_tree(&root.join("models"));
    let dev = models.join("diffusion_models/flux1-dev.safetensors");
    write(&dev, &shapes("transformer dev"), "BF16");
    models
}

fn dev(catalog: &ModelCatalog) -> ModelSpec {
    catalog.find("flux1-dev").unwrap()
}

fn form(strengths: &[f64]) -> GenerateForm {
    let images = strengths.iter().map(|&strength| ChosenImage {
        image: StartImage {
            path: "look.png".into(),
            width: 64,
            height: 48,
        },
        strength,
    });
    GenerateForm {
        prompt: "a boat".to_owned(),
        inputs: FormInputs {
            prompt_images: images.collect(),
            ..FormInputs::default()
        },
        out: "boat.png".into(),
        ..GenerateForm::default()
    }
}

fn problem(form: &GenerateForm, spec: &ModelSpec) -> String {
    let errors = form.validate(spec).unwrap_err();
    assert_eq!(errors[0].field, "prompt-image");
    errors[0].message.clone()
}

#[test]
fn no_tensor_of_the_published_file_is_missing_or_unexpected() {
    let config: ReduxConfig = assert_is_read(&shapes("redux"), "redux");
    assert_eq!(config, ReduxConfig::default());
}

#[test]
fn the_two_files_are_found_in_comfyuis_folders_in_the_repository_and_in_framepacks() {
    let root = tempfile::tempdir().unwrap();
    let models = with_dev(root.path());
    let spec = dev(&catalog_of(&models));
    assert!(spec.files.image_prompts.is_none());
    let told = problem(&form(&[1.0]), &spec);
    assert!(told.contains("flux1-redux-dev.safetensors"), "{told}");

    let redux = models.join("style_models/flux1-redux-dev.safetensors");
    let siglip = models.join("clip_vision/sigclip_vision_patch14_384.safetensors");
    write(&redux, &shapes("redux"), "BF16");
    // Nothing sees yet.
    assert!(dev(&catalog_of(&models)).files.image_prompts.is_none());
    write(&siglip, &framepack_shapes("siglip"), "F16");
    let catalog = catalog_of(&models);
    let found = dev(&catalog).files.image_prompts.unwrap();
    assert_eq!((&found.embedder, &found.image_encoder), (&redux, &siglip));
    // A model that is named by its path has them from the folders around it.
    let by_path = ModelSpec::open(&models.join("diffusion_models/flux1-dev.safetensors"));
    let by_path = by_path.unwrap().files.image_prompts.unwrap();
    assert_eq!(by_path, found);

    for folder in ["FLUX.1-Redux-dev", "flux_redux_bfl"] {
        let root = tempfile::tempdir().unwrap();
        let models = with_dev(root.path());
        let home = models.join(folder);
        let siglip = json!({"model_type": "siglip_vision_model"});
        let redux = json!({"_class_name": "ReduxImageEncoder"});
        for (name, config, shapes) in [
            ("image_encoder", siglip, framepack_shapes("siglip")),
            ("image_embedder", redux, shapes("redux")),
        ] {
            let weights = "diffusion_pytorch_model.safetensors";
            write(&home.join(name).join(weights), &shapes, "BF16");
            write_json(&home.join(name).join("config.json"), &config);
        }
        let processor = home.join("feature_extractor/preprocessor_config.json");
        write_json(&processor, &json!({}));
        if folder == "FLUX.1-Redux-dev" {
            let index = json!({"_class_name": "FluxPriorReduxPipeline"});
            write_json(&home.join("model_index.json"), &index);
        }
        let catalog = catalog_of(&models);
        assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
        let found = dev(&catalog).files.image_prompts.unwrap();
        assert_eq!(found.embedder, home.join("image_embedder"));
        assert_eq!(found.image_encoder, home.join("image_encoder"));
        assert_eq!(found.image_processor, Some(home.join("feature_extractor")));
    }
}

#[test]
fn a_job_looks_at_its_images_before_it_denoises_and_its_plan_counts_them() {
    let root = tempfile::tempdir().unwrap();
    let models = with_dev(root.path());
    let redux = models.join("style_models/flux1-redux-dev.safetensors");
    write(&redux, &shapes("redux"), "BF16");
    let siglip = models.join("clip_vision/sigclip_vision_patch14_384.safetensors");
    write(&siglip, &framepack_shapes("siglip"), "F16");
    let spec = dev(&catalog_of(&models));
    let request = form(&[1.0, 0.5]).validate(&spec).unwrap().request;
    let stages = Recipe::from_request(&request).stages;
    let expected = [Stage::EncodeText, Stage::EncodeVision, Stage::Denoise];
    assert_eq!(stages[..3], expected);
    let weights = read_footprint(spec.family, &spec.files, &[], &[]).unwrap();
    // In f32.
    let bytes = |part| weights.part(part).unwrap().bytes(4);
    assert_eq!(bytes(PlannedNetwork::ImageEmbedder), 4 * 64_503_808);
    assert!(bytes(PlannedNetwork::ImageEncoder) > 1_600_000_000);

    for (strengths, expected) in [
        (vec![-0.5], "between 0 and 10"),
        (vec![f64::NAN], "between 0 and 10"),
        (vec![1.0; 9], "at most 8"),
    ] {
        let told = problem(&form(&strengths), &spec);
        assert!(told.contains(expected), "{told}");
    }
    // Another family's models read none.
    let mut other = spec.clone();
    other.prompt_images = None;
    assert!(problem(&form(&[1.0]), &other).contains("does not read images as prompts"));
}

#[test]
fn a_request_carries_its_images_and_one_without_any_is_written_as_before() {
    let image = |text: &str| text.parse::<PromptImage>().unwrap();
    let of = |path: &str, strength| PromptImage {
        path: path.into(),
        strength,
    };
    assert_eq!(image("a.png"), of("a.png", 1.0));
    assert_eq!(image("a.png,0.4"), of("a.png", 0.4));
    assert_eq!(image("one, two.png"), of("one, two.png", 1.0));
    let root = tempfile::tempdir().unwrap();
    let spec = dev(&catalog_of(&with_dev(root.path())));
    let plain = form(&[]).validate(&spec).unwrap().request;
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("prompt_images"), "{text}");
    let request = GenerateRequest {
        prompt_images: vec![image("/p/a.png,0.4")],
        ..plain
    };
    let again = serde_json::from_value(json!(request)).unwrap();
    assert_eq!(request, again);
    let place = Path::new("/p/a.png");
    assert!(request.inputs().any(|path| path == place));
    assert_eq!(JobRequest::from(request).image().unwrap(), place);
}
