//! What the authors of Krea 2 and diffusers call its transformer's tensors, and how readers ask for them.

use crate::networks::flux_transformer::PREFIXES;
use crate::networks::stream_blocks::{self, DIFFUSERS, List, Names};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Krea2TransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

/// What makes one state of several.
pub(super) const PROJECTOR: &str = "txtfusion.projector.weight";
/// By which the authors' names are known, and diffusers'; one is enough for a file that lacks others.
const MARKS: [[&str; 3]; 2] = [
    [
        PROJECTOR,
        "txtfusion.layerwise_blocks.0.prenorm.scale",
        "blocks.0.attn.qknorm.qnorm.scale",
    ],
    [
        "text_fusion.projector.weight",
        "text_fusion.layerwise_blocks.0.norm1.weight",
        "transformer_blocks.0.attn.to_gate.weight",
    ],
];

/// Where the authors' names are among those of a layer, whose first are ours.
const AUTHORS: usize = 1;

/// In every block; what is empty no file has.
const BLOCK: [Names; 12] = [
    ["attn.heads.q", "attn.wq", "attn.to_q"],
    ["attn.heads.k", "attn.wk", "attn.to_k"],
    ["attn.heads.v", "attn.wv", "attn.to_v"],
    ["attn.heads.gate", "attn.gate", "attn.to_gate"],
    ["attn.heads", "", ""],
    ["attn.wo", "attn.wo", "attn.to_out.0"],
    [
        "attn.qknorm.qnorm.scale",
        "attn.qknorm.qnorm.scale",
        "attn.norm_q.weight",
    ],
    [
        "attn.qknorm.knorm.scale",
        "attn.qknorm.knorm.scale",
        "attn.norm_k.weight",
    ],
    ["mlp", "mlp", "ff"],
    ["prenorm.scale", "prenorm.scale", "norm1.weight"],
    ["postnorm.scale", "postnorm.scale", "norm2.weight"],
    ["mod.lin", "mod.lin", "scale_shift_table"],
];

/// The lists of blocks: the authors' name, and diffusers'.
pub(super) const LISTS: [List; 3] = [
    ("blocks", "transformer_blocks", &BLOCK),
    (
        "txtfusion.layerwise_blocks",
        "text_fusion.layerwise_blocks",
        &BLOCK,
    ),
    (
        "txtfusion.refiner_blocks",
        "text_fusion.refiner_blocks",
        &BLOCK,
    ),
];

const OUTER: [Names; 11] = [
    ["first", "first", "img_in"],
    ["tmlp.0", "tmlp.0", "time_embed.linear_1"],
    ["tmlp.2", "tmlp.2", "time_embed.linear_2"],
    ["tproj.1", "tproj.1", "time_mod_proj"],
    ["txtmlp.0.scale", "txtmlp.0.scale", "txt_in.norm.weight"],
    ["txtmlp.1", "txtmlp.1", "txt_in.linear_1"],
    ["txtmlp.3", "txtmlp.3", "txt_in.linear_2"],
    [
        "txtfusion.projector",
        "txtfusion.projector",
        "text_fusion.projector",
    ],
    ["last.linear", "last.linear", "final_layer.linear"],
    [
        "last.norm.scale",
        "last.norm.scale",
        "final_layer.norm.weight",
    ],
    [
        "last.modulation.lin",
        "last.modulation.lin",
        "final_layer.scale_shift_table",
    ],
];

impl Krea2TransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };

    /// What lies in the authors' files and nobody reads.
    pub const UNREAD: [&'static str; 2] = ["last.down.weight", "last.up.weight"];

    /// The dialect of a file, by whether it has a key; `None` for what is no Krea 2 transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let dialects = PREFIXES
            .iter()
            .flat_map(|prefix| [false, true].map(|is_diffusers| (prefix, is_diffusers)));
        dialects
            .map(|(prefix, is_diffusers)| Self {
                prefix,
                is_diffusers,
            })
            .find(|keys| {
                let marks = MARKS[usize::from(keys.is_diffusers)].iter();
                let mut marks = marks.map(|mark| format!("{}{mark}", keys.prefix));
                marks.any(|mark| has(&mark))
            })
    }

    /// The same, where what is no Krea 2 transformer counts as one in the authors' names: the first key that is asked
    /// for says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that readers call `own`.
    pub fn file_key(self, own: &str) -> String {
        let column = if self.is_diffusers {
            DIFFUSERS
        } else {
            AUTHORS
        };
        let name = stream_blocks::renamed(own, &LISTS, &[&OUTER], column);
        format!("{}{name}", self.prefix)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops(self) -> &'static [&'static str] {
        if self.is_diffusers {
            &[
                "final_layer",
                "img_in",
                "text_fusion",
                "time_embed",
                "time_mod_proj",
                "transformer_blocks",
                "txt_in",
            ]
        } else {
            &[
                "blocks",
                "first",
                "last",
                "tmlp",
                "tproj",
                "txtfusion",
                "txtmlp",
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = Krea2TransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        for (own, authors, theirs) in [
            ("first.bias", "first.bias", "img_in.bias"),
            (
                "tmlp.2.weight",
                "tmlp.2.weight",
                "time_embed.linear_2.weight",
            ),
            ("txtmlp.0.scale", "txtmlp.0.scale", "txt_in.norm.weight"),
            ("txtmlp.3.bias", "txtmlp.3.bias", "txt_in.linear_2.bias"),
            (
                "blocks.27.attn.heads.v.weight",
                "blocks.27.attn.wv.weight",
                "transformer_blocks.27.attn.to_v.weight",
            ),
            (
                "txtfusion.refiner_blocks.1.attn.heads.gate.weight",
                "txtfusion.refiner_blocks.1.attn.gate.weight",
                "text_fusion.refiner_blocks.1.attn.to_gate.weight",
            ),
            (
                "txtfusion.layerwise_blocks.0.postnorm.scale",
                "txtfusion.layerwise_blocks.0.postnorm.scale",
                "text_fusion.layerwise_blocks.0.norm2.weight",
            ),
            (
                "blocks.3.mlp.down.weight",
                "blocks.3.mlp.down.weight",
                "transformer_blocks.3.ff.down.weight",
            ),
            (
                "last.modulation.lin",
                "last.modulation.lin",
                "final_layer.scale_shift_table",
            ),
        ] {
            assert_eq!(Krea2TransformerKeys::ORIGINAL.file_key(own), authors);
            assert_eq!(diffusers.file_key(own), theirs);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix() {
        for prefix in PREFIXES {
            for (mark, is_diffusers) in [
                ("txtfusion.projector.weight", false),
                ("text_fusion.projector.weight", true),
            ] {
                let name = format!("{prefix}{mark}");
                let keys = Krea2TransformerKeys::detect(|key| key == name).unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
                assert_eq!(keys.file_key(PROJECTOR), name);
            }
        }
        assert_eq!(Krea2TransformerKeys::detect(|_| false), None);
    }
}
