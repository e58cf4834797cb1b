//! What is measured: the networks of each family at the sizes of the comparison program, which gives them the same
//! names.
//!
//! A small case is the same network with fewer and narrower layers, for machines without a GPU.

mod flux;
mod wan;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::measure::timed;
use super::{BenchArguments, Measured, Sizes};
use crate::error::EngineError;
use crate::weights::Weights;

/// Every family, as `safelight bench` names it.
pub const FAMILIES: &[Family] = &[wan::FAMILY, flux::FAMILY];

#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    /// In the order in which they are measured.
    pub cases: &'static [Case],
}

#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    runs: usize,
    warm_ups: usize,
    /// Builds the network and calls it.
    call: fn(&Bench) -> Result<Measured, EngineError>,
}

impl Case {
    /// Builds the network on the device, measures it and drops it.
    pub(super) fn measure(
        &self,
        arguments: &BenchArguments,
        device: Device,
        kind: Kind,
    ) -> Result<Measured, EngineError> {
        tch::no_grad(|| {
            let bench = Bench {
                weights: Weights::random(kind, device),
                warm_ups: self.warm_ups,
                runs: arguments.runs.unwrap_or(self.runs),
                small: arguments.small,
                sizes: arguments.sizes,
            };
            (self.call)(&bench)
        })
    }
}

/// What a case is built from.
struct Bench {
    weights: Weights,
    warm_ups: usize,
    runs: usize,
    small: bool,
    /// What was asked for in place of a case's own.
    sizes: Sizes,
}

impl Bench {
    fn timed(&self, call: &mut dyn FnMut() -> Option<()>) -> Result<Measured, EngineError> {
        timed(
            self.weights.device(),
            self.warm_ups,
            self.runs,
            self.weights.random_bytes(),
            call,
        )
    }

    fn random(&self, size: &[i64], kind: Kind) -> Tensor {
        Tensor::randn(size, (kind, self.weights.device()))
    }

    /// Numbers of tokens, below `vocab_size`.
    fn random_ids(&self, vocab_size: i64, length: i64) -> Tensor {
        let options = (Kind::Int64, self.weights.device());
        Tensor::randint(vocab_size, [1, length], options)
    }
}

fn from_json<T: DeserializeOwned>(config: Value) -> Result<T, EngineError> {
    serde_json::from_value(config).map_err(|err| EngineError::Internal {
        reason: err.to_string(),
    })
}
