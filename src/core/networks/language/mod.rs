//! Language models as prompt encoders: Llama 3, Mistral Small 3, Gemma 3, and Qwen 2.5 and 3 with their VL relatives. One decoder with switches.
//!
//! Uses the names of `transformers`; [`LanguageKeys`] translates a file's. Layers after the last hidden state that a
//! model reads are not loaded, nor are heads and vision towers.

mod keys;
mod kinds;
mod usage;

use keys::{QUERY_NORM, TOKENS};

use crate::networks::prelude::*;

pub use keys::LanguageKeys;
pub(crate) use keys::TEKKEN_TENSOR;
pub use kinds::LanguageKind;
pub(super) use kinds::{GEMMA, RULES};
pub use usage::{LanguageTap, LanguageUse};

/// Width of one head in every such model that an image or video model reads.
const HEAD_DIM: i64 = 128;

/// Rows of Mistral's table.
const TEKKEN_IDS: i64 = 131_072;

/// The sections of positions in published models, and of Qwen 3 VL.
const SECTIONS: [i64; 3] = [16, 24, 24];
const QWEN3_SECTIONS: [i64; 3] = [24, 20, 20];

network_config! {
    /// `text_encoder/config.json`, with the defaults of `transformers`, and sizes of the published Llama 3 of 8 billion
    /// numbers with LLaVA's words.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default)]
    pub struct LanguageConfig {
        pub model_type: String = String::new(),
        pub vocab_size: i64 = 128_320 => dim(TOKENS, 0),
        pub hidden_size: i64 = 4096 => dim(TOKENS, 1),
        pub intermediate_size: i64 = 14_336 => dim("layers.0.mlp.up_proj.weight", 0),
        pub num_hidden_layers: i64 = 32 => count("layers.{}.mlp.up_proj.weight"),
        pub num_attention_heads: i64 = 32 => size(),
        /// As many as there are heads where it is not said.
        pub num_key_value_heads: Option<i64> = None => size(),
        /// The heads' share of the width where it is not said.
        pub head_dim: Option<i64> = None => size(),
        pub rms_norm_eps: f64 = 1e-6 => epsilon(),
        pub hidden_act: String = "silu".to_owned() => only(),
        pub attention_bias: bool = false,
        /// No Qwen's config has it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub mlp_bias: bool = false => only(),
        pub rope_theta: Option<f64> = None,
        /// RoPE base and scaling in new configs.
        pub rope_parameters: Option<RopeParameters> = None,
        /// Base and scaling of positions in old configs.
        pub rope_scaling: Option<RopeParameters> = None,
        /// Hidden states that the model reads; no file says it.
        #[serde(skip)]
        pub tap: LanguageTap = LanguageTap::default(),
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RopeParameters {
    pub rope_theta: Option<f64>,
    pub rope_type: Option<String>,
    /// Its name in old configs, of which some have the new name too.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub old_type: Option<String>,
    /// Numbers of a head's pairs that rotate with each position axis of a token: order, row and column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mrope_section: Option<Vec<i64>>,
}

impl NetworkConfig for LanguageConfig {
    const PART: Option<&'static str> = Some("text_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| {
            ["llama", "llava", "mistral", "qwen2", "qwen3"]
                .iter()
                .any(|start| name.starts_with(start))
        })
    }

    /// Numbers that shapes do not show are those of the published models of the kind.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = LanguageKeys::of(&weights.names())
            .ok_or_else(|| not_a("Llama, Mistral, Qwen or Gemma text encoder", weights))?;
        let key = |name: &str| keys.file_key(name);
        let header = NamedShapes::new(weights, &key);
        let found = Self::of_declared(&header)?;
        let queries = header.dim("layers.0.self_attn.q_proj.weight", 0)?;
        let values = header.dim("layers.0.self_attn.k_proj.weight", 0)?;
        let width = if keys.kind.has_head_norms() {
            header.width(QUERY_NORM)?
        } else {
            HEAD_DIM
        };
        let [heads, shared] = heads_in_notes(weights).unwrap_or([queries / width, values / width]);
        let is_split = |rows: i64, heads: i64| heads > 0 && rows % heads == 0;
        ensure!(
            is_split(queries, heads)
                && is_split(values, shared)
                && queries / heads == values / shared,
            "expected heads of {width}, as no config.json says how wide a head is, found {queries} query rows and {values} key rows"
        );
        // The vision tower may be in another file.
        let sees = weights.names().any(|name| name.contains("visual."))
            || keys.prefix.ends_with("language_model.")
            || is_noted_to_see(weights);
        // Tensors do not tell it from a Llama.
        let is_mistral = keys.kind == LanguageKind::Llama
            && (found.vocab_size == TEKKEN_IDS
                || weights.names().any(|name| name.ends_with(TEKKEN_TENSOR)));
        let kind = if is_mistral {
            LanguageKind::Mistral
        } else {
            keys.kind
        };
        let found = found.of_kind(kind, sees);
        Ok(Self {
            num_attention_heads: heads,
            num_key_value_heads: Some(shared),
            head_dim: Some(queries / heads),
            rope_theta: note(weights, "rope.freq_base").or(found.rope_theta),
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        let kind = self.known_kind()?;
        self.check_declared()?;
        check_sizes(&[("head_dim", self.head_dim())])?;
        let (heads, shared) = (self.num_attention_heads, self.num_key_value_heads());
        let (head_dim, theta) = (self.head_dim(), self.rope_theta());
        let scaling = [&self.rope_parameters, &self.rope_scaling].into_iter();
        let types = scaling.flatten();
        let types = types.flat_map(|rope| rope.rope_type.iter().chain(&rope.old_type));
        let is_plain = |rope: &str| rope == "default" || kind.has_rope_type(rope);
        ensure!(
            heads % shared == 0,
            "expected num_attention_heads that num_key_value_heads divides, found {heads} and {shared}"
        );
        ensure!(
            head_dim % 2 == 0,
            "expected an even head_dim, found {head_dim}"
        );
        ensure!(
            theta.is_finite() && theta >= 1.0,
            "expected a rope_theta of at least 1, found {theta}"
        );
        for rope in types {
            ensure!(
                is_plain(rope),
                "expected positions that are not scaled, found scaled ones ({rope})"
            );
        }
        ensure!(
            !self.attention_bias || kind.has_biases(),
            "expected layers without biases, as in every {}, found attention_bias",
            kind.label()
        );
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(&LanguageKeys::of(&weights.names()).unwrap_or_default())
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = LanguageKeys::of(&weights.names()).unwrap_or_default();
        let next = format!("layers.{}.mlp.up_proj.weight", self.num_hidden_layers);
        weights.no_more_layers(&keys.file_key(&next), self.num_hidden_layers)
    }
}

impl LanguageConfig {
    /// This config with the values that all published models of a kind share. `sees`: with a vision transformer.
    fn of_kind(self, kind: LanguageKind, sees: bool) -> Self {
        Self {
            model_type: kind.model_type(sees).to_owned(),
            head_dim: Some(HEAD_DIM),
            rms_norm_eps: kind.epsilon(),
            rope_theta: Some(kind.rope_theta(sees)),
            ..self
        }
    }

    /// The published Llama 3 of 8 billion numbers, with LLaVA's words.
    pub fn llama3(tap: LanguageTap) -> Self {
        let config = Self {
            num_key_value_heads: Some(8),
            tap,
            ..Self::default()
        };
        config.of_kind(LanguageKind::Llama, false)
    }

    /// The published Mistral Small 3 of 24 billion numbers.
    pub fn mistral_small(tap: LanguageTap) -> Self {
        let config = Self {
            vocab_size: TEKKEN_IDS,
            hidden_size: 5120,
            intermediate_size: 32_768,
            num_hidden_layers: 40,
            ..Self::llama3(tap)
        };
        config.of_kind(LanguageKind::Mistral, false)
    }

    /// The text part of the published Gemma 3 of 12 billion numbers.
    pub fn gemma3_12b(tap: LanguageTap) -> Self {
        let config = Self {
            vocab_size: 262_208,
            hidden_size: 3840,
            intermediate_size: 15_360,
            num_hidden_layers: 48,
            num_attention_heads: 16,
            ..Self::llama3(tap)
        };
        Self {
            head_dim: Some(2 * HEAD_DIM),
            ..config.of_kind(LanguageKind::Gemma3, false)
        }
    }

    /// The published Qwen 3 of 4 billion numbers.
    pub fn qwen3_4b(tap: LanguageTap) -> Self {
        let config = Self {
            vocab_size: 151_936,
            hidden_size: 2560,
            intermediate_size: 9728,
            num_hidden_layers: 36,
            ..Self::llama3(tap)
        };
        config.of_kind(LanguageKind::Qwen3, false)
    }

    /// The published Qwen 3 of 0.6 billion numbers.
    pub fn qwen3_06b(tap: LanguageTap) -> Self {
        Self {
            hidden_size: 1024,
            intermediate_size: 3072,
            num_hidden_layers: 28,
            num_attention_heads: 16,
            ..Self::qwen3_4b(tap)
        }
    }

    /// The published Qwen 3 of 8 billion numbers.
    pub fn qwen3_8b(tap: LanguageTap) -> Self {
        Self {
            hidden_size: 4096,
            intermediate_size: 12_288,
            ..Self::qwen3_4b(tap)
        }
    }

    /// The text part of the published Qwen 2.5 VL of 7 billion numbers.
    pub fn qwen25_vl_7b(tap: LanguageTap) -> Self {
        let config = Self {
            vocab_size: 152_064,
            hidden_size: 3584,
            intermediate_size: 18_944,
            num_hidden_layers: 28,
            num_attention_heads: 28,
            num_key_value_heads: Some(4),
            ..Self::llama3(tap)
        };
        config.of_kind(LanguageKind::Qwen2, true)
    }

    /// Llama 3 where the config does not say it.
    pub fn kind(&self) -> LanguageKind {
        self.known_kind().unwrap_or_default()
    }

    fn known_kind(&self) -> Result<LanguageKind, String> {
        LanguageKind::of_model_type(&self.model_type).ok_or_else(|| {
            format!(
                "expected the model_type llama, mistral, gemma3, qwen2_5_vl or qwen3, found {}",
                self.model_type
            )
        })
    }

    /// Heads of keys and values; several heads of queries share one.
    pub fn num_key_value_heads(&self) -> i64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    pub fn head_dim(&self) -> i64 {
        self.head_dim
            .unwrap_or_else(|| self.hidden_size / self.num_attention_heads.max(1))
    }

    /// The base of the positions' frequencies.
    pub fn rope_theta(&self) -> f64 {
        let new = self.rope_parameters.as_ref();
        new.and_then(|new| new.rope_theta)
            .or(self.rope_theta)
            .unwrap_or(10_000.0)
    }

    /// Numbers of a head's pairs that rotate with each position axis of an image token: order, row and column. For
    /// vision-language models; the others have one axis.
    pub fn sections(&self) -> [i64; 3] {
        let scaling = [&self.rope_parameters, &self.rope_scaling].into_iter();
        let mut stated = scaling
            .flatten()
            .filter_map(|rope| rope.mrope_section.as_deref());
        match stated.next() {
            Some(&[order, row, column]) => [order, row, column],
            _ if self.kind() == LanguageKind::Qwen3 => QWEN3_SECTIONS,
            _ => SECTIONS,
        }
    }

    /// Layers up to the last hidden state that the model reads.
    pub fn num_read_layers(&self) -> i64 {
        self.tap.num_layers(self.num_hidden_layers)
    }

    pub fn schema(&self, keys: &LanguageKeys) -> Vec<TensorSpec> {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let head_dim = self.head_dim();
        let queries = self.num_attention_heads * head_dim;
        let values = self.num_key_value_heads() * head_dim;
        let kind = self.kind();
        let mut schema = Schema::default();
        schema.add(TOKENS, &[self.vocab_size, hidden], TensorRole::Table);
        schema.blocks("layers", self.num_read_layers(), |schema| {
            schema.vector("input_layernorm.weight", hidden);
            for (part, rows) in [("q_proj", queries), ("k_proj", values), ("v_proj", values)] {
                schema.matrix(&format!("self_attn.{part}"), rows, hidden);
                if kind.has_biases() {
                    schema.vector(&format!("self_attn.{part}.bias"), rows);
                }
            }
            schema.matrix("self_attn.o_proj", hidden, queries);
            if kind.has_head_norms() {
                schema.vector("self_attn.q_norm.weight", head_dim);
                schema.vector("self_attn.k_norm.weight", head_dim);
            }
            schema.vector("post_attention_layernorm.weight", hidden);
            if kind.has_norms_around() {
                schema.vector("pre_feedforward_layernorm.weight", hidden);
                schema.vector("post_feedforward_layernorm.weight", hidden);
            }
            schema.matrix("mlp.gate_proj", inner, hidden);
            schema.matrix("mlp.up_proj", inner, hidden);
            schema.matrix("mlp.down_proj", hidden, inner);
        });
        if self.tap.has_norm() {
            schema.vector("norm.weight", hidden);
        }
        schema.renamed(|name| keys.file_key(name))
    }
}

/// A note of a GGUF file about its model.
fn note<T: std::str::FromStr>(weights: &WeightSet, name: &str) -> Option<T> {
    let notes = weights.is_gguf.then_some(&weights.notes)?;
    let model = notes.get("general.architecture")?;
    notes.get(&format!("{model}.{name}"))?.parse().ok()
}

/// Returns true if a GGUF file says that its model looks at images.
fn is_noted_to_see(weights: &WeightSet) -> bool {
    let name = weights.notes.get("general.architecture");
    weights.is_gguf && name.is_some_and(|name| name.contains("vl"))
}

/// Heads of queries, and of keys and values, as a GGUF file says it.
fn heads_in_notes(weights: &WeightSet) -> Option<[i64; 2]> {
    let heads = note(weights, "attention.head_count")?;
    let shared = note(weights, "attention.head_count_kv");
    Some([heads, shared.unwrap_or(heads)])
}
