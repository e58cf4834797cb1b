//! ControlNets of SDXL: the U-Net down to its middle with layers for the pixels of a control image, and a layer after each
//! block whose result is added to the U-Net's skip connection. Unions know several types of control images.
//!
//! Files have diffusers' names, those of xinsir's unions included.

use super::SdxlUnetConfig;
use super::sdxl_unet::ADDED;
use crate::networks::prelude::*;

/// Layers from the pixels of a control image to latents.
pub const IMAGE: &str = "controlnet_cond_embedding";
/// Rows of a union, one for each type of control image.
pub const TYPES: &str = "task_embedding";
/// Layers of a union that change the control image by its type; the misspelling is diffusers'.
pub const TYPE_BLOCKS: &str = "transformer_layes";
/// Channels of a control image.
pub const PIXELS: i64 = 3;
const IMAGE_IN: &str = "controlnet_cond_embedding.conv_in.weight";

/// `config.json`; what it leaves out is as in SDXL base, and as in diffusers' `ControlNetModel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SdxlControlConfig {
    #[serde(flatten)]
    pub blocks: SdxlUnetConfig,
    /// Widths of the layers from pixels to latents; the edges are halved from each to the next.
    pub conditioning_embedding_out_channels: Vec<i64>,
    pub conditioning_channels: i64,
    pub controlnet_conditioning_channel_order: String,
    pub global_pool_conditions: bool,
    /// Types of control images; of unions alone.
    pub num_control_type: Option<i64>,
    /// Of unions.
    pub num_trans_layer: i64,
}

impl Default for SdxlControlConfig {
    fn default() -> Self {
        Self {
            blocks: SdxlUnetConfig::default(),
            conditioning_embedding_out_channels: vec![16, 32, 96, 256],
            conditioning_channels: PIXELS,
            controlnet_conditioning_channel_order: "rgb".to_owned(),
            global_pool_conditions: false,
            num_control_type: None,
            num_trans_layer: 1,
        }
    }
}

impl DeclaredConfig for SdxlControlConfig {
    fn of_declared(header: &NamedShapes<'_>) -> Result<Self, String> {
        Ok(Self {
            blocks: SdxlUnetConfig::of_declared(header)?,
            ..Self::default()
        })
    }

    fn check_declared(&self) -> Result<(), String> {
        self.blocks.check_declared()
    }
}

impl TransformerConfig for SdxlControlConfig {
    const LABEL: &'static str = "SDXL ControlNet";
    const CLASSES: &'static [&'static str] = &[
        "ControlNetModel",
        "ControlNetUnionModel",
        "ControlNetModel_Union",
    ];
    const PREFIXES: &'static [&'static str] = &[""];
    const DIALECTS: &'static [TensorDialect] = &[TensorDialect {
        is_diffusers: true,
        ..TensorDialect::own(
            &[
                any_of(&[IMAGE_IN, "controlnet_mid_block.weight"]),
                any_of(&[ADDED, "add_embedding.linear_2.weight"]),
            ],
            &[],
        )
    }];

    fn completed(self, header: &NamedShapes<'_>, authors: Option<&Value>) -> Result<Self, String> {
        let [first, channels, ..] = header.sizes::<4>(IMAGE_IN)?;
        let mut widths = vec![first];
        let count = header.count(&format!("{IMAGE}.blocks.{{}}.weight")) / 2;
        for i in 0..count {
            let name = format!("{IMAGE}.blocks.{}.weight", 2 * i + 1);
            widths.push(header.sizes::<4>(&name)?[0]);
        }
        let whole = Self {
            blocks: self.blocks.completed(header, authors)?,
            conditioning_embedding_out_channels: widths,
            conditioning_channels: channels,
            ..self
        };
        if !header.has(TYPES) {
            return Ok(whole);
        }
        Ok(Self {
            num_control_type: Some(header.dim(TYPES, 0)?),
            num_trans_layer: header.count(&format!("{TYPE_BLOCKS}.{{}}.ln_1.weight")),
            ..whole
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        self.blocks.check_numbers()?;
        let own = Self::default();
        check_only(
            "conditioning_channels",
            &self.conditioning_channels,
            &own.conditioning_channels,
        )?;
        check_only(
            "controlnet_conditioning_channel_order",
            &self.controlnet_conditioning_channel_order,
            &own.controlnet_conditioning_channel_order,
        )?;
        check_only(
            "global_pool_conditions",
            &self.global_pool_conditions,
            &own.global_pool_conditions,
        )?;
        check_only(
            "in_channels",
            &self.blocks.in_channels,
            &own.blocks.in_channels,
        )?;
        let widths = &self.conditioning_embedding_out_channels;
        ensure!(
            widths.len() == own.conditioning_embedding_out_channels.len(),
            "expected {} conditioning_embedding_out_channels, which make a latent of 8 by 8 pixels, found {}",
            own.conditioning_embedding_out_channels.len(),
            widths.len()
        );
        for width in widths {
            check_sizes(&[("conditioning_embedding_out_channels", *width)])?;
        }
        if let Some(types) = self.num_control_type {
            check_sizes(&[("num_control_type", types)])?;
            check_layers(&[("num_trans_layer", self.num_trans_layer)])?;
        }
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        Vec::new()
    }

    fn add_tensors(&self, schema: &mut Schema) {
        self.blocks.add_down(schema);
        let width = self.blocks.block_out_channels[0];
        let widths = &self.conditioning_embedding_out_channels;
        let [first, .., last] = widths[..] else {
            return;
        };
        schema.conv(
            &format!("{IMAGE}.conv_in"),
            &[first, self.conditioning_channels, 3, 3],
        );
        for (i, pair) in widths.windows(2).enumerate() {
            let block = |i: usize| format!("{IMAGE}.blocks.{i}");
            schema.conv(&block(2 * i), &[pair[0], pair[0], 3, 3]);
            schema.conv(&block(2 * i + 1), &[pair[1], pair[0], 3, 3]);
        }
        schema.conv(&format!("{IMAGE}.conv_out"), &[width, last, 3, 3]);
        for (i, width) in self.blocks.skip_widths().into_iter().enumerate() {
            schema.conv(
                &format!("controlnet_down_blocks.{i}"),
                &[width, width, 1, 1],
            );
        }
        let middle = self
            .blocks
            .block_out_channels
            .last()
            .copied()
            .unwrap_or(width);
        schema.conv("controlnet_mid_block", &[middle, middle, 1, 1]);
        let Some(types) = self.num_control_type else {
            return;
        };
        let time = self.blocks.time_width();
        schema.linear("control_add_embedding.linear_1", time, self.type_width());
        schema.linear("control_add_embedding.linear_2", time, time);
        schema.add(TYPES, &[types, width], TensorRole::Fixed);
        schema.linear("spatial_ch_projs", width, width);
        schema.blocks(TYPE_BLOCKS, self.num_trans_layer, |schema| {
            schema.add(
                "attn.in_proj_weight",
                &[3 * width, width],
                TensorRole::Fixed,
            );
            schema.vector("attn.in_proj_bias", 3 * width);
            schema.linear("attn.out_proj", width, width);
            schema.linear("mlp.c_fc", 4 * width, width);
            schema.linear("mlp.c_proj", width, 4 * width);
            schema.in_f32(|schema| {
                schema.norm("ln_1", width);
                schema.norm("ln_2", width);
            });
        });
    }
}

impl SdxlControlConfig {
    /// Width of the sinusoids of all types.
    pub fn type_width(&self) -> i64 {
        self.num_control_type.unwrap_or(0) * self.blocks.addition_time_embed_dim
    }
}
