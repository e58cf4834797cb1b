//! Upscalers of ESRGAN's class: RRDBNet (ESRGAN, BSRGAN, Real-ESRGAN), compact SRVGG networks, and SPAN.
//!
//! The header states the whole config, so no config file is read. The engine builds the network from it. The memory of
//! a pass and the receptive field are here too: tiles are planned from them.

use std::path::Path;

use crate::networks::prelude::*;

/// Colour channels of pixels, before and after.
const COLOURS: i64 = 3;
/// No network enlarges by more at once.
const MAX_SCALE: i64 = 8;
/// Blocks of SPAN of every width.
pub const SPAN_BLOCKS: usize = 6;

/// By which their files are known.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "" "upscaler" "an upscaler (ESRGAN)": "model.0.weight", "model.1.sub.0.RDB1.conv1.0.weight";
    "" "upscaler" "an upscaler (ESRGAN)": "conv_first.weight", "RRDB_trunk.0.RDB1.conv1.weight";
    "" "upscaler" "an upscaler (Real-ESRGAN)": "conv_first.weight", "body.0.rdb1.conv1.weight";
    "" "upscaler" "an upscaler (SPAN)": "conv_1.sk.weight", "block_1.c1_r.sk.weight", "upsampler.0.weight";
    "" "upscaler" "an upscaler (compact)": "body.0.weight", "body.1.weight", "body.2.weight";
};

/// An upscaler's numbers by the tensors of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpscalerConfig {
    pub prefix: String,
    /// Channels between the first layer and the last.
    pub width: i64,
    pub layers: UpscalerLayers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpscalerLayers {
    Rrdb(RrdbConfig),
    /// So many convolutions between the first and the last, then pixels are shuffled.
    Compact {
        num_convs: i64,
        scale: i64,
    },
    Span {
        scale: i64,
        /// Pixels are normed first.
        is_normed: bool,
    },
}

/// Residual blocks in residual blocks, and nearest-neighbour doubling after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrdbConfig {
    pub names: RrdbNames,
    /// Channels that each convolution of a block adds.
    pub growth: i64,
    pub num_blocks: i64,
    pub num_doublings: i64,
    /// Pixels along each edge that are made one place first: 1, 2 or 4.
    pub unshuffle: i64,
    /// ESRGAN+: a shortcut of one pixel within each block.
    pub has_shortcuts: bool,
}

/// Origin of the tensor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RrdbNames {
    /// ESRGAN's first: one list of layers.
    Old,
    /// BSRGAN and ESRGAN's later ones.
    Trunk,
    /// Real-ESRGAN, BasicSR.
    Body,
}

impl RrdbConfig {
    /// The name of this origin, of one for each.
    fn pick(&self, names: [String; 3]) -> String {
        let [old, trunk, body] = names;
        match self.names {
            RrdbNames::Old => old,
            RrdbNames::Trunk => trunk,
            RrdbNames::Body => body,
        }
    }

    pub fn first(&self) -> String {
        self.pick(["model.0", "conv_first", "conv_first"].map(str::to_owned))
    }

    /// A dense block, three of which make one of the blocks; both are counted from 0.
    pub fn dense(&self, block: i64, part: i64) -> String {
        let part = part + 1;
        self.pick([
            format!("model.1.sub.{block}.RDB{part}"),
            format!("RRDB_trunk.{block}.RDB{part}"),
            format!("body.{block}.rdb{part}"),
        ])
    }

    /// A convolution within a dense block, counted from 0.
    pub fn within(&self, number: i64) -> String {
        self.pick([".0", "", ""].map(|end| format!("conv{}{end}", number + 1)))
    }

    /// The convolution after all blocks.
    pub fn trunk(&self) -> String {
        let old = format!("model.1.sub.{}", self.num_blocks);
        self.pick([old.as_str(), "trunk_conv", "conv_body"].map(str::to_owned))
    }

    /// The convolution after a doubling, counted from 0.
    pub fn up(&self, number: i64) -> String {
        let number = number + 1;
        self.pick([
            format!("model.{}", 3 * number),
            format!("upconv{number}"),
            format!("conv_up{number}"),
        ])
    }

    /// The last two.
    pub fn ends(&self) -> [String; 2] {
        let [next, last] = [2, 4].map(|place| format!("model.{}", 3 * self.num_doublings + place));
        [
            [next.as_str(), "HRconv", "conv_hr"],
            [last.as_str(), "conv_last", "conv_last"],
        ]
        .map(|names| self.pick(names.map(str::to_owned)))
    }
}

impl UpscalerConfig {
    /// Reads the header of a file. The error says what it is instead, or what is wrong.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let config = Self::of_header(&WeightSet::open(place)?);
        config.map_err(|reason| CatalogError::config(reason, place))
    }

    pub(crate) fn of_header(weights: &WeightSet) -> Result<Self, String> {
        let names = weights.names();
        let found = KINDS.iter().enumerate().find_map(|(number, rule)| {
            let prefix = prefix_before(names.clone(), &rule.ends[..1])?;
            let has = |end: &&str| weights.has(&format!("{prefix}{end}"));
            rule.ends.iter().all(has).then_some((number, prefix))
        });
        let Some((number, prefix)) = found else {
            return Err(not_a(
                "network for upscaling (ESRGAN, Real-ESRGAN, compact or SPAN)",
                weights,
            ));
        };
        let header = UpscalerNames { weights, prefix };
        let (width, layers) = match number {
            0 => header.rrdb(RrdbNames::Old)?,
            1 => header.rrdb(RrdbNames::Trunk)?,
            2 => header.rrdb(RrdbNames::Body)?,
            3 => header.span()?,
            _ => header.compact()?,
        };
        check_sizes(&[("width", width)])?;
        Ok(Self {
            prefix: prefix.to_owned(),
            width,
            layers,
        })
    }

    /// Factor by which it enlarges edges.
    pub fn scale(&self) -> u32 {
        self.inner_scale() / self.unit()
    }

    /// Pixels along each edge that are one place of what is computed.
    pub fn unit(&self) -> u32 {
        match &self.layers {
            UpscalerLayers::Rrdb(rrdb) => rrdb.unshuffle as u32,
            UpscalerLayers::Compact { .. } | UpscalerLayers::Span { .. } => 1,
        }
    }

    /// Pixels along each edge that come of one place.
    pub fn inner_scale(&self) -> u32 {
        match &self.layers {
            UpscalerLayers::Rrdb(rrdb) => 1 << rrdb.num_doublings,
            UpscalerLayers::Compact { scale, .. } | UpscalerLayers::Span { scale, .. } => {
                *scale as u32
            }
        }
    }

    /// Name of this architecture.
    pub fn kind(&self) -> &'static str {
        match &self.layers {
            UpscalerLayers::Rrdb(rrdb) if rrdb.names == RrdbNames::Body => "Real-ESRGAN",
            UpscalerLayers::Rrdb(_) => "ESRGAN",
            UpscalerLayers::Compact { .. } => "compact",
            UpscalerLayers::Span { .. } => "SPAN",
        }
    }

    /// Receptive field radius before upsampling.
    pub fn reach(&self) -> u32 {
        let layers = match &self.layers {
            // Three dense blocks of five convolutions each, the first and the last.
            UpscalerLayers::Rrdb(rrdb) => 15 * rrdb.num_blocks + 2,
            UpscalerLayers::Compact { num_convs, .. } => num_convs + 2,
            // Three convolutions a block, one before and one after.
            UpscalerLayers::Span { .. } => 3 * SPAN_BLOCKS as i64 + 2,
        };
        layers as u32
    }

    /// Receptive field radius of the upsampling part.
    pub fn reach_of_end(&self) -> u32 {
        match &self.layers {
            // Half a pixel at the first doubling, a quarter at the next, and two layers after them.
            UpscalerLayers::Rrdb(_) => 4,
            UpscalerLayers::Compact { .. } => 0,
            UpscalerLayers::Span { .. } => 1,
        }
    }

    /// Bytes for each place while the layers before the enlarging compute. `number_bytes`: of one number.
    pub fn bytes_of_trunk(&self, number_bytes: u64) -> u64 {
        let width = self.width as u64;
        let channels = match &self.layers {
            // Values kept for both residual sums and the block's input, its channels, all concatenated for the last
            // convolution, and its output; after it three for the sum instead.
            UpscalerLayers::Rrdb(rrdb) => {
                let own = 4 * rrdb.growth as u64;
                (5 * width + 2 * own).max(6 * width + own)
            }
            UpscalerLayers::Compact { .. } => 3 * width,
            // Values kept for the last layer, and their concatenation.
            UpscalerLayers::Span { .. } => 10 * width,
        };
        channels * number_bytes
    }

    /// Bytes for each place while it is enlarged.
    pub fn bytes_of_end(&self, number_bytes: u64) -> u64 {
        let pixels = u64::from(self.inner_scale()).pow(2);
        let channels = match &self.layers {
            // Input of the last doubling, and three outputs.
            UpscalerLayers::Rrdb(_) => (3 * self.width as u64) + (self.width as u64).div_ceil(4),
            // Pixels before the shuffle, nearest-neighbour pixels, and their sum.
            UpscalerLayers::Compact { .. } | UpscalerLayers::Span { .. } => 9,
        };
        // Colours, and the same twice in f32 on their way to bytes, when the channels are gone.
        pixels * (channels * number_bytes).max(3 * number_bytes + 28)
    }

    /// Channels of what is made before anything is enlarged.
    pub fn channels_of_trunk(&self) -> u64 {
        match &self.layers {
            UpscalerLayers::Compact { scale, .. } => 3 * (*scale as u64).pow(2),
            UpscalerLayers::Rrdb(_) | UpscalerLayers::Span { .. } => self.width as u64,
        }
    }
}

/// The names of a file without their prefix.
struct UpscalerNames<'a> {
    weights: &'a WeightSet,
    prefix: &'a str,
}

impl UpscalerNames<'_> {
    /// The sizes of a convolution's kernel: outputs, inputs, rows, columns.
    fn kernel(&self, layer: &str) -> Result<[i64; 4], String> {
        sizes(self.weights, &format!("{}{layer}.weight", self.prefix))
    }

    fn has(&self, layer: &str) -> bool {
        self.weights.has(&format!("{}{layer}", self.prefix))
    }

    fn count(&self, layer: impl Fn(usize) -> String) -> i64 {
        count(self.weights, |number| {
            format!("{}{}.weight", self.prefix, layer(number))
        })
    }

    fn rrdb(&self, names: RrdbNames) -> Result<(i64, UpscalerLayers), String> {
        let mut rrdb = RrdbConfig {
            names,
            growth: 0,
            num_blocks: 0,
            num_doublings: 0,
            unshuffle: 1,
            has_shortcuts: false,
        };
        let [width, inputs, ..] = self.kernel(&rrdb.first())?;
        let dense = rrdb.dense(0, 0);
        rrdb.growth = self.kernel(&format!("{dense}.{}", rrdb.within(0)))?[0];
        check_sizes(&[("growth", rrdb.growth)])?;
        rrdb.has_shortcuts = self.has(&format!("{dense}.conv1x1.weight"));
        let within = rrdb.within(0);
        rrdb.num_blocks = self.count(|number| format!("{}.{within}", rrdb.dense(number as i64, 0)));
        rrdb.num_doublings = self.count(|number| rrdb.up(number as i64));
        let most = i64::from(MAX_SCALE.ilog2());
        ensure!(
            rrdb.num_doublings <= most,
            "expected at most {most} doublings, found {}",
            rrdb.num_doublings
        );
        let outputs = self.kernel(&rrdb.ends()[1])?[0];
        rrdb.unshuffle = [1, 2, 4]
            .into_iter()
            .find(|unit| inputs == COLOURS * unit * unit)
            .filter(|unit| outputs == COLOURS && *unit <= 1 << rrdb.num_doublings)
            .ok_or_else(|| colours(inputs, outputs))?;
        Ok((width, UpscalerLayers::Rrdb(rrdb)))
    }

    fn compact(&self) -> Result<(i64, UpscalerLayers), String> {
        let [width, inputs, ..] = self.kernel("body.0")?;
        let last = self.count(|number| format!("body.{number}")) - 1;
        let outputs = self.kernel(&format!("body.{last}"))?[0];
        // Each convolution but the last has an activation after it.
        ensure!(
            last % 2 == 0,
            "expected an activation behind each layer but the last, found {last} layers before it"
        );
        let layers = UpscalerLayers::Compact {
            num_convs: (last - 2) / 2,
            scale: shuffled(inputs, outputs)?,
        };
        Ok((width, layers))
    }

    fn span(&self) -> Result<(i64, UpscalerLayers), String> {
        let [width, inputs, ..] = self.kernel("conv_1.sk")?;
        let outputs = self.kernel("upsampler.0")?[0];
        let layers = UpscalerLayers::Span {
            scale: shuffled(inputs, outputs)?,
            is_normed: !self.has("no_norm"),
        };
        Ok((width, layers))
    }
}

/// Factor of the edges of an image whose pixels come from a number of channels.
fn shuffled(inputs: i64, outputs: i64) -> Result<i64, String> {
    (1..=MAX_SCALE)
        .find(|scale| outputs == COLOURS * scale * scale)
        .filter(|_| inputs == COLOURS)
        .ok_or_else(|| colours(inputs, outputs))
}

fn colours(inputs: i64, outputs: i64) -> String {
    format!(
        "expected a network that makes pixels of {COLOURS} colours from such pixels, found {inputs} channels before and {outputs} behind"
    )
}

#[cfg(test)]
mod tests;
