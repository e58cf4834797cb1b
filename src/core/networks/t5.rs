//! T5's encoder, the second of Flux, and UMT5's, Wan's: the same with a table of relative positions in every block.
//!
//! Speaks in the names of `transformers`; [`T5Keys`] says what a file calls the same tensors. Has no decoder.

use std::path::Path;

use super::config_path;
use crate::networks::prelude::*;

/// The table of relative positions, which every such encoder has in its first block.
const POSITIONS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
/// Both names of the table of tokens: files have either or both.
const TOKENS: [&str; 2] = ["shared.weight", "encoder.embed_tokens.weight"];
/// By which its files are known: only UMT5 has positions in every layer.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "umt5" "text_encoder" "a UMT5 text encoder" as Umt5:
        "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight";
    "umt5" "text_encoder" "a UMT5 text encoder in the original layout" as Umt5: "blocks.1.pos_embedding.embedding.weight";
    "umt5" "text_encoder" "a UMT5 text encoder" as Umt5: "enc.blk.1.attn_rel_b.weight";
    "t5" "text_encoder" "a T5 text encoder" as T5: POSITIONS;
    "t5" "text_encoder" "a T5 text encoder" as T5: "enc.blk.0.attn_rel_b.weight";
    // Cut down to some of its tensors.
    "t5" "text_encoder" "a T5 text encoder" as T5: "encoder.block.0.layer.0.SelfAttention.q.weight";
};

/// The two networks, as `model_type` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum T5Kind {
    /// The first block has a table of relative positions, and all use it.
    #[default]
    T5,
    /// Every block has its own.
    Umt5,
}

impl T5Kind {
    fn model_type(self) -> &'static str {
        match self {
            Self::T5 => "t5",
            Self::Umt5 => "umt5",
        }
    }
}

network_config! {
    /// `text_encoder/config.json` of a UMT5, `text_encoder_2/config.json` of a T5; what it leaves out is as in T5-XXL.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default)]
    pub struct T5Config {
        /// Once it is read by [`T5Config::read_as`], it is there.
        pub model_type: Option<T5Kind> = None,
        pub vocab_size: i64 = 32_128 => size(),
        pub d_model: i64 = 4096 => size(),
        pub d_kv: i64 = 64 => size(),
        pub d_ff: i64 = 10_240 => dim("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", 0),
        pub num_layers: i64 = 24 => count("encoder.block.{}.layer.0.SelfAttention.q.weight"),
        pub num_heads: i64 = 64 => dim(POSITIONS, 1),
        pub relative_attention_num_buckets: i64 = 32 => dim(POSITIONS, 0),
        pub relative_attention_max_distance: i64 = 128,
        pub layer_norm_epsilon: f64 = 1e-6 => epsilon(),
        pub feed_forward_proj: String = "gated-gelu".to_owned() => only(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl NetworkConfig for T5Config {
    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| name.starts_with("t5") || name.starts_with("umt5"))
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = T5Keys::of(&weights.names())
            .ok_or_else(|| not_a("T5 or UMT5 text encoder", weights))?;
        let file_key = |name: &str| keys.file_key(name);
        let header = NamedShapes::new(weights, &file_key);
        let [vocab_size, d_model] = header.sizes(keys.tokens()[0])?;
        let found = Self::of_declared(&header)?;
        let inner = header.dim("encoder.block.0.layer.0.SelfAttention.q.weight", 0)?;
        let num_heads = found.num_heads;
        ensure!(
            inner % num_heads == 0,
            "expected queries for {num_heads} heads of one width, found {inner} rows"
        );
        Ok(Self {
            model_type: Some(keys.kind),
            vocab_size,
            d_model,
            d_kv: inner / num_heads,
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let buckets = self.relative_attention_num_buckets;
        let distance = self.relative_attention_max_distance;
        // A half of the buckets looks back, and a half of that counts single tokens.
        ensure!(
            buckets >= 4 && distance > buckets / 4,
            "expected at least 4 relative_attention_num_buckets and a relative_attention_max_distance above a quarter of them, found {buckets} and {distance}"
        );
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(&T5Keys::of(&weights.names()).unwrap_or_default())
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = T5Keys::of(&weights.names()).unwrap_or_default();
        // The end of the name is only there for the translation.
        let next = format!("encoder.block.{}.layer.0.layer_norm.", self.num_layers);
        weights.no_more_layers(&keys.file_key(&next), self.num_layers)
    }
}

impl T5Config {
    /// The published XXL of a kind.
    pub fn xxl(kind: T5Kind) -> Self {
        Self {
            model_type: Some(kind),
            vocab_size: match kind {
                T5Kind::T5 => 32_128,
                T5Kind::Umt5 => 256_384,
            },
            ..Self::default()
        }
    }

    /// The config at a place that must have the one or the other of the two networks.
    pub fn read_as(kind: T5Kind, place: &Path) -> Result<Self, CatalogError> {
        let config = Self::read(place)?;
        match config.model_type {
            Some(found) if found != kind => Err(CatalogError::config(
                format!(
                    "expected the model_type {}, found {}",
                    kind.model_type(),
                    found.model_type()
                ),
                config_path(place),
            )),
            _ => Ok(Self {
                model_type: Some(kind),
                ..config
            }),
        }
    }

    /// Returns true if a block has a table of relative positions; one without uses that of the block before.
    pub fn has_positions(&self, block: i64) -> bool {
        block == 0 || self.model_type == Some(T5Kind::Umt5)
    }

    pub fn schema(&self, keys: &T5Keys) -> Vec<TensorSpec> {
        let (width, inner) = (self.d_model, self.num_heads * self.d_kv);
        let mut schema = Schema::default();
        schema.add(
            keys.tokens()[0],
            &[self.vocab_size, width],
            TensorRole::Table,
        );
        let table = [self.relative_attention_num_buckets, self.num_heads];
        let mut block = 0;
        schema.blocks(BLOCKS.own, self.num_layers, |schema| {
            if self.has_positions(block) {
                let name = "layer.0.SelfAttention.relative_attention_bias.weight";
                schema.add(name, &table, TensorRole::Fixed);
            }
            block += 1;
            schema.matrix("layer.0.SelfAttention.q", inner, width);
            schema.matrix("layer.0.SelfAttention.k", inner, width);
            schema.matrix("layer.0.SelfAttention.v", inner, width);
            schema.matrix("layer.0.SelfAttention.o", width, inner);
            schema.vector("layer.0.layer_norm.weight", width);
            schema.matrix("layer.1.DenseReluDense.wi_0", self.d_ff, width);
            schema.matrix("layer.1.DenseReluDense.wi_1", self.d_ff, width);
            schema.matrix("layer.1.DenseReluDense.wo", width, self.d_ff);
            schema.vector("layer.1.layer_norm.weight", width);
        });
        schema.vector("encoder.final_layer_norm.weight", width);
        schema.renamed(|name| keys.file_key(name))
    }
}

/// Dialects of the tensors of a T5 or UMT5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum T5Names {
    #[default]
    Transformers,
    /// Wan's authors (`umt5-xxl-enc`).
    WanAuthors,
    /// GGUF files.
    LlamaCpp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct T5Keys {
    pub prefix: String,
    pub names: T5Names,
    /// By the tables of positions. A UMT5 of one block is taken for a T5; the published ones have 24.
    pub kind: T5Kind,
    /// The table of tokens has its second name alone.
    has_second_name: bool,
}

impl T5Keys {
    /// `None` where no file key is that of a T5 or UMT5.
    pub fn of<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        use T5Names::{LlamaCpp, Transformers, WanAuthors};
        let has = |key: &str| keys.clone().any(|found| found == key);
        [Transformers, WanAuthors, LlamaCpp]
            .into_iter()
            .find_map(|names| {
                let mut found = Self::in_names(names);
                let prefix = prefix_before(keys.clone(), &[&found.file_key(POSITIONS)])?;
                prefix.clone_into(&mut found.prefix);
                if has(&found.file_key(&POSITIONS.replace("block.0", "block.1"))) {
                    found.kind = T5Kind::Umt5;
                }
                let [first, second] = TOKENS.map(|name| has(&found.file_key(name)));
                found.has_second_name = second && !first;
                Some(found)
            })
    }

    /// Those of a bare file.
    pub fn in_names(names: T5Names) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// The network of a file, if it holds one of the two.
    pub(crate) fn kind_in(weights: &WeightSet) -> Option<T5Kind> {
        Self::of(&weights.names()).map(|keys| keys.kind)
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub fn file_key(&self, name: &str) -> String {
        let key = match self.names {
            T5Names::Transformers => name.to_owned(),
            T5Names::WanAuthors => renamed(name, &[WAN_AUTHORS], &[WAN_AUTHORS_OUTER]),
            T5Names::LlamaCpp => renamed(name, &[LLAMA_CPP], &[LLAMA_CPP_OUTER]),
        };
        format!("{}{key}", self.prefix)
    }

    /// Names in `transformers` of the table of tokens: this file's, and the other, which may be there too.
    pub fn tokens(&self) -> [&'static str; 2] {
        let [first, second] = TOKENS;
        if self.has_second_name {
            [second, first]
        } else {
            [first, second]
        }
    }
}

/// `encoder.block.3.layer.1.DenseReluDense.wo.weight` -> `blocks.3.ffn.fc2.weight`
const WAN_AUTHORS: BlockList = BLOCKS.named(
    "blocks",
    &[names! {
        "layer.0.layer_norm" => "norm1",
        "layer.1.layer_norm" => "norm2",
        "layer.0.SelfAttention.relative_attention_bias" => "pos_embedding.embedding",
        "layer.0.SelfAttention" => "attn",
        "layer.1.DenseReluDense.wi_0" => "ffn.gate.0",
        "layer.1.DenseReluDense.wi_1" => "ffn.fc1",
        "layer.1.DenseReluDense.wo" => "ffn.fc2",
    }],
);
const WAN_AUTHORS_OUTER: &[NamePair] = names! {
    "shared" => "token_embedding",
    "encoder.embed_tokens" => "token_embedding",
    "encoder.final_layer_norm" => "norm",
};

/// `encoder.block.3.layer.1.DenseReluDense.wo.weight` -> `enc.blk.3.ffn_down.weight`
const LLAMA_CPP: BlockList = BLOCKS.named(
    "enc.blk",
    &[names! {
        "layer.0.layer_norm" => "attn_norm",
        "layer.1.layer_norm" => "ffn_norm",
        "layer.0.SelfAttention.relative_attention_bias" => "attn_rel_b",
        "layer.0.SelfAttention.q" => "attn_q",
        "layer.0.SelfAttention.k" => "attn_k",
        "layer.0.SelfAttention.v" => "attn_v",
        "layer.0.SelfAttention.o" => "attn_o",
        "layer.1.DenseReluDense.wi_0" => "ffn_gate",
        "layer.1.DenseReluDense.wi_1" => "ffn_up",
        "layer.1.DenseReluDense.wo" => "ffn_down",
    }],
);
const LLAMA_CPP_OUTER: &[NamePair] = names! {
    "shared" => "token_embd",
    "encoder.embed_tokens" => "token_embd",
    "encoder.final_layer_norm" => "enc.output_norm",
};

const BLOCKS: BlockList = BlockList::shared("encoder.block");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_and_translated() {
        for (mark, names) in [
            (
                "blocks.0.pos_embedding.embedding.weight",
                "shared.weight -> token_embedding.weight
                 encoder.final_layer_norm.weight -> norm.weight
                 encoder.block.23.layer.0.SelfAttention.q.weight -> blocks.23.attn.q.weight
                 encoder.block.0.layer.1.layer_norm.weight -> blocks.0.norm2.weight
                 encoder.block.7.layer.1.DenseReluDense.wi_0.weight -> blocks.7.ffn.gate.0.weight",
            ),
            (
                "enc.blk.0.attn_rel_b.weight",
                "encoder.embed_tokens.weight -> token_embd.weight
                 encoder.final_layer_norm.weight -> enc.output_norm.weight
                 encoder.block.23.layer.0.SelfAttention.o.weight -> enc.blk.23.attn_o.weight
                 encoder.block.0.layer.0.layer_norm.weight -> enc.blk.0.attn_norm.weight
                 encoder.block.7.layer.1.DenseReluDense.wi_1.weight -> enc.blk.7.ffn_up.weight",
            ),
        ] {
            for prefix in ["", "text_encoders.umt5xxl.transformer."] {
                let mark = format!("{prefix}{mark}");
                let keys = T5Keys::of(&[mark.as_str()].into_iter()).unwrap();
                for (ours, theirs) in crate::testing::table(names) {
                    assert_eq!(keys.file_key(ours), format!("{prefix}{theirs}"));
                }
            }
        }
        assert_eq!(T5Keys::of(&["shared.weight"].into_iter()), None);
    }

    #[test]
    fn a_second_table_of_positions_makes_it_a_umt5() {
        let second = POSITIONS.replace("block.0", "block.1");
        let kind = |keys: &[&str]| T5Keys::of(&keys.iter().copied()).map(|keys| keys.kind);
        assert_eq!(kind(&[POSITIONS]), Some(T5Kind::T5));
        assert_eq!(kind(&[POSITIONS, &second]), Some(T5Kind::Umt5));
        assert_eq!(kind(&[&second]), None);
    }
}
