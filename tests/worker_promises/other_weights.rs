//! Weights that change while a job is paused or its engine is replaced: nothing goes on with others than it began with.

use std::collections::BTreeMap;
use std::sync::Once;

use safelight_core::families::{control_network, flux};
use safelight_core::job::{ControlInput, LoraChoice};
use safelight_core::memory::{FallbackLevel, ResourceFault};
use serde_json::Value;

use crate::common::networks::write_zeros;
use crate::worker_promises::inputs::image;
use crate::worker_promises::pausing::rig;
use crate::worker_promises::prelude::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Another number in the file's last tensor; what it was before.
fn change(file: &Path) -> Vec<u8> {
    let old = fs::read(file).unwrap();
    let mut new = old.clone();
    *new.last_mut().unwrap() ^= 1;
    fs::write(file, new).unwrap();
    old
}

fn paused(rig: &WorkerHarness, ask: impl FnOnce(&mut GenerateRequest)) -> PathBuf {
    let token = rig.submit_with(DeviceChoice::Auto, ask);
    super::paused(rig, &token)
}

/// Whether a paused job is refused after a file of it changed, and goes on when the file is as it was.
fn assert_refused_until_it_is_back(rig: &WorkerHarness, job: &Path, file: &Path, part: &str) {
    let old = change(file);
    let err = failed(rig.resume(job).1);
    assert_eq!(err.kind, JobErrorKind::BadModel);
    let said = format!("the {part} has changed since the job began");
    assert_eq!(err.summary, said);
    assert!(err.advice.contains("Put the old files back"), "{err:?}");
    assert_eq!(rig.job_folders(), 1, "the old file may come back");
    fs::write(file, old).unwrap();
    finished(rig.resume(job).1);
}

/// A tiny model's transformer and a LoRA for it in the rig's folder; the LoRA.
fn lora_in(rig: &WorkerHarness) -> LoraChoice {
    let name = "transformer/diffusion_pytorch_model.safetensors";
    let transformer = rig.folder.path().join(name);
    fs::create_dir(transformer.parent().unwrap()).unwrap();
    fs::copy(fixtures().join("wan/pipeline").join(name), transformer).unwrap();
    let path = rig.folder.path().join("style.safetensors");
    let layer = "transformer.blocks.0.attn1.to_q";
    let tensors = [("lora_A", vec![4, 64]), ("lora_B", vec![64, 4])];
    let tensors = tensors.map(|(part, shape)| (format!("{layer}.{part}.weight"), shape));
    write_zeros(&path, tensors);
    LoraChoice {
        path,
        strength: 1.0,
        strength_2: None,
    }
}

#[test]
fn job_without_saved_fingerprints_can_be_resumed() {
    let rig = rig();
    let lora = lora_in(&rig);
    let job = paused(&rig, |request| request.loras = vec![lora.clone()]);
    let folder = JobFolder::open(&job);
    fs::remove_file(folder.model_file()).unwrap();
    fs::write(folder.inputs_file(), "{}").unwrap();
    change(&lora.path);
    finished(rig.resume(&job).1);
}

fn write_control_network(folder: &Path) -> PathBuf {
    let facts = fs::read(fixtures().join("control/networks.json")).unwrap();
    let facts: Value = serde_json::from_slice(&facts).unwrap();
    let facts = &facts["flux"]["plain"];
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("config.json"), facts["config"].to_string()).unwrap();
    let weights = folder.join("diffusion_pytorch_model.safetensors");
    let shapes = facts["shapes"].clone();
    let shapes: BTreeMap<String, Vec<usize>> = serde_json::from_value(shapes).unwrap();
    write_zeros(&weights, shapes);
    assert!(control_network(folder).is_ok());
    weights
}

#[test]
fn job_does_not_resume_with_a_changed_transformer_lora_or_controlnet() {
    let refused = rig();
    let weights = refused.folder.path().join("transformer/model.safetensors");
    fs::create_dir(weights.parent().unwrap()).unwrap();
    fs::write(&weights, "the first weights").unwrap();
    let job = paused(&refused, |_| {});
    assert_refused_until_it_is_back(&refused, &job, &weights, "model's transformer");

    let refused = rig();
    let lora = lora_in(&refused);
    let job = paused(&refused, |request| request.loras = vec![lora.clone()]);
    assert_refused_until_it_is_back(&refused, &job, &lora.path, "LoRA style.safetensors");

    let refused = rig();
    let [file, network] = ["depth.png", "net"].map(|name| refused.folder.path().join(name));
    image(&file, 10);
    let weights = write_control_network(&network);
    let job = paused(&refused, |request| {
        request.family = flux::FAMILY;
        request.num_frames = 1;
        request.out.set_extension("png");
        let mut control: ControlInput = file.display().to_string().parse().unwrap();
        control.settings.network = Some(network);
        request.controls = vec![control];
    });
    assert_refused_until_it_is_back(&refused, &job, &weights, "ControlNet net");
}

#[test]
fn new_engine_or_fallback_does_not_continue_with_a_changed_lora() {
    let out_of_memory = Act::FailBelow(ResourceFault::DeviceMemory, FallbackLevel::FreeAndRetry);
    for act in [Act::Die, out_of_memory] {
        let folder = tempfile::tempdir().unwrap();
        let (path, changed) = (folder.path().join("style.safetensors"), Once::new());
        let rig = WorkerHarness::in_folder(folder, move |launch, stage| {
            if launch == 0 && stage == Stage::Denoise {
                changed.call_once(|| drop(change(&path)));
                return act;
            }
            Act::Work
        });
        let lora = lora_in(&rig);
        rig.submit_with(DeviceChoice::Cuda(0), |request| request.loras = vec![lora]);
        let err = failed(rig.hear().1);
        let said = "the LoRA style.safetensors has changed since the job began";
        assert_eq!(err.summary, said, "{act:?}");
        assert!(err.kept.is_some_and(|kept| kept.is_dir()));
    }
}
