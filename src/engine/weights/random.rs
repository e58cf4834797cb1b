//! Tensors of random numbers in the place of a file's: a full-size network to measure, without its files.
//!
//! Times and memory do not depend on the numbers, as long as they stay finite: normal with a deviation of 0.02, and
//! around 1 where a norm scales. Made in place on the device, the same in every run; where devices are compared, made on
//! the CPU.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use safelight_loops::hash::{OFFSET, hashed};
use tch::{Device, Kind, TchError, Tensor};

use crate::sampling::CpuGenerator;

const DEVIATION: f64 = 0.02;
const SEED: i64 = 0;

/// Names and shapes.
type TensorOutline = Vec<(String, Vec<i64>)>;

pub(super) struct RandomTensors {
    bytes: AtomicU64,
    values: RandomValues,
}

pub(super) enum RandomValues {
    /// Equal in every run on one device.
    Seeded,
    /// Equal on every device; slower.
    Alike,
    /// None: names and shapes of the requests, whose tensors are never filled, so that even a large network takes no memory.
    Outline(Mutex<TensorOutline>),
}

impl RandomTensors {
    pub(super) fn new(values: RandomValues, device: Device) -> Self {
        if let (RandomValues::Seeded, Device::Cuda(_)) = (&values, device) {
            tch::manual_seed(SEED);
        }
        Self {
            bytes: AtomicU64::new(0),
            values,
        }
    }

    pub(super) fn outlined(&self) -> TensorOutline {
        match &self.values {
            RandomValues::Outline(outline) => {
                let outline = outline.lock().unwrap_or_else(PoisonError::into_inner);
                outline.clone()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn tensor(
        &self,
        key: &str,
        shape: &[i64],
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, TchError> {
        if let RandomValues::Outline(outline) = &self.values {
            let mut outline = outline.lock().unwrap_or_else(PoisonError::into_inner);
            outline.push((key.to_owned(), shape.to_vec()));
            return Tensor::f_empty(shape, (kind, device));
        }
        let mean = if scales_norm(key) { 1.0 } else { 0.0 };
        let tensor = if matches!(self.values, RandomValues::Alike) {
            // Every layer gives half of what it gets: what one does wrong is seen at the end, and attention without a
            // scale, as T5's, is not so sharp that rounding decides who wins.
            let inputs: i64 = shape.iter().skip(1).product();
            let deviation = match shape {
                [_, _, ..] => 0.5 / (inputs.max(1) as f64).sqrt(),
                _ => DEVIATION,
            };
            let drawn = CpuGenerator::new(seed_of(key)).normal(shape)?;
            (drawn * deviation + mean).f_to_kind(kind)?.f_to(device)?
        } else if let Device::Cuda(_) = device {
            Tensor::f_empty(shape, (kind, device))?.f_normal_(mean, DEVIATION)?
        } else {
            // The generator that all threads share would give other numbers in every run of the tests.
            let drawn = CpuGenerator::new(seed_of(key)).normal(shape)?;
            (drawn * DEVIATION + mean)
                .f_to_device(device)?
                .f_to_kind(kind)?
        };
        let bytes = tensor.numel() * kind.elt_size_in_bytes();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(tensor)
    }
}

/// `norm_q.weight`, `layer_norm.weight`, `residual.0.gamma`, `query_norm.scale`.
fn scales_norm(key: &str) -> bool {
    let (parent, name) = key.rsplit_once('.').unwrap_or(("", key));
    let module = parent.rsplit('.').next().unwrap_or_default();
    matches!(name, "gamma" | "scale") || (name == "weight" && module.contains("norm"))
}

/// Another draw for every name.
fn seed_of(key: &str) -> u64 {
    hashed(OFFSET, key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Weights;

    #[test]
    fn random_weights_are_counted_and_the_same_in_every_run() {
        let draw = || {
            let w = Weights::random(Kind::BFloat16, Device::Cpu);
            let matrix = (&w / "blocks" / 0).tensor("q.weight", &[64, 32]).unwrap();
            (matrix, w.random_bytes(), w)
        };
        let (matrix, bytes, w) = draw();
        assert_eq!(bytes, 64 * 32 * 2);
        assert_eq!(matrix.size(), vec![64, 32]);
        assert_eq!(matrix.kind(), Kind::BFloat16);
        assert!(matrix.equal(&draw().0));
        let deviation = matrix.to_kind(Kind::Float).std(true).double_value(&[]);
        assert!((deviation - DEVIATION).abs() < 0.002, "{deviation}");
        assert!(!matrix.equal(&w.tensor("k.weight", &[64, 32]).unwrap()));
        assert!(!w.has("k.weight") && w.finish().is_empty());
        assert!(w.tensor("k.weight", &[-1]).is_err());
    }

    #[test]
    fn random_norm_scales_are_near_one_and_other_weights_near_zero() {
        let w = Weights::random(Kind::Float, Device::Cpu);
        for (key, mean) in [
            ("self_attn.norm_q.weight", 1.0),
            ("layer.0.layer_norm.weight", 1.0),
            ("final_layer_norm.weight", 1.0),
            ("residual.0.gamma", 1.0),
            ("norm.query_norm.scale", 1.0),
            ("norm3.bias", 0.0),
            ("conv1.weight", 0.0),
            ("modulation", 0.0),
        ] {
            let found = w.tensor(key, &[100]).unwrap().mean(Kind::Float);
            assert!((found.double_value(&[]) - mean).abs() < 0.02, "{key}");
        }
    }
}
