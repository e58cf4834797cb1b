//! Compute options through whole stages: other roundings, close results.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::bounded;
use safelight_core::job::{CancelToken, JobId, Stage};
use safelight_core::memory::StageMemory;
use safelight_core::memory::compute_options::{AttentionChoice, ComputeOptions};
use safelight_core::model::ModelFiles;
use safelight_core::protocol::StageOrder;
use tch::{Device, Tensor};

use super::super::{StageContext, run};
use crate::closeness::distance;
use crate::families;
use crate::runtime::attention_choice;
use crate::tensor_files;

/// The latents of a tiny Wan's two steps.
fn latents(attention: AttentionChoice) -> Tensor {
    let job = tempfile::tempdir().unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan/pipeline");
    let request = serde_json::json!({
        "model": "tiny", "family": "wan", "files": ModelFiles::of_folder(&models).unwrap(), "out": "a.mp4",
        "fps": 24.0, "prompt": "a boat", "negative_prompt": "", "width": 64, "height": 32,
        "num_frames": 5, "num_steps": 2, "guidance_scale": 1.0, "sampler": "unipc", "seed": 3,
    });
    for stage in [Stage::EncodeText, Stage::Denoise] {
        let order = StageOrder {
            job: JobId(1),
            stage,
            folder: job.path().to_owned(),
            request: serde_json::from_value(request.clone()).unwrap(),
            section: 0,
            first_frame: 0,
            memory: StageMemory {
                compute_options: ComputeOptions {
                    attention,
                    ..ComputeOptions::default()
                },
                ..StageMemory::default()
            },
            capture: false,
        };
        let (messages, _received) = bounded(64);
        let context = StageContext {
            order: &order,
            request: order.request.generate().unwrap(),
            device: Device::Cpu,
            // Other tests' tensors are counted too.
            baseline: u64::MAX,
            cancel: CancelToken::default(),
            ticks: Arc::default(),
            messages,
        };
        run(&context, families::run).unwrap();
        assert_eq!(attention_choice(), AttentionChoice::Auto);
        if stage == Stage::Denoise {
            return tensor_files::read_one(&context.own_result(), "latents").unwrap();
        }
    }
    unreachable!("the last stage returns");
}

#[test]
fn a_stage_with_sliced_attention_gives_the_same_latents_in_other_roundings() {
    let [whole, sliced] = [AttentionChoice::Auto, AttentionChoice::Sliced].map(latents);
    let off = distance(&sliced, &whole);
    assert!(0.0 < off && off < 1e-5, "off by {off}");
}
