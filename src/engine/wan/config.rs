//! The numbers of a Wan model, from its folders' configs or its files' headers, checked against each other.
//!
//! Nothing is assumed but the schedule of files that come without one: that of Wan's authors.

use std::path::Path;

use safelight_core::catalog::{Component, Family, ModelFiles};
use serde::Deserialize;
use tch::Kind;

use crate::error::EngineError;
use crate::json;
use crate::text::Umt5Config;
use crate::vae::WanVaeConfig;
use crate::vision::ClipVisionConfig;

/// A model's files and what its configuration says.
#[derive(Clone, Debug)]
pub struct WanConfig {
    pub files: ModelFiles,
    pub transformer: TransformerConfig,
    /// The low-noise expert's.
    pub transformer_2: Option<TransformerConfig>,
    pub scheduler: SchedulerConfig,
    /// In models that read pictures' embeddings.
    pub image_encoder: Option<ClipVisionConfig>,
    pub text_encoder: Umt5Config,
    pub vae: WanVaeConfig,
}

impl WanConfig {
    pub fn read(files: &ModelFiles) -> Result<Self, EngineError> {
        let config = Self {
            files: files.clone(),
            transformer: TransformerConfig::read(&files.transformer)?,
            transformer_2: files
                .transformer_2
                .as_deref()
                .map(TransformerConfig::read)
                .transpose()?,
            scheduler: match &files.scheduler {
                Some(folder) => SchedulerConfig::read(folder)?,
                None => SchedulerConfig::published(),
            },
            image_encoder: files
                .image_encoder
                .as_deref()
                .map(ClipVisionConfig::read)
                .transpose()?,
            text_encoder: Umt5Config::read(&files.text_encoder)?,
            vae: WanVaeConfig::read(&files.vae)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the components fit together.
    fn check(&self) -> Result<(), EngineError> {
        if self.transformer_2.is_some() && self.files.boundary_ratio.is_none() {
            return Err(EngineError::Config {
                reason: "it is not said where one expert hands over to the other".to_owned(),
                path: self.files.transformer.clone(),
            });
        }
        let experts = self.transformer_2.iter().chain([&self.transformer]);
        for transformer in experts {
            let z_dim = self.vae.z_dim;
            let pairs = [
                (
                    "text encoder's width and the transformer's text width",
                    self.text_encoder.d_model,
                    transformer.text_dim,
                ),
                (
                    "autoencoder's channels and the transformer's output channels",
                    z_dim,
                    transformer.out_channels,
                ),
                (
                    "transformer's input channels and those that it can be given",
                    transformer.in_channels,
                    match transformer.condition_channels() {
                        0 => z_dim,
                        _ => 2 * z_dim + self.vae.temporal_factor(),
                    },
                ),
                (
                    "image encoder's width and that which the transformer reads",
                    self.image_encoder
                        .as_ref()
                        .map_or(0, |clip| clip.hidden_size),
                    transformer.image_dim.unwrap_or(0),
                ),
                (
                    "patches of the two experts",
                    transformer.patch_size[0],
                    self.transformer.patch_size[0],
                ),
                (
                    "input channels of the two experts",
                    transformer.in_channels,
                    self.transformer.in_channels,
                ),
            ];
            for (what, one, other) in pairs {
                if one != other {
                    return Err(EngineError::Config {
                        reason: format!("the {what} should be equal, but are {one} and {other}"),
                        path: self.files.transformer.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The timestep at and above which the high-noise expert works; `None` with one transformer.
    pub fn boundary(&self) -> Option<f64> {
        self.transformer_2.as_ref()?;
        let ratio = self.files.boundary_ratio?;
        Some(ratio * f64::from(self.scheduler.num_train_timesteps))
    }
}

/// What `transformer/config.json` says, with the defaults of diffusers.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct TransformerConfig {
    /// Latents that make one token: over time, height and width.
    pub patch_size: [i64; 3],
    pub num_attention_heads: i64,
    pub attention_head_dim: i64,
    pub in_channels: i64,
    pub out_channels: i64,
    pub text_dim: i64,
    pub freq_dim: i64,
    pub ffn_dim: i64,
    pub num_layers: i64,
    pub cross_attn_norm: bool,
    pub eps: f64,
    /// Width of the image encoder's embeddings, in models that read them.
    pub image_dim: Option<i64>,
    added_kv_proj_dim: Option<i64>,
    /// Places of the embeddings of two pictures together.
    pub pos_embed_seq_len: Option<i64>,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self {
            patch_size: [1, 2, 2],
            num_attention_heads: 40,
            attention_head_dim: 128,
            in_channels: 16,
            out_channels: 16,
            text_dim: 4096,
            freq_dim: 256,
            ffn_dim: 13824,
            num_layers: 40,
            cross_attn_norm: true,
            eps: 1e-6,
            image_dim: None,
            added_kv_proj_dim: None,
            pos_embed_seq_len: None,
        }
    }
}

impl TransformerConfig {
    /// Reads and checks what a transformer's folder or file says.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config: Self = json::read_component(Family::Wan, Component::Transformer, None, place)?;
        let sizes = [
            config.image_dim.unwrap_or(1),
            config.pos_embed_seq_len.unwrap_or(2),
            config.num_attention_heads,
            config.attention_head_dim,
            config.in_channels,
            config.out_channels,
            config.text_dim,
            config.freq_dim,
            config.ffn_dim,
            config.num_layers,
        ];
        let patches = config.patch_size;
        let reason = if sizes.iter().any(|&n| n < 1 || n > 1 << 20)
            || patches.iter().any(|&n| n < 1 || n > 64)
            || config.freq_dim < 2
        {
            "its sizes make no sense"
        } else if config.attention_head_dim % 2 != 0 || config.attention_head_dim < 6 {
            "its heads cannot hold three axes of positions"
        } else if config.image_dim.is_some() != config.added_kv_proj_dim.is_some()
            || config
                .added_kv_proj_dim
                .is_some_and(|dim| dim != config.dim())
            || config.pos_embed_seq_len.is_some_and(|len| len % 2 != 0)
        {
            "what it says about pictures does not fit together"
        } else {
            return Ok(config);
        };
        Err(EngineError::Config {
            reason: reason.to_owned(),
            path: place.to_owned(),
        })
    }

    /// Channels of the given pictures' latents and their mask, which stand beside the noise.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels
    }

    /// About what one pass over `tokens` needs at a time: the widest layer's input, output and activation, and
    /// queries, keys, values and hidden states beside them.
    pub fn pass_bytes(&self, tokens: i64, kind: Kind) -> u64 {
        let numbers = tokens * (8 * self.dim() + 2 * self.ffn_dim);
        (numbers * kind.elt_size_in_bytes() as i64).unsigned_abs()
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// How many numbers of a head turn with time, height and width.
    pub fn rope_dims(&self) -> [i64; 3] {
        let plane = 2 * (self.attention_head_dim / 6);
        [self.attention_head_dim - 2 * plane, plane, plane]
    }
}

/// What `scheduler/scheduler_config.json` says, of UniPC or flow-match Euler, with the defaults of diffusers.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    #[serde(rename = "_class_name")]
    class_name: String,
    flow_shift: Option<f64>,
    shift: Option<f64>,
    pub num_train_timesteps: u32,
    pub solver_order: usize,
    pub solver_type: String,
    pub lower_order_final: bool,
    pub disable_corrector: Vec<usize>,
    pub final_sigmas_type: String,
    prediction_type: String,
    predict_x0: bool,
    use_flow_sigmas: bool,
    use_dynamic_shifting: bool,
    use_karras_sigmas: bool,
    use_exponential_sigmas: bool,
    use_beta_sigmas: bool,
    invert_sigmas: bool,
    stochastic_sampling: bool,
    thresholding: bool,
    shift_terminal: Option<f64>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            class_name: String::new(),
            flow_shift: None,
            shift: None,
            num_train_timesteps: 1000,
            solver_order: 2,
            solver_type: "bh2".to_owned(),
            lower_order_final: true,
            disable_corrector: Vec::new(),
            final_sigmas_type: "zero".to_owned(),
            prediction_type: "epsilon".to_owned(),
            predict_x0: true,
            use_flow_sigmas: false,
            use_dynamic_shifting: false,
            use_karras_sigmas: false,
            use_exponential_sigmas: false,
            use_beta_sigmas: false,
            invert_sigmas: false,
            stochastic_sampling: false,
            thresholding: false,
            shift_terminal: None,
        }
    }
}

impl SchedulerConfig {
    /// Wan's own, for files that come without one.
    fn published() -> Self {
        Self {
            class_name: "UniPCMultistepScheduler".to_owned(),
            flow_shift: Some(5.0),
            prediction_type: "flow_prediction".to_owned(),
            use_flow_sigmas: true,
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

    /// The shift of the schedule, unless the request has its own.
    pub fn shift(&self) -> f64 {
        self.flow_shift.or(self.shift).unwrap_or(1.0)
    }

    fn objection(&self) -> Option<String> {
        let is_unipc = match self.class_name.as_str() {
            "UniPCMultistepScheduler" => true,
            "FlowMatchEulerDiscreteScheduler" => false,
            other => return Some(format!("the scheduler '{other}' is not supported")),
        };
        let unsupported = [
            ("use_dynamic_shifting", self.use_dynamic_shifting),
            ("use_karras_sigmas", self.use_karras_sigmas),
            ("use_exponential_sigmas", self.use_exponential_sigmas),
            ("use_beta_sigmas", self.use_beta_sigmas),
            ("invert_sigmas", self.invert_sigmas),
            ("stochastic_sampling", self.stochastic_sampling),
            ("thresholding", self.thresholding),
            (
                "shift_terminal",
                self.shift_terminal.is_some_and(|t| t != 0.0),
            ),
        ];
        if let Some(objection) = json::unsupported(&unsupported) {
            return Some(objection);
        }
        let shift = self.shift();
        if !shift.is_finite() || shift <= 0.0 || self.num_train_timesteps == 0 {
            return Some("the scheduler's numbers make no sense".to_owned());
        }
        if !is_unipc {
            return None;
        }
        let is_flow =
            self.use_flow_sigmas && self.predict_x0 && self.prediction_type == "flow_prediction";
        if !is_flow {
            return Some("the scheduler is not set up for a flow model".to_owned());
        }
        if !(1..=3).contains(&self.solver_order)
            || !["bh1", "bh2", "midpoint", "heun", "logrho"].contains(&self.solver_type.as_str())
            || !["zero", "sigma_min"].contains(&self.final_sigmas_type.as_str())
        {
            return Some("this form of UniPC is not supported".to_owned());
        }
        let is_high_at_end = !self.lower_order_final && self.solver_order > 1;
        if self.final_sigmas_type == "zero" && (self.solver_type == "bh1" || is_high_at_end) {
            return Some("this form of UniPC ends in no numbers at a sigma of 0".to_owned());
        }
        None
    }
}
