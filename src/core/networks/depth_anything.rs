//! Depth Anything V2: a DINOv2 of patches and a DPT head that make relative depth of an image.
//!
//! The header states the config, apart from the layers that the head reads. The names are those of `transformers`, or
//! the authors', as in Kijai's files.

use std::path::Path;

use crate::networks::prelude::*;

/// By which its files are known, in the order of [`DepthNames`].
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "" "depth_estimator" "Depth Anything, which makes depth maps":
        "backbone.embeddings.patch_embeddings.projection.weight", "neck.convs.0.weight";
    "" "depth_estimator" "Depth Anything, which makes depth maps":
        "pretrained.patch_embed.proj.weight", "depth_head.projects.0.weight";
};
/// Width of an attention head of every published size.
const HEAD_DIM: i64 = 64;
/// Pixels of one edge of the images that it sees, about.
pub const DEPTH_EDGE: u32 = 518;
/// Edges of what the stages of the neck make, against the patches: `factor` for the first two, and half for the last.
pub const DEPTH_FACTORS: [i64; 2] = [4, 2];
/// Parts of the authors' names, with those of `transformers`.
const AUTHORS_NAMES: &[(&str, &str)] = &[
    ("backbone.embeddings.cls_token", "pretrained.cls_token"),
    ("backbone.embeddings.mask_token", "pretrained.mask_token"),
    (
        "backbone.embeddings.position_embeddings",
        "pretrained.pos_embed",
    ),
    (
        "backbone.embeddings.patch_embeddings.projection",
        "pretrained.patch_embed.proj",
    ),
    ("backbone.encoder.layer.", "pretrained.blocks."),
    ("backbone.layernorm.", "pretrained.norm."),
    (".attention.attention.qkv.", ".attn.qkv."),
    (".attention.output.dense.", ".attn.proj."),
    (".layer_scale1.lambda1", ".ls1.gamma"),
    (".layer_scale2.lambda1", ".ls2.gamma"),
    ("neck.convs.0.", "depth_head.scratch.layer1_rn."),
    ("neck.convs.1.", "depth_head.scratch.layer2_rn."),
    ("neck.convs.2.", "depth_head.scratch.layer3_rn."),
    ("neck.convs.3.", "depth_head.scratch.layer4_rn."),
    (
        "neck.fusion_stage.layers.0.",
        "depth_head.scratch.refinenet4.",
    ),
    (
        "neck.fusion_stage.layers.1.",
        "depth_head.scratch.refinenet3.",
    ),
    (
        "neck.fusion_stage.layers.2.",
        "depth_head.scratch.refinenet2.",
    ),
    (
        "neck.fusion_stage.layers.3.",
        "depth_head.scratch.refinenet1.",
    ),
    (".residual_layer1.convolution", ".resConfUnit1.conv"),
    (".residual_layer2.convolution", ".resConfUnit2.conv"),
    ("head.conv1.", "depth_head.scratch.output_conv1."),
    ("head.conv2.", "depth_head.scratch.output_conv2.0."),
    ("head.conv3.", "depth_head.scratch.output_conv2.2."),
];

/// Origin of the tensor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthNames {
    Transformers,
    Authors,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepthConfig {
    pub names: DepthNames,
    /// Of the transformer's tokens.
    pub width: i64,
    /// Of its feed-forward layers.
    pub inner: i64,
    pub layers: i64,
    /// Layers after which the head reads, counted from 1.
    pub taps: [i64; 4],
    /// Pixels along an edge of a patch.
    pub patch: i64,
    /// Patches along an edge of the images that it was trained with.
    pub edge: i64,
    /// Channels of each stage of the neck.
    pub neck: [i64; 4],
    pub fused: i64,
    pub head: i64,
}

impl DepthConfig {
    /// Of a weight file; an error that names it where it is no such network.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let wrong = |reason| CatalogError::config(reason, place);
        let mut config = Self::of_header(&WeightSet::open(place)?).map_err(wrong)?;
        if let Some(written) = read_written(place)? {
            config.take_written(&written).map_err(wrong)?;
        }
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        if name.to_lowercase().contains("metric") {
            return Err(wrong(METRIC.to_owned()));
        }
        Ok(config)
    }

    pub(crate) fn of_header(weights: &WeightSet) -> Result<Self, String> {
        let names = [DepthNames::Transformers, DepthNames::Authors];
        let mut found = KINDS.iter().zip(names);
        let found = found.find(|(rule, _)| rule.ends.iter().all(|end| weights.has(end)));
        let Some((_, names)) = found else {
            return Err(not_a("Depth Anything network", weights));
        };
        let key = |name: &str| names.file_key(name);
        let patches = "backbone.embeddings.patch_embeddings.projection.weight";
        let [width, _, patch, _] = sizes(weights, &key(patches))?;
        let positions = key("backbone.embeddings.position_embeddings");
        let [_, positions, _] = sizes(weights, &positions)?;
        let layer = |number: i64| key(&format!("backbone.encoder.layer.{number}.mlp.fc1.weight"));
        let layers = (0..).take_while(|&number| weights.has(&layer(number)));
        let layers = layers.count() as i64;
        let [inner, _] = sizes(weights, &layer(0))?;
        let mut neck = [0; 4];
        for (number, channels) in neck.iter_mut().enumerate() {
            let stage = format!("neck.reassemble_stage.layers.{number}.projection.weight");
            [*channels, ..] = sizes::<4>(weights, &key(&stage))?;
        }
        let [fused, ..] = sizes::<4>(weights, &key("neck.convs.0.weight"))?;
        let [head, ..] = sizes::<4>(weights, &key("head.conv2.weight"))?;
        let edge = positions.saturating_sub(1).max(0).isqrt();
        check_sizes(&[
            ("width", width),
            ("patch", patch),
            ("number of positions", edge),
        ])?;
        ensure!(
            edge * edge == positions - 1 && width % HEAD_DIM == 0 && layers >= 4,
            "expected at least 4 layers of heads {HEAD_DIM} wide, and positions of a square, found {layers} layers, a width of {width} and {positions} positions"
        );
        // Of the large one; the others take every quarter.
        let taps = match layers {
            24 => [5, 12, 18, 24],
            _ => [1, 2, 3, 4].map(|part| layers * part / 4),
        };
        Ok(Self {
            names,
            width,
            inner,
            layers,
            taps,
            patch,
            edge,
            neck,
            fused,
            head,
        })
    }

    /// Takes over what only `config.json` says.
    fn take_written(&mut self, written: &Value) -> Result<(), String> {
        ensure!(written["depth_estimation_type"] != "metric", "{METRIC}");
        if let Some(taps) = written["backbone_config"]["out_indices"].as_array() {
            let taps: Vec<i64> = taps.iter().filter_map(Value::as_i64).collect();
            self.taps = <[i64; 4]>::try_from(taps)
                .ok()
                .filter(|taps| {
                    taps.is_sorted() && taps.iter().all(|it| (1..=self.layers).contains(it))
                })
                .ok_or("its out_indices are no four layers of it")?;
        }
        Ok(())
    }

    pub fn num_heads(&self) -> i64 {
        self.width / HEAD_DIM
    }

    /// Bytes of activations for an image of `tokens` patches: the widest layers are those at four times the patches.
    pub fn bytes(&self, tokens: u64, number_bytes: u64) -> u64 {
        let tokens = tokens as f64;
        let of_layer = tokens * (self.width * 5 + self.inner) as f64;
        // Both inputs and the output of a convolution, at the full size of the image.
        let pixels = (self.patch * self.patch) as f64;
        let of_head = tokens * pixels * (self.fused / 2 + 2 * self.head) as f64;
        (of_layer.max(of_head) * number_bytes as f64) as u64
    }
}

const METRIC: &str = "this Depth Anything measures metres, and control images need relative depth: get the one without \"metric\" in its name";

impl DepthNames {
    /// Name in the file of a tensor that readers ask for by the name of `transformers`.
    pub fn file_key(self, name: &str) -> String {
        if self == Self::Transformers {
            return name.to_owned();
        }
        let mut name = AUTHORS_NAMES
            .iter()
            .fold(name.to_owned(), |name, (theirs, authors)| {
                name.replace(theirs, authors)
            });
        for number in 0..4 {
            let stage = format!("neck.reassemble_stage.layers.{number}");
            name = name
                .replace(
                    &format!("{stage}.projection"),
                    &format!("depth_head.projects.{number}"),
                )
                .replace(
                    &format!("{stage}.resize"),
                    &format!("depth_head.resize_layers.{number}"),
                );
        }
        // Only fusions are left of the neck.
        name.replace(".projection.", ".out_conv.")
    }
}

/// `config.json` next to the file, as in a repository of `transformers`.
fn read_written(place: &Path) -> Result<Option<Value>, CatalogError> {
    let path = place.with_file_name("config.json");
    if path.is_file() {
        crate::model::read_json(&path).map(Some)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
