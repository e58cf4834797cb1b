//! The part of Qwen 2.5 VL that looks at images: its numbers, and all of its tensors with their shapes.
//!
//! It is in the file of the language network, with a separate prefix. Names are those of `transformers`.

use crate::networks::prelude::*;

/// A tensor that no other network has.
const MARK: &str = "merger.ln_q.weight";
const USUAL_PREFIX: &str = "visual.";
/// Width of one head of the published one; no header says it.
const HEAD_DIM: i64 = 80;

network_config! {
    /// `vision_config` of `text_encoder/config.json`; what it leaves out is as published.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct QwenVisionConfig {
        pub model_type: String = "qwen2_5_vl".to_owned(),
        pub depth: i64 = 32 => count("blocks.{}.norm1.weight"),
        pub hidden_size: i64 = 1280 => dim("blocks.0.mlp.gate_proj.weight", 1),
        pub intermediate_size: i64 = 3420 => dim("blocks.0.mlp.gate_proj.weight", 0),
        pub num_heads: i64 = 16 => size(),
        /// Width of the language network that reads what it gives.
        pub out_hidden_size: i64 = 3584 => dim("merger.mlp.2.weight", 0),
        /// Pixels along an edge of a patch, and frames of one.
        pub patch_size: i64 = 14 => size(),
        pub temporal_patch_size: i64 = 2 => size(),
        /// Patches along an edge of what becomes one token.
        pub spatial_merge_size: i64 = 2 => size(),
        /// Pixels along an edge of a window, beyond which most blocks do not look.
        pub window_size: i64 = 112 => size(),
        /// The blocks that look at the whole image.
        pub fullatt_block_indexes: Vec<i64> = vec![7, 15, 23, 31],
    }
}

impl NetworkConfig for QwenVisionConfig {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| name.starts_with("qwen2_5_vl"))
    }

    /// Heads and windows, which shapes do not show, are as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix(weights)
            .ok_or_else(|| not_a("Qwen 2.5 VL with the part that looks at images", weights))?;
        let file_key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &file_key);
        let patch = header.sizes::<5>("patch_embed.proj.weight")?;
        let found = Self::of_declared(&header)?;
        Ok(Self {
            num_heads: heads(found.hidden_size, HEAD_DIM)?,
            patch_size: patch[3],
            temporal_patch_size: patch[2],
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let (width, heads, token) = (self.hidden_size, self.num_heads, self.token_pixels());
        ensure!(
            width % (4 * heads) == 0,
            "expected num_heads whose width of {width} is four times a number each, found {heads}"
        );
        ensure!(
            self.window_size % token == 0,
            "expected a window_size that is a multiple of {token}, found {}",
            self.window_size
        );
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let prefix = prefix(weights).unwrap_or(USUAL_PREFIX);
        self.schema().renamed(|name| format!("{prefix}{name}"))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = prefix(weights).unwrap_or(USUAL_PREFIX);
        let next = format!("{prefix}blocks.{}.norm1.weight", self.depth);
        weights.no_more_layers(&next, self.depth)
    }
}

/// Prefix of its names; `None` in files without it, as language networks alone are.
fn prefix(weights: &WeightSet) -> Option<&str> {
    prefix_of(weights.names())
}

/// Prefix of its names in a file with these keys.
pub fn prefix_of<'a>(keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    prefix_before(keys, &[MARK])
}

impl QwenVisionConfig {
    pub fn head_dim(&self) -> i64 {
        self.hidden_size / self.num_heads
    }

    /// Pixels along an edge of what becomes one token.
    pub fn token_pixels(&self) -> i64 {
        self.patch_size * self.spatial_merge_size
    }

    /// Numbers of a patch: colours of a few frames.
    pub fn patch_numbers(&self) -> i64 {
        3 * self.temporal_patch_size * self.patch_size * self.patch_size
    }

    /// Patches of one token.
    pub fn merged(&self) -> i64 {
        self.spatial_merge_size * self.spatial_merge_size
    }

    /// Returns true if a file has it.
    pub(crate) fn is_in(weights: &WeightSet) -> bool {
        prefix(weights).is_some()
    }

    fn schema(&self) -> Schema {
        let (dim, wide, patch) = (self.hidden_size, self.intermediate_size, self.patch_size);
        let merged = dim * self.merged();
        let mut schema = Schema::default();
        let kernel = [dim, 3, self.temporal_patch_size, patch, patch];
        schema.add("patch_embed.proj.weight", &kernel, TensorRole::Fixed);
        schema.blocks("blocks", self.depth, |schema| {
            schema.vector("norm1.weight", dim);
            schema.vector("norm2.weight", dim);
            schema.linear("attn.qkv", 3 * dim, dim);
            schema.linear("attn.proj", dim, dim);
            schema.linear("mlp.gate_proj", wide, dim);
            schema.linear("mlp.up_proj", wide, dim);
            schema.linear("mlp.down_proj", dim, wide);
        });
        schema.vector(MARK, dim);
        schema.linear("merger.mlp.0", merged, merged);
        schema.linear("merger.mlp.2", self.out_hidden_size, merged);
        schema
    }
}
