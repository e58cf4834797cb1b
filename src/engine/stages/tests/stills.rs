//! What jobs of every model of pictures promise beside the right numbers: batches, masks, resuming, cancelling.
//!
//! Each promise is asked of the jobs that a family's tests make.

use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{Job, assert_stops, try_stage};
use super::*;
use crate::closeness::distance;
use crate::weights::tests::made_up::made_up;

/// A job of what its request has beside the model, of a picture and of a mask.
pub(super) type Make<'a> = &'a dyn Fn(&Value, Option<&Tensor>, Option<&Tensor>) -> Job;

/// Pixels of a picture that nobody else has.
pub(super) fn pixels(name: &str, height: i64, width: i64) -> Tensor {
    let unit = made_up(name, &[height, width, 3]).clamp(-1.0, 1.0);
    ((unit + 1.0) * 127.5).to_kind(Kind::Uint8)
}

/// White in its right half.
pub(super) fn mask(height: i64, width: i64) -> Tensor {
    let mask = Tensor::zeros([height, width, 3], (Kind::Uint8, Device::Cpu));
    drop(mask.narrow(1, width / 2, width / 2).fill_(255));
    mask
}

/// That every picture of a batch is the one that its seed alone makes.
pub(super) fn assert_batches(make: Make<'_>) {
    let image = pixels("pixels", 20, 30);
    for (sampler, guidance) in [("euler", 3.0), ("lcm", 1.0)] {
        let mask = mask(32, 32);
        let mask = Some(&mask).filter(|_| sampler == "lcm");
        let made = |seed: u64, batch_size: u32| {
            let facts = json!({
                "seed": seed, "batch_size": batch_size, "num_steps": 3, "strength": 0.7, "sampler": sampler,
                "guidance_scale": guidance, "negative_prompt": "grey",
            });
            let job = make(&facts, Some(&image), mask);
            let told = job.run(false);
            (job.latents(), told)
        };
        let (batch, told) = made(u64::MAX - 1, 3);
        assert_eq!(told.frames.len(), 3);
        for index in 0..3 {
            // Seeds go round.
            let (alone, _) = made((u64::MAX - 1).wrapping_add(index), 1);
            assert_eq!(batch.narrow(0, index as i64, 1), alone, "{sampler} {index}");
        }
        let others = distance(&batch.narrow(0, 0, 1), &batch.narrow(0, 1, 1));
        assert!(others > 0.1, "{sampler}: all pictures are the same");
    }
}

/// That what a mask keeps is the given picture to the byte, and the rest is made anew.
pub(super) fn assert_mask_keeps(make: Make<'_>) {
    let (image, mask) = (pixels("pixels", 32, 48), mask(32, 48));
    let facts = json!({"width": 48, "num_steps": 3, "strength": 1.0, "batch_size": 2});
    let job = make(&facts, Some(&image), Some(&mask));
    let told = job.run(false);
    assert_eq!(told.frames.len(), 2);
    for (_, _, bytes) in &told.frames {
        let made = Tensor::from_slice(bytes).view([32, 48, 3]);
        let half = |xs: &Tensor, from: i64| xs.narrow(1, from, 24).copy();
        assert_eq!(half(&made, 0), half(&image, 0));
        let changed = half(&made, 24).ne_tensor(&half(&image, 24));
        assert!(
            changed
                .to_kind(Kind::Float)
                .mean(Kind::Float)
                .double_value(&[])
                > 0.5
        );
    }
    assert_ne!(told.frames[0].2, told.frames[1].2);
}

/// That every stage of a guided job with a picture and a mask stops when it is asked to.
pub(super) fn assert_guided_stops(make: Make<'_>) {
    let (image, mask) = (pixels("pixels", 32, 32), mask(32, 32));
    let facts = json!({"guidance_scale": 2.0});
    assert_stops(&make(&facts, Some(&image), Some(&mask)));
}

/// That a streamed job makes the latents of one that stays, bit for bit.
pub(super) fn assert_streams(make: Make<'_>) {
    let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
    let job = make(&facts, None, None);
    job.stage(Stage::EncodeText, false);
    job.stage(Stage::Denoise, false);
    let whole = job.latents();
    for resident_bytes in [0, 100_000] {
        let mut order = job.order(Stage::Denoise, false);
        order.memory.resident_bytes = Some(resident_bytes);
        let (done, _) = try_stage(&order, &|_, _| {});
        done.unwrap();
        assert_eq!(job.latents(), whole, "{resident_bytes}");
    }
}

/// That a strength that leaves no step is refused.
pub(super) fn assert_strength_leaves_steps(make: Make<'_>) {
    let facts = json!({"strength": 0.0, "num_steps": 4});
    let job = make(&facts, Some(&pixels("pixels", 32, 32)), None);
    for stage in [Stage::EncodeText, Stage::EncodeImage] {
        job.stage(stage, false);
    }
    let (done, _) = try_stage(&job.order(Stage::Denoise, false), &|_, _| {});
    let text = done.unwrap_err().to_string();
    assert!(text.contains("leaves none of 4 steps"), "{text}");
}
