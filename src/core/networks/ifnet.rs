//! RIFE's network, IFNet of Practical-RIFE 4.5 to 4.26: frame interpolation.
//!
//! The header shows a file's version, so no config file is read: number and width of the blocks, features of a frame,
//! and outputs for the next block. ComfyUI's names are supported as well.

use std::path::Path;

use crate::networks::prelude::*;

/// Residual convolutions of a block.
pub const IFNET_CONVS: usize = 8;
/// Colours of both frames and the time between them.
const FIRST_INPUTS: i64 = 7;
/// Inputs of later blocks: also the mask and both flows of the previous one.
const LATER_INPUTS: i64 = 12;
/// Both flows, of two numbers each, and the mask.
const LEAST_OUTPUTS: i64 = 5;
/// Pixels along an edge that the last layer of a block makes of one place.
const SHUFFLE: i64 = 2;
/// As wide as this is the last block of 4.25 lite alone, whose blocks see frames smaller than those of the others.
const LITE_END: i64 = 24;

/// By which its files are known: two dialects, and versions up to 4.4.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "" "interpolator" "RIFE, which makes frames between frames":
        "block0.conv0.0.0.weight", "block0.convblock.0.beta", "block3.lastconv.0.weight";
    "" "interpolator" "RIFE, which makes frames between frames":
        "blocks.0.conv0.0.0.weight", "blocks.0.convblock.0.beta", "blocks.3.lastconv.0.weight";
    "" "interpolator" "RIFE of a version before 4.5": "block0.conv0.0.0.weight", "block0.convblock.0.0.weight";
};
/// Prefix of a block's number in each dialect.
const BLOCKS: [&str; 2] = ["block", "blocks."];

/// A network's numbers by the tensors of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IfnetConfig {
    pub prefix: String,
    /// Prefix of a block's number.
    blocks: &'static str,
    /// Of each block: 4 or 5 of them.
    pub widths: Vec<i64>,
    /// In how many parts the residual convolutions are made.
    pub groups: i64,
    /// Channels of a block's output: flows, a mask, and features for the next block.
    pub outputs: i64,
    /// Number of features for the next block.
    pub carried: i64,
    /// Features of a frame besides its colours; none before 4.7.
    pub head: Option<IfnetHead>,
}

/// A few convolutions, of which the first halves the edges and the last doubles them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IfnetHead {
    /// Without the prefix: 2 or 4.
    pub layers: Vec<String>,
    pub width: i64,
    pub features: i64,
}

impl IfnetHead {
    fn from_weights(weights: &WeightSet, prefix: &str) -> Result<Option<Self>, String> {
        let has = |layer: &str| weights.has(&format!("{prefix}{layer}.weight"));
        let layers: &[&str] = if has("encode.cnn0") {
            &["encode.cnn0", "encode.cnn1", "encode.cnn2", "encode.cnn3"]
        } else if has("encode.6") {
            &["encode.0", "encode.2", "encode.4", "encode.6"]
        } else if has("encode.0") {
            &["encode.0", "encode.1"]
        } else {
            return Ok(None);
        };
        let last = layers.last().copied().unwrap_or_default();
        let [width, features, ..] = sizes::<4>(weights, &format!("{prefix}{last}.weight"))?;
        check_sizes(&[("width", width), ("number of features", features)])?;
        Ok(Some(Self {
            layers: layers.iter().map(|&layer| layer.to_owned()).collect(),
            width,
            features,
        }))
    }
}

impl IfnetConfig {
    /// Of a weight file; an error that names it where it is no such network.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let config = Self::of_header(&WeightSet::open(place)?);
        config.map_err(|reason| CatalogError::config(reason, place))
    }

    pub(crate) fn of_header(weights: &WeightSet) -> Result<Self, String> {
        let keys = || weights.tensors.keys().map(String::as_str);
        let mut dialects = KINDS.iter().zip(BLOCKS);
        let found = dialects
            .find_map(|(rule, blocks)| Some((prefix_before(keys(), &rule.ends[1..2])?, blocks)));
        let Some((prefix, blocks)) = found else {
            if prefix_before(keys(), &KINDS[2].ends[1..]).is_some() {
                let old = KINDS[2].text;
                return Err(format!(
                    "this is {old}, which this version does not run: get 4.6 or a newer one"
                ));
            }
            return Err(not_a("RIFE network (4.5 or newer)", weights));
        };
        let head = IfnetHead::from_weights(weights, prefix)?;
        let seen = 2 * head.as_ref().map_or(0, |head| head.features);
        let name = |number: i64, part: &str| format!("{prefix}{blocks}{number}.{part}.weight");
        let num_blocks = (0..).take_while(|&number| weights.has(&name(number, "conv0.1.0")));
        let num_blocks = num_blocks.count() as i64;
        ensure!(
            (4..=5).contains(&num_blocks),
            "expected 4 or 5 blocks, found {num_blocks}"
        );
        let widths = (0..num_blocks).map(|number| {
            let [width, ..] = sizes::<4>(weights, &name(number, "conv0.1.0"))?;
            check_sizes(&[("width", width)])?;
            Ok::<_, String>(width)
        });
        let widths = widths.collect::<Result<Vec<_>, _>>()?;
        let [_, share, ..] = sizes::<4>(weights, &name(0, "convblock.0.conv"))?;
        let [_, shuffled, ..] = sizes::<4>(weights, &name(0, "lastconv.0"))?;
        let [_, later, ..] = sizes::<4>(weights, &name(1, "conv0.0.0"))?;
        check_sizes(&[("number of outputs", shuffled), ("number of inputs", later)])?;
        let outputs = shuffled / (SHUFFLE * SHUFFLE);
        let carried = later - LATER_INPUTS - seen;
        ensure!(
            outputs >= LEAST_OUTPUTS && (carried == 0 || carried == outputs - LEAST_OUTPUTS),
            "the blocks do not fit together: {outputs} channels come of one, {carried} of them are for the next"
        );
        Ok(Self {
            prefix: prefix.to_owned(),
            blocks,
            groups: widths[0] / share.clamp(1, widths[0]),
            widths,
            outputs,
            carried,
            head,
        })
    }

    /// Name of a block's layers, counted from 0, after the prefix.
    pub fn block(&self, number: usize) -> String {
        format!("{}{number}", self.blocks)
    }

    /// Input channels of a block, counted from 0: without the flows, which are added for later ones.
    pub fn inputs(&self, number: usize) -> i64 {
        let seen = 2 * self.head.as_ref().map_or(0, |head| head.features);
        match number {
            0 => FIRST_INPUTS + seen,
            _ => LATER_INPUTS + seen + self.carried,
        }
    }

    /// Channels of a block's last layer, before they become pixels.
    pub fn shuffled(&self) -> i64 {
        SHUFFLE * SHUFFLE * self.outputs
    }

    /// By how much each block sees its frames smaller, the first by the most.
    pub fn scales(&self) -> &'static [i64] {
        match self.widths.len() {
            4 => &[8, 4, 2, 1],
            _ if self.widths.last() == Some(&LITE_END) => &[32, 16, 8, 4, 1],
            _ => &[16, 8, 4, 2, 1],
        }
    }

    /// The pixels that edges are a multiple of.
    pub fn alignment(&self) -> i64 {
        // A block halves what it sees twice.
        4 * self.scales()[0]
    }

    /// Practical-RIFE's number of this version, or of those that no tensor tells apart; `None` of one that was never
    /// published.
    pub fn version(&self) -> Option<&'static str> {
        let (width, end) = (self.widths[0], *self.widths.last()?);
        let head = self.head.as_ref();
        let head = head.map(|head| (head.layers.as_slice(), head.features));
        Some(match (head, self.widths.len(), self.carried) {
            (None, 4, 0) if self.outputs == LEAST_OUTPUTS => "4.5",
            (None, 4, 0) => "4.6",
            (Some(([_, _], _)), 4, 0) => "4.7 to 4.9",
            (Some(([first, ..], 8)), 4, 0) if first == "encode.0" => "4.10 to 4.12",
            (Some(([first, ..], 4)), 4, 0) if first == "encode.0" => "4.12 or 4.13 lite",
            (Some((_, 8)), 4, 0) if self.groups == 2 => "4.14 lite",
            (Some((_, 8)), 4, 0) if width == 384 => "4.20",
            (Some((_, 8)), 4, 0) => "4.13 to 4.19, or 4.24",
            (Some((_, 4)), 4, 0) => "4.15 to 4.17 lite",
            (Some((_, 8)), 4, _) => "4.21 to 4.23",
            (Some((_, 4)), 4, _) => "4.22 lite",
            (Some((_, 4)), 5, _) if end == LITE_END => "4.25 lite",
            (Some((_, 4)), 5, _) if width == 384 => "4.25 heavy",
            (Some((_, 4)), 5, _) => "4.25 or 4.26",
            (Some((_, 16)), 5, _) => "4.26 heavy",
            _ => return None,
        })
    }

    /// Bytes for each pixel of a frame, edges as [`alignment`](Self::alignment) wants them, while the frame is made.
    /// `number_bytes`: of one number. `channel_block`: as many channels as the library of convolutions lays out together.
    pub fn bytes_of_pixel(&self, number_bytes: u64, channel_block: u32) -> u64 {
        let block = f64::from(channel_block);
        let features = 2.0 * self.head.as_ref().map_or(0.0, |head| head.features as f64);
        let outputs = self.outputs as f64;
        let of_block = |number: usize| {
            let is_later = f64::from(u8::from(number > 0));
            // Resolution of the block.
            let seen = 1.0 / (self.scales()[number] as f64).powi(2);
            let inputs = self.inputs(number) as f64;
            // Later blocks also receive the flows.
            let given = inputs - 4.0 * is_later;
            // Both frames with what is seen of them, the time and the places; moved, and how, where that is known.
            let kept = 6.0 + features + 3.0 + is_later * (10.0 + outputs + features) + given;
            let smaller = if seen < 1.0 { given * seen } else { 0.0 };
            // Libraries lay out many channels anew, in blocks.
            let laid_out = if inputs >= block {
                (inputs / block).ceil() * block
            } else {
                0.0
            };
            let width = self.widths[number] as f64;
            let joined = smaller + is_later * 4.0 + inputs * seen;
            let halved = (inputs + laid_out + width / 4.0) * seen;
            let grown = (width / 16.0 + 2.0 * outputs) * seen + 4.0;
            kept + joined.max(halved + is_later * 4.0 * seen).max(grown)
        };
        let numbers = (0..self.widths.len()).map(of_block).fold(0.0, f64::max);
        // Places are f32 whatever the others are.
        (numbers * number_bytes as f64) as u64 + 2 * (4 - number_bytes.min(4))
    }

    /// All tensors that are read, as the file calls them.
    pub fn schema(&self) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        if let Some(head) = &self.head {
            let (width, count) = (head.width, head.layers.len());
            for (number, layer) in head.layers.iter().enumerate() {
                match number {
                    0 => schema.conv(layer, &[width, 3, 3, 3]),
                    _ if number + 1 < count => schema.conv(layer, &[width, width, 3, 3]),
                    _ => growing(&mut schema, layer, [width, head.features]),
                }
            }
        }
        for (number, &width) in self.widths.iter().enumerate() {
            let name = |part: &str| format!("{}.{part}", self.block(number));
            let inputs = self.inputs(number);
            schema.conv(&name("conv0.0.0"), &[width / 2, inputs, 3, 3]);
            schema.conv(&name("conv0.1.0"), &[width, width / 2, 3, 3]);
            for conv in 0..IFNET_CONVS {
                let name = name(&format!("convblock.{conv}"));
                schema.conv(
                    &format!("{name}.conv"),
                    &[width, width / self.groups.max(1), 3, 3],
                );
                schema.add(format!("{name}.beta"), &[1, width, 1, 1], TensorRole::Fixed);
            }
            growing(&mut schema, &name("lastconv.0"), [width, self.shuffled()]);
        }
        schema.renamed(|name| format!("{}{name}", self.prefix))
    }
}

/// A convolution that doubles edges.
fn growing(schema: &mut Schema, name: &str, [inputs, outputs]: [i64; 2]) {
    let shape = [inputs, outputs, 4, 4];
    schema.add(format!("{name}.weight"), &shape, TensorRole::Fixed);
    schema.vector(&format!("{name}.bias"), outputs);
}

#[cfg(test)]
mod tests;
