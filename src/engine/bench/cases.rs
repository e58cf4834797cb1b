//! What is measured: the networks of Wan at the sizes of the comparison program, which gives them the same names.
//!
//! A small case is the same network with fewer and narrower layers, for machines without a GPU.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::measure::timed;
use super::{BenchArguments, Measured};
use crate::error::EngineError;
use crate::hooks::NoHooks;
use crate::text::{Umt5Config, Umt5Encoder};
use crate::vae::{Tiling, WanVaeConfig, WanVaeDecoder};
use crate::wan::{TokenTimesteps, TransformerConfig, WanTransformer};
use crate::weights::Weights;

/// Edge of a tile, in pixels: what the comparison program's autoencoder has by default.
const TILE: i64 = 256;
const SMALL_TILE: i64 = 32;
/// Tokens of a prompt.
const TEXT_LENGTH: i64 = 512;

#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    runs: usize,
    warm_ups: usize,
    network: Network,
}

/// Which network, and how large its input is.
#[derive(Debug)]
enum Network {
    Transformer(Variant, Clip),
    VaeDecode { clip: Clip, is_tiled: bool },
    Umt5,
}

#[derive(Clone, Copy, Debug)]
enum Variant {
    /// Wan 2.1 1.3B.
    Small13,
    /// Wan 2.1 and 2.2 14B with the channels of a given picture.
    Large14,
    /// Wan 2.2 TI2V 5B.
    Dense5,
}

/// Pixels and frames.
#[derive(Clone, Copy, Debug)]
struct Clip {
    width: i64,
    height: i64,
    frames: i64,
}

const fn clip(width: i64, height: i64, frames: i64) -> Clip {
    Clip {
        width,
        height,
        frames,
    }
}

const fn case(name: &'static str, runs: usize, warm_ups: usize, network: Network) -> Case {
    Case {
        name,
        runs,
        warm_ups,
        network,
    }
}

const CLIP_480P: Clip = clip(832, 480, 81);
const CLIP_320: Clip = clip(320, 320, 17);

/// Every case, in the order in which they are measured.
pub const CASES: &[Case] = &[
    case(
        "wan14b_480p_81f",
        3,
        1,
        Network::Transformer(Variant::Large14, CLIP_480P),
    ),
    case(
        "wan14b_320_17f",
        5,
        1,
        Network::Transformer(Variant::Large14, CLIP_320),
    ),
    case(
        "wan5b_704p_121f",
        3,
        1,
        Network::Transformer(Variant::Dense5, clip(1280, 704, 121)),
    ),
    case(
        "wan13b_480p_81f",
        3,
        1,
        Network::Transformer(Variant::Small13, CLIP_480P),
    ),
    case(
        "vae_wan_480p_81f",
        3,
        1,
        Network::VaeDecode {
            clip: CLIP_480P,
            is_tiled: false,
        },
    ),
    case(
        "vae_wan_480p_81f_tiled",
        3,
        1,
        Network::VaeDecode {
            clip: CLIP_480P,
            is_tiled: true,
        },
    ),
    case(
        "vae_wan_320_17f",
        5,
        1,
        Network::VaeDecode {
            clip: CLIP_320,
            is_tiled: false,
        },
    ),
    case("umt5xxl", 3, 2, Network::Umt5),
];

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
            };
            match self.network {
                Network::Transformer(variant, clip) => bench.transformer(variant, clip),
                Network::VaeDecode { clip, is_tiled } => bench.vae_decode(clip, is_tiled),
                Network::Umt5 => bench.umt5(),
            }
        })
    }
}

struct Bench {
    weights: Weights,
    warm_ups: usize,
    runs: usize,
    small: bool,
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

    /// One call of the model. What the loop makes once, the text's keys and values and the turns of the tokens, is
    /// made once here too.
    fn transformer(&self, variant: Variant, clip: Clip) -> Result<Measured, EngineError> {
        let config: TransformerConfig = from_json(variant.config(self.small))?;
        let factor = variant.spatial_factor();
        let size = clip.latents(config.in_channels, factor, self.small);
        let transformer = WanTransformer::new(&config, &self.weights)?;
        let text = self.random(&[1, TEXT_LENGTH, config.text_dim], self.weights.kind());
        let context = transformer.context(&text, None);
        drop(text);
        let latents = self.random(&size, Kind::Float);
        let [pt, ph, pw] = config.patch_size;
        let tokens = (size[2] / pt) * (size[3] / ph) * (size[4] / pw);
        let timesteps = TokenTimesteps::uniform(500.0, tokens);
        let rope = transformer.rope(size);
        self.timed(&mut || {
            let velocity = transformer.forward(&latents, &timesteps, &context, &rope, &NoHooks);
            velocity.map(drop)
        })
    }

    /// Latents to frames, each chunk dropped when it is there.
    fn vae_decode(&self, clip: Clip, is_tiled: bool) -> Result<Measured, EngineError> {
        let config = vae_config(self.small)?;
        let size = clip.latents(config.z_dim, config.spatial_factor(), self.small);
        let decoder = WanVaeDecoder::new(&config, &self.weights)?;
        let latents = self.random(&size, self.weights.kind());
        let tiling = Tiling::of_size(if self.small { SMALL_TILE } else { TILE });
        self.timed(&mut || {
            if is_tiled {
                decoder.decode_tiled(&latents, tiling, &|| false, &mut drop)
            } else {
                decoder.decode(&latents, &|| false, &mut drop)
            }
        })
    }

    fn umt5(&self) -> Result<Measured, EngineError> {
        let config: Umt5Config = from_json(if self.small {
            json!({"vocab_size": 1000, "d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16})
        } else {
            json!({"vocab_size": 256_384, "d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
                "d_kv": 64})
        })?;
        let encoder = Umt5Encoder::new(&config, &self.weights)?;
        let whole = (Kind::Int64, self.weights.device());
        let ids = Tensor::randint(config.vocab_size.min(32000), [1, TEXT_LENGTH], whole);
        let mask = Tensor::ones([1, TEXT_LENGTH], whole);
        self.timed(&mut || encoder.forward(&ids, &mask, &NoHooks).map(drop))
    }
}

impl Variant {
    /// What `transformer/config.json` of diffusers' layout would say.
    fn config(self, small: bool) -> Value {
        let (heads, ffn_dim, num_layers, channels) = match self {
            Self::Small13 => (12, 8960, 30, 16),
            Self::Large14 => (40, 13824, 40, 36),
            Self::Dense5 => (24, 14336, 30, 48),
        };
        let out_channels = if channels == 36 { 16 } else { channels };
        let mut config = json!({
            "num_attention_heads": heads, "ffn_dim": ffn_dim, "num_layers": num_layers, "in_channels": channels,
            "out_channels": out_channels,
        });
        if small {
            for (name, value) in [
                ("num_attention_heads", 2),
                ("attention_head_dim", 64),
                ("ffn_dim", 256),
                ("num_layers", 2),
                ("text_dim", 128),
            ] {
                config[name] = json!(value);
            }
        }
        config
    }

    /// Pixels of a latent's edge.
    fn spatial_factor(self) -> i64 {
        match self {
            Self::Dense5 => 16,
            Self::Small13 | Self::Large14 => 8,
        }
    }
}

impl Clip {
    /// The size of its latents, `(1, C, f, h, w)`; a few of them for a small network.
    fn latents(self, channels: i64, spatial_factor: i64, small: bool) -> [i64; 5] {
        if small {
            return [1, channels, 2, 4, 6];
        }
        [
            1,
            channels,
            (self.frames - 1) / 4 + 1,
            self.height / spatial_factor,
            self.width / spatial_factor,
        ]
    }
}

/// Wan 2.1's autoencoder, which Wan 2.2's large models use too.
fn vae_config(small: bool) -> Result<WanVaeConfig, EngineError> {
    let config =
        json!({"base_dim": if small { 16 } else { 96 }, "z_dim": 16, "is_residual": false});
    WanVaeConfig::from_json(config).map_err(|reason| EngineError::Internal { reason })
}

fn from_json<T: DeserializeOwned>(config: Value) -> Result<T, EngineError> {
    serde_json::from_value(config).map_err(|err| EngineError::Internal {
        reason: err.to_string(),
    })
}
