//! What the ways of each choice are measured with: the engine's own layers, at a model's sizes, with random numbers.
//!
//! Each compares what it computed with f32 on the CPU. Measures no time.

use std::cell::RefCell;
use std::rc::Rc;

use safelight_core::memory::choices::{Choice, Choices, Latents, MatrixLayout, Shapes};
use safelight_core::memory::tiers::AttentionChoice;
use safelight_core::networks::WanVaeConfig;
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::nn::{Linear, attention, attention_is_sliced};
use crate::sampling::noise;
use crate::vae::WanVaeDecoder;
use crate::weights::{CopyTrial, Weights};

/// One run of a way that is ready. The same ways must be in force as when it was made.
pub(super) type Ready = Box<dyn Fn() -> Result<(), EngineError>>;

/// Rows of a product, and of each of three places of an attention, that are compared: all would keep a CPU busy.
const COMPARED_ROWS: i64 = 8;
/// Latent frames that are decoded: the first, and as many as the largest chunk has.
const LATENT_FRAMES: i64 = 9;
/// Edge of the latents that the CPU decodes too.
const COMPARED_LATENTS: i64 = 2;
const COPIED_BYTES: usize = 128 << 20;
/// On the CPU nobody waits for a figure.
const COPIED_BYTES_ON_CPU: usize = 9 << 20;

/// What is computed, and what a run left to be looked at.
pub(super) enum Subject {
    Attention(Attention),
    Matrices(Matrices),
    Chunk(Box<Decoding>),
    Copies(Rc<RefCell<CopyTrial>>),
}

impl Subject {
    pub(super) fn new(
        choice: Choice,
        shapes: &Shapes,
        place: (Kind, Device),
    ) -> Result<Self, EngineError> {
        Ok(match choice {
            Choice::Attention => Self::Attention(Attention::new(shapes, place)?),
            Choice::Matrices => Self::Matrices(Matrices::new(shapes, place)?),
            Choice::Chunk => {
                let reason = || "these sizes have no clip to decode in chunks".to_owned();
                let none = || EngineError::Request { reason: reason() };
                let latents = shapes.latents.ok_or_else(none)?;
                let config = WanVaeConfig::published(latents.channels);
                Self::Chunk(Box::new(Decoding::new(config, latents, place)?))
            }
            Choice::Copies => {
                let len = match place.1 {
                    Device::Cpu => COPIED_BYTES_ON_CPU,
                    _ => COPIED_BYTES,
                };
                Self::Copies(Rc::new(RefCell::new(CopyTrial::new(len, place.1)?)))
            }
        })
    }

    /// Makes a way ready, while it is in force.
    pub(super) fn ready(&mut self, choices: Choices) -> Result<Ready, EngineError> {
        match self {
            Self::Attention(subject) => subject.ready(choices),
            Self::Matrices(subject) => subject.ready(choices),
            Self::Chunk(subject) => subject.ready(),
            Self::Copies(trial) => {
                let trial = Rc::clone(trial);
                Ok(Box::new(move || trial.borrow().run()))
            }
        }
    }

    /// How far what the last run gave is from f32 on the CPU, relatively; infinity where a number is none.
    pub(super) fn error(&mut self) -> Result<f64, EngineError> {
        match self {
            Self::Attention(subject) => Ok(subject.error()),
            Self::Matrices(subject) => Ok(subject.error()),
            Self::Chunk(subject) => Ok(subject.error()),
            Self::Copies(trial) => {
                let is_right = trial.borrow_mut().is_right()?;
                Ok(if is_right { 0.0 } else { f64::INFINITY })
            }
        }
    }
}

type Found = Rc<RefCell<Vec<Tensor>>>;

fn exact(xs: &Tensor) -> Tensor {
    xs.to_device(Device::Cpu).to_kind(Kind::Float)
}

/// Relative, of all together.
fn distance(found: &[Tensor], expected: &[Tensor]) -> f64 {
    let [mut off, mut length] = [0.0; 2];
    let squares = |xs: &Tensor| xs.square().sum(Kind::Double).double_value(&[]);
    for (found, expected) in found.iter().zip(expected) {
        let found = exact(found).to_kind(Kind::Double);
        let expected = exact(expected).to_kind(Kind::Double);
        off += squares(&(found - &expected));
        length += squares(&expected);
    }
    let error = (off / length.max(f64::MIN_POSITIVE)).sqrt();
    if error.is_nan() { f64::INFINITY } else { error }
}

fn are_numbers(found: &[Tensor]) -> bool {
    let is_number = |xs: &Tensor| xs.isfinite().all().int64_value(&[]) != 0;
    !found.is_empty() && found.iter().all(is_number)
}

fn drawn(size: &[i64], seed: u64, (kind, device): (Kind, Device)) -> Result<Tensor, EngineError> {
    Ok(noise(size, seed)?.f_to_device(device)?.f_to_kind(kind)?)
}

pub(super) struct Attention {
    /// Each `(1, H, L, D)`, the heads of a token side by side in memory, as transformers make them.
    qkv: [Tensor; 3],
    found: Found,
}

impl Attention {
    fn new(shapes: &Shapes, place: (Kind, Device)) -> Result<Self, EngineError> {
        let size = [1, shapes.tokens, shapes.heads, shapes.head_width];
        let one = |seed| Ok::<_, EngineError>(drawn(&size, seed, place)?.transpose(1, 2));
        Ok(Self {
            qkv: [one(1)?, one(2)?, one(3)?],
            found: Rc::default(),
        })
    }

    fn ready(&self, choices: Choices) -> Result<Ready, EngineError> {
        let [q, k, v] = [0, 1, 2].map(|at| self.qkv[at].shallow_clone());
        let is_named = matches!(
            choices.attention,
            AttentionChoice::Flash | AttentionChoice::Efficient
        );
        if is_named && attention_is_sliced(&q, &k, &v, None, None) {
            let reason = "this libtorch has no such attention for these sizes".to_owned();
            return Err(EngineError::Request { reason });
        }
        let found = Rc::clone(&self.found);
        Ok(Box::new(move || {
            *found.borrow_mut() = vec![attention(&q, &k, &v, None, None)];
            Ok(())
        }))
    }

    fn error(&self) -> f64 {
        let found = self.found.take();
        if !are_numbers(&found) {
            return f64::INFINITY;
        }
        let size = self.qkv[0].size();
        let (heads, tokens) = (size[1], size[2]);
        let rows = COMPARED_ROWS.min(tokens);
        let [mut own, mut expected] = [Vec::new(), Vec::new()];
        for head in [0, heads - 1] {
            let of_head = |xs: &Tensor| xs.narrow(1, head, 1);
            let [q, k, v] = [0, 1, 2].map(|at| of_head(&self.qkv[at]));
            let [k, v] = [&k, &v].map(exact);
            for start in [0, (tokens - rows) / 2, tokens - rows] {
                let q = exact(&q.narrow(2, start, rows));
                let scores = q.matmul(&k.transpose(2, 3)) / (size[3] as f64).sqrt();
                expected.push(scores.softmax(-1, Kind::Float).matmul(&v));
                own.push(of_head(&found[0]).narrow(2, start, rows));
            }
        }
        distance(&own, &expected)
    }
}

pub(super) struct Matrices {
    shapes: Vec<[i64; 2]>,
    /// Of each matrix, `(tokens, columns)`
    inputs: Vec<Tensor>,
    /// The first rows of each product.
    expected: Vec<Tensor>,
    place: (Kind, Device),
    /// As they lie in memory: drawing them takes longer than multiplying.
    layers: Vec<(MatrixLayout, Rc<Vec<Linear>>)>,
    found: Found,
}

impl Matrices {
    fn new(shapes: &Shapes, place: (Kind, Device)) -> Result<Self, EngineError> {
        let matrices = shapes.matrices.clone();
        let inputs = (0..).zip(&matrices).map(|(seed, [_, columns])| {
            let size = [shapes.tokens, *columns];
            drawn(&size, seed, place)
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let exact_layers = layers(&matrices, (Kind::Float, Device::Cpu))?;
        let expected = exact_layers.iter().zip(&inputs).map(|(layer, input)| {
            let rows = COMPARED_ROWS.min(shapes.tokens);
            layer.forward(&exact(&input.narrow(0, 0, rows)).contiguous())
        });
        Ok(Self {
            expected: expected.collect(),
            shapes: matrices,
            inputs,
            place,
            layers: Vec::new(),
            found: Rc::default(),
        })
    }

    fn ready(&mut self, choices: Choices) -> Result<Ready, EngineError> {
        let layout = choices.layout;
        let known = self.layers.iter().find(|(known, _)| *known == layout);
        let known = known.map(|(_, layers)| Rc::clone(layers));
        let layers = match known {
            Some(layers) => layers,
            None => Rc::new(layers(&self.shapes, self.place)?),
        };
        self.layers.push((layout, Rc::clone(&layers)));
        let inputs: Vec<Tensor> = self.inputs.iter().map(Tensor::shallow_clone).collect();
        let found = Rc::clone(&self.found);
        Ok(Box::new(move || {
            let products = layers.iter().zip(&inputs);
            let products = products.map(|(layer, input)| layer.forward(input));
            *found.borrow_mut() = products.collect();
            Ok(())
        }))
    }

    fn error(&self) -> f64 {
        let found = self.found.take();
        if !are_numbers(&found) {
            return f64::INFINITY;
        }
        let rows = |(xs, like): (&Tensor, &Tensor)| xs.narrow(0, 0, like.size()[0]);
        let own: Vec<Tensor> = found.iter().zip(&self.expected).map(rows).collect();
        distance(&own, &self.expected)
    }
}

fn layers(shapes: &[[i64; 2]], (kind, device): (Kind, Device)) -> Result<Vec<Linear>, EngineError> {
    let weights = Weights::random_alike(kind, device);
    let layers = shapes.iter().enumerate().map(|(at, [rows, columns])| {
        Linear::new(*columns, *rows, &(&weights / "layers" / at)).map_err(EngineError::from)
    });
    layers.collect()
}

pub(super) struct Decoding {
    config: WanVaeConfig,
    latents: Tensor,
    /// Of a size that the CPU decodes too, and what that gives.
    small: Tensor,
    expected: Tensor,
    /// What the first way gave of all.
    whole: Option<Tensor>,
    found: Found,
    place: (Kind, Device),
    /// The decoder of the way that was made ready last.
    decoder: Option<Rc<WanVaeDecoder>>,
}

impl Decoding {
    pub(super) fn new(
        config: WanVaeConfig,
        sizes: Latents,
        place: (Kind, Device),
    ) -> Result<Self, EngineError> {
        let of_size = |height: i64, width: i64, place| {
            drawn(&[1, sizes.channels, LATENT_FRAMES, height, width], 1, place)
        };
        let small = COMPARED_LATENTS;
        let on_cpu = (Kind::Float, Device::Cpu);
        let exact_small = of_size(small, small, on_cpu)?;
        let decoder = decoder(&config, on_cpu)?;
        Ok(Self {
            latents: of_size(sizes.height, sizes.width, place)?,
            small: of_size(small, small, place)?,
            expected: decode(&decoder, &exact_small),
            config,
            whole: None,
            found: Rc::default(),
            place,
            decoder: None,
        })
    }

    fn ready(&mut self) -> Result<Ready, EngineError> {
        let decoder = Rc::new(decoder(&self.config, self.place)?);
        self.decoder = Some(Rc::clone(&decoder));
        let latents = self.latents.shallow_clone();
        let found = Rc::clone(&self.found);
        Ok(Box::new(move || {
            *found.borrow_mut() = vec![decode(&decoder, &latents)];
            Ok(())
        }))
    }

    fn error(&mut self) -> f64 {
        let found = self.found.take();
        let (Some(decoder), Some(found), true) =
            (&self.decoder, found.first(), are_numbers(&found))
        else {
            return f64::INFINITY;
        };
        let small = decode(decoder, &self.small);
        let off = distance(&[small], std::slice::from_ref(&self.expected));
        // The CPU would take minutes for all of it: there the ways are compared with the first one.
        let whole = self.whole.get_or_insert_with(|| found.shallow_clone());
        let apart = distance(std::slice::from_ref(found), std::slice::from_ref(&*whole));
        off.max(apart)
    }
}

fn decoder(
    config: &WanVaeConfig,
    (kind, device): (Kind, Device),
) -> Result<WanVaeDecoder, EngineError> {
    let weights = Weights::random_alike(kind, device);
    Ok(WanVaeDecoder::new(config, &weights)?)
}

/// `(1, 3, F, H, W)`
fn decode(decoder: &WanVaeDecoder, latents: &Tensor) -> Tensor {
    let mut chunks = Vec::new();
    decoder.decode(latents, None, &|| false, &mut |chunk| chunks.push(chunk));
    Tensor::cat(&chunks, 2)
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::choices::Chunk;
    use safelight_core::memory::tiers::ConvolutionTier;

    use super::*;
    use crate::runtime::enter_ways;

    #[test]
    fn chunks_of_a_decoder_are_compared_with_the_cpu_and_with_the_first_way() {
        let config = WanVaeConfig {
            base_dim: 8,
            z_dim: 4,
            ..WanVaeConfig::default()
        };
        let sizes = Latents {
            channels: 4,
            height: 3,
            width: 2,
        };
        let place = (Kind::BFloat16, Device::Cpu);
        let mut decoding = Decoding::new(config, sizes, place).unwrap();
        for chunk in [Chunk::Auto, Chunk::Eight] {
            let choices = Choices {
                chunk,
                ..Choices::default()
            };
            let _ways = enter_ways(Device::Cpu, ConvolutionTier::Direct, choices);
            let ready = decoding.ready().unwrap();
            ready().unwrap();
            let error = decoding.error();
            let limit = Choice::Chunk.tolerance("bf16");
            assert!(0.0 < error && error < limit, "{chunk:?}: {error}");
        }
        *decoding.found.borrow_mut() = vec![decoding.whole.as_ref().unwrap() * 1.2];
        assert!(decoding.error() > 0.1);
    }

    #[test]
    fn numbers_that_are_wrong_or_none_are_seen() {
        let shapes = Shapes {
            tokens: 40,
            matrices: vec![[24, 16]],
            heads: 3,
            head_width: 8,
            latents: None,
        };
        let place = (Kind::Float, Device::Cpu);
        let subjects = [
            Subject::new(Choice::Attention, &shapes, place).unwrap(),
            Subject::new(Choice::Matrices, &shapes, place).unwrap(),
        ];
        for mut subject in subjects {
            let ready = subject.ready(Choices::default()).unwrap();
            let found = match &subject {
                Subject::Attention(subject) => Rc::clone(&subject.found),
                Subject::Matrices(subject) => Rc::clone(&subject.found),
                _ => unreachable!("these two"),
            };
            let error = |spoil: &dyn Fn(&Tensor), subject: &mut Subject| {
                ready().unwrap();
                spoil(&found.borrow()[0]);
                subject.error().unwrap()
            };
            assert!(error(&|_| {}, &mut subject) < 1e-5);
            let half = error(
                &|xs| drop(xs.shallow_clone().g_mul_scalar_(0.9)),
                &mut subject,
            );
            assert!(half > 0.05, "{half}");
            let first = |xs: &Tensor| {
                let dims = 0..xs.dim() as i64;
                dims.fold(xs.shallow_clone(), |xs, dim| xs.narrow(dim, 0, 1))
            };
            let none = error(&|xs| drop(first(xs).fill_(f64::NAN)), &mut subject);
            assert_eq!(none, f64::INFINITY);
        }
    }
}
