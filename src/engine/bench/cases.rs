//! What is measured of networks: each family names its own cases, at the sizes of the comparison program, which gives
//! them the same names.
//!
//! A small case is the same network with fewer and narrower layers, for machines without a GPU.

use std::cell::RefCell;

pub use safelight_core::measured::CaseKind;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::bench::arguments::{BenchArguments, Sizes};
use crate::bench::measure::{Measured, timed};
use crate::bench::walks::{WalkLine, Walks};
use crate::error::EngineError;
use crate::families;
use crate::sampling::Generator;
use crate::weights::Weights;

/// Every case, with the id of its family.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static Case)> {
    families::measured().flat_map(|(family, cases)| cases.iter().map(move |case| (family, case)))
}

#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    pub(crate) runs: usize,
    pub(crate) warm_ups: usize,
    /// Builds the network and calls it.
    pub(crate) call: fn(&Bench) -> Result<Measured, EngineError>,
    /// How a report has it; `None`: it has not.
    pub told: Option<Told>,
}

/// What a report has of a case.
#[derive(Debug)]
pub struct Told {
    /// What comes first where time is short is small.
    pub rank: u32,
    pub label: &'static str,
    pub kind: CaseKind,
    /// Memory of the device that it needs, with some room.
    pub gib: f64,
    /// What one call computes, roughly: so much longer than another case it takes.
    pub tflop: f64,
    /// More arguments.
    pub options: &'static [&'static str],
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

    /// Walks with the network on the device, and drops it; none where it is no transformer that can be walked with.
    pub(super) fn walk(
        &self,
        walks: Walks,
        (small, sizes): (bool, Sizes),
        device: Device,
        kind: Kind,
    ) -> Result<Vec<WalkLine>, EngineError> {
        tch::manual_seed(0);
        let bench = Bench {
            weights: Weights::random(kind, device),
            warm_ups: 0,
            runs: 1,
            small,
            sizes,
            answer: RefCell::default(),
            draws: None,
            walks: Some(walks),
            walked: RefCell::default(),
        };
        tch::no_grad(|| (self.call)(&bench))?;
        Ok(bench.walked.into_inner())
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

    /// What a small network of the same structure gives, on the CPU in f32: the same numbers on every device, up to
    /// rounding.
    pub(super) fn answer(&self, device: Device, kind: Kind) -> Result<Tensor, EngineError> {
        let bench = Bench {
            weights: Weights::random_alike(kind, device),
            warm_ups: 0,
            runs: 1,
            small: true,
            sizes: Sizes::default(),
            answer: RefCell::default(),
            draws: Some(RefCell::new(Generator::new(0))),
            walks: None,
            walked: RefCell::default(),
        };
        tch::no_grad(|| (self.call)(&bench))?;
        let answer = bench.answer.take();
        let answer = answer.ok_or_else(|| EngineError::internal("this case has no answer"))?;
        Ok(answer.to_device(Device::Cpu).to_kind(Kind::Float))
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
            draws: None,
            walks: None,
            walked: RefCell::default(),
        }
    }
}

/// What a case is built from.
pub(crate) struct Bench {
    pub(crate) weights: Weights,
    warm_ups: usize,
    runs: usize,
    pub(crate) small: bool,
    /// What was asked for in place of a case's own.
    pub(crate) sizes: Sizes,
    /// What the last run gave.
    answer: RefCell<Option<Tensor>>,
    /// Inputs that are alike on every device, where devices are compared.
    draws: Option<RefCell<Generator>>,
    /// Where whole walks are wanted, and what they gave.
    pub(super) walks: Option<Walks>,
    pub(super) walked: RefCell<Vec<WalkLine>>,
}

impl Bench {
    /// The network, unless only its outline is wanted.
    pub(crate) fn built<T, E: Into<EngineError>>(
        &self,
        network: Result<T, E>,
    ) -> Result<T, EngineError> {
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
    pub(crate) fn timed_answer(
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

    pub(crate) fn timed(
        &self,
        call: &mut dyn FnMut() -> Option<()>,
    ) -> Result<Measured, EngineError> {
        timed(
            self.weights.device(),
            self.warm_ups,
            self.runs,
            self.weights.random_bytes(),
            call,
        )
    }

    /// Whether devices are compared, for which a few frames are enough.
    pub(crate) fn is_compared(&self) -> bool {
        self.draws.is_some()
    }

    /// Pixels of an autoencoder: dropped, unless somebody compares. The last ones of a run stand for it.
    pub(crate) fn keep(&self, pixels: Tensor) {
        if self.is_compared() {
            self.answer.replace(Some(pixels));
        }
    }

    pub(crate) fn random(&self, size: &[i64], kind: Kind) -> Tensor {
        if let Some(draws) = &self.draws {
            let drawn = draws.borrow_mut().normal(size);
            return drawn
                .unwrap_or_else(|err| panic!("{err}"))
                .to_device(self.weights.device())
                .to_kind(kind);
        }
        Tensor::randn(size, (kind, self.weights.device()))
    }

    /// Numbers of tokens, below `vocab_size`.
    pub(crate) fn random_ids(&self, vocab_size: i64, length: i64) -> Tensor {
        if self.is_compared() {
            let drawn = self.random(&[1, length], Kind::Float).abs() * 1e3;
            return drawn.to_kind(Kind::Int64).remainder(vocab_size);
        }
        let options = (Kind::Int64, self.weights.device());
        Tensor::randint(vocab_size, [1, length], options)
    }
}

pub(crate) fn from_json<T: DeserializeOwned>(config: Value) -> Result<T, EngineError> {
    serde_json::from_value(config).map_err(|err| EngineError::Internal {
        reason: err.to_string(),
    })
}
