//! What is measured: the networks of each family at the sizes of the comparison program, which gives them the same
//! names.
//!
//! A small case is the same network with fewer and narrower layers, for machines without a GPU.

mod flux;
mod framepack;
mod wan;
mod z_image;

use std::cell::RefCell;

use safelight_engine::error::EngineError;
use safelight_engine::weights::Weights;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::arguments::{BenchArguments, Sizes};
use crate::measure::{Measured, timed};

/// Every family, as the command line names it.
pub const FAMILIES: &[Family] = &[
    wan::FAMILY,
    flux::FAMILY,
    framepack::FAMILY,
    z_image::FAMILY,
];

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
        let weights = Weights::random(kind, device);
        tch::no_grad(|| (self.call)(&self.bench(arguments, weights)))
    }

    /// The same with the weights of a file, of which only some may stay on the device, and with what the last run gave.
    pub(super) fn measure_streamed(
        &self,
        arguments: &BenchArguments,
        weights: Weights,
    ) -> Result<(Measured, Option<Tensor>), EngineError> {
        // The inputs are the same each time.
        tch::manual_seed(0);
        let bench = Bench {
            // The first run learns in which order the matrices are used.
            warm_ups: self.warm_ups.max(2),
            ..self.bench(arguments, weights)
        };
        let measured = tch::no_grad(|| (self.call)(&bench))?;
        Ok((measured, bench.answer.take()))
    }

    /// Names and shapes of the network's tensors.
    pub(super) fn outline(
        &self,
        arguments: &BenchArguments,
        kind: Kind,
    ) -> Vec<(String, Vec<i64>)> {
        let bench = self.bench(arguments, Weights::outline(kind));
        // It ends as soon as the network is there.
        drop((self.call)(&bench));
        bench.weights.outlined()
    }

    fn bench(&self, arguments: &BenchArguments, weights: Weights) -> Bench {
        Bench {
            weights,
            warm_ups: self.warm_ups,
            runs: arguments.runs.unwrap_or(self.runs),
            small: arguments.small,
            sizes: arguments.sizes,
            answer: RefCell::default(),
        }
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
    /// What the last run gave.
    answer: RefCell<Option<Tensor>>,
}

impl Bench {
    /// The network, unless only its outline is wanted.
    fn built<T, E: Into<EngineError>>(&self, network: Result<T, E>) -> Result<T, EngineError> {
        let network = network.map_err(Into::into)?;
        if self.weights.outlined().is_empty() {
            Ok(network)
        } else {
            Err(EngineError::Internal {
                reason: "this network is an outline".to_owned(),
            })
        }
    }

    /// [`Self::timed`] of what gives a tensor.
    fn timed_answer(
        &self,
        call: &mut dyn FnMut() -> Option<Tensor>,
    ) -> Result<Measured, EngineError> {
        self.timed(&mut || {
            // Never two at a time.
            drop(self.answer.take());
            self.answer.replace(call());
            self.answer.borrow().as_ref().map(drop)
        })
    }

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
