//! The numbers of a Llama: from its folder's `config.json`, a GGUF file's metadata, or the shapes in a file.
//!
//! Says in a sentence why a Llama of another generation is not read. Loads no weights.

use std::path::Path;

use safelight_core::catalog::header::Header;
use serde::Deserialize;
use tch::{Device, Kind};

use super::llama::{TABLE, at_model, layer_key};
use crate::encoder_home;
use crate::error::EngineError;
use crate::json;
use crate::weights::Weights;

/// Of every published Llama that a picture or video model reads.
const HEAD_DIM: i64 = 128;
/// Of every Llama 3; files without a configuration do not say it.
const THETA: f64 = 500_000.0;
const EPS: f64 = 1e-5;

/// What `text_encoder/config.json` says, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct LlamaConfig {
    pub model_type: String,
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    /// As many as there are heads where it is not said.
    pub num_key_value_heads: Option<i64>,
    /// The heads' share of the width where it is not said.
    pub head_dim: Option<i64>,
    pub rms_norm_eps: f64,
    pub hidden_act: String,
    pub attention_bias: bool,
    pub mlp_bias: bool,
    rope_theta: Option<f64>,
    /// Where new configurations have the base, and how positions are scaled.
    rope_parameters: Option<RopeParameters>,
    /// The same in old configurations.
    rope_scaling: Option<RopeParameters>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RopeParameters {
    rope_theta: Option<f64>,
    #[serde(alias = "type")]
    rope_type: Option<String>,
}

impl Default for LlamaConfig {
    fn default() -> Self {
        Self {
            model_type: "llama".to_owned(),
            vocab_size: 32000,
            hidden_size: 4096,
            intermediate_size: 11008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: None,
            head_dim: None,
            rms_norm_eps: 1e-6,
            hidden_act: "silu".to_owned(),
            attention_bias: false,
            mlp_bias: false,
            rope_theta: None,
            rope_parameters: None,
            rope_scaling: None,
        }
    }
}

impl LlamaConfig {
    /// Reads and checks the numbers of a text encoder, which lies in a folder or in one file. The configuration may
    /// be that of a whole LLaVA.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config = match encoder_home::own_config(place, "llama", "text_config")? {
            Some(config) => config,
            None => Self::from_header(place)?,
        };
        match config.objection() {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    /// Heads of keys and values; several heads of queries share one.
    pub fn num_key_value_heads(&self) -> i64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Numbers of a head.
    pub fn head_dim(&self) -> i64 {
        let share = self.hidden_size / self.num_attention_heads.max(1);
        self.head_dim.unwrap_or(share)
    }

    /// The base of the positions' frequencies.
    pub fn rope_theta(&self) -> f64 {
        let new = self.rope_parameters.as_ref();
        let said = new.and_then(|new| new.rope_theta).or(self.rope_theta);
        said.unwrap_or(10_000.0)
    }

    /// The numbers that the shapes in a file show; the rest is as in every published Llama 3.
    fn from_header(path: &Path) -> Result<Self, EngineError> {
        let weights = Weights::open(path, Kind::Float, Device::Cpu)?;
        let (w, _) = at_model(&weights);
        let size = |name: &str| encoder_home::matrix(&w, name, "Llama");
        let (vocab_size, hidden_size) = size(TABLE)?;
        let (q_rows, _) = size(&layer_key(0, "self_attn.q_proj"))?;
        let (k_rows, _) = size(&layer_key(0, "self_attn.k_proj"))?;
        let (intermediate_size, _) = size(&layer_key(0, "mlp.gate_proj"))?;
        let heads = heads_in_metadata(path).unwrap_or((q_rows / HEAD_DIM, k_rows / HEAD_DIM));
        let is_whole = |rows: i64, heads: i64| heads > 0 && rows % heads == 0;
        if !is_whole(q_rows, heads.0)
            || !is_whole(k_rows, heads.1)
            || q_rows / heads.0 != k_rows / heads.1
        {
            let reason = format!(
                "its {q_rows} query rows and {k_rows} key rows are not those of a published Llama: only a config.json can say how many heads it has"
            );
            let path = path.to_owned();
            return Err(EngineError::Config { reason, path });
        }
        let layer = |i: i64| layer_key(i, "self_attn.q_proj");
        Ok(Self {
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers: encoder_home::num_layers(&w, layer),
            num_attention_heads: heads.0,
            num_key_value_heads: Some(heads.1),
            head_dim: Some(q_rows / heads.0),
            rms_norm_eps: EPS,
            rope_theta: Some(THETA),
            ..Self::default()
        })
    }

    fn objection(&self) -> Option<String> {
        let sizes = [
            self.vocab_size,
            self.hidden_size,
            self.intermediate_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.num_key_value_heads(),
            self.head_dim(),
        ];
        let theta = self.rope_theta();
        let scaling = [&self.rope_parameters, &self.rope_scaling].into_iter();
        let mut scaling = scaling.flatten().filter_map(|rope| rope.rope_type.as_ref());
        if self.model_type != "llama" {
            let other = &self.model_type;
            Some(format!("it is the text encoder '{other}', not a Llama"))
        } else if sizes.iter().any(|&n| !(1..=1 << 24).contains(&n))
            || self.head_dim() % 2 != 0
            || !(theta.is_finite() && theta >= 1.0)
            || !(self.rms_norm_eps.is_finite() && self.rms_norm_eps >= 0.0)
        {
            Some("its sizes make no sense".to_owned())
        } else if self.num_attention_heads % self.num_key_value_heads() != 0 {
            let (heads, shared) = (self.num_attention_heads, self.num_key_value_heads());
            Some(format!("its {heads} heads cannot share {shared} keys"))
        } else if let Some(kind) = scaling.find(|kind| *kind != "default") {
            let newer = "Llama 3.1 and later have that, HunyuanVideo's Llama 3 does not";
            Some(format!("its positions are scaled ('{kind}'): {newer}"))
        } else if self.attention_bias || self.mlp_bias {
            Some("its layers have biases, which no Llama 3 has".to_owned())
        } else if self.hidden_act != "silu" {
            let activation = &self.hidden_act;
            Some(format!("its activation '{activation}' is not Llama's"))
        } else {
            None
        }
    }
}

/// Heads of queries, and of keys and values, as a GGUF file says it.
fn heads_in_metadata(path: &Path) -> Option<(i64, i64)> {
    let (_, header) = Header::open(path).ok()?;
    let header = header.as_gguf()?;
    let model = header.text("general.architecture")?;
    let number = |name: &str| {
        let found = header.number(&format!("{model}.attention.{name}"));
        found.and_then(|number| i64::try_from(number).ok())
    };
    let heads = number("head_count")?;
    Some((heads, number("head_count_kv").unwrap_or(heads)))
}
