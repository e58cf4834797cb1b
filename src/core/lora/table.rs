//! The layers of one network, and every name that LoRA tools have for each.
//!
//! Names with underscores alone cannot be distinguished by rules (`img_attn_qkv`), so the layers that the model's own
//! file has are listed, under all their names, and looked up. Reads no LoRA.

use std::collections::BTreeMap;
use std::fmt;

use super::names::{self, LayerNames};
use crate::library::lora_keys as keys;
use crate::networks::Schema;

/// More than any network has.
const MAX_BLOCKS: u64 = 10_000;

#[derive(Clone, Copy)]
pub struct LoraTarget {
    pub name: &'static str,
    pub is_text_encoder: bool,
    /// True of the second of two text encoders whose layers have the same names, false of the first; `None` where
    /// names are enough.
    pub(crate) is_second: Option<bool>,
    /// Returns true if a layer of this name is one that only models have which look at images.
    pub(crate) of_images: fn(&str) -> bool,
    /// The layer of what is noised, where LoRAs may have more inputs than the model or fewer: those of a control image.
    pub(crate) input: Option<&'static str>,
    /// Its file has diffusers' names.
    pub(crate) is_diffusers: bool,
    /// The names of its layers, for a file with diffusers' names or with others.
    pub(crate) layers: fn(is_diffusers: bool) -> Vec<LayerNames>,
}

impl LoraTarget {
    /// A transformer all of whose layers every model has.
    pub(crate) const fn transformer(
        name: &'static str,
        layers: fn(is_diffusers: bool) -> Vec<LayerNames>,
    ) -> Self {
        Self {
            name,
            is_text_encoder: false,
            is_second: None,
            of_images: |_| false,
            input: None,
            is_diffusers: false,
            layers,
        }
    }
}

/// CLIP-L.
pub const CLIP: LoraTarget = LoraTarget {
    is_text_encoder: true,
    is_second: Some(false),
    ..LoraTarget::transformer("clip", names::clip)
};
/// OpenCLIP's bigG.
pub const CLIP_G: LoraTarget = LoraTarget {
    name: "clip_g",
    is_second: Some(true),
    ..CLIP
};
/// T5, and UMT5, whose layers have the same names.
pub const T5: LoraTarget = LoraTarget {
    name: "t5",
    is_second: None,
    layers: names::t5,
    ..CLIP
};

/// Anima's text adapter, whose layers LoRAs have next to the transformer's.
pub const ANIMA_ADAPTER: LoraTarget =
    LoraTarget::transformer("anima_adapter", names::anima_adapter);

impl PartialEq for LoraTarget {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.is_diffusers) == (other.name, other.is_diffusers)
    }
}

impl Eq for LoraTarget {}

impl fmt::Debug for LoraTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({})", self.name)
    }
}

/// Position of an update's rows in the layer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowRange {
    All,
    /// First and number.
    Range(u64, u64),
    /// The second half of the update changes the first half of the layer.
    SwappedHalves,
}

/// A layer or another tensor of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayer {
    /// The tensor, as the engine asks for it, without `.weight` where it is a matrix.
    pub name: String,
    /// Outputs first. Kernels of convolutions may follow.
    pub shape: Vec<u64>,
    /// Of `name.bias`, where there is one.
    pub bias: Option<Vec<u64>>,
    /// Matrices are multiplied with: an update stays next to them. To other tensors it is added.
    pub is_matrix: bool,
}

impl TableLayer {
    /// Outputs and inputs of a matrix.
    pub fn sides(&self) -> (u64, u64) {
        let out = self.shape.first().copied().unwrap_or(0);
        (out, product(self.shape.get(1..).unwrap_or_default()))
    }
}

/// One network's layers by all their names.
#[derive(Clone, Debug)]
pub struct LayerTable {
    pub network: LoraTarget,
    layers: Vec<TableLayer>,
    names: BTreeMap<String, (usize, RowRange)>,
}

/// The shape of a tensor by the name that the engine asks for it.
type ShapeOf<'a> = dyn Fn(&str) -> Option<Vec<u64>> + 'a;

impl LayerTable {
    pub fn new(network: LoraTarget, shape_of: &ShapeOf<'_>) -> Self {
        let mut table = Self {
            network,
            layers: Vec::new(),
            names: BTreeMap::new(),
        };
        for names in (network.layers)(network.is_diffusers) {
            let is_in_blocks = names.own.contains("{}");
            for block in 0..if is_in_blocks { MAX_BLOCKS } else { 1 } {
                let number = block.to_string();
                let own = names.own.replace("{}", &number);
                let Some(layer) = read_layer(&names, own, shape_of) else {
                    break;
                };
                let rows = layer.shape.first().copied().unwrap_or(0);
                let rows_of = |part: &&str| shape_of(&format!("{}.{part}.weight", layer.name));
                let parts = names.parts.iter();
                let parts = parts.map_while(|part| rows_of(part)?.first().copied());
                let parts: Vec<u64> = parts.collect();
                for (name, share) in &names.all {
                    let name = keys::normal(&name.replace("{}", &number));
                    let entry = (table.layers.len(), share.rows(rows, &parts));
                    table.names.insert(name, entry);
                }
                table.layers.push(layer);
            }
        }
        table
    }

    /// The layers of a transformer that has no file.
    pub(crate) fn of_schema(network: LoraTarget, schema: Schema) -> Self {
        let tensors = schema.into_tensors().into_iter();
        let shapes: BTreeMap<String, Vec<u64>> =
            tensors.map(|tensor| (tensor.name, tensor.shape)).collect();
        Self::new(network, &|name| shapes.get(name).cloned())
    }

    pub fn find(&self, candidates: &[String]) -> Option<(&TableLayer, RowRange)> {
        let found = candidates.iter().find_map(|name| self.names.get(name));
        found.map(|&(index, rows)| (&self.layers[index], rows))
    }

    pub fn layers(&self) -> &[TableLayer] {
        &self.layers
    }
}

/// The layer that the engine calls `own`, if there is one.
fn read_layer(names: &LayerNames, own: String, shape_of: &ShapeOf<'_>) -> Option<TableLayer> {
    let shape = |end: &str| shape_of(&format!("{own}{end}"));
    let (shape, bias, is_matrix) = if let Some(weight) = shape(".weight") {
        (weight, shape(".bias"), names.is_matrix)
    } else if names.parts.is_empty() {
        (shape("")?, None, false)
    } else {
        fused_shape(&own, names.parts, shape_of)?
    };
    Some(TableLayer {
        // A norm is read with its ending, which is not always the same.
        name: if is_matrix || shape_of(&own).is_some() {
            own
        } else {
            format!("{own}.weight")
        },
        shape,
        bias,
        is_matrix,
    })
}

/// Numbers of a shape; one of no numbers may have any sizes.
fn product(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |all, &size| all.saturating_mul(size))
}

/// The matrix that a file has in parts: one below the other.
fn fused_shape(
    own: &str,
    parts: &[&str],
    shape_of: &ShapeOf<'_>,
) -> Option<(Vec<u64>, Option<Vec<u64>>, bool)> {
    let mut rows = 0_u64;
    let mut columns = None;
    let mut biases = Some(0_u64);
    for part in parts {
        let weight = shape_of(&format!("{own}.{part}.weight"))?;
        let &[more, width] = &weight[..] else {
            return None;
        };
        if columns.is_some_and(|columns| columns != width) {
            return None;
        }
        columns = Some(width);
        rows = rows.saturating_add(more);
        let bias = shape_of(&format!("{own}.{part}.bias"));
        biases = biases
            .zip(bias)
            .map(|(sum, bias)| sum.saturating_add(product(&bias)));
    }
    let bias = biases.map(|sum| vec![sum]);
    Some((vec![rows, columns?], bias, true))
}
