//! What stages of every family share, and whole jobs of Flux and FramePack against recorded runs of diffusers.

mod boundaries;
mod chroma;
mod compute_options;
mod controls;
mod flux;
mod flux2;
mod framepack;
mod images;
mod jobs;
mod krea2;
mod qwen_image;
mod step_caches;
mod wan;
mod z_image;

use std::os::unix::fs::symlink;

use crossbeam_channel::bounded;
use safelight_core::job::JobId;
use safelight_core::memory::StageMemory;
use safelight_core::protocol::EngineMessage;
use tch::Tensor;

use super::*;
use crate::families;
use crate::families::wan::WanConfig;
use crate::tensor_files;

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
    let file = job.path().join("a file");
    fs::write(&file, b"").unwrap();
    let asked = serde_json::json!({ "capture": file.join("not a folder") });
    let decoded = decode(job.path(), &asked, [0.0; 2]);
    decoded.end.unwrap();
    assert_eq!(decoded.frames, [0, 1, 2, 3, 4]);
    let [warning] = &decoded.warnings[..] else {
        panic!("expected one warning, found {:?}", decoded.warnings);
    };
    assert!(
        warning.starts_with("the capture could not be written: "),
        "{warning}"
    );
    assert!(!job.path().join("frames.safetensors").exists());
}

#[test]
fn a_decode_whose_numbers_are_too_large_for_halves_is_made_once_more_in_f32_and_said() {
    let job = tempfile::tempdir().unwrap();
    let halves = serde_json::json!({ "dtype": "f16" });
    // The first frame comes out well, those behind it do not.
    let decoded = decode(job.path(), &halves, [0.0, 1e6]);
    decoded.end.unwrap();
    assert_eq!(decoded.frames, [0, 0, 1, 2, 3, 4]);
    let [warning] = &decoded.warnings[..] else {
        panic!("expected one warning, found {:?}", decoded.warnings);
    };
    let said = "invalid pixels (NaN) in f16, so it decodes once more in f32";
    assert!(warning.contains(said), "{warning}");
}

#[test]
fn a_decode_that_gives_no_numbers_in_f32_either_fails_after_that_one_try() {
    for (dtype, num_warnings) in [("f16", 1), ("f32", 0)] {
        let job = tempfile::tempdir().unwrap();
        let asked = serde_json::json!({ "dtype": dtype });
        let decoded = decode(job.path(), &asked, [f64::NAN; 2]);
        let err = decoded.end.unwrap_err();
        assert!(matches!(err, EngineError::InvalidPixels), "{err}");
        assert!(err.to_string().starts_with("the VAE gave invalid pixels"));
        assert_eq!(decoded.warnings.len(), num_warnings, "{dtype}");
        assert_eq!(decoded.frames, [0; 0], "no black picture goes out");
        // The job can go on from them.
        let latents = JobFolder::open(job.path()).result(Stage::Denoise).unwrap();
        assert!(latents.exists());
    }
}

struct Decoded {
    end: Result<(), EngineError>,
    frames: Vec<u32>,
    warnings: Vec<String>,
}

/// The decoding of a clip of five frames of a tiny model. `asked`: of its request, `latents`: the value of all numbers of
/// the first latent frame and of the second.
fn decode(job: &Path, asked: &serde_json::Value, latents: [f64; 2]) -> Decoded {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan");
    let mut request = serde_json::json!({
        "model": "tiny", "family": "wan",
        "files": safelight_core::model::ModelFiles::of_folder(&fixtures.join("pipeline")).expect("the fixture is a model"), "out": "a.mp4",
        "fps": 24.0, "prompt": "", "negative_prompt": "", "width": 32, "height": 32,
        "num_frames": 5, "num_steps": 1, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
    });
    for (name, value) in asked.as_object().expect("an object") {
        request[name] = value.clone();
    }
    let order = StageOrder {
        job: JobId(1),
        stage: Stage::Decode,
        folder: job.to_owned(),
        capture: request.get("capture").is_some(),
        request: serde_json::from_value(request).expect("a request"),
        section: 0,
        first_frame: 0,
        memory: StageMemory::default(),
    };
    let (messages, received) = bounded(64);
    let context = StageContext {
        order: &order,
        request: order.request.generate().expect("a request to generate"),
        device: Device::Cpu,
        // Other tests' tensors are counted too.
        baseline: u64::MAX,
        cancel: CancelToken::default(),
        ticks: Arc::default(),
        messages,
    };
    let config = WanConfig::read(&context.request().files).expect("its config");
    let side = 32 / config.vae.spatial_factor();
    let frames = latents.map(|value| {
        let size = [1, config.vae.z_dim, 1, side, side];
        Tensor::full(size, value, (Kind::Float, Device::Cpu))
    });
    let latents = Tensor::cat(&frames, 2);
    tensor_files::write_one(&context.result(Stage::Denoise), "latents", &latents)
        .expect("latents can be written");

    let end = run(&context, families::run);
    let mut frames = Vec::new();
    let mut warnings = Vec::new();
    for (message, _) in received.try_iter() {
        match message {
            EngineMessage::Frame(header) => frames.push(header.index),
            EngineMessage::Warning { text } => warnings.push(text),
            _ => {}
        }
    }
    Decoded {
        end,
        frames,
        warnings,
    }
}
