//! SDXL's U-Net: config, tensor names of the authors and of diffusers, and schema.
//!
//! Three levels of two residual blocks each, transformers on the lower two and in the middle. Readers ask with diffusers'
//! names. Inpainting models read 9 channels: latents, mask, and latents of the masked image.

use crate::networks::prelude::*;

/// Width of one attention head in every published file.
const HEAD_DIM: i64 = 64;
/// Residual blocks of a level on the way down; there is one more on the way up.
pub const LEVEL_BLOCKS: i64 = 2;
const LEVELS: usize = 3;
/// The level of the middle.
const LAST: usize = LEVELS - 1;
/// Sizes that condition the model: height and width of the original, top and left of the crop, height and width of the
/// target.
pub const NUM_SIZES: i64 = 6;
/// Channels of the latents.
const LATENTS: i64 = 4;
/// Input channels of models that inpaint.
pub const INPAINT_CHANNELS: i64 = 9;

const CONV_IN: &str = "conv_in.weight";
pub(super) const ADDED: &str = "add_embedding.linear_1.weight";
const CONTEXT: &str = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight";

network_config! {
    /// `unet/config.json`; what it leaves out is as in SDXL base.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct SdxlUnetConfig {
        pub in_channels: i64 = LATENTS => size(),
        pub out_channels: i64 = LATENTS => only(),
        /// Width of each level, from latents down.
        pub block_out_channels: Vec<i64> = vec![320, 640, 1280],
        pub layers_per_block: i64 = LEVEL_BLOCKS => only(),
        /// Blocks of each transformer of a level. The first level has none, whatever its number; the middle has as
        /// many as the last.
        pub transformer_layers_per_block: Vec<i64> = vec![1, 2, 10],
        /// Attention heads of each level, in spite of diffusers' name.
        pub attention_head_dim: Vec<i64> = vec![5, 10, 20],
        /// Width of the text's embeddings.
        pub cross_attention_dim: i64 = 2048 => dim(CONTEXT, 1),
        pub addition_embed_type: String = "text_time".to_owned() => only(),
        /// Width of the sinusoids of one size.
        pub addition_time_embed_dim: i64 = 256 => size(),
        /// Width of all sizes' sinusoids and the pooled text.
        pub projection_class_embeddings_input_dim: i64 = 2816 => dim(ADDED, 1),
        pub use_linear_projection: bool = true => only(),
        pub norm_num_groups: i64 = 32 => size(),
        pub norm_eps: f64 = 1e-5 => epsilon(),
        pub act_fn: String = "silu".to_owned() => only(),
        pub flip_sin_to_cos: bool = true => only(),
        pub freq_shift: i64 = 0 => only(),
        pub down_block_types: Vec<String> =
            ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"].map(str::to_owned).to_vec(),
        pub mid_block_type: Option<String> = Some("UNetMidBlock2DCrossAttn".to_owned()) => only(),
        pub up_block_types: Vec<String> =
            ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"].map(str::to_owned).to_vec(),
        pub reverse_transformer_layers_per_block: Option<Value> = None => only(),
        pub encoder_hid_dim: Option<i64> = None => only(),
        pub class_embed_type: Option<String> = None => only(),
        pub time_cond_proj_dim: Option<i64> = None => only(),
    }
}

impl TransformerConfig for SdxlUnetConfig {
    const LABEL: &'static str = "SDXL U-Net";
    const CLASSES: &'static [&'static str] = &["UNet2DConditionModel"];
    // Empty tensors that tell of v-prediction and zero terminal SNR.
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&["v_pred", "ztsnr"]);
    // Two marks are enough for a file that lacks one.
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect {
            is_diffusers: true,
            ..TensorDialect::own(
                &[two_of(&[ADDED, "add_embedding.linear_2.weight", CONTEXT])],
                &[],
            )
        },
        TensorDialect {
            outer: &[AUTHORS_LAYERS],
            patterns: AUTHORS,
            ..TensorDialect::own(
                &[two_of(&[
                    "label_emb.0.0.weight",
                    "label_emb.0.2.weight",
                    "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight",
                ])],
                &[],
            )
        },
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let [_, in_channels, ..] = header.sizes::<4>(CONV_IN)?;
        let width = |level: usize| {
            let name = format!("down_blocks.{level}.resnets.0.conv2.weight");
            Ok(header.sizes::<4>(&name)?[0])
        };
        let widths = (0..LEVELS).map(width).collect::<Result<Vec<_>, String>>()?;
        let depth = |level: usize| {
            let list = format!("down_blocks.{level}.attentions.0.transformer_blocks");
            header.count(&format!("{list}.{{}}.norm1.weight"))
        };
        let heads = widths.iter().map(|width| heads(*width, HEAD_DIM));
        Ok(Self {
            in_channels,
            attention_head_dim: heads.collect::<Result<_, _>>()?,
            block_out_channels: widths,
            transformer_layers_per_block: vec![1, depth(1), depth(2)],
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let depths = &self.transformer_layers_per_block;
        for (name, list) in [
            ("block_out_channels", &self.block_out_channels),
            ("transformer_layers_per_block", depths),
            ("attention_head_dim", &self.attention_head_dim),
        ] {
            ensure!(
                list.len() == LEVELS,
                "expected {LEVELS} {name}, as SDXL base has and its refiner has not, found {}",
                list.len()
            );
            list.iter()
                .try_for_each(|number| check_sizes(&[(name, *number)]))?;
        }
        let own = Self::default();
        check_only(
            "down_block_types",
            &self.down_block_types,
            &own.down_block_types,
        )?;
        check_only("up_block_types", &self.up_block_types, &own.up_block_types)?;
        check_layers(&[
            ("transformer_layers_per_block", depths[1]),
            ("transformer_layers_per_block", depths[2]),
        ])?;
        for (width, heads) in self.block_out_channels.iter().zip(&self.attention_head_dim) {
            let groups = self.norm_num_groups;
            ensure!(
                width % heads == 0 && width % groups == 0 && width % 2 == 0,
                "expected even block_out_channels that attention_head_dim ({heads}) and norm_num_groups ({groups}) divide, found {width}"
            );
        }
        let channels = self.in_channels;
        ensure!(
            channels == LATENTS || channels == INPAINT_CHANNELS,
            "expected {LATENTS} or {INPAINT_CHANNELS} in_channels, found {channels}"
        );
        ensure!(
            self.addition_time_embed_dim % 2 == 0 && self.pooled_width() > 0,
            "expected an even addition_time_embed_dim, {NUM_SIZES} of which leave some of projection_class_embeddings_input_dim to the text, found {} and {}",
            self.addition_time_embed_dim,
            self.projection_class_embeddings_input_dim
        );
        ensure!(
            self.first_text_width() > 0,
            "expected a cross_attention_dim above the width of the pooled text, found {} and {}",
            self.cross_attention_dim,
            self.pooled_width()
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        Vec::new()
    }

    fn add_tensors(&self, schema: &mut Schema) {
        self.add_down(schema);
        let widths = &self.block_out_channels;
        let first = widths[0];
        for (level, &width) in widths.iter().enumerate().rev() {
            let block = format!("up_blocks.{}", LAST - level);
            for number in 0..=LEVEL_BLOCKS {
                let input = self.up_widths(level, number).iter().sum();
                self.add_residual(schema, &format!("{block}.resnets.{number}"), [input, width]);
                self.add_transformer(schema, &format!("{block}.attentions.{number}"), level);
            }
            if level > 0 {
                schema.conv(&format!("{block}.upsamplers.0.conv"), &[width, width, 3, 3]);
            }
        }
        schema.norm("conv_norm_out", first);
        schema.conv("conv_out", &[self.out_channels, first, 3, 3]);
    }
}

impl DenoiserConfig for SdxlUnetConfig {
    fn latent_channels(&self) -> i64 {
        LATENTS
    }

    fn shape(&self) -> TransformerShape {
        let heads = self.attention_head_dim[LAST];
        let layers = (0..LEVELS).map(|level| (2 * LEVEL_BLOCKS + 1) * self.depth(level));
        TransformerShape {
            heads,
            head_dim: self.block_out_channels[LAST] / heads,
            layers: layers.sum::<i64>() + self.depth(LAST),
            channels: self.in_channels,
        }
    }
}

impl SdxlUnetConfig {
    /// Adds everything up to the middle, which ControlNets have too.
    pub(super) fn add_down(&self, schema: &mut Schema) {
        let widths = &self.block_out_channels;
        let first = widths[0];
        for (name, input) in [
            ("time_embedding", first),
            ("add_embedding", self.projection_class_embeddings_input_dim),
        ] {
            let width = self.time_width();
            schema.linear(&format!("{name}.linear_1"), width, input);
            schema.linear(&format!("{name}.linear_2"), width, width);
        }
        schema.conv("conv_in", &[first, self.in_channels, 3, 3]);
        let mut input = first;
        for (level, &width) in widths.iter().enumerate() {
            let block = format!("down_blocks.{level}");
            for number in 0..LEVEL_BLOCKS {
                self.add_residual(schema, &format!("{block}.resnets.{number}"), [input, width]);
                self.add_transformer(schema, &format!("{block}.attentions.{number}"), level);
                input = width;
            }
            if level < LAST {
                schema.conv(
                    &format!("{block}.downsamplers.0.conv"),
                    &[width, width, 3, 3],
                );
            }
        }
        self.add_residual(schema, "mid_block.resnets.0", [input; 2]);
        self.add_transformer(schema, "mid_block.attentions.0", LAST);
        self.add_residual(schema, "mid_block.resnets.1", [input; 2]);
    }

    /// Widths of the skip connections: after the first convolution, each block and each step down.
    pub fn skip_widths(&self) -> Vec<i64> {
        let widths = &self.block_out_channels;
        let level = |level: usize| {
            let count = LEVEL_BLOCKS + i64::from(level < LAST);
            std::iter::repeat_n(widths[level], count as usize)
        };
        let first = std::iter::once(widths[0]);
        first.chain((0..LEVELS).flat_map(level)).collect()
    }

    /// Width of the timestep's embedding.
    pub fn time_width(&self) -> i64 {
        4 * self.block_out_channels[0]
    }

    /// Width of the pooled text, which is that of the second text encoder.
    pub fn pooled_width(&self) -> i64 {
        self.projection_class_embeddings_input_dim - NUM_SIZES * self.addition_time_embed_dim
    }

    /// Width of the first text encoder's states.
    pub fn first_text_width(&self) -> i64 {
        self.cross_attention_dim - self.pooled_width()
    }

    /// Blocks of each transformer of a level; 0 where it has none.
    pub fn depth(&self, level: usize) -> i64 {
        if level == 0 {
            return 0;
        }
        self.transformer_layers_per_block[level]
    }

    /// Widths of the hidden states and of the skip connection that a residual block on the way up reads.
    pub fn up_widths(&self, level: usize, number: i64) -> [i64; 2] {
        let widths = &self.block_out_channels;
        let below = widths[(level + 1).min(LAST)];
        let above = widths[level.saturating_sub(1)];
        [
            if number == 0 { below } else { widths[level] },
            if number == LEVEL_BLOCKS {
                above
            } else {
                widths[level]
            },
        ]
    }

    fn add_residual(&self, schema: &mut Schema, name: &str, [input, output]: [i64; 2]) {
        schema.norm(&format!("{name}.norm1"), input);
        schema.conv(&format!("{name}.conv1"), &[output, input, 3, 3]);
        schema.linear(&format!("{name}.time_emb_proj"), output, self.time_width());
        schema.norm(&format!("{name}.norm2"), output);
        schema.conv(&format!("{name}.conv2"), &[output, output, 3, 3]);
        if input != output {
            schema.conv(&format!("{name}.conv_shortcut"), &[output, input, 1, 1]);
        }
    }

    /// Adds a transformer of a level that has any.
    fn add_transformer(&self, schema: &mut Schema, name: &str, level: usize) {
        if self.depth(level) == 0 {
            return;
        }
        let width = self.block_out_channels[level];
        schema.norm(&format!("{name}.norm"), width);
        schema.linear(&format!("{name}.proj_in"), width, width);
        let list = format!("{name}.transformer_blocks");
        schema.blocks(&list, self.depth(level), |schema| {
            for (attention, context) in [("attn1", width), ("attn2", self.cross_attention_dim)] {
                schema.matrix(&format!("{attention}.to_q"), width, width);
                schema.matrix(&format!("{attention}.to_k"), width, context);
                schema.matrix(&format!("{attention}.to_v"), width, context);
                schema.linear(&format!("{attention}.to_out.0"), width, width);
            }
            schema.linear("ff.net.0.proj", 8 * width, width);
            schema.linear("ff.net.2", width, 4 * width);
            schema.in_f32(|schema| {
                for norm in ["norm1", "norm2", "norm3"] {
                    schema.norm(norm, width);
                }
            });
        });
        schema.linear(&format!("{name}.proj_out"), width, width);
    }
}

/// The authors' names of blocks.
const AUTHORS: &[NamePair] = names! {
    "time_embedding.linear_1" => "time_embed.0",
    "time_embedding.linear_2" => "time_embed.2",
    "add_embedding.linear_1" => "label_emb.0.0",
    "add_embedding.linear_2" => "label_emb.0.2",
    "conv_in" => "input_blocks.0.0",
    "down_blocks.0.resnets.0" => "input_blocks.1.0",
    "down_blocks.0.resnets.1" => "input_blocks.2.0",
    "down_blocks.0.downsamplers.0.conv" => "input_blocks.3.0.op",
    "down_blocks.1.resnets.0" => "input_blocks.4.0",
    "down_blocks.1.attentions.0" => "input_blocks.4.1",
    "down_blocks.1.resnets.1" => "input_blocks.5.0",
    "down_blocks.1.attentions.1" => "input_blocks.5.1",
    "down_blocks.1.downsamplers.0.conv" => "input_blocks.6.0.op",
    "down_blocks.2.resnets.0" => "input_blocks.7.0",
    "down_blocks.2.attentions.0" => "input_blocks.7.1",
    "down_blocks.2.resnets.1" => "input_blocks.8.0",
    "down_blocks.2.attentions.1" => "input_blocks.8.1",
    "mid_block.resnets.0" => "middle_block.0",
    "mid_block.attentions.0" => "middle_block.1",
    "mid_block.resnets.1" => "middle_block.2",
    "up_blocks.0.resnets.0" => "output_blocks.0.0",
    "up_blocks.0.attentions.0" => "output_blocks.0.1",
    "up_blocks.0.resnets.1" => "output_blocks.1.0",
    "up_blocks.0.attentions.1" => "output_blocks.1.1",
    "up_blocks.0.resnets.2" => "output_blocks.2.0",
    "up_blocks.0.attentions.2" => "output_blocks.2.1",
    "up_blocks.0.upsamplers.0.conv" => "output_blocks.2.2.conv",
    "up_blocks.1.resnets.0" => "output_blocks.3.0",
    "up_blocks.1.attentions.0" => "output_blocks.3.1",
    "up_blocks.1.resnets.1" => "output_blocks.4.0",
    "up_blocks.1.attentions.1" => "output_blocks.4.1",
    "up_blocks.1.resnets.2" => "output_blocks.5.0",
    "up_blocks.1.attentions.2" => "output_blocks.5.1",
    "up_blocks.1.upsamplers.0.conv" => "output_blocks.5.2.conv",
    "up_blocks.2.resnets.0" => "output_blocks.6.0",
    "up_blocks.2.resnets.1" => "output_blocks.7.0",
    "up_blocks.2.resnets.2" => "output_blocks.8.0",
    "conv_norm_out" => "out.0",
    "conv_out" => "out.2",
};

/// The authors' names within a residual block.
const AUTHORS_LAYERS: &[NamePair] = names! {
    "norm1" => "in_layers.0",
    "conv1" => "in_layers.2",
    "time_emb_proj" => "emb_layers.1",
    "norm2" => "out_layers.0",
    "conv2" => "out_layers.3",
    "conv_shortcut" => "skip_connection",
};
