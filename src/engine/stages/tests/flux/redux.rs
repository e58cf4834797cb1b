//! Images as prompts, through whole jobs, against diffusers' prior and pipeline.

use safelight_core::job::PromptImage;
use safelight_core::media;
use safelight_core::model::ReduxFiles;

use super::*;
use crate::stages::tests::jobs::{Run, image};

/// Writes SigLIP and Redux as the reference made them up.
fn write_eyes(home: &Path) -> ReduxFiles {
    let made = json_of("flux/stages/redux_model.json");
    let shapes: Shapes = serde_json::from_value(made["shapes"].clone()).unwrap();
    for (component, stem) in [
        ("image_encoder", TRANSFORMERS_STEM),
        ("image_embedder", DIFFUSERS_STEM),
    ] {
        let folder = home.join(component);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), made[component].to_string()).unwrap();
        let tensors = made_up_of(component, &shapes);
        Tensor::write_safetensors(&tensors, folder.join(stem)).unwrap();
    }
    let edge = &made["edge"];
    let processor = json!({"size": {"height": edge, "width": edge}});
    let folder = home.join("feature_extractor");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("preprocessor_config.json");
    fs::write(path, processor.to_string()).unwrap();
    ReduxFiles {
        image_encoder: home.join("image_encoder"),
        image_processor: Some(folder),
        embedder: home.join("image_embedder"),
    }
}

fn job(run: &Run) -> Job {
    let mut facts = run.facts.clone();
    let fields = facts.as_object_mut().unwrap();
    for ours in ["same", "unchecked", "variant", "role", "strengths"] {
        fields.remove(ours);
    }
    let variant = run.facts["variant"].as_str().unwrap();
    let mut job = Job::new(variant, &facts, None, None);
    job.request.files.image_prompts = Some(write_eyes(job.model.path()));
    let strengths = run.facts["strengths"].as_array().unwrap();
    for (index, strength) in strengths.iter().enumerate() {
        let pixels = run.given(&format!("prompt_image.{index}")).unwrap();
        let place = JobFolder::open(job.folder.path()).prompt_image(index);
        media::write_png(&place, &image(pixels)).unwrap();
        job.request.prompt_images.push(PromptImage {
            path: "given.png".into(),
            strength: strength.as_f64().unwrap(),
        });
    }
    job
}

#[test]
fn redux_images_are_appended_to_the_prompt_as_in_the_reference() {
    for name in ["redux", "redux_two"] {
        jobs::check(&format!("flux/stages/{name}"), job);
    }
}

#[test]
fn redux_job_can_be_cancelled_and_rerun_after_its_image_is_deleted() {
    let run = Run::open("flux/stages/redux_two".to_owned());
    jobs::assert_stops(&job(&run));
    let mut job = job(&run);
    job.request.sampling.num_steps = 7;
    job.run(false);
    let whole = job.latents();
    fs::remove_file(job.result(Stage::Denoise)).unwrap();
    // The image may be gone once it was looked at.
    fs::remove_file(JobFolder::open(job.folder.path()).prompt_image(0)).unwrap();
    job.stage(Stage::Denoise, false);
    assert_eq!(job.latents(), whole);
}

#[test]
fn redux_strength_zero_gives_zero_tokens_and_the_original_file_matches_diffusers() {
    let run = Run::open("flux/stages/redux".to_owned());
    let mut job = job(&run);
    job.stage(Stage::EncodeVision, false);
    let tokens = |job: &Job| {
        tensor_files::read_one(&job.result(Stage::EncodeVision), "image_embeds").unwrap()
    };
    let whole = tokens(&job);
    let prompts = job.request.files.image_prompts.as_mut().unwrap();
    let file = job.model.path().join("flux1-redux-dev.safetensors");
    fs::rename(prompts.embedder.join(DIFFUSERS_STEM), &file).unwrap();
    prompts.embedder = file;
    job.stage(Stage::EncodeVision, false);
    assert_eq!(tokens(&job), whole);
    job.request.prompt_images[0].strength = 0.0;
    job.stage(Stage::EncodeVision, false);
    assert_eq!(tokens(&job).abs().max().double_value(&[]), 0.0);
}
