//! Wan's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! All published variants of Wan 2.1 and 2.2 are configs of it, VACE with its control blocks too; Animate and others
//! with further parts are not. Readers ask with the authors' names.

use crate::networks::prelude::*;

/// Width of one head in every published file.
const HEAD_DIM: i64 = 128;
/// Norm of queries and keys in all of them.
const QK_NORM: &str = "rms_norm_across_heads";

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct WanTransformerConfig {
        /// Latents that make one token: over time, height and width.
        pub patch_size: [i64; 3] = [1, 2, 2],
        pub num_attention_heads: i64 = 40 => size(),
        pub attention_head_dim: i64 = HEAD_DIM => size(),
        pub in_channels: i64 = 16 => size(),
        pub out_channels: i64 = 16 => size(),
        /// Width of the text's embeddings.
        pub text_dim: i64 = 4096 => dim("text_embedding.0.weight", 1),
        /// Width of the sinusoids of timesteps.
        pub freq_dim: i64 = 256 => dim("time_embedding.0.weight", 1),
        /// Width inside the feed-forward layers.
        pub ffn_dim: i64 = 13824 => dim("blocks.0.ffn.0.weight", 0),
        pub num_layers: i64 = 40 => count("blocks.{}.ffn.0.weight"),
        pub cross_attn_norm: bool = true => has("blocks.0.norm3.weight"),
        pub qk_norm: Option<String> = Some(QK_NORM.to_owned()) => only(),
        pub eps: f64 = 1e-6,
        /// Places along each axis.
        pub rope_max_seq_len: i64 = 1024 => size(),
        /// Width of the image encoder's embeddings, in models that read them.
        pub image_dim: Option<i64> = None => size(),
        pub added_kv_proj_dim: Option<i64> = None => size(),
        /// Places of the embeddings of two images together.
        pub pos_embed_seq_len: Option<i64> = None => size(),
        /// Blocks after which the control blocks' outputs are added, one each, in models with a control video (VACE).
        pub vace_layers: Vec<i64> = Vec::new(),
        /// Channels of the control video's latents and its mask together.
        pub vace_in_channels: i64 = 96 => size(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for WanTransformerConfig {
    const LABEL: &'static str = "Wan transformer";
    const CLASSES: &'static [&'static str] =
        &["WanTransformer3DModel", "WanVACETransformer3DModel"];
    const PREFIXES: &'static [&'static str] = &[
        "",
        "model.diffusion_model.",
        "diffusion_model.",
        "model.",
        "transformer.",
    ];
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&[
        "rope",
        "freqs",
        "img_emb",
        "vace_patch_embedding",
        "vace_blocks",
    ]);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::diffusers(
            &[two_of(&[
                "patch_embedding.weight",
                "condition_embedder.time_proj.weight",
            ])],
            &[
                BLOCKS.named("blocks", DIFFUSERS_LAYERS),
                CONTROL_BLOCKS.named("vace_blocks", DIFFUSERS_LAYERS),
            ],
            &[DIFFUSERS_OUTER],
        ),
        TensorDialect::own(
            &[two_of(&[
                "patch_embedding.weight",
                "time_projection.1.weight",
            ])],
            &[BLOCKS, CONTROL_BLOCKS],
        ),
    ];

    /// The authors' own config says how many heads there are.
    fn completed(self, header: &NamedShapes<'_>, authors: Option<&Value>) -> Result<Self, String> {
        let [dim, in_channels, pt, ph, pw] = header.sizes("patch_embedding.weight")?;
        let num_heads = authors.and_then(|config| config.get("num_heads")?.as_i64());
        let heads = heads_of(dim, num_heads)?;
        let head = header.dim("head.head.weight", 0)?;
        let patch = pt.saturating_mul(ph).saturating_mul(pw);
        ensure!(
            head % patch == 0,
            "expected head.head.weight with a multiple of {patch} rows, found {head}"
        );
        let num_control = header.count("vace_blocks.{}.ffn.0.weight");
        let vace_in_channels = if num_control > 0 {
            header.sizes::<5>("vace_patch_embedding.weight")?[1]
        } else {
            self.vace_in_channels
        };
        let places = header.sizes::<3>("img_emb.emb_pos").ok();
        Ok(Self {
            patch_size: [pt, ph, pw],
            num_attention_heads: heads,
            attention_head_dim: dim / heads,
            in_channels,
            out_channels: head / patch,
            image_dim: header.width("img_emb.proj.0.weight").ok(),
            added_kv_proj_dim: header.dim("blocks.0.cross_attn.k_img.weight", 1).ok(),
            pos_embed_seq_len: places.map(|sizes| sizes[1]),
            vace_layers: control_layers(self.num_layers, num_control, authors),
            vace_in_channels,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        self.check_control()?;
        ensure!(
            self.patch_size.iter().all(|n| (1..=64).contains(n)),
            "expected a patch_size of three numbers between 1 and 64, found {:?}",
            self.patch_size
        );
        ensure!(
            self.freq_dim >= 2,
            "expected a freq_dim of at least 2, found {}",
            self.freq_dim
        );
        ensure!(
            self.attention_head_dim % 2 == 0 && self.attention_head_dim >= 6,
            "expected an even attention_head_dim of at least 6, for three axes of positions, found {}",
            self.attention_head_dim
        );
        self.check_images()
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers, self.vace_layers.len() as i64]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let dim = self.dim();
        let [pt, ph, pw] = self.patch_size;
        schema.conv("patch_embedding", &[dim, self.in_channels, pt, ph, pw]);
        schema.in_f32(|schema| {
            schema.linear("time_embedding.0", dim, self.freq_dim);
            schema.linear("time_embedding.2", dim, dim);
        });
        schema.linear("time_projection.1", 6 * dim, dim);
        schema.linear("text_embedding.0", dim, self.text_dim);
        schema.linear("text_embedding.2", dim, dim);
        if let Some(image_dim) = self.image_dim {
            schema.in_f32(|schema| {
                schema.norm("img_emb.proj.0", image_dim);
                schema.norm("img_emb.proj.4", dim);
            });
            schema.linear("img_emb.proj.1", image_dim, image_dim);
            schema.linear("img_emb.proj.3", dim, image_dim);
            if let Some(places) = self.pos_embed_seq_len {
                schema.add(
                    "img_emb.emb_pos",
                    &[1, places, image_dim],
                    TensorRole::Fixed,
                );
            }
        }
        schema.blocks("blocks", self.num_layers, |schema| add_block(schema, self));
        if self.has_control() {
            let shape = [dim, self.vace_in_channels, pt, ph, pw];
            schema.conv("vace_patch_embedding", &shape);
            schema.linear("vace_blocks.0.before_proj", dim, dim);
        }
        schema.blocks("vace_blocks", self.vace_layers.len() as i64, |schema| {
            add_block(schema, self);
            schema.linear("after_proj", dim, dim);
        });
        schema.in_f32(|schema| schema.add("head.modulation", &[1, 2, dim], TensorRole::Fixed));
        schema.linear("head.head", self.token_numbers(), dim);
    }
}

impl DenoiserConfig for WanTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.out_channels
    }

    fn shape(&self) -> TransformerShape {
        TransformerShape {
            heads: self.num_attention_heads,
            head_dim: self.attention_head_dim,
            layers: self.block_counts().iter().sum(),
            channels: self.in_channels,
        }
    }
}

/// Number of heads, by the authors' config or by their published width.
fn heads_of(dim: i64, num_heads: Option<i64>) -> Result<i64, String> {
    match num_heads {
        Some(heads) if heads > 0 && dim % heads == 0 => Ok(heads),
        Some(heads) => Err(format!(
            "expected a num_heads that divides the width {dim}, found {heads}"
        )),
        None => heads(dim, HEAD_DIM),
    }
}

/// Behind which of `num_layers` blocks the control blocks' words are added: as the authors' config says, else spread
/// evenly, as in all published files.
fn control_layers(num_layers: i64, num_control: i64, authors: Option<&Value>) -> Vec<i64> {
    let said = authors.and_then(|config| {
        let layers = config.get("vace_layers")?.as_array()?;
        layers.iter().map(Value::as_i64).collect::<Option<Vec<_>>>()
    });
    said.filter(|layers| layers.len() as i64 == num_control)
        .unwrap_or_else(|| {
            let stride = num_layers / num_control.max(1);
            (0..num_control).map(|n| n * stride).collect()
        })
}

impl WanTransformerConfig {
    /// The first control block begins where the first block does, and each later one has a later block.
    fn check_control(&self) -> Result<(), String> {
        let layers = &self.vace_layers;
        let is_sound = layers.first().is_none_or(|&first| first == 0)
            && layers.is_sorted_by(|a, b| a < b)
            && layers.last().is_none_or(|&last| last < self.num_layers);
        ensure!(
            is_sound,
            "expected vace_layers to rise from 0 to at most {}, found {layers:?}",
            self.num_layers - 1
        );
        ensure!(
            layers.is_empty() || self.image_dim.is_none(),
            "expected no image_dim beside vace_layers, found one"
        );
        Ok(())
    }

    /// Returns true if it takes a control video.
    pub fn has_control(&self) -> bool {
        !self.vace_layers.is_empty()
    }

    fn check_images(&self) -> Result<(), String> {
        ensure!(
            self.image_dim.is_some() == self.added_kv_proj_dim.is_some(),
            "expected image_dim and added_kv_proj_dim together, found one of them"
        );
        let dim = self.dim();
        let found = self.added_kv_proj_dim.unwrap_or(dim);
        ensure!(
            found == dim,
            "expected an added_kv_proj_dim of {dim}, the width, found {found}"
        );
        let found = self.pos_embed_seq_len.unwrap_or(0);
        ensure!(
            found % 2 == 0,
            "expected an even pos_embed_seq_len, for two images, found {found}"
        );
        Ok(())
    }

    /// Channels of the input images' latents and their mask, next to the noise.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels
    }

    /// Numbers of one token that the model gives back.
    pub fn token_numbers(&self) -> i64 {
        self.out_channels * self.patch_size.iter().product::<i64>()
    }

    /// Rotary dimensions of a head for time, height and width.
    pub fn rope_dims(&self) -> [i64; 3] {
        let plane = 2 * (self.attention_head_dim / 6);
        [self.attention_head_dim - 2 * plane, plane, plane]
    }

    /// Numbers that two transformers with the same tensors share, besides the patch.
    pub fn sizes(&self) -> [(&'static str, i64); 9] {
        [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("width", self.dim()),
            ("num_layers", self.num_layers),
            ("text_dim", self.text_dim),
            ("ffn_dim", self.ffn_dim),
            ("image_dim", self.image_dim.unwrap_or(0)),
            ("number of vace_layers", self.vace_layers.len() as i64),
            ("patch_size in time", self.patch_size[0]),
        ]
    }

    /// Returns true if the tensors of two transformers have the same names and shapes.
    pub fn is_same_shape(&self, other: &Self) -> bool {
        self.sizes() == other.sizes() && self.patch_size == other.patch_size
    }
}

fn add_block(schema: &mut Schema, config: &WanTransformerConfig) {
    let dim = config.dim();
    for attention in ["self_attn", "cross_attn"] {
        for part in ["q", "k", "v", "o"] {
            schema.linear(&format!("{attention}.{part}"), dim, dim);
        }
        for part in ["norm_q", "norm_k"] {
            schema.vector(&format!("{attention}.{part}.weight"), dim);
        }
    }
    if let Some(added) = config.added_kv_proj_dim {
        schema.linear("cross_attn.k_img", dim, added);
        schema.linear("cross_attn.v_img", dim, added);
        schema.vector("cross_attn.norm_k_img.weight", dim);
    }
    schema.linear("ffn.0", config.ffn_dim, dim);
    schema.linear("ffn.2", dim, config.ffn_dim);
    schema.in_f32(|schema| {
        if config.cross_attn_norm {
            schema.norm("norm3", dim);
        }
        schema.add("modulation", &[1, 6, dim], TensorRole::Fixed);
    });
}

pub type TransformerKeys = TensorKeys<WanTransformerConfig>;

const BLOCKS: BlockList = BlockList::shared("blocks");
const CONTROL_BLOCKS: BlockList = BlockList::shared("vace_blocks");

/// diffusers' names within a block of either kind.
const DIFFUSERS_LAYERS: &[&[NamePair]] = &[names! {
    "before_proj" => "proj_in",
    "after_proj" => "proj_out",
    "modulation" => "scale_shift_table",
    "norm3" => "norm2",
    "ffn.0" => "ffn.net.0.proj",
    "ffn.2" => "ffn.net.2",
    "self_attn.q" => "attn1.to_q",
    "self_attn.k" => "attn1.to_k",
    "self_attn.v" => "attn1.to_v",
    "self_attn.o" => "attn1.to_out.0",
    "self_attn" => "attn1",
    "cross_attn.q" => "attn2.to_q",
    "cross_attn.k" => "attn2.to_k",
    "cross_attn.v" => "attn2.to_v",
    "cross_attn.o" => "attn2.to_out.0",
    "cross_attn.k_img" => "attn2.add_k_proj",
    "cross_attn.v_img" => "attn2.add_v_proj",
    "cross_attn.norm_k_img" => "attn2.norm_added_k",
    "cross_attn" => "attn2",
}];
const DIFFUSERS_OUTER: &[NamePair] = names! {
    "text_embedding.0" => "condition_embedder.text_embedder.linear_1",
    "text_embedding.2" => "condition_embedder.text_embedder.linear_2",
    "time_embedding.0" => "condition_embedder.time_embedder.linear_1",
    "time_embedding.2" => "condition_embedder.time_embedder.linear_2",
    "time_projection.1" => "condition_embedder.time_proj",
    "img_emb.proj.0" => "condition_embedder.image_embedder.norm1",
    "img_emb.proj.1" => "condition_embedder.image_embedder.ff.net.0.proj",
    "img_emb.proj.3" => "condition_embedder.image_embedder.ff.net.2",
    "img_emb.proj.4" => "condition_embedder.image_embedder.norm2",
    "img_emb.emb_pos" => "condition_embedder.image_embedder.pos_embed",
    "head.head" => "proj_out",
    "head.modulation" => "scale_shift_table",
};
