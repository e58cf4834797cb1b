//! Small models beside the shipped one, for jobs that are killed: networks of zeros, and a LoRA that changes results.
//!
//! They lie where a user puts their own, so that a search for them is killed too.

use std::fs;
use std::path::Path;

use super::networks::{write_interpolator, write_upscaler, write_zeros};
use super::user::{Result, User, disk};

/// What they are called, without their endings.
pub(super) const UPSCALER: &str = "stress-upscaler";
pub(super) const INTERPOLATOR: &str = "stress-rife";
/// Of the LoRA, in the home.
pub(super) const LORA: &str = "data/safelight/models/loras/stress-style.safetensors";

const RANK: usize = 2;
/// Of the shipped model: with another one its jobs fail undisturbed.
const WIDTH: usize = 256;

pub(super) fn write_networks(user: &User) {
    let models = user.home.join("data/safelight/models");
    let file = |folder: &str, name: &str| models.join(folder).join(format!("{name}.safetensors"));
    write_upscaler(&file("upscale_models", UPSCALER));
    write_interpolator(&file("frame_interpolation", INTERPOLATOR));
}

/// A LoRA for one attention of the shipped model.
pub(super) fn write_lora(path: &Path) -> Result<()> {
    let layers = ["to_q", "to_k", "to_v", "to_out.0"].into_iter();
    let tensors = layers.flat_map(|layer| {
        let name = format!("transformer.blocks.0.attn1.{layer}");
        [
            (format!("{name}.lora_A.weight"), vec![RANK, WIDTH]),
            (format!("{name}.lora_B.weight"), vec![WIDTH, RANK]),
        ]
    });
    write_zeros(path, tensors);
    // With zeros nobody would see that a job went on without it.
    let mut bytes = fs::read(path).map_err(|err| disk(&err, path))?;
    let head = bytes.first_chunk::<8>().copied().unwrap_or_default();
    let begin = 8 + u64::from_le_bytes(head) as usize;
    let numbers = bytes.get_mut(begin..).unwrap_or_default();
    for (index, number) in numbers.chunks_exact_mut(4).enumerate() {
        let value = (index as f32 * 0.7).sin() * 0.3;
        number.copy_from_slice(&value.to_le_bytes());
    }
    fs::write(path, bytes).map_err(|err| disk(&err, path))
}
