//! The same weights wherever they lie: files of their own, one file with everything, fp8, and GGUF.

use std::path::PathBuf;

use super::*;
use crate::closeness::distance;
use crate::families::flux2::tests::originals;
use crate::weights::tests::as_fp8::{FORMS, write_fp8};
use crate::weights::tests::made_up_gguf::both_forms;

/// The parts, and what stands before their names in a file with everything.
const PARTS: [(&str, &str); 3] = [
    ("transformer", "model.diffusion_model."),
    ("vae", "vae."),
    ("text_encoder", "text_encoders.qwen3_4b.transformer."),
];

/// A part's tensors as single files have them. The sizes that shapes alone cannot say are the published ones.
fn tensors(component: &str) -> Vec<(String, Tensor)> {
    let all = tensors_of(component, &shapes_of("wide"));
    match component {
        "transformer" => originals(&all.into_iter().collect()).into_iter().collect(),
        _ => all,
    }
}

/// A job of files without configurations.
fn with_files(transformer: PathBuf, vae: PathBuf, text_encoder: PathBuf) -> Job {
    let mut job = job(
        "distilled",
        &json!({"width": 48, "num_steps": 2}),
        None,
        None,
    );
    let files = &mut job.request.files;
    (files.transformer, files.vae, files.text_encoder) = (transformer, vae, text_encoder);
    files.scheduler = None;
    job
}

fn frames(job: &Job) -> Vec<(u32, u32, Vec<u8>)> {
    let frames = job.run(false).frames;
    assert_eq!(frames.len(), 1);
    frames
}

#[test]
fn every_layout_makes_the_picture_of_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let mut everything = Vec::new();
    for (component, prefix) in PARTS {
        let own = tensors(component);
        Tensor::write_safetensors(&own, place(&format!("{component}.safetensors"))).unwrap();
        let behind = own.into_iter();
        everything.extend(behind.map(|(name, tensor)| (format!("{prefix}{name}"), tensor)));
    }
    let all = place("everything.safetensors");
    Tensor::write_safetensors(&everything, &all).unwrap();
    let [transformer, vae, text] =
        PARTS.map(|(component, _)| place(&format!("{component}.safetensors")));
    let own = with_files(transformer, vae.clone(), text.clone());
    let expected = frames(&own);
    let one = with_files(all.clone(), all.clone(), all);
    assert!(frames(&one) == expected, "one file makes another picture");

    let blocks = both_forms(folder.path(), &tensors("transformer"), str::to_owned);
    let [blocks, exact] = blocks.map(|place| with_files(place, vae.clone(), text.clone()));
    assert!(
        frames(&blocks) == frames(&exact),
        "GGUF makes another picture"
    );
    assert!(distance(&blocks.latents(), &own.latents()) < 0.1);

    let fp8 = place("fp8.safetensors");
    let weights = tensors("transformer").into_iter().collect();
    for (kind, scales, name) in [FORMS[0], FORMS[2], FORMS[3]] {
        write_fp8(&fp8, &weights, kind, scales);
        let job = with_files(fp8.clone(), vae.clone(), text.clone());
        frames(&job);
        let far = distance(&job.latents(), &own.latents());
        assert!((1e-4..0.4).contains(&far), "{name}: {far}");
    }
}
