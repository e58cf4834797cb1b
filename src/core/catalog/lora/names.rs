//! What the layers of each network are called: by the engine, by diffusers and by single LoRA tools.
//!
//! Has no shapes and no numbers of blocks; `table` asks the model's file for those.

use super::framepack;
use super::table::{Network, Rows};
use crate::catalog::{FluxTransformerKeys, TransformerKeys};

/// One layer's names within a block.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// The engine's.
    pub(super) own: &'static str,
    /// What the engine asks for where a file has the matrix in parts, in their order.
    pub(super) parts: &'static [&'static str],
    pub(super) is_matrix: bool,
    /// Others, and which rows they mean.
    others: Vec<(String, Share)>,
}

/// Which rows a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    All,
    /// Query, key or value of three.
    Third(u64),
    /// Query, key or value of `linear1`: each is as wide as the network, the rest four times as wide.
    Seventh(u64),
    /// The three together.
    QkvOfSeven,
    MlpOfSeven,
    Swapped,
}

impl Share {
    fn rows(self, rows: u64) -> Rows {
        match self {
            Self::All => Rows::All,
            Self::Third(part) => Rows::Range(part * (rows / 3), rows / 3),
            Self::Seventh(part) => Rows::Range(part * (rows / 7), rows / 7),
            Self::QkvOfSeven => Rows::Range(0, 3 * (rows / 7)),
            Self::MlpOfSeven => Rows::Range(3 * (rows / 7), rows - 3 * (rows / 7)),
            Self::Swapped => Rows::SwappedHalves,
        }
    }
}

/// The names of the layers of all blocks of one kind. What is in no block counts as one block without a number.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// `double_blocks.{}.`
    own: &'static str,
    /// The same in the names of others.
    others: &'static [&'static str],
    /// A tensor that every such block has.
    mark: &'static str,
    pub(super) layers: Vec<Name>,
}

impl Name {
    pub(super) fn new(
        own: &'static str,
        parts: &'static [&'static str],
        is_matrix: bool,
        others: Vec<(String, Share)>,
    ) -> Self {
        Self {
            own,
            parts,
            is_matrix,
            others,
        }
    }
}

impl Names {
    pub(super) fn new(
        own: &'static str,
        others: &'static [&'static str],
        mark: &'static str,
        layers: Vec<Name>,
    ) -> Self {
        Self {
            own,
            others,
            mark,
            layers,
        }
    }

    pub(super) fn in_block(&self, name: &str, block: u64) -> String {
        format!("{}{name}", self.own.replace("{}", &block.to_string()))
    }

    /// Whether there is a block of this number, by whether it has a tensor.
    pub(super) fn has_block(&self, block: u64, has: &dyn Fn(&str) -> bool) -> bool {
        (block == 0 || self.own.contains("{}")) && has(&self.in_block(self.mark, block))
    }

    /// Every name of a layer and the rows it means, of `rows` that there are.
    pub(super) fn all_of(&self, name: &Name, block: u64, rows: u64) -> Vec<(String, Rows)> {
        let number = block.to_string();
        let mut all = Vec::new();
        for start in self.others.iter().chain([&self.own]) {
            let start = start.replace("{}", &number);
            all.push((format!("{start}{}", name.own), Rows::All));
            for (other, share) in &name.others {
                all.push((format!("{start}{other}"), share.rows(rows)));
            }
        }
        all
    }
}

/// The layers of a network, one entry for each kind of block.
pub(super) fn of_network(network: Network) -> Vec<Names> {
    match network {
        Network::Wan => vec![
            wan("", "patch_embedding.weight", &WAN),
            wan("blocks.{}.", "ffn.0.weight", &WAN_BLOCK),
        ],
        Network::Flux { is_diffusers } => flux(is_diffusers),
        Network::FramePack { is_diffusers } => framepack::names(is_diffusers),
        Network::Clip => vec![Names {
            own: "encoder.layers.{}.",
            others: &["text_model.encoder.layers.{}."],
            mark: "mlp.fc1.weight",
            layers: plain(&CLIP_LAYER),
        }],
        Network::T5 => vec![Names {
            own: "encoder.block.{}.",
            others: &[],
            mark: "layer.0.SelfAttention.q.weight",
            layers: plain(&T5_BLOCK),
        }],
    }
}

/// Names that all tools have, and whether they are of matrices.
type Plain = (&'static str, bool);

fn plain(names: &[Plain]) -> Vec<Name> {
    let name = |&(own, is_matrix): &Plain| Name {
        own,
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

const WAN: [Plain; 12] = [
    ("patch_embedding", true),
    ("text_embedding.0", true),
    ("text_embedding.2", true),
    ("time_embedding.0", true),
    ("time_embedding.2", true),
    ("time_projection.1", true),
    ("img_emb.proj.0", false),
    ("img_emb.proj.1", true),
    ("img_emb.proj.3", true),
    ("img_emb.proj.4", false),
    ("head.head", true),
    ("head.modulation", false),
];

const WAN_BLOCK: [Plain; 19] = [
    ("self_attn.q", true),
    ("self_attn.k", true),
    ("self_attn.v", true),
    ("self_attn.o", true),
    ("self_attn.norm_q", false),
    ("self_attn.norm_k", false),
    ("cross_attn.q", true),
    ("cross_attn.k", true),
    ("cross_attn.v", true),
    ("cross_attn.o", true),
    ("cross_attn.norm_q", false),
    ("cross_attn.norm_k", false),
    ("cross_attn.k_img", true),
    ("cross_attn.v_img", true),
    ("cross_attn.norm_k_img", false),
    ("norm3", false),
    ("ffn.0", true),
    ("ffn.2", true),
    ("modulation", false),
];

/// Wan's names are the authors' and diffusers'.
fn wan(own: &'static str, mark: &'static str, names: &[Plain]) -> Names {
    let diffusers = TransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let start = own.replace("{}", "0");
    let mut layers = plain(names);
    for layer in &mut layers {
        let end = if layer.own.ends_with("modulation") {
            ""
        } else {
            ".weight"
        };
        let key = diffusers.file_key(&format!("{start}{}{end}", layer.own));
        let other = key
            .strip_prefix(&start)
            .and_then(|key| key.strip_suffix(end));
        layer
            .others
            .extend(other.map(|other| (other.to_owned(), Share::All)));
    }
    Names {
        own,
        others: &[],
        mark,
        layers,
    }
}

/// Flux's own name of a layer, and what only some LoRA tools call it.
type FluxName = (&'static str, &'static [(&'static str, Share)]);

const FLUX: [FluxName; 10] = [
    ("img_in", &[]),
    ("txt_in", &[]),
    ("time_in.in_layer", &[]),
    ("time_in.out_layer", &[]),
    ("vector_in.in_layer", &[]),
    ("vector_in.out_layer", &[]),
    ("guidance_in.in_layer", &[]),
    ("guidance_in.out_layer", &[]),
    ("final_layer.linear", &[]),
    (FLUX_SWAPPED, &[]),
];

/// Whose halves, shift and scale, diffusers has the other way round.
const FLUX_SWAPPED: &str = "final_layer.adaLN_modulation.1";

const FLUX_DOUBLE: [FluxName; 14] = [
    ("img_mod.lin", &[]),
    ("txt_mod.lin", &[]),
    (
        "img_attn.qkv",
        &[
            ("attn.to_qkv", Share::All),
            ("processor.qkv_lora1", Share::All),
        ],
    ),
    (
        "txt_attn.qkv",
        &[
            ("attn.to_added_qkv", Share::All),
            ("processor.qkv_lora2", Share::All),
        ],
    ),
    (
        "img_attn.norm.query_norm.scale",
        &[("img_attn.norm.query_norm", Share::All)],
    ),
    (
        "img_attn.norm.key_norm.scale",
        &[("img_attn.norm.key_norm", Share::All)],
    ),
    (
        "txt_attn.norm.query_norm.scale",
        &[("txt_attn.norm.query_norm", Share::All)],
    ),
    (
        "txt_attn.norm.key_norm.scale",
        &[("txt_attn.norm.key_norm", Share::All)],
    ),
    (
        "img_attn.proj",
        &[
            ("attn.to_out", Share::All),
            ("processor.proj_lora1", Share::All),
        ],
    ),
    ("txt_attn.proj", &[("processor.proj_lora2", Share::All)]),
    ("img_mlp.0", &[]),
    ("img_mlp.2", &[]),
    ("txt_mlp.0", &[]),
    ("txt_mlp.2", &[]),
];

const FLUX_SINGLE: [FluxName; 5] = [
    ("modulation.lin", &[]),
    ("linear1", &[("processor.qkv_lora", Share::QkvOfSeven)]),
    ("linear2", &[("processor.proj_lora", Share::All)]),
    ("norm.query_norm.scale", &[("norm.query_norm", Share::All)]),
    ("norm.key_norm.scale", &[("norm.key_norm", Share::All)]),
];

/// The parts of a fused layer, and which rows each of them is.
type FluxPart = (&'static str, Share);

fn flux_parts(own: &str) -> (&'static [&'static str], &'static [FluxPart]) {
    match own {
        "img_attn.qkv" | "txt_attn.qkv" => (
            &["q", "k", "v"],
            &[
                ("q", Share::Third(0)),
                ("k", Share::Third(1)),
                ("v", Share::Third(2)),
            ],
        ),
        "linear1" => (
            &["q", "k", "v", "mlp"],
            &[
                ("q", Share::Seventh(0)),
                ("k", Share::Seventh(1)),
                ("v", Share::Seventh(2)),
                ("mlp", Share::MlpOfSeven),
            ],
        ),
        _ => (&[], &[]),
    }
}

/// Flux's names are the authors' and diffusers', which has some matrices in parts.
fn flux(is_diffusers: bool) -> Vec<Names> {
    let kinds = [
        ("", "img_in.weight", &FLUX[..]),
        (
            "double_blocks.{}.",
            "img_attn.proj.weight",
            &FLUX_DOUBLE[..],
        ),
        ("single_blocks.{}.", "linear2.weight", &FLUX_SINGLE[..]),
    ];
    kinds
        .into_iter()
        .map(|(own, mark, layers)| Names {
            own,
            others: match own {
                "" => &[],
                "double_blocks.{}." => &["transformer_blocks.{}."],
                _ => &["single_transformer_blocks.{}."],
            },
            mark,
            layers: layers
                .iter()
                .map(|layer| flux_name(own, layer, is_diffusers))
                .collect(),
        })
        .collect()
}

fn flux_name(block: &str, (own, extra): &FluxName, is_diffusers: bool) -> Name {
    let diffusers = FluxTransformerKeys {
        prefix: "",
        is_diffusers: true,
    };
    let is_matrix = own.rsplit('.').next() != Some("scale");
    let (parts, shares) = flux_parts(own);
    // What diffusers calls it behind the number of its block.
    let other = |name: &str| {
        let end = if is_matrix { ".weight" } else { "" };
        let key = diffusers.file_key(&format!("{}{name}{end}", block.replace("{}", "0")));
        let (_, name) = key
            .split_once(".0.")
            .filter(|_| !block.is_empty())
            .unwrap_or(("", &key));
        name.strip_suffix(".weight").unwrap_or(name).to_owned()
    };
    let mut others: Vec<(String, Share)> = if shares.is_empty() {
        vec![(other(own), Share::All)]
    } else {
        let part = |(part, share): &FluxPart| (other(&format!("{own}.{part}")), *share);
        shares.iter().map(part).collect()
    };
    if *own == FLUX_SWAPPED {
        // The later entry of a name counts.
        let swapped = if is_diffusers {
            (*own).to_owned()
        } else {
            other(own)
        };
        others.push((swapped, Share::Swapped));
    }
    others.extend(
        extra
            .iter()
            .map(|(name, share)| ((*name).to_owned(), *share)),
    );
    Name {
        own,
        parts,
        is_matrix,
        others,
    }
}
