//! Names of a network's layers: the engine's, those of other dialects and of single LoRA tools.
//!
//! The layers of a transformer are those of its schema: [`of_transformer`]. Has no shapes and no numbers of blocks; `table`
//! reads them from the model's file.

use super::table::RowRange;
use crate::networks::dialects::{NamedTensors, TensorKeys};
use crate::networks::{TensorSpec, TransformerConfig};

/// One layer's names within a block.
#[derive(Clone, Debug)]
pub(crate) struct LayerName {
    /// The engine's.
    pub(crate) own: String,
    /// Names that the engine asks for where a file has the matrix in parts, in their order.
    pub(super) parts: &'static [&'static str],
    pub(super) is_matrix: bool,
    /// Others, and which rows they mean.
    pub(crate) others: Vec<(String, RowShare)>,
}

/// Rows of the layer that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowShare {
    All,
    /// Query, key or value of three.
    Third(u64),
    /// Query, key or value of `linear1`: each is as wide as the network, the rest four times as wide.
    Seventh(u64),
    /// The three together.
    QkvOfSeven,
    MlpOfSeven,
    Swapped,
    /// One of the parts that the model's file has, however large each is.
    Part(usize),
}

impl RowShare {
    /// `parts`: the rows of each part, where the file has the matrix so.
    fn rows(self, rows: u64, parts: &[u64]) -> RowRange {
        match self {
            Self::All => RowRange::All,
            Self::Third(part) => RowRange::Range(part * (rows / 3), rows / 3),
            Self::Seventh(part) => RowRange::Range(part * (rows / 7), rows / 7),
            Self::QkvOfSeven => RowRange::Range(0, 3 * (rows / 7)),
            Self::MlpOfSeven => RowRange::Range(3 * (rows / 7), rows - 3 * (rows / 7)),
            Self::Swapped => RowRange::SwappedHalves,
            Self::Part(part) => {
                let before = parts.iter().take(part).sum();
                parts
                    .get(part)
                    .map_or(RowRange::All, |&own| RowRange::Range(before, own))
            }
        }
    }
}

/// The names of the layers of all blocks of one kind. What is in no block counts as one block without a number.
#[derive(Clone, Debug)]
pub(crate) struct LayerNames {
    /// `double_blocks.{}.`
    own: String,
    /// Prefixes in other dialects.
    others: Vec<String>,
    /// A tensor of every such block.
    mark: &'static str,
    pub(crate) layers: Vec<LayerName>,
}

impl LayerNames {
    pub(super) fn in_block(&self, name: &str, block: u64) -> String {
        format!("{}{name}", self.own.replace("{}", &block.to_string()))
    }

    pub(super) fn has_block(&self, block: u64, has: &dyn Fn(&str) -> bool) -> bool {
        (block == 0 || self.own.contains("{}")) && has(&self.in_block(self.mark, block))
    }

    /// Every name of a layer and the rows it means, of `rows` that there are; `parts`: the rows of each of its parts,
    /// where the file has it in such.
    pub(super) fn all_of(
        &self,
        name: &LayerName,
        block: u64,
        rows: u64,
        parts: &[u64],
    ) -> Vec<(String, RowRange)> {
        let number = block.to_string();
        let mut all = Vec::new();
        for start in self.others.iter().chain([&self.own]) {
            let start = start.replace("{}", &number);
            all.push((format!("{start}{}", name.own), RowRange::All));
            for (other, share) in &name.others {
                all.push((format!("{start}{other}"), share.rows(rows, parts)));
            }
        }
        all
    }
}

/// The layers of CLIP's text encoder.
pub(super) fn clip() -> Vec<LayerNames> {
    vec![LayerNames {
        own: "encoder.layers.{}.".to_owned(),
        others: vec!["text_model.encoder.layers.{}.".to_owned()],
        mark: "mlp.fc1.weight",
        layers: plain(&CLIP_LAYER),
    }]
}

/// The layers of T5 and of UMT5, which have the same names.
pub(super) fn t5() -> Vec<LayerNames> {
    vec![LayerNames {
        own: "encoder.block.{}.".to_owned(),
        others: Vec::new(),
        mark: "layer.0.SelfAttention.q.weight",
        layers: plain(&T5_BLOCK),
    }]
}

/// Names that all tools have, and whether they are of matrices.
type PlainName = (&'static str, bool);

fn plain(names: &[PlainName]) -> Vec<LayerName> {
    let name = |&(own, is_matrix): &PlainName| LayerName {
        own: own.to_owned(),
        parts: &[],
        is_matrix,
        others: Vec::new(),
    };
    names.iter().map(name).collect()
}

const CLIP_LAYER: [PlainName; 8] = [
    ("self_attn.q_proj", true),
    ("self_attn.k_proj", true),
    ("self_attn.v_proj", true),
    ("self_attn.out_proj", true),
    ("mlp.fc1", true),
    ("mlp.fc2", true),
    ("layer_norm1", false),
    ("layer_norm2", false),
];

const T5_BLOCK: [PlainName; 9] = [
    ("layer.0.SelfAttention.q", true),
    ("layer.0.SelfAttention.k", true),
    ("layer.0.SelfAttention.v", true),
    ("layer.0.SelfAttention.o", true),
    ("layer.1.DenseReluDense.wi_0", true),
    ("layer.1.DenseReluDense.wi_1", true),
    ("layer.1.DenseReluDense.wo", true),
    ("layer.0.layer_norm", false),
    ("layer.1.layer_norm", false),
];

/// Layer whose halves, shift and scale, are swapped in diffusers.
const SWAPPED: &str = "final_layer.adaLN_modulation.1";

/// Returns true if a layer makes two vectors as wide as the one that it reads: some have a scale alone.
fn has_two_vectors(tensor: &TensorSpec) -> bool {
    matches!(tensor.shape[..], [output, input] if output == 2 * input)
}

/// The parts of a fused layer, and which rows each of them is.
fn parts_of(own: &str, tensor: &TensorSpec) -> (&'static [&'static str], &'static [RowShare]) {
    let has_seven = matches!(tensor.shape[..], [output, input] if output == 7 * input);
    match own {
        _ if own.ends_with("attn.qkv") || own.ends_with("attention.qkv") => (
            &["q", "k", "v"],
            &[RowShare::Third(0), RowShare::Third(1), RowShare::Third(2)],
        ),
        // If the rest is wider, no tool has its parts separately.
        "linear1" if has_seven => (
            &["q", "k", "v", "mlp"],
            &[
                RowShare::Seventh(0),
                RowShare::Seventh(1),
                RowShare::Seventh(2),
                RowShare::MlpOfSeven,
            ],
        ),
        _ if own.ends_with("attn.heads") => (
            &["q", "k", "v", "gate"],
            &[
                RowShare::Part(0),
                RowShare::Part(1),
                RowShare::Part(2),
                RowShare::Part(3),
            ],
        ),
        _ => (&[], &[]),
    }
}

/// Name of a layer in a dialect, after the number of its block. `start`: of the layer's list, with a number; `end`:
/// `.weight`, or nothing.
fn name_in<C: NamedTensors>(keys: TensorKeys<C>, start: &str, own: &str, end: &str) -> String {
    let key = keys.file_key(&format!("{start}{own}{end}"));
    let inner = key.split_once(".0.").filter(|_| !start.is_empty());
    let name = inner.map_or(key.as_str(), |(_, name)| name);
    name.strip_suffix(".weight").unwrap_or(name).to_owned()
}

/// The layers of a transformer in readers' names: an entry for what is in no block, and one for each list of blocks.
/// `mark`: a tensor in no block; `is_diffusers`: whether the model's file has diffusers' names.
pub(crate) fn of_transformer<C: TransformerConfig>(
    config: &C,
    mark: &'static str,
    is_diffusers: bool,
) -> Vec<LayerNames> {
    let mut dialects: Vec<TensorKeys<C>> = TensorKeys::all()
        .filter(|keys| keys.dialect.renames())
        .collect();
    dialects.sort_by_key(|keys| keys.is_diffusers);
    let mut all = vec![LayerNames {
        own: String::new(),
        others: Vec::new(),
        mark,
        layers: Vec::new(),
    }];
    all.extend(
        C::DIALECTS[0]
            .lists
            .iter()
            .enumerate()
            .map(|(number, list)| {
                let others = C::DIALECTS
                    .iter()
                    .map(|dialect| dialect.lists[number].other);
                let others = others.filter(|other| *other != list.own);
                LayerNames {
                    own: format!("{}.{{}}.", list.own),
                    others: others.map(|other| format!("{other}.{{}}.")).collect(),
                    mark: list.mark,
                    layers: Vec::new(),
                }
            }),
    );
    for tensor in config.schema(None).into_tensors() {
        let is_of = |names: &&mut LayerNames| {
            let list = names.own.trim_end_matches("{}.");
            tensor.name.starts_with(list)
        };
        let Some(names) = all.iter_mut().rev().find(is_of) else {
            continue;
        };
        let start = names.own.replace("{}", "0");
        if let Some(own) = tensor.name.strip_prefix(&start)
            && own.rsplit('.').next() != Some("bias")
        {
            let layer = layer(&tensor, &start, own, &dialects, is_diffusers);
            names.layers.push(layer);
        }
    }
    all
}

/// Adds names that only some LoRA tools have. `has_bare_norms`: norms are also called without `.scale`.
pub(crate) fn with_extra(
    mut all: Vec<LayerNames>,
    extra: &[(&str, &str, RowShare)],
    has_bare_norms: bool,
) -> Vec<LayerNames> {
    for layer in all.iter_mut().flat_map(|names| &mut names.layers) {
        let extra = extra.iter().filter(|(own, ..)| *own == layer.own);
        let extra = extra.map(|(_, name, share)| ((*name).to_owned(), *share));
        let bare = layer.own.strip_suffix(".scale").filter(|_| has_bare_norms);
        let bare = bare.map(|name| (name.to_owned(), RowShare::All));
        layer.others.extend(extra.chain(bare));
    }
    all
}

fn layer<C: NamedTensors>(
    tensor: &TensorSpec,
    start: &str,
    own: &str,
    dialects: &[TensorKeys<C>],
    is_diffusers: bool,
) -> LayerName {
    let bare = own.strip_suffix(".weight");
    let end = bare.map_or("", |_| ".weight");
    let own = bare.unwrap_or(own);
    let (parts, shares) = parts_of(own, tensor);
    let mut others = Vec::new();
    for keys in dialects {
        if keys.dialect.is_split && !parts.is_empty() {
            for (part, share) in parts.iter().zip(shares) {
                let part = format!("{own}.{part}");
                others.push((name_in(*keys, start, &part, end), *share));
            }
        } else {
            others.push((name_in(*keys, start, own, end), RowShare::All));
        }
    }
    if own == SWAPPED && has_two_vectors(tensor) {
        // The later entry of a name counts.
        let theirs = dialects.last().map(|keys| name_in(*keys, start, own, end));
        let swapped = theirs.filter(|_| !is_diffusers);
        others.push((swapped.unwrap_or_else(|| own.to_owned()), RowShare::Swapped));
    }
    LayerName {
        own: own.to_owned(),
        parts,
        is_matrix: bare.is_some() && tensor.shape.len() > 1,
        others,
    }
}
