//! The part of Qwen 3 VL that looks at images: config, and all of its tensors with their shapes.
//!
//! It is in the file of the language network, with a separate prefix. Names are those of `transformers`.

use crate::networks::prelude::*;

/// A tensor that no other network has.
const MARK: &str = "deepstack_merger_list.0.norm.weight";
const USUAL_PREFIX: &str = "visual.";

network_config! {
    /// `vision_config` of `text_encoder/config.json`; what it leaves out is as published with 8 billion parameters.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Qwen3VisionConfig {
        pub depth: i64 = 27 => count("blocks.{}.norm1.weight"),
        pub hidden_size: i64 = 1152 => width("merger.norm.weight"),
        pub intermediate_size: i64 = 4304 => dim("blocks.0.mlp.linear_fc1.weight", 0),
        pub num_heads: i64 = 16 => size(),
        /// Width of the language network that reads the output.
        pub out_hidden_size: i64 = 4096 => dim("merger.linear_fc2.weight", 0),
        /// Pixels along an edge of a patch, and frames of one.
        pub patch_size: i64 = 16 => size(),
        pub temporal_patch_size: i64 = 2 => size(),
        /// Patches along an edge of one token.
        pub spatial_merge_size: i64 = 2 => size(),
        /// Positions of a square that are learned.
        pub num_position_embeddings: i64 = 2304 => dim("pos_embed.weight", 0),
        /// Blocks whose output is added to the first layers of the language network (DeepStack), in rising order.
        pub deepstack_visual_indexes: Vec<i64> = vec![8, 16, 24],
        pub hidden_act: String = "gelu_pytorch_tanh".to_owned() => only(),
    }
}

impl NetworkConfig for Qwen3VisionConfig {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| name.starts_with("qwen3_vl"))
    }

    /// Heads and the blocks of DeepStack, which shapes do not show, are as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix(weights)
            .ok_or_else(|| not_a("Qwen 3 VL with the part that looks at images", weights))?;
        let file_key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &file_key);
        let patch = header.sizes::<5>("patch_embed.proj.weight")?;
        let found = Self::of_declared(&header)?;
        Ok(Self {
            patch_size: patch[3],
            temporal_patch_size: patch[2],
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let (width, heads, positions) = (
            self.hidden_size,
            self.num_heads,
            self.num_position_embeddings,
        );
        ensure!(
            width % (4 * heads) == 0,
            "expected num_heads whose width of {width} is four times a number each, found {heads}"
        );
        ensure!(
            self.position_edge() * self.position_edge() == positions,
            "expected num_position_embeddings that fill a square, found {positions}"
        );
        let is_block = |index: &i64| (0..self.depth).contains(index);
        ensure!(
            self.deepstack_visual_indexes.iter().all(is_block),
            "expected deepstack_visual_indexes below {}, found {:?}",
            self.depth,
            self.deepstack_visual_indexes
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

/// Prefix of its names; `None` in files without it.
fn prefix(weights: &WeightSet) -> Option<&str> {
    prefix_of(weights.names())
}

/// Prefix of its names in a file with these keys.
pub fn prefix_of<'a>(keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    prefix_before(keys, &[MARK])
}

impl Qwen3VisionConfig {
    pub fn head_dim(&self) -> i64 {
        self.hidden_size / self.num_heads
    }

    /// Patches of one token.
    pub fn merged(&self) -> i64 {
        self.spatial_merge_size * self.spatial_merge_size
    }

    /// Edge of the square of learned positions.
    pub fn position_edge(&self) -> i64 {
        self.num_position_embeddings.isqrt()
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
        schema.conv("patch_embed.proj", &kernel);
        let positions = [self.num_position_embeddings, dim];
        schema.add("pos_embed.weight", &positions, TensorRole::Fixed);
        schema.blocks("blocks", self.depth, |schema| {
            schema.norm("norm1", dim);
            schema.norm("norm2", dim);
            schema.linear("attn.qkv", 3 * dim, dim);
            schema.linear("attn.proj", dim, dim);
            schema.linear("mlp.linear_fc1", wide, dim);
            schema.linear("mlp.linear_fc2", dim, wide);
        });
        let lists = (0..self.deepstack_visual_indexes.len())
            .map(|index| (format!("deepstack_merger_list.{index}"), merged));
        for (name, width) in lists.chain([("merger".to_owned(), dim)]) {
            schema.norm(&format!("{name}.norm"), width);
            schema.linear(&format!("{name}.linear_fc1"), merged, merged);
            schema.linear(&format!("{name}.linear_fc2"), self.out_hidden_size, merged);
        }
        schema
    }
}
