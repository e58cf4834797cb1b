//! What stages of every family share, and whole jobs of Flux and FramePack against recorded runs of diffusers.

mod anima;
mod boundaries;
mod chroma;
mod compute_options;
mod controls;
mod flux;
mod flux2;
mod flux3;
mod framepack;
mod images;
mod jobs;
mod krea2;
mod ltx2;
mod qwen_image;
mod qwen_image_21;
mod sdxl;
mod step_caches;
mod wan;
mod z_image;

use std::os::unix::fs::symlink;

use safelight_core::job::{GenerateRequest, JobId};
use safelight_core::model::ModelFiles;
use safelight_core::protocol::EngineMessage;
use serde_json::{Value, json};
use tch::Tensor;

use super::*;
use crate::families;
use crate::families::wan::WanConfig;
use crate::tensor_files;
use jobs::{StageOutput, order_in, try_stage};

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
fn video_decodes_with_a_warning_if_its_capture_cannot_be_written() {
    let job = tempfile::tempdir().unwrap();
    let file = job.path().join("a file");
    fs::write(&file, b"").unwrap();
    let fields = json!({ "capture": file.join("not a folder") });
    let (done, output) = decode(job.path(), &fields, [0.0; 2]);
    done.unwrap();
    assert_eq!(frames(&output), [0, 1, 2, 3, 4]);
    let warning = output.warning();
    assert!(warning.starts_with("the capture could not be written: "));
    assert!(!job.path().join("frames.safetensors").exists());
}

#[test]
fn decode_with_nan_in_f16_is_repeated_in_f32_with_a_warning() {
    let job = tempfile::tempdir().unwrap();
    // The first frame comes out well, those behind it do not.
    let (done, output) = decode(job.path(), &json!({ "dtype": "f16" }), [0.0, 1e6]);
    done.unwrap();
    assert_eq!(frames(&output), [0, 0, 1, 2, 3, 4]);
    let warning = output.warning();
    let said = "invalid pixels (NaN) in f16, so it decodes once more in f32";
    assert!(warning.contains(said), "{warning}");
}

#[test]
fn a_decode_that_gives_no_numbers_in_f32_either_fails_after_that_one_try() {
    for (dtype, num_warnings) in [("f16", 1), ("f32", 0)] {
        let job = tempfile::tempdir().unwrap();
        let (done, output) = decode(job.path(), &json!({ "dtype": dtype }), [f64::NAN; 2]);
        let err = done.unwrap_err();
        assert!(matches!(err, EngineError::InvalidPixels), "{err}");
        assert!(err.to_string().starts_with("the VAE gave invalid pixels"));
        assert_eq!(output.warnings.len(), num_warnings, "{dtype}");
        assert_eq!(output.frames, [], "no black image goes out");
        // The job can go on from them.
        let latents = JobFolder::open(job.path()).result(Stage::Denoise).unwrap();
        assert!(latents.exists());
    }
}

/// A request for five frames of the tiny Wan, `with` other values.
fn tiny_wan(with: &Value) -> GenerateRequest {
    let pipeline = jobs::fixtures().join("wan/pipeline");
    let mut request = json!({
        "model": "tiny", "family": "wan", "files": ModelFiles::of_folder(&pipeline).unwrap(), "out": "a.mp4",
        "fps": 24.0, "prompt": "", "negative_prompt": "", "width": 32, "height": 32, "num_frames": 5,
        "num_steps": 1, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
    });
    jobs::merge(&mut request, with.clone());
    serde_json::from_value(request).unwrap()
}

/// Decodes a video of five frames with the tiny Wan. `fields`: fields of the request; `latents`: value of all elements of
/// the first latent frame and of the second.
fn decode(job: &Path, fields: &Value, latents: [f64; 2]) -> (Result<(), EngineError>, StageOutput) {
    let mut order = order_in(job, (Stage::Decode, 0), &tiny_wan(fields));
    order.capture = fields.get("capture").is_some();
    let config = WanConfig::read(&order.request.generate().unwrap().files).unwrap();
    let side = 32 / config.vae.spatial_factor();
    let frames = latents.map(|value| {
        let size = [1, config.vae.z_dim, 1, side, side];
        Tensor::full(size, value, (Kind::Float, Device::Cpu))
    });
    let place = JobFolder::open(job).result(Stage::Denoise).unwrap();
    tensor_files::write_one(&place, "latents", &Tensor::cat(&frames, 2)).unwrap();
    try_stage(&order, &|_, _| {})
}

/// The numbers of the frames that were sent.
fn frames(output: &StageOutput) -> Vec<u32> {
    output.frames.iter().map(|(index, ..)| *index).collect()
}
