//! What stages of every family share, and whole jobs of Flux and FramePack against recorded runs of diffusers.

mod boundaries;
mod flux;
mod framepack;
mod jobs;
mod ways;
mod z_image;

use std::os::unix::fs::symlink;

use crossbeam_channel::bounded;
use safelight_core::job::JobId;
use safelight_core::memory::StageMemory;
use safelight_core::protocol::EngineMessage;
use tch::Tensor;

use super::*;
use crate::families::wan::WanConfig;
use crate::store;

#[test]
fn a_copy_onto_a_full_disk_leaves_the_old_file_and_no_leftover() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name).join("file"));
    for path in [&from, &to] {
        fs::create_dir(path.parent().unwrap()).unwrap();
    }
    fs::write(&from, b"new").unwrap();
    fs::write(&to, b"old").unwrap();
    // Every write to this device finds a full disk.
    symlink("/dev/full", partial_path(&to)).unwrap();
    let err = copy_whole(&from, &to).unwrap_err();
    assert_eq!(err.kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::read(&to).unwrap(), b"old");
    assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
    copy_whole(&from, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"new");
}

#[test]
fn a_clip_whose_capture_cannot_be_written_is_decoded_with_a_warning_and_no_file_of_its_own() {
    let job = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan");
    let file = job.path().join("a file");
    fs::write(&file, b"").unwrap();
    let request = serde_json::json!({
        "model": "tiny", "family": "wan",
        "files": safelight_core::model::ModelFiles::of_folder(&fixtures.join("pipeline")).unwrap(), "out": "a.mp4",
        "fps": 24.0, "prompt": "", "negative_prompt": "", "width": 32, "height": 32,
        "num_frames": 5, "num_steps": 1, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
        "capture": file.join("not a folder"),
    });
    let order = StageOrder {
        job: JobId(1),
        stage: Stage::Decode,
        folder: job.path().to_owned(),
        request: serde_json::from_value(request).unwrap(),
        section: 0,
        memory: StageMemory::default(),
        capture: true,
    };
    let (messages, received) = bounded(64);
    let context = StageContext {
        order: &order,
        device: Device::Cpu,
        // Other tests' tensors are counted too.
        baseline: u64::MAX,
        cancel: CancelToken::default(),
        ticks: Arc::default(),
        messages,
    };
    let config = WanConfig::read(&context.request().files).unwrap();
    let side = 32 / config.vae.spatial_factor();
    let latents = Tensor::zeros(
        [1, config.vae.z_dim, 2, side, side],
        (Kind::Float, Device::Cpu),
    );
    store::write_one(&context.result(Stage::Denoise), "latents", &latents).unwrap();

    run(&context).unwrap();
    let mut frames = Vec::new();
    let mut warnings = Vec::new();
    for (message, _) in received.try_iter() {
        match message {
            EngineMessage::Frame(header) => frames.push(header.index),
            EngineMessage::Warning { text } => warnings.push(text),
            _ => {}
        }
    }
    assert_eq!(frames, [0, 1, 2, 3, 4]);
    let [warning] = &warnings[..] else {
        panic!("expected one warning, found {warnings:?}");
    };
    assert!(
        warning.starts_with("the capture could not be written: "),
        "{warning}"
    );
    assert!(!job.path().join("frames.safetensors").exists());
}
