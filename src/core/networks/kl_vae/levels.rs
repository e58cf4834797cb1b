//! The tensors of the levels that the autoencoders of images and of HunyuanVideo are both built of.
//!
//! A video's autoencoder has cubes in the place of squares, and a `conv` within the name of each causal convolution.

use super::config::{KlConfig, KlKind, NORM_MEAN, NORM_VARIANCE};
use super::keys::KlVaeKeys;
use crate::networks::prelude::*;
use crate::networks::vae::VaeHalf;

/// More than any autoencoder has.
pub(super) const MAX_LEVELS: usize = 8;
/// Names of attention, whose convolutions of one pixel are matrices in some files.
const ATTENTION: [&str; 2] = [".attn_1.", ".attentions.0."];

impl<K: KlKind> KlConfig<K> {
    pub fn schema(&self, half: VaeHalf, keys: &KlVaeKeys) -> Vec<TensorSpec> {
        let own = self.of_half(half);
        let mut table = KlVaeTable {
            schema: Schema::default(),
            is_video: K::IS_VIDEO,
        };
        match half {
            VaeHalf::Encoder => own.encoder(&mut table),
            VaeHalf::Decoder => own.decoder(&mut table),
        }
        let keys = keys.of_levels(self.block_out_channels.len());
        table.schema.renamed(|name| keys.file_key(name))
    }

    fn encoder(&self, table: &mut KlVaeTable) {
        let (narrow, wide) = (self.narrowest(), self.widest());
        let moments = 2 * self.latent_channels;
        table.conv("encoder.conv_in", [3, narrow], 3);
        let mut input = narrow;
        for (level, &width) in self.block_out_channels.iter().enumerate() {
            for block in 0..self.layers_per_block {
                table.residual(
                    &format!("encoder.down.{level}.block.{block}"),
                    [input, width],
                );
                input = width;
            }
            if level + 1 < self.block_out_channels.len() {
                table.conv(
                    &format!("encoder.down.{level}.downsample.conv"),
                    [width; 2],
                    3,
                );
            }
        }
        table.middle("encoder", wide, self.mid_block_add_attention);
        table.schema.norm("encoder.norm_out", wide);
        table.conv("encoder.conv_out", [wide, moments], 3);
        if K::IS_VIDEO || self.use_quant_conv {
            table.plain_conv("quant_conv", [moments; 2], 1);
        }
    }

    fn decoder(&self, table: &mut KlVaeTable) {
        let (narrow, wide) = (self.narrowest(), self.widest());
        if self.is_normed() {
            // The encoder reads them too.
            table.schema.in_f32(|schema| {
                schema.vector(NORM_MEAN, self.num_statistics());
                schema.vector(NORM_VARIANCE, self.num_statistics());
            });
        }
        if K::IS_VIDEO || self.use_post_quant_conv {
            table.plain_conv("post_quant_conv", [self.latent_channels; 2], 1);
        }
        table.conv("decoder.conv_in", [self.latent_channels, wide], 3);
        table.middle("decoder", wide, self.mid_block_add_attention);
        let mut input = wide;
        for (level, &width) in self.block_out_channels.iter().enumerate().rev() {
            for block in 0..=self.layers_per_block {
                table.residual(&format!("decoder.up.{level}.block.{block}"), [input, width]);
                input = width;
            }
            if level > 0 {
                table.upsample(&format!("decoder.up.{level}.upsample.conv"), width);
            }
        }
        table.schema.norm("decoder.norm_out", narrow);
        table.conv("decoder.conv_out", [narrow, 3], 3);
    }
}

/// Tensors in the image authors' names, as a list that grows. Widths are those in and out.
struct KlVaeTable {
    schema: Schema,
    is_video: bool,
}

impl KlVaeTable {
    /// A convolution that sees no time, or all of it alike.
    fn plain_conv(&mut self, name: &str, [input, output]: [i64; 2], edge: i64) {
        let axes = if self.is_video { 5 } else { 4 };
        self.schema
            .conv(name, &[output, input, edge, edge, edge][..axes]);
    }

    fn conv(&mut self, name: &str, widths: [i64; 2], edge: i64) {
        if self.is_video {
            self.plain_conv(&format!("{name}.conv"), widths, edge);
        } else {
            self.plain_conv(name, widths, edge);
        }
    }

    /// The convolution after a doubling of edges. For images the two are one step.
    fn upsample(&mut self, name: &str, width: i64) {
        if self.is_video {
            self.conv(name, [width; 2], 3);
        } else {
            self.schema.doubling(name, &[width, width, 3, 3]);
        }
    }

    fn residual(&mut self, name: &str, [input, output]: [i64; 2]) {
        self.schema.norm(&format!("{name}.norm1"), input);
        self.conv(&format!("{name}.conv1"), [input, output], 3);
        self.schema.norm(&format!("{name}.norm2"), output);
        self.conv(&format!("{name}.conv2"), [output; 2], 3);
        if input != output {
            self.conv(&format!("{name}.nin_shortcut"), [input, output], 1);
        }
    }

    fn middle(&mut self, half: &str, width: i64, has_attention: bool) {
        self.residual(&format!("{half}.mid.block_1"), [width; 2]);
        if has_attention {
            self.schema.norm(&format!("{half}.mid.attn_1.norm"), width);
            for part in ["q", "k", "v", "proj_out"] {
                self.plain_conv(&format!("{half}.mid.attn_1.{part}"), [width; 2], 1);
            }
        }
        self.residual(&format!("{half}.mid.block_2"), [width; 2]);
    }
}

/// Checks that the tensors are there, and that there are no more than `levels` levels.
pub(super) fn check_tensors(
    weights: &WeightSet,
    keys: &KlVaeKeys,
    levels: usize,
    tensors: &[TensorSpec],
) -> Result<(), CatalogError> {
    for TensorSpec { name, shape, .. } in tensors {
        let found = weights.tensors.get(name);
        let is_matrix = shape.len() > 2
            && found.is_some_and(|entry| entry.shape.len() == 2)
            && ATTENTION.iter().any(|part| name.contains(part));
        weights.expect(name, if is_matrix { &shape[..2] } else { shape })?;
    }
    if keys.levels > levels {
        return Err(CatalogError::config(
            format!(
                "expected {levels} levels by the config, found {}",
                keys.levels
            ),
            weights.files.first().cloned().unwrap_or_default(),
        ));
    }
    Ok(())
}
