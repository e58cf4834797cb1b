//! The levels that the autoencoders of pictures and of HunyuanVideo are both built of: their checks, what a header shows
//! of them, and their tensors.
//!
//! A clip's autoencoder has cubes in the place of squares, and a `conv` within the name of each causal convolution.

use super::keys::KlVaeKeys;
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::networks::header::{count, sizes_of};
use crate::networks::schema::{Schema, TensorSpec};
use crate::networks::vae::{VaeHalf, check_class, check_scale};
use crate::networks::{check_layers, check_sizes};

/// Latent channels of FLUX.1 and of HunyuanVideo. How others are scaled no shape says.
const PUBLISHED_LATENTS: i64 = 16;
/// More than any autoencoder has.
const MAX_LEVELS: usize = 8;
/// How some files have attention, whose convolutions of one pixel are matrices in others.
const ATTENTION: [&str; 2] = [".attn_1.", ".attentions.0."];

/// The numbers that both kinds of configs have.
pub struct Levels<'a> {
    /// From pixels to latents.
    pub widths: &'a [i64],
    /// Residual blocks of a level of the encoder; the decoder has one more.
    pub blocks: i64,
    pub latents: i64,
    pub has_attention: bool,
    pub is_video: bool,
}

/// What else both kinds of configs say.
pub struct Stated<'a> {
    /// Expected and found.
    pub class: [&'a str; 2],
    pub in_channels: i64,
    pub out_channels: i64,
    /// Name of the list, the only type in it, and what is found.
    pub block_types: [(&'a str, &'a str, Option<&'a [String]>); 2],
    pub act_fn: &'a str,
    pub norm_num_groups: i64,
    pub scaling_factor: f64,
}

impl Levels<'_> {
    pub fn check(&self, stated: &Stated<'_>) -> Result<(), String> {
        let [expected, found] = stated.class;
        check_class(expected, found)?;
        let levels = self.widths.len();
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(format!(
                "expected 1 to {MAX_LEVELS} levels in block_out_channels, found {levels}"
            ));
        }
        let colours = [stated.in_channels, stated.out_channels];
        if colours != [3, 3] {
            let [input, output] = colours;
            return Err(format!(
                "expected 3 in_channels and out_channels, found {input} and {output}"
            ));
        }
        for (name, usual, types) in stated.block_types {
            check_types(name, usual, types, levels)?;
        }
        if !["silu", "swish"].contains(&stated.act_fn) {
            return Err(format!("expected the act_fn silu, found {}", stated.act_fn));
        }
        let groups = stated.norm_num_groups;
        check_layers(&[("layers_per_block", self.blocks)])?;
        check_sizes(&[
            ("latent_channels", self.latents),
            ("norm_num_groups", groups),
        ])?;
        for &width in self.widths {
            check_sizes(&[("block_out_channels", width)])?;
            if width % groups != 0 {
                return Err(format!(
                    "expected widths that norm_num_groups ({groups}) divides, found {width}"
                ));
            }
        }
        check_scale("scaling_factor", stated.scaling_factor)
    }

    /// The tensors of one half as a file names them.
    pub fn schema(&self, half: VaeHalf, keys: &KlVaeKeys, has_quant_conv: bool) -> Vec<TensorSpec> {
        let mut table = Table {
            schema: Schema::default(),
            is_video: self.is_video,
        };
        match half {
            VaeHalf::Encoder => self.encoder(&mut table, has_quant_conv),
            VaeHalf::Decoder => self.decoder(&mut table, has_quant_conv),
        }
        let keys = keys.of_levels(self.widths.len());
        table.schema.renamed(|name| keys.file_key(name))
    }

    fn encoder(&self, table: &mut Table, has_quant_conv: bool) {
        let (narrow, wide) = self.ends();
        let moments = 2 * self.latents;
        table.conv("encoder.conv_in", [3, narrow], 3);
        let mut input = narrow;
        for (level, &width) in self.widths.iter().enumerate() {
            for block in 0..self.blocks {
                table.residual(
                    &format!("encoder.down.{level}.block.{block}"),
                    [input, width],
                );
                input = width;
            }
            if level + 1 < self.widths.len() {
                table.conv(
                    &format!("encoder.down.{level}.downsample.conv"),
                    [width; 2],
                    3,
                );
            }
        }
        table.middle("encoder", wide, self.has_attention);
        table.schema.norm("encoder.norm_out", wide);
        table.conv("encoder.conv_out", [wide, moments], 3);
        if has_quant_conv {
            table.plain_conv("quant_conv", [moments; 2], 1);
        }
    }

    fn decoder(&self, table: &mut Table, has_quant_conv: bool) {
        let (narrow, wide) = self.ends();
        if has_quant_conv {
            table.plain_conv("post_quant_conv", [self.latents; 2], 1);
        }
        table.conv("decoder.conv_in", [self.latents, wide], 3);
        table.middle("decoder", wide, self.has_attention);
        let mut input = wide;
        for (level, &width) in self.widths.iter().enumerate().rev() {
            for block in 0..=self.blocks {
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

    /// The widths at the pixels and at the latents.
    fn ends(&self) -> (i64, i64) {
        (self.widths[0], self.widths[self.widths.len() - 1])
    }
}

fn check_types(
    name: &str,
    usual: &str,
    types: Option<&[String]>,
    levels: usize,
) -> Result<(), String> {
    let Some(types) = types else {
        return Ok(());
    };
    if let Some(other) = types.iter().find(|other| *other != usual) {
        return Err(format!("expected {name} of {usual} alone, found {other}"));
    }
    if types.len() != levels {
        return Err(format!(
            "expected {levels} {name}, as many as block_out_channels, found {}",
            types.len()
        ));
    }
    Ok(())
}

/// Tensors in the picture authors' names, as a list that grows. Widths are those in and out.
struct Table {
    schema: Schema,
    is_video: bool,
}

impl Table {
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

    /// The convolution behind a doubling of edges. In pictures the two are one step.
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

/// What names and shapes show.
pub struct Shown {
    pub widths: Vec<i64>,
    pub blocks: i64,
    pub latents: i64,
    pub has_attention: bool,
}

impl Shown {
    /// Either half is enough.
    pub fn by(weights: &WeightSet, keys: &KlVaeKeys, is_video: bool) -> Result<Self, String> {
        let (inner, rank) = if is_video { (".conv", 5) } else { ("", 4) };
        let conv = |name: &str| keys.file_key(&format!("{name}{inner}.weight"));
        let shape = |name: &str| sizes_of(weights, &conv(name), rank);
        let has_encoder = weights.has(&conv("encoder.conv_in"));
        let list = if has_encoder {
            "encoder.down"
        } else {
            "decoder.up"
        };
        // One more than is sound, so that it is refused.
        let widths = (0..keys.levels.min(MAX_LEVELS + 1))
            .map(|level| Ok(shape(&format!("{list}.{level}.block.0.conv1"))?[0]))
            .collect::<Result<Vec<i64>, String>>()?;
        let latents = if has_encoder {
            shape("encoder.conv_out")?[0] / 2
        } else {
            shape("decoder.conv_in")?[1]
        };
        if latents != PUBLISHED_LATENTS {
            return Err(format!(
                "expected latents of {PUBLISHED_LATENTS} channels, as no config.json says how others are scaled, found {latents}"
            ));
        }
        let blocks = count(weights, |n| conv(&format!("{list}.0.block.{n}.conv1")));
        let has_attention = VaeHalf::BOTH.iter().any(|half| {
            let attention = format!("{}.mid.attn_1.q.weight", half.name());
            weights.has(&keys.file_key(&attention))
        });
        Ok(Self {
            widths,
            blocks: if has_encoder { blocks } else { blocks - 1 },
            latents,
            has_attention,
        })
    }
}

/// Checks that the tensors are there, and that no level is there that a config of so many does not have.
pub fn check_tensors(
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
        return Err(CatalogError::Config {
            reason: format!(
                "expected {levels} levels by the config, found {}",
                keys.levels
            ),
            path: weights.files.first().cloned().unwrap_or_default(),
        });
    }
    Ok(())
}
