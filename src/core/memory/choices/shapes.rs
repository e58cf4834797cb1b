//! The sizes at which a model computes, from its headers and its job: what ways are measured at.
//!
//! Rounded, so that jobs of nearly one size share what was measured.

use serde::{Deserialize, Serialize};

use super::{Choice, ChoiceKey};
use crate::job::{GenerateRequest, Recipe};
use crate::memory::{DeviceClass, Job, ModelWeights, PartName};
use crate::networks::WanVaeConfig;

/// Tokens that are measured with: more take long and tell no more.
const TOKENS: [f64; 2] = [256.0, 16384.0];
/// The width of a head in all published transformers of pictures and clips.
const HEAD_WIDTH: i64 = 128;
/// Matrices whose products are measured.
const MATRICES: usize = 3;
/// Edge of the latents that a decoder is measured with.
const MAX_LATENTS: i64 = 64;

/// Sizes of a model and its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shapes {
    /// Tokens that go through the transformer together.
    pub tokens: i64,
    /// Rows and columns of the matrices that most of the work is done with.
    pub matrices: Vec<[i64; 2]>,
    pub heads: i64,
    pub head_width: i64,
    /// What the decoder takes; absent where it does not go through a clip in chunks.
    pub latents: Option<Latents>,
}

/// Latents of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latents {
    pub channels: i64,
    pub height: i64,
    pub width: i64,
}

impl Default for Shapes {
    /// Where no model is named: a picture of 1024 × 1024 by a transformer 3072 wide, and a clip of 480p.
    fn default() -> Self {
        Self {
            tokens: 4096,
            matrices: vec![[9216, 3072], [12288, 3072], [3072, 12288]],
            heads: 24,
            head_width: HEAD_WIDTH,
            latents: Some(Latents {
                channels: 16,
                height: 60,
                width: MAX_LATENTS,
            }),
        }
    }
}

impl Shapes {
    /// Of a job on a GPU; `None` where the headers do not say enough.
    pub fn of(weights: &ModelWeights, request: &GenerateRequest) -> Option<Self> {
        let job = Job {
            request,
            weights,
            class: DeviceClass::Discrete,
            available_bytes: u64::MAX,
        };
        let recipe = Recipe::of(request);
        let stage = *recipe.stages.iter().find(|stage| stage.is_denoising())?;
        let needs = job.needs(stage);
        let need = needs.iter().find(|need| need.is_transformer())?;
        let network = weights.part(need.part)?;
        let matrices = network.heaviest_matrices(MATRICES);
        let width = network.width()?;
        // A block has about twelve matrices of its width, whatever they are called.
        let numbers = network.numbers();
        let quadratic = 4.0 * numbers / (12.0 * width as f64);
        let pictures = f64::from(request.batch_size.max(1));
        let operations = need.operations / pictures;
        let root = (4.0 * numbers * numbers + 4.0 * quadratic * operations).sqrt();
        let tokens = (root - 2.0 * numbers) / (2.0 * quadratic);
        let class = tokens.max(1.0).log2().round().exp2();
        if !class.is_finite() || matrices.is_empty() {
            return None;
        }
        let head_width = if width % HEAD_WIDTH == 0 {
            HEAD_WIDTH
        } else {
            width
        };
        Some(Self {
            tokens: class.clamp(TOKENS[0], TOKENS[1]) as i64,
            matrices,
            heads: width / head_width,
            head_width,
            latents: latents_of(&job),
        })
    }

    /// The sizes of one choice in words; `None` where there is nothing to measure.
    pub fn of_choice(&self, choice: Choice) -> Option<String> {
        Some(match choice {
            Choice::Attention => {
                let Self {
                    tokens,
                    heads,
                    head_width,
                    ..
                } = self;
                format!("{tokens} tokens, {heads} heads of {head_width}")
            }
            Choice::Matrices => {
                let matrices = self.matrices.iter();
                let matrices: Vec<String> = matrices
                    .map(|[rows, columns]| format!("{rows}×{columns}"))
                    .collect();
                format!("{} tokens, {}", self.tokens, matrices.join(", "))
            }
            Choice::Chunk => {
                let Latents {
                    channels,
                    height,
                    width,
                } = self.latents?;
                format!("latents of {channels} channels, {width}×{height}")
            }
            Choice::Copies => "weights from the page cache".to_owned(),
        })
    }

    /// What the measurements of these sizes are kept under. `dtype`s: of the transformer and of the decoder.
    pub fn keys(
        &self,
        [device, driver, libtorch]: [&str; 3],
        [dtype, decoder_dtype]: [&str; 2],
    ) -> Vec<ChoiceKey> {
        let key = |choice: Choice, dtype: &str| {
            Some(ChoiceKey {
                choice,
                device: device.to_owned(),
                driver: driver.to_owned(),
                libtorch: libtorch.to_owned(),
                dtype: dtype.to_owned(),
                shape: self.of_choice(choice)?,
            })
        };
        let keys = Choice::ALL.map(|choice| match choice {
            Choice::Attention | Choice::Matrices => key(choice, dtype),
            Choice::Chunk => key(choice, decoder_dtype),
            Choice::Copies => key(choice, ""),
        });
        keys.into_iter().flatten().collect()
    }
}

fn latents_of(job: &Job<'_>) -> Option<Latents> {
    let request = job.request;
    if request.num_frames <= 1 {
        return None;
    }
    let (_, config) = job.configured::<WanVaeConfig>(PartName::VaeDecoder)?;
    let factor = config.spatial_factor();
    let edge = |pixels: u32| {
        let pixels = request.vae_tile.map_or(pixels, |tile| tile.min(pixels));
        (i64::from(pixels) / factor).clamp(1, MAX_LATENTS)
    };
    Some(Latents {
        channels: config.z_dim,
        height: edge(request.height),
        width: edge(request.width),
    })
}
