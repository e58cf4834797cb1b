//! Names of a network's layers: the engine's, those of other dialects and of single LoRA tools.
//!
//! The layers of a transformer are those of its schema: [`of_transformer`]. Has no shapes and no numbers of blocks; `table`
//! reads them from the model's file.

use super::table::RowRange;
use crate::networks::dialects::TensorKeys;
use crate::networks::{AnimaAdapterConfig, Schema, TensorSpec, TransformerConfig};

/// One layer's names, or one layer's of each block of a list. `{}` is the number of the block.
#[derive(Clone, Debug)]
pub(crate) struct LayerNames {
    /// The engine's.
    pub(super) own: String,
    /// Names that the engine asks for where a file has the matrix in parts, in their order.
    pub(super) parts: &'static [&'static str],
    pub(super) is_matrix: bool,
    /// All names, and which rows they mean. The later entry of a name counts.
    pub(super) all: Vec<(String, RowShare)>,
}

/// Rows of the layer that a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowShare {
    All,
    /// Equal parts in all, the first one, and their number: query, key or value of three; or of the seven of `linear1`,
    /// whose last four are one layer.
    Of(u64, u64, u64),
    Swapped,
    /// One of the parts that the model's file has, however large each is.
    Part(usize),
}

impl RowShare {
    /// `parts`: the rows of each part, where the file has the matrix so.
    pub(super) fn rows(self, rows: u64, parts: &[u64]) -> RowRange {
        match self {
            Self::All => RowRange::All,
            Self::Of(all, first, count) => {
                RowRange::Range(first * (rows / all), count * (rows / all))
            }
            Self::Swapped => RowRange::SwappedHalves,
            Self::Part(part) => {
                let before = parts.iter().take(part).sum();
                let own = parts.get(part);
                own.map_or(RowRange::All, |&own| RowRange::Range(before, own))
            }
        }
    }
}

/// The layers of CLIP's text encoders.
pub(super) fn clip(_is_diffusers: bool) -> Vec<LayerNames> {
    let list = "encoder.layers.{}.";
    let layers = [
        "self_attn.out_proj",
        "mlp.fc1",
        "mlp.fc2",
        "layer_norm1",
        "layer_norm2",
    ];
    let mut names = plain(list, &["text_model."], layers.map(str::to_owned).to_vec());
    let parts = &["q_proj", "k_proj", "v_proj"];
    let own = format!("{list}self_attn");
    let thirds = parts.iter().zip(0..).flat_map(|(part, number)| {
        ["text_model.", ""].map(|prefix| {
            let name = format!("{prefix}{own}.{part}");
            (name, RowShare::Of(3, number, 1))
        })
    });
    names.push(LayerNames {
        all: thirds.collect(),
        own,
        parts,
        is_matrix: true,
    });
    names
}

/// The layers of T5 and of UMT5, which have the same names.
pub(super) fn t5(_is_diffusers: bool) -> Vec<LayerNames> {
    let mut layers = ["q", "k", "v", "o"]
        .map(|part| format!("layer.0.SelfAttention.{part}"))
        .to_vec();
    layers.extend(["wi_0", "wi_1", "wo"].map(|part| format!("layer.1.DenseReluDense.{part}")));
    layers.extend([0, 1].map(|part| format!("layer.{part}.layer_norm")));
    plain("encoder.block.{}.", &[], layers)
}

/// Layers of Anima's text adapter, each with its prefix, since the transformer's blocks have layers of the same names.
pub(super) fn anima_adapter(is_diffusers: bool) -> Vec<LayerNames> {
    let mut layers = of_transformer(&AnimaAdapterConfig::default(), is_diffusers);
    for names in &mut layers {
        let other = names.own.replacen("llm_adapter", "text_conditioner", 1);
        names.all = [names.own.clone(), other]
            .map(|name| (name, RowShare::All))
            .into();
    }
    layers
}

/// Layers that all tools call the same, but for what may come before a list of blocks.
fn plain(list: &str, prefixes: &[&str], layers: Vec<String>) -> Vec<LayerNames> {
    let names = layers.into_iter().map(|layer| {
        let prefixes = prefixes.iter().chain(&[""]);
        LayerNames {
            own: format!("{list}{layer}"),
            parts: &[],
            is_matrix: !layer.contains("norm"),
            all: prefixes
                .map(|prefix| (format!("{prefix}{list}{layer}"), RowShare::All))
                .collect(),
        }
    });
    names.collect()
}

/// Layers whose halves, shift and scale, are swapped in diffusers.
const SWAPPED: [&str; 2] = [
    "final_layer.adaLN_modulation.1",
    "final_layer.image.adaLN_modulation.1",
];

/// The parts of a fused layer, and which rows each of them is.
fn parts_of(own: &str, tensor: &TensorSpec) -> (&'static [&'static str], &'static [RowShare]) {
    use RowShare::{Of, Part};
    let has_seven = matches!(tensor.shape[..], [output, input] if output == 7 * input);
    match own {
        _ if own.ends_with("attn.qkv") || own.ends_with("attention.qkv") => {
            (&["q", "k", "v"], &[Of(3, 0, 1), Of(3, 1, 1), Of(3, 2, 1)])
        }
        // If the rest is wider, no tool has its parts separately.
        "linear1" if has_seven => (
            &["q", "k", "v", "mlp"],
            &[Of(7, 0, 1), Of(7, 1, 1), Of(7, 2, 1), Of(7, 3, 4)],
        ),
        _ if own.ends_with("img_mlp.gate_up") => (&["gate", "up"], &[Of(2, 0, 1), Of(2, 1, 1)]),
        "qkv_mlp" => (
            &["q", "k", "v", "mlp"],
            &[Part(0), Part(1), Part(2), Part(3)],
        ),
        _ if own.ends_with("attn.heads") => (
            &["q", "k", "v", "gate"],
            &[Part(0), Part(1), Part(2), Part(3)],
        ),
        _ => (&[], &[]),
    }
}

/// Names that only some LoRA tools have, diffusers' fused layers and XLabs' among them: readers' within a block, the other,
/// and which rows that means.
const MORE_NAMES: [(&str, &str, RowShare); 8] = [
    ("img_attn.qkv", "attn.to_qkv", RowShare::All),
    ("img_attn.qkv", "processor.qkv_lora1", RowShare::All),
    ("txt_attn.qkv", "attn.to_added_qkv", RowShare::All),
    ("txt_attn.qkv", "processor.qkv_lora2", RowShare::All),
    ("img_attn.proj", "processor.proj_lora1", RowShare::All),
    ("txt_attn.proj", "processor.proj_lora2", RowShare::All),
    ("linear1", "processor.qkv_lora", RowShare::Of(7, 0, 3)),
    ("linear2", "processor.proj_lora", RowShare::All),
];

/// The layers of a transformer in readers' names, those of a list of blocks once. `is_diffusers`: whether the model's file
/// has diffusers' names.
pub(crate) fn of_transformer<C: TransformerConfig>(
    config: &C,
    is_diffusers: bool,
) -> Vec<LayerNames> {
    let mut dialects: Vec<TensorKeys<C>> = TensorKeys::all()
        .filter(|keys| keys.dialect.renames())
        .collect();
    dialects.sort_by_key(|keys| keys.is_diffusers);
    let tensors = Schema::of(config, None).into_tensors();
    let layers = tensors.iter().filter_map(|tensor| {
        let mut lists = C::DIALECTS[0].lists.iter().enumerate();
        let inner = lists.find_map(|(number, list)| {
            let rest = tensor.name.strip_prefix(list.own)?.strip_prefix('.')?;
            let (block, rest) = rest.split_once('.')?;
            Some((number, block, rest))
        });
        let (starts, name) = match inner {
            None => (vec![String::new()], &*tensor.name),
            Some((number, "0", rest)) => {
                let own = C::DIALECTS[0].lists[number].own;
                let others = C::DIALECTS.iter().map(|it| it.lists[number].other);
                let others = others.filter(|other| *other != own).chain([own]);
                (others.map(|list| format!("{list}.{{}}.")).collect(), rest)
            }
            Some(_) => return None,
        };
        let is_bias = name.rsplit('.').next() == Some("bias");
        (!is_bias).then(|| layer(tensor, &starts, name, &dialects, is_diffusers))
    });
    layers.collect()
}

/// `starts`: what comes before a name within a block in each dialect, readers' own last; `name`: readers' there.
fn layer<C: TransformerConfig>(
    tensor: &TensorSpec,
    starts: &[String],
    name: &str,
    dialects: &[TensorKeys<C>],
    is_diffusers: bool,
) -> LayerNames {
    let bare = name.strip_suffix(".weight");
    let end = bare.map_or("", |_| ".weight");
    let own = bare.unwrap_or(name);
    let own_start = starts.last().map_or("", String::as_str);
    let name_in = |keys: &TensorKeys<C>, own: &str| {
        let key = keys.file_key(&format!("{own_start}{own}{end}"));
        let inner = key.split_once(".{}.").map_or(&*key, |(_, inner)| inner);
        inner.strip_suffix(".weight").unwrap_or(inner).to_owned()
    };
    let (parts, shares) = parts_of(own, tensor);
    let mut names = vec![(own.to_owned(), RowShare::All)];
    for keys in dialects {
        if keys.dialect.is_split && !parts.is_empty() {
            let parts = parts.iter().zip(shares);
            names.extend(
                parts.map(|(part, share)| (name_in(keys, &format!("{own}.{part}")), *share)),
            );
        } else {
            names.push((name_in(keys, own), RowShare::All));
        }
    }
    // Some have a scale alone.
    let has_two_vectors = matches!(tensor.shape[..], [output, input] if output == 2 * input);
    if SWAPPED.contains(&own) && has_two_vectors {
        let theirs = dialects.last().filter(|_| !is_diffusers);
        let swapped = theirs.map_or_else(|| own.to_owned(), |keys| name_in(keys, own));
        names.push((swapped, RowShare::Swapped));
    }
    // Without the number of diffusers' name, and norms without their ending.
    let ends = [".to_out.0", ".scale"].iter().zip([".to_out", ""]);
    let shorter = names.iter().flat_map(|(name, share)| {
        let ends = ends.clone();
        ends.filter_map(move |(long, short)| {
            Some((format!("{}{short}", name.strip_suffix(long)?), *share))
        })
    });
    let shorter: Vec<_> = shorter.collect();
    names.extend(shorter);
    let is_whole = own != "linear1" || !parts.is_empty();
    let more = MORE_NAMES
        .iter()
        .filter(|(layer, ..)| *layer == own && is_whole);
    names.extend(more.map(|(_, other, share)| ((*other).to_owned(), *share)));
    let all = starts.iter().flat_map(|start| {
        let names = names.iter();
        names.map(move |(name, share)| (format!("{start}{name}"), *share))
    });
    LayerNames {
        own: format!("{own_start}{own}"),
        parts,
        is_matrix: bare.is_some() && tensor.shape.len() > 1,
        all: all.collect(),
    }
}
