//! The numbers of a Flux model: from diffusers' configurations, or from the shapes in a file that has none.
//!
//! What shapes cannot say, the size of a head and the axes of positions, is as published then.

use std::ops::Range;
use std::path::Path;

use safelight_core::job::{GenerateRequest, Sampler};
use serde::Deserialize;

use super::keys::TransformerKeys;
use super::transformer::BlockWidths;
use crate::error::EngineError;
use crate::json;
use crate::sampling::{Algorithm, Schedule, Solver, Spacing, UniPcOptions, linspace, spaced};
use crate::weights::Weights;

/// Width of the sinusoids of timestep and guidance.
pub const SINUSOIDS: i64 = 256;

/// What `transformer/config.json` says, with the defaults of diffusers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TransformerConfig {
    patch_size: i64,
    /// Of a token: noise, and in models that fill, picture and mask beside it.
    pub in_channels: i64,
    out_channels: Option<i64>,
    pub num_layers: i64,
    pub num_single_layers: i64,
    pub attention_head_dim: i64,
    pub num_attention_heads: i64,
    /// Width of the text's embeddings.
    pub joint_attention_dim: i64,
    /// Width of the pooled text.
    pub pooled_projection_dim: i64,
    /// Whether the model is told a guidance: dev is, schnell is not.
    pub guidance_embeds: bool,
    /// How many numbers of a head turn with each of a token's ids.
    pub axes_dims_rope: [i64; 3],
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self {
            patch_size: 1,
            in_channels: 64,
            out_channels: None,
            num_layers: 19,
            num_single_layers: 38,
            attention_head_dim: 128,
            num_attention_heads: 24,
            joint_attention_dim: 4096,
            pooled_projection_dim: 768,
            guidance_embeds: false,
            axes_dims_rope: [16, 56, 56],
        }
    }
}

impl TransformerConfig {
    /// Reads a folder's `config.json`, or where there is none, the shapes of `w`, which is what lies at `place`.
    pub fn read(place: &Path, w: &Weights) -> Result<Self, EngineError> {
        let path = place.join("config.json");
        if path.is_file() {
            Self::read_json(&path)
        } else {
            Self::of_weights(w)
        }
    }

    /// Reads and checks a `config.json`.
    pub fn read_json(path: &Path) -> Result<Self, EngineError> {
        let config: Self = json::read(path)?;
        config.checked(path)
    }

    /// From names and shapes alone, in any of the dialects of [`TransformerKeys`].
    pub fn of_weights(w: &Weights) -> Result<Self, EngineError> {
        let keys = TransformerKeys::detect(w);
        let named = keys.translate(w);
        let shape = |name: &str| match named.shape_of(name).as_deref() {
            Some(&[rows, columns]) => Ok([rows, columns]),
            _ => Err(EngineError::Config {
                reason: format!(
                    "it has no matrix '{}' of a Flux transformer",
                    keys.file_key(name)
                ),
                path: w.path().to_owned(),
            }),
        };
        let published = Self::default();
        let [dim, in_channels] = shape("img_in.weight")?;
        let [out_channels, _] = shape("final_layer.linear.weight")?;
        let [_, joint_attention_dim] = shape("txt_in.weight")?;
        let [_, pooled_projection_dim] = shape("vector_in.in_layer.weight")?;
        let head_dim = published.attention_head_dim;
        if dim % head_dim != 0 {
            return Err(EngineError::Config {
                reason: format!(
                    "its width of {dim} is no multiple of {head_dim}, and there is no config.json that says how \
                     large its heads are"
                ),
                path: w.path().to_owned(),
            });
        }
        let (num_layers, num_single_layers) = keys.count_blocks(w);
        let config = Self {
            in_channels,
            out_channels: Some(out_channels),
            num_layers: num_layers as i64,
            num_single_layers: num_single_layers as i64,
            num_attention_heads: dim / head_dim,
            joint_attention_dim,
            pooled_projection_dim,
            guidance_embeds: named.has("guidance_in.in_layer.weight"),
            ..published
        };
        config.checked(w.path())
    }

    fn checked(self, path: &Path) -> Result<Self, EngineError> {
        let sizes = [
            self.in_channels,
            self.out_channels(),
            self.num_layers,
            self.num_single_layers,
            self.attention_head_dim,
            self.num_attention_heads,
            self.joint_attention_dim,
            self.pooled_projection_dim,
        ];
        let axes = self.axes_dims_rope;
        let reason = if sizes.iter().any(|&n| !(1..=1 << 20).contains(&n)) || self.patch_size != 1 {
            "its sizes make no sense"
        } else if axes
            .iter()
            .any(|&n| !(0..=1 << 20).contains(&n) || n % 2 != 0)
            || axes.iter().sum::<i64>() != self.attention_head_dim
        {
            "its axes of positions do not fill its heads"
        } else if self.out_channels() > self.in_channels || self.out_channels() % 4 != 0 {
            "its channels do not fit together"
        } else {
            return Ok(self);
        };
        Err(EngineError::Config {
            reason: reason.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// Width inside the feed-forward layers.
    pub fn mlp_dim(&self) -> i64 {
        4 * self.dim()
    }

    pub(super) fn widths(&self) -> BlockWidths {
        BlockWidths {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            mlp_dim: self.mlp_dim(),
        }
    }

    /// Numbers of a token that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Channels of latents, of which a token has two by two.
    pub fn latent_channels(&self) -> i64 {
        self.out_channels() / 4
    }

    /// Numbers of a token beside the noise, in models that fill: picture and mask.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels()
    }
}

/// What `scheduler/scheduler_config.json` says, with the defaults of diffusers.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    #[serde(rename = "_class_name")]
    class_name: String,
    pub num_train_timesteps: u32,
    shift: f64,
    use_dynamic_shifting: bool,
    base_shift: f64,
    max_shift: f64,
    base_image_seq_len: i64,
    max_image_seq_len: i64,
    time_shift_type: String,
    shift_terminal: Option<f64>,
    invert_sigmas: bool,
    use_karras_sigmas: bool,
    use_exponential_sigmas: bool,
    use_beta_sigmas: bool,
    stochastic_sampling: bool,
    /// Which mu no number of tokens goes beyond, in families that have such a limit.
    #[serde(skip)]
    pub(crate) largest_mu: Option<f64>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            class_name: String::new(),
            num_train_timesteps: 1000,
            shift: 1.0,
            use_dynamic_shifting: false,
            base_shift: 0.5,
            max_shift: 1.15,
            base_image_seq_len: 256,
            max_image_seq_len: 4096,
            time_shift_type: "exponential".to_owned(),
            shift_terminal: None,
            invert_sigmas: false,
            use_karras_sigmas: false,
            use_exponential_sigmas: false,
            use_beta_sigmas: false,
            stochastic_sampling: false,
            largest_mu: None,
        }
    }
}

impl SchedulerConfig {
    /// For files that come without one: dev's, whose model is told a guidance, or schnell's.
    pub fn published(guidance_embeds: bool) -> Self {
        Self {
            class_name: "FlowMatchEulerDiscreteScheduler".to_owned(),
            shift: if guidance_embeds { 3.0 } else { 1.0 },
            use_dynamic_shifting: guidance_embeds,
            ..Self::default()
        }
    }

    /// Reads and checks `scheduler_config.json` of a scheduler's folder.
    pub fn read(folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join("scheduler_config.json");
        let config: Self = json::read(&path)?;
        match config.objection() {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config { reason, path }),
        }
    }

    /// How much later noise goes in a picture of so many tokens: the larger it is, the later.
    pub fn mu(&self, tokens: i64) -> f64 {
        let range = (self.max_image_seq_len - self.base_image_seq_len) as f64;
        let slope = (self.max_shift - self.base_shift) / range;
        let offset = self.base_shift - slope * self.base_image_seq_len as f64;
        let mu = tokens as f64 * slope + offset;
        self.largest_mu.map_or(mu, |largest| mu.min(largest))
    }

    /// The whole schedule for a picture of so many tokens, in the rounding of diffusers: even steps from 1 to
    /// `1 / num_steps`, shifted, and 0.
    pub fn schedule(&self, num_steps: usize, tokens: i64) -> Schedule {
        let even = linspace(1.0, 1.0 / num_steps as f64, num_steps);
        let shift = self.shift as f32;
        let mu = self.mu(tokens);
        let (is_linear, is_dynamic) = (self.time_shift_type == "linear", self.use_dynamic_shifting);
        let factor = if is_linear {
            mu as f32
        } else {
            mu.exp() as f32
        };
        let sigmas = even.into_iter().map(|sigma| {
            let sigma = sigma as f32;
            if is_dynamic {
                factor / (factor + (1.0 / sigma - 1.0))
            } else {
                shift * sigma / (1.0 + (self.shift - 1.0) as f32 * sigma)
            }
        });
        Schedule::of_sigmas(sigmas.collect(), self.num_train_timesteps)
    }

    /// The sampler of a request, for a picture of so many tokens and only some of the steps, with the sigmas that
    /// diffusers' `FluxPipeline` has with it. The request's own shift is a fixed one.
    ///
    /// Those of Euler, LCM and (which diffusers does not have with Flux) Heun are [`SchedulerConfig::schedule`]'s;
    /// UniPC and DPM++ make their own, of the same shift and hardly different.
    pub fn solver(
        &self,
        request: &GenerateRequest,
        tokens: i64,
        steps: Range<usize>,
    ) -> Result<Solver, EngineError> {
        let own = self.of_request(request);
        let (num_steps, shift) = (request.num_steps as usize, own.shift_factor(tokens));
        if num_steps == 0 || !shift.is_finite() || shift <= 0.0 {
            return Err(EngineError::Request {
                reason: format!(
                    "cannot make a schedule of {num_steps} steps with a shift of {shift}"
                ),
            });
        }
        let (start, end) = (steps.start, steps.end);
        Solver::new(own.algorithm(request, tokens), steps).ok_or_else(|| EngineError::Request {
            reason: format!("cannot make the steps from {start} to {end} of {num_steps}"),
        })
    }

    /// The same with the request's own shift where it has one: a fixed one, or by the number of tokens.
    pub(crate) fn of_request(&self, request: &GenerateRequest) -> Self {
        Self {
            shift: request.shift.unwrap_or(self.shift),
            use_dynamic_shifting: request.shift.is_none()
                && (self.use_dynamic_shifting || request.dynamic_shift),
            ..self.clone()
        }
    }

    fn algorithm(&self, request: &GenerateRequest, tokens: i64) -> Algorithm {
        let num_steps = request.num_steps as usize;
        let (sampler, seed) = (request.sampler, request.seed);
        match sampler {
            Sampler::UniPc | Sampler::UniPcBh1 | Sampler::DpmPp2m => {
                let spacing = Spacing {
                    schedule: request.sigma_schedule,
                    num_steps,
                    shift: self.shift_factor(tokens),
                    num_train_timesteps: self.num_train_timesteps,
                };
                Algorithm::spaced(sampler, &spacing, UniPcOptions::default(), seed)
            }
            Sampler::Euler | Sampler::Heun | Sampler::Lcm => {
                let mut simple = self.schedule(num_steps, tokens).sigmas;
                simple.pop();
                let simple = simple.into_iter().map(f64::from).collect();
                let sigmas = spaced(request.sigma_schedule, simple);
                Algorithm::along(sampler, sigmas, self.num_train_timesteps, seed)
            }
        }
    }

    /// The shift as other schedulers are told it: fixed, or what the dynamic one comes to.
    fn shift_factor(&self, tokens: i64) -> f64 {
        match (self.use_dynamic_shifting, self.time_shift_type.as_str()) {
            (false, _) => self.shift,
            (true, "linear") => self.mu(tokens),
            (true, _) => self.mu(tokens).exp(),
        }
    }

    fn objection(&self) -> Option<String> {
        if self.class_name != "FlowMatchEulerDiscreteScheduler" {
            return Some(format!(
                "the scheduler '{}' is not supported",
                self.class_name
            ));
        }
        let unsupported = [
            ("use_karras_sigmas", self.use_karras_sigmas),
            ("use_exponential_sigmas", self.use_exponential_sigmas),
            ("use_beta_sigmas", self.use_beta_sigmas),
            ("invert_sigmas", self.invert_sigmas),
            ("stochastic_sampling", self.stochastic_sampling),
            (
                "shift_terminal",
                self.shift_terminal.is_some_and(|t| t != 0.0),
            ),
        ];
        if let Some(objection) = json::unsupported(&unsupported) {
            return Some(objection);
        }
        let numbers = [self.shift, self.base_shift, self.max_shift];
        let is_sound = numbers
            .iter()
            .all(|n| n.is_finite() && *n > 0.0 && *n < 100.0)
            && (0..self.max_image_seq_len).contains(&self.base_image_seq_len)
            && self.num_train_timesteps > 0
            && ["exponential", "linear"].contains(&self.time_shift_type.as_str());
        (!is_sound).then(|| "the scheduler's numbers make no sense".to_owned())
    }
}
