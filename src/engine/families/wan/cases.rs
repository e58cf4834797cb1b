//! Wan's transformers at full size, its autoencoder and its text encoder.

use crate::error::EngineError;
use crate::families::wan::measured::{Walk, measured};
use crate::families::wan::{Beside, TokenTimesteps, WanTransformer};
use crate::hooks::NoHooks;
use crate::text::T5Encoder;
use crate::vae::{Tiling, WanVaeDecoder, WanVaeEncoder};
use safelight_core::networks::{T5Config, WanTransformerConfig, WanVaeConfig};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::bench::walks::Walked;

/// Edge of a tile, in pixels: what the comparison program's autoencoder has by default.
const TILE: i64 = 256;
const SMALL_TILE: i64 = 32;
/// Tokens of a prompt.
const TEXT_LENGTH: i64 = 512;

const CLIP_480P: Clip = clip(832, 480, 81);
const CLIP_320: Clip = clip(320, 320, 17);

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "wan14b_480p_81f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Large14, CLIP_480P),
        told: None,
    },
    Case {
        name: "wan14b_vace_480p_81f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Vace14, CLIP_480P),
        told: None,
    },
    Case {
        name: "wan13b_vace_480p_81f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Vace13, CLIP_480P),
        told: None,
    },
    Case {
        name: "wan14b_320_17f",
        runs: 5,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Large14, CLIP_320),
        told: Some(Told {
            rank: 20,
            label: "Wan 14B, a call at 320×320 with 17 frames",
            kind: CaseKind::Step,
            gib: 28.0,
            tflop: 60.0,
            options: &[],
        }),
    },
    Case {
        name: "wan5b_704p_121f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Dense5, clip(1280, 704, 121)),
        told: Some(Told {
            rank: 50,
            label: "Wan 5B, a call at 1280×704 with 121 frames",
            kind: CaseKind::Step,
            gib: 11.5,
            tflop: 550.0,
            options: &[],
        }),
    },
    Case {
        name: "wan13b_480p_81f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Small13, CLIP_480P),
        told: None,
    },
    Case {
        name: "vae_wan_480p_81f",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WAN_2_1, CLIP_480P, None),
        told: Some(Told {
            rank: 40,
            label: "Wan 2.1's autoencoder, 832×480 with 81 frames",
            kind: CaseKind::Decode,
            gib: 5.0,
            tflop: 250.0,
            options: &[],
        }),
    },
    Case {
        name: "vae_wan_480p_81f_tiled",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WAN_2_1, CLIP_480P, Some(TILE)),
        told: None,
    },
    Case {
        name: "vae_wan_320_17f",
        runs: 5,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WAN_2_1, CLIP_320, None),
        told: Some(Told {
            rank: 21,
            label: "Wan 2.1's autoencoder, 320×320 with 17 frames",
            kind: CaseKind::Decode,
            gib: 2.5,
            tflop: 14.0,
            options: &[],
        }),
    },
    Case {
        name: "vae_wan_encode_480p_17f",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_encode(bench, WAN_2_1, clip(832, 480, 17)),
        told: None,
    },
    Case {
        name: "vae_wan22_704p_17f",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WAN_2_2, clip(1280, 704, 17), None),
        told: Some(Told {
            rank: 51,
            label: "Wan 2.2's autoencoder, 1280×704 with 17 frames",
            kind: CaseKind::Decode,
            gib: 8.0,
            tflop: 200.0,
            options: &[],
        }),
    },
    Case {
        name: "vae_wan22_encode_704p_1f",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_encode(bench, WAN_2_2, clip(1280, 704, 1)),
        told: None,
    },
    Case {
        name: "umt5xxl",
        runs: 3,
        warm_ups: 2,
        call: umt5,
        told: Some(Told {
            rank: 71,
            label: "UMT5-XXL reads a prompt",
            kind: CaseKind::Text,
            gib: 11.5,
            tflop: 6.0,
            options: &[],
        }),
    },
    Case {
        name: "wan13b_320_17f",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, Variant::Small13, CLIP_320),
        told: Some(Told {
            rank: 35,
            label: "Wan 1.3B, 320×320 with 17 frames",
            kind: CaseKind::Streaming,
            gib: 5.0,
            tflop: 6.0,
            options: &["--preserved", "2", "--cap", "4"],
        }),
    },
];

#[derive(Clone, Copy, Debug)]
enum Variant {
    /// Wan 2.1 1.3B.
    Small13,
    /// Wan 2.1 and 2.2 14B with the channels of a given picture.
    Large14,
    /// Wan 2.2 TI2V 5B.
    Dense5,
    /// Wan 2.1 VACE 1.3B.
    Vace13,
    /// Wan 2.1 VACE 14B.
    Vace14,
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

impl Bench {
    /// The clip of a case, or what was asked for in its place.
    fn clip(&self, own: Clip) -> Clip {
        clip(
            self.sizes.width.unwrap_or(own.width),
            self.sizes.height.unwrap_or(own.height),
            self.sizes.frames.unwrap_or(own.frames),
        )
    }
}

/// One call of the model. What the loop makes once, the text's keys and values and the turns of the tokens, is
/// made once here too.
fn transformer(bench: &Bench, variant: Variant, clip: Clip) -> Result<Measured, EngineError> {
    let config: WanTransformerConfig = from_json(variant.config(bench.small))?;
    let factor = variant.spatial_factor();
    let size = bench
        .clip(clip)
        .latents(config.in_channels, factor, bench.small);
    let transformer = bench.built(WanTransformer::new(&config, &bench.weights))?;
    let texts = bench.sizes.batch.unwrap_or(1);
    let text = bench.random(&[texts, TEXT_LENGTH, config.text_dim], bench.weights.kind());
    let context = transformer.context(&text, None);
    drop(text);
    let latents = bench.random(&size, Kind::Float);
    let [pt, ph, pw] = config.patch_size;
    let tokens = (size[2] / pt) * (size[3] / ph) * (size[4] / pw);
    let rope = transformer.rope(size);
    let control = config.has_control().then(|| {
        let [_, _, f, h, w] = size;
        let shown = bench.random(&[1, config.vace_in_channels, f, h, w], Kind::Float);
        transformer.control(&shown, 1.0)
    });
    let control = control.flatten();
    let beside = Beside {
        context: &context,
        rope: &rope,
        control: control.as_ref(),
    };
    let told = bench.timesteps(1);
    let (width, height) = (bench.clip(clip).width, bench.clip(clip).height);
    let numbers = |num_calls| {
        let walk = Walk {
            num_calls,
            expert: None,
            given_frame: matches!(variant, Variant::Dense5).then_some(false),
            pixels: width * height,
        };
        measured(&config, walk)
    };
    bench.steps(&Walked {
        input: latents,
        measured: &numbers,
        answer: &|latents, call, shortcut| {
            let timesteps = TokenTimesteps::uniform(told[call], tokens);
            transformer.forward_beside(latents, &timesteps, beside, shortcut, &NoHooks)
        },
    })
}

/// Latents to frames, each chunk dropped when it is there. `tile`: in pixels.
fn vae_decode(
    bench: &Bench,
    vae: Vae,
    clip: Clip,
    tile: Option<i64>,
) -> Result<Measured, EngineError> {
    let config = vae.config(bench.small)?;
    let clip = bench.clip(clip);
    let size = clip.latents(config.z_dim, config.spatial_factor(), bench.small);
    let decoder = bench.built(WanVaeDecoder::new(&config, &bench.weights))?;
    let latents = bench.random(&size, bench.weights.kind());
    let tile = bench.sizes.tile.or(tile);
    let tile = tile.map(|tile| if bench.small { SMALL_TILE } else { tile });
    let tiling = tile.map(|tile| Tiling::of_size(tile / config.patch()));
    bench.timed(&mut || {
        decoder.decode(&latents, tiling, &|| false, &mut |pixels| {
            bench.keep(pixels);
        })
    })
}

/// Frames to latents. The clip lies outside of the device, as in a job.
fn vae_encode(bench: &Bench, vae: Vae, clip: Clip) -> Result<Measured, EngineError> {
    let config = vae.config(bench.small)?;
    let clip = if bench.small {
        Clip {
            width: 96,
            height: 64,
            frames: 5,
        }
    } else {
        bench.clip(clip)
    };
    let encoder = WanVaeEncoder::new(&config, &bench.weights)?;
    let size = [1, 3, clip.frames, clip.height, clip.width];
    let pixels = Tensor::zeros(size, (Kind::Float, Device::Cpu));
    let tiling = bench
        .sizes
        .tile
        .map(|tile| Tiling::of_size(tile / config.patch()));
    bench.timed(&mut || encoder.encode(&pixels, tiling, &|| false).map(drop))
}

fn umt5(bench: &Bench) -> Result<Measured, EngineError> {
    let config: T5Config = from_json(if bench.small {
        json!({"model_type": "umt5", "vocab_size": 1000, "d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4,
            "d_kv": 16})
    } else {
        json!({"model_type": "umt5", "vocab_size": 256_384, "d_model": 4096, "d_ff": 10240, "num_layers": 24,
            "num_heads": 64, "d_kv": 64})
    })?;
    let encoder = bench.built(T5Encoder::new(&config, &bench.weights))?;
    let ids = bench.random_ids(config.vocab_size.min(32000), TEXT_LENGTH);
    let mask = Tensor::ones_like(&ids);
    bench.timed_answer(&mut || encoder.forward(&ids, Some(&mask), &NoHooks))
}

impl Variant {
    /// What `transformer/config.json` of diffusers' layout would say.
    fn config(self, small: bool) -> Value {
        let (heads, ffn_dim, num_layers, channels) = match self {
            Self::Small13 | Self::Vace13 => (12, 8960, 30, 16),
            Self::Large14 => (40, 13824, 40, 36),
            Self::Vace14 => (40, 13824, 40, 16),
            Self::Dense5 => (24, 14336, 30, 48),
        };
        let out_channels = if channels == 36 { 16 } else { channels };
        let mut config = json!({
            "num_attention_heads": heads, "ffn_dim": ffn_dim, "num_layers": num_layers, "in_channels": channels,
            "out_channels": out_channels,
        });
        let stride = match self {
            Self::Vace13 => Some(2),
            Self::Vace14 => Some(5),
            _ => None,
        };
        if let Some(stride) = stride {
            let layers: Vec<i64> = (0..num_layers).step_by(stride).collect();
            config["vace_layers"] = json!(if small { vec![0] } else { layers });
        }
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
            _ => 8,
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

/// An autoencoder of Wan.
#[derive(Clone, Copy, Debug)]
struct Vae {
    is_residual: bool,
}

/// Wan 2.1's, which Wan 2.2's large models use too.
const WAN_2_1: Vae = Vae { is_residual: false };
/// That of Wan 2.2's model of 5B.
const WAN_2_2: Vae = Vae { is_residual: true };

impl Vae {
    fn config(self, small: bool) -> Result<WanVaeConfig, EngineError> {
        let config = if self.is_residual {
            let (base, decoder) = if small { (16, 16) } else { (160, 256) };
            json!({"base_dim": base, "decoder_base_dim": decoder, "z_dim": 48, "is_residual": true, "patch_size": 2,
                "in_channels": 12, "out_channels": 12, "scale_factor_spatial": 16, "latents_mean": vec![0.0; 48],
                "latents_std": vec![1.0; 48]})
        } else {
            json!({"base_dim": if small { 16 } else { 96 }, "z_dim": 16, "is_residual": false})
        };
        from_json(config)
    }
}
