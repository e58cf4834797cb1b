//! How it is said what a network's layers are called: by the engine, by diffusers and by single LoRA tools.
//!
//! The layers of a transformer are those of its schema; its family asks for them with [`of_schema`]. Has no shapes and no numbers of blocks; `table` asks the
//! model's file for those.

use super::table::Rows;
use crate::networks::TensorSpec;

/// One layer's names within a block.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The engine's.
    pub(crate) own: String,
    /// What the engine asks for where a file has the matrix in parts, in their order.
    pub(super) parts: &'static [&'static str],
    pub(super) is_matrix: bool,
    /// Others, and which rows they mean.
    pub(crate) others: Vec<(String, Share)>,
}

/// Which rows a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
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

impl Share {
    /// `parts`: the rows of each part, where the file has the matrix so.
    fn rows(self, rows: u64, parts: &[u64]) -> Rows {
        match self {
            Self::All => Rows::All,
            Self::Third(part) => Rows::Range(part * (rows / 3), rows / 3),
            Self::Seventh(part) => Rows::Range(part * (rows / 7), rows / 7),
            Self::QkvOfSeven => Rows::Range(0, 3 * (rows / 7)),
            Self::MlpOfSeven => Rows::Range(3 * (rows / 7), rows - 3 * (rows / 7)),
            Self::Swapped => Rows::SwappedHalves,
            Self::Part(part) => {
                let before = parts.iter().take(part).sum();
                parts
                    .get(part)
                    .map_or(Rows::All, |&own| Rows::Range(before, own))
            }
        }
    }
}

/// The names of the layers of all blocks of one kind. What is in no block counts as one block without a number.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `double_blocks.{}.`
    own: &'static str,
    /// The same in the names of others.
    others: &'static [&'static str],
    /// A tensor that every such block has.
    mark: &'static str,
    pub(crate) layers: Vec<Name>,
}

impl Names {
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
        name: &Name,
        block: u64,
        rows: u64,
        parts: &[u64],
    ) -> Vec<(String, Rows)> {
        let number = block.to_string();
        let mut all = Vec::new();
        for start in self.others.iter().chain([&self.own]) {
            let start = start.replace("{}", &number);
            all.push((format!("{start}{}", name.own), Rows::All));
            for (other, share) in &name.others {
                all.push((format!("{start}{other}"), share.rows(rows, parts)));
            }
        }
        all
    }
}

/// The layers of CLIP's text encoder.
pub(super) fn clip() -> Vec<Names> {
    vec![Names {
        own: "encoder.layers.{}.",
        others: &["text_model.encoder.layers.{}."],
        mark: "mlp.fc1.weight",
        layers: plain(&CLIP_LAYER),
    }]
}

/// The layers of T5 and of UMT5, which have the same names.
pub(super) fn t5() -> Vec<Names> {
    vec![Names {
        own: "encoder.block.{}.",
        others: &[],
        mark: "layer.0.SelfAttention.q.weight",
        layers: plain(&T5_BLOCK),
    }]
}

/// Names that all tools have, and whether they are of matrices.
type Plain = (&'static str, bool);

fn plain(names: &[Plain]) -> Vec<Name> {
    let name = |&(own, is_matrix): &Plain| Name {
        own: own.to_owned(),
        parts: &[],
        is_matrix,
        others: Vec::new(),
    };
    names.iter().map(name).collect()
}

const CLIP_LAYER: [Plain; 8] = [
    ("self_attn.q_proj", true),
    ("self_attn.k_proj", true),
    ("self_attn.v_proj", true),
    ("self_attn.out_proj", true),
    ("mlp.fc1", true),
    ("mlp.fc2", true),
    ("layer_norm1", false),
    ("layer_norm2", false),
];

const T5_BLOCK: [Plain; 9] = [
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

/// A list of blocks: its start in the engine's names, the same in others', and a tensor that every such block has.
pub(crate) type List = (&'static str, &'static [&'static str], &'static str);

/// FLUX.1's double and single blocks, which other families have, too.
pub(crate) const DOUBLE: List = (
    "double_blocks.{}.",
    &["transformer_blocks.{}."],
    "img_attn.proj.weight",
);
pub(crate) const SINGLE: List = (
    "single_blocks.{}.",
    &["single_transformer_blocks.{}."],
    "linear2.weight",
);

/// Whose halves, shift and scale, diffusers has the other way round.
const SWAPPED: &str = "final_layer.adaLN_modulation.1";

/// Whether a layer makes two vectors as wide as the one that it reads: some have a scale alone.
fn has_two_vectors(tensor: &TensorSpec) -> bool {
    matches!(tensor.shape[..], [output, input] if output == 2 * input)
}

/// The parts of a fused layer, and which rows each of them is.
fn parts_of(own: &str, tensor: &TensorSpec) -> (&'static [&'static str], &'static [Share]) {
    let has_seven = matches!(tensor.shape[..], [output, input] if output == 7 * input);
    match own {
        _ if own.ends_with("attn.qkv") || own.ends_with("attention.qkv") => (
            &["q", "k", "v"],
            &[Share::Third(0), Share::Third(1), Share::Third(2)],
        ),
        // Where the rest is wider, nobody has its parts alone.
        "linear1" if has_seven => (
            &["q", "k", "v", "mlp"],
            &[
                Share::Seventh(0),
                Share::Seventh(1),
                Share::Seventh(2),
                Share::MlpOfSeven,
            ],
        ),
        _ if own.ends_with("attn.heads") => (
            &["q", "k", "v", "gate"],
            &[
                Share::Part(0),
                Share::Part(1),
                Share::Part(2),
                Share::Part(3),
            ],
        ),
        _ => (&[], &[]),
    }
}

/// Another dialect of a transformer's names.
pub(crate) struct Dialect<'a> {
    pub(crate) file_key: &'a dyn Fn(&str) -> String,
    /// Whether it has the parts of a fused layer each alone.
    pub(crate) is_split: bool,
}

impl Dialect<'_> {
    /// What it calls a layer, behind the number of its block. `start`: of the layer's list, with a number; `end`:
    /// `.weight`, or nothing.
    fn name(&self, start: &str, own: &str, end: &str) -> String {
        let key = (self.file_key)(&format!("{start}{own}{end}"));
        let behind = key.split_once(".0.").filter(|_| !start.is_empty());
        let name = behind.map_or(key.as_str(), |(_, name)| name);
        name.strip_suffix(".weight").unwrap_or(name).to_owned()
    }
}

/// The layers of a schema in the engine's names, of one block of each list; the first list is what is in no block.
/// `dialects`: the others', diffusers' last; `is_diffusers`: whether the model's file has its names.
pub(crate) fn of_schema(
    schema: &[TensorSpec],
    lists: &[List],
    dialects: &[Dialect<'_>],
    is_diffusers: bool,
) -> Vec<Names> {
    let mut all: Vec<Names> = lists
        .iter()
        .map(|&(own, others, mark)| Names {
            own,
            others,
            mark,
            layers: Vec::new(),
        })
        .collect();
    for tensor in schema
        .iter()
        .filter(|tensor| tensor.name.rsplit('.').next() != Some("bias"))
    {
        for names in all.iter_mut().rev() {
            let start = names.own.replace("{}", "0");
            if let Some(own) = tensor.name.strip_prefix(&start) {
                names
                    .layers
                    .push(layer(tensor, &start, own, dialects, is_diffusers));
                break;
            }
        }
    }
    all
}

fn layer(
    tensor: &TensorSpec,
    start: &str,
    own: &str,
    dialects: &[Dialect<'_>],
    is_diffusers: bool,
) -> Name {
    let bare = own.strip_suffix(".weight");
    let end = bare.map_or("", |_| ".weight");
    let own = bare.unwrap_or(own);
    let (parts, shares) = parts_of(own, tensor);
    let mut others = Vec::new();
    for dialect in dialects {
        if dialect.is_split && !parts.is_empty() {
            for (part, share) in parts.iter().zip(shares) {
                others.push((dialect.name(start, &format!("{own}.{part}"), end), *share));
            }
        } else {
            others.push((dialect.name(start, own, end), Share::All));
        }
    }
    if own == SWAPPED && has_two_vectors(tensor) {
        // The later entry of a name counts.
        let theirs = dialects.last().map(|dialect| dialect.name(start, own, end));
        let swapped = theirs.filter(|_| !is_diffusers);
        others.push((swapped.unwrap_or_else(|| own.to_owned()), Share::Swapped));
    }
    Name {
        own: own.to_owned(),
        parts,
        is_matrix: bare.is_some() && tensor.shape.len() > 1,
        others,
    }
}
