//! What the layers of each network are called: by the engine, by diffusers and by single LoRA tools.
//!
//! Has no shapes and no numbers of blocks; `table` asks the model's file for those.

use super::table::{Network, Rows};
use crate::catalog::TransformerKeys;

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
enum Share {
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

impl Names {
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

/// Flux's own name, diffusers' names with the rows they mean, XLabs' name.
type FluxName = (&'static str, &'static [(&'static str, Share)]);

const FLUX: [FluxName; 9] = [
    ("img_in", &[("x_embedder", Share::All)]),
    ("txt_in", &[("context_embedder", Share::All)]),
    (
        "time_in.in_layer",
        &[("time_text_embed.timestep_embedder.linear_1", Share::All)],
    ),
    (
        "time_in.out_layer",
        &[("time_text_embed.timestep_embedder.linear_2", Share::All)],
    ),
    (
        "vector_in.in_layer",
        &[("time_text_embed.text_embedder.linear_1", Share::All)],
    ),
    (
        "vector_in.out_layer",
        &[("time_text_embed.text_embedder.linear_2", Share::All)],
    ),
    (
        "guidance_in.in_layer",
        &[("time_text_embed.guidance_embedder.linear_1", Share::All)],
    ),
    (
        "guidance_in.out_layer",
        &[("time_text_embed.guidance_embedder.linear_2", Share::All)],
    ),
    ("final_layer.linear", &[("proj_out", Share::All)]),
];

/// Whose halves, shift and scale, diffusers has the other way round.
const FLUX_SWAPPED: (&str, &str) = ("final_layer.adaLN_modulation.1", "norm_out.linear");

const FLUX_DOUBLE: [FluxName; 14] = [
    ("img_mod.lin", &[("norm1.linear", Share::All)]),
    ("txt_mod.lin", &[("norm1_context.linear", Share::All)]),
    (
        "img_attn.qkv",
        &[
            ("attn.to_q", Share::Third(0)),
            ("attn.to_k", Share::Third(1)),
            ("attn.to_v", Share::Third(2)),
            ("attn.to_qkv", Share::All),
            ("processor.qkv_lora1", Share::All),
        ],
    ),
    (
        "txt_attn.qkv",
        &[
            ("attn.add_q_proj", Share::Third(0)),
            ("attn.add_k_proj", Share::Third(1)),
            ("attn.add_v_proj", Share::Third(2)),
            ("attn.to_added_qkv", Share::All),
            ("processor.qkv_lora2", Share::All),
        ],
    ),
    (
        "img_attn.norm.query_norm.scale",
        &[
            ("img_attn.norm.query_norm", Share::All),
            ("attn.norm_q", Share::All),
        ],
    ),
    (
        "img_attn.norm.key_norm.scale",
        &[
            ("img_attn.norm.key_norm", Share::All),
            ("attn.norm_k", Share::All),
        ],
    ),
    (
        "txt_attn.norm.query_norm.scale",
        &[
            ("txt_attn.norm.query_norm", Share::All),
            ("attn.norm_added_q", Share::All),
        ],
    ),
    (
        "txt_attn.norm.key_norm.scale",
        &[
            ("txt_attn.norm.key_norm", Share::All),
            ("attn.norm_added_k", Share::All),
        ],
    ),
    (
        "img_attn.proj",
        &[
            ("attn.to_out.0", Share::All),
            ("attn.to_out", Share::All),
            ("processor.proj_lora1", Share::All),
        ],
    ),
    (
        "txt_attn.proj",
        &[
            ("attn.to_add_out", Share::All),
            ("processor.proj_lora2", Share::All),
        ],
    ),
    ("img_mlp.0", &[("ff.net.0.proj", Share::All)]),
    ("img_mlp.2", &[("ff.net.2", Share::All)]),
    ("txt_mlp.0", &[("ff_context.net.0.proj", Share::All)]),
    ("txt_mlp.2", &[("ff_context.net.2", Share::All)]),
];

const FLUX_SINGLE: [FluxName; 5] = [
    ("modulation.lin", &[("norm.linear", Share::All)]),
    (
        "linear1",
        &[
            ("attn.to_q", Share::Seventh(0)),
            ("attn.to_k", Share::Seventh(1)),
            ("attn.to_v", Share::Seventh(2)),
            ("processor.qkv_lora", Share::QkvOfSeven),
            ("proj_mlp", Share::MlpOfSeven),
        ],
    ),
    (
        "linear2",
        &[
            ("proj_out", Share::All),
            ("processor.proj_lora", Share::All),
        ],
    ),
    (
        "norm.query_norm.scale",
        &[("norm.query_norm", Share::All), ("attn.norm_q", Share::All)],
    ),
    (
        "norm.key_norm.scale",
        &[("norm.key_norm", Share::All), ("attn.norm_k", Share::All)],
    ),
];

fn flux(is_diffusers: bool) -> Vec<Names> {
    let name = |&(own, others): &FluxName| Name {
        own,
        parts: match own {
            "img_attn.qkv" | "txt_attn.qkv" => &["q", "k", "v"],
            "linear1" => &["q", "k", "v", "mlp"],
            _ => &[],
        },
        is_matrix: !own.ends_with(".scale"),
        others: others
            .iter()
            .map(|&(other, share)| (other.to_owned(), share))
            .collect(),
    };
    let (own, other) = FLUX_SWAPPED;
    let (own_share, other_share) = if is_diffusers {
        (Share::Swapped, Share::All)
    } else {
        (Share::All, Share::Swapped)
    };
    let mut outer: Vec<Name> = FLUX.iter().map(name).collect();
    outer.push(Name {
        own,
        parts: &[],
        is_matrix: true,
        // The later entry of a name counts.
        others: vec![(own.to_owned(), own_share), (other.to_owned(), other_share)],
    });
    vec![
        Names {
            own: "",
            others: &[],
            mark: "img_in.weight",
            layers: outer,
        },
        Names {
            own: "double_blocks.{}.",
            others: &["transformer_blocks.{}."],
            mark: "img_attn.proj.weight",
            layers: FLUX_DOUBLE.iter().map(name).collect(),
        },
        Names {
            own: "single_blocks.{}.",
            others: &["single_transformer_blocks.{}."],
            mark: "linear2.weight",
            layers: FLUX_SINGLE.iter().map(name).collect(),
        },
    ]
}

/// What diffusers calls the tensor of a Flux transformer that the engine asks for as `own`.
pub(super) fn flux_diffusers_key(own: &str) -> String {
    let kinds = [
        ("double_blocks.", "transformer_blocks.", &FLUX_DOUBLE[..]),
        ("single_blocks.", "single_transformer_blocks.", &FLUX_SINGLE),
    ];
    for (start, other, names) in kinds {
        let block = own
            .strip_prefix(start)
            .and_then(|rest| rest.split_once('.'));
        if let Some((number, name)) = block {
            return format!("{other}{number}.{}", renamed(name, names));
        }
    }
    match own.strip_prefix(FLUX_SWAPPED.0) {
        Some(rest) => format!("{}{rest}", FLUX_SWAPPED.1),
        None => renamed(own, &FLUX),
    }
}

fn renamed(name: &str, names: &[FluxName]) -> String {
    let found = names.iter().find_map(|(own, others)| {
        let rest = name.strip_prefix(own)?;
        if own.ends_with(".scale") {
            return others
                .get(1)
                .map(|(other, _)| format!("{other}.weight{rest}"));
        }
        let is_part = |share: &Share| !matches!(share, Share::All | Share::QkvOfSeven);
        let number = ["q", "k", "v", "mlp"].iter().position(|part| {
            rest.strip_prefix('.')
                .is_some_and(|rest| rest.split('.').next() == Some(part))
        });
        let mut parts = others.iter().filter(|(_, share)| is_part(share));
        match number.and_then(|number| parts.nth(number)) {
            Some((other, _)) => {
                let end = rest[1..].find('.').map_or("", |at| &rest[1 + at..]);
                Some(format!("{other}{end}"))
            }
            // diffusers has no such matrix as a whole.
            None if others.iter().any(|(_, share)| is_part(share)) => None,
            None => others.first().map(|(other, _)| format!("{other}{rest}")),
        }
    });
    found.unwrap_or_else(|| name.to_owned())
}
