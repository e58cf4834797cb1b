//! The names of a Flux transformer's tensors: the authors' own, which this code asks for, and diffusers'.
//!
//! Either may stand behind a prefix, as in checkpoints that hold a whole pipeline. Where diffusers has several
//! matrices in the place of one, this code asks for parts of that one: `img_attn.qkv.q`, `linear1.mlp`.
//! Does not look at shapes or at how numbers are stored.

use std::collections::BTreeSet;

use crate::weights::Weights;

/// How the tensors of one file or folder are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys {
    prefix: &'static str,
    is_diffusers: bool,
}

const PREFIXES: [&str; 4] = [
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
];

/// Original and diffusers' names outside the blocks.
const OUTER: [(&str, &str); 10] = [
    ("img_in", "x_embedder"),
    ("txt_in", "context_embedder"),
    (
        "time_in.in_layer",
        "time_text_embed.timestep_embedder.linear_1",
    ),
    (
        "time_in.out_layer",
        "time_text_embed.timestep_embedder.linear_2",
    ),
    (
        "vector_in.in_layer",
        "time_text_embed.text_embedder.linear_1",
    ),
    (
        "vector_in.out_layer",
        "time_text_embed.text_embedder.linear_2",
    ),
    (
        "guidance_in.in_layer",
        "time_text_embed.guidance_embedder.linear_1",
    ),
    (
        "guidance_in.out_layer",
        "time_text_embed.guidance_embedder.linear_2",
    ),
    ("final_layer.linear", "proj_out"),
    ("final_layer.adaLN_modulation.1", "norm_out.linear"),
];

/// The same inside `double_blocks.N` and `transformer_blocks.N`.
const DOUBLE: [(&str, &str); 18] = [
    ("img_mod.lin", "norm1.linear"),
    ("txt_mod.lin", "norm1_context.linear"),
    ("img_attn.qkv.q", "attn.to_q"),
    ("img_attn.qkv.k", "attn.to_k"),
    ("img_attn.qkv.v", "attn.to_v"),
    ("txt_attn.qkv.q", "attn.add_q_proj"),
    ("txt_attn.qkv.k", "attn.add_k_proj"),
    ("txt_attn.qkv.v", "attn.add_v_proj"),
    ("img_attn.norm.query_norm.scale", "attn.norm_q.weight"),
    ("img_attn.norm.key_norm.scale", "attn.norm_k.weight"),
    ("txt_attn.norm.query_norm.scale", "attn.norm_added_q.weight"),
    ("txt_attn.norm.key_norm.scale", "attn.norm_added_k.weight"),
    ("img_attn.proj", "attn.to_out.0"),
    ("txt_attn.proj", "attn.to_add_out"),
    ("img_mlp.0", "ff.net.0.proj"),
    ("img_mlp.2", "ff.net.2"),
    ("txt_mlp.0", "ff_context.net.0.proj"),
    ("txt_mlp.2", "ff_context.net.2"),
];

/// The same inside `single_blocks.N` and `single_transformer_blocks.N`.
const SINGLE: [(&str, &str); 8] = [
    ("modulation.lin", "norm.linear"),
    ("linear1.q", "attn.to_q"),
    ("linear1.k", "attn.to_k"),
    ("linear1.v", "attn.to_v"),
    ("linear1.mlp", "proj_mlp"),
    ("linear2", "proj_out"),
    ("norm.query_norm.scale", "attn.norm_q.weight"),
    ("norm.key_norm.scale", "attn.norm_k.weight"),
];

impl TransformerKeys {
    /// What is no Flux transformer counts as one in the original names: the first key asked for says what is wrong.
    pub fn detect(w: &Weights) -> Self {
        for prefix in PREFIXES {
            for (first, is_diffusers) in [("img_in.weight", false), ("x_embedder.weight", true)] {
                if w.has(&format!("{prefix}{first}")) {
                    return Self {
                        prefix,
                        is_diffusers,
                    };
                }
            }
        }
        Self {
            prefix: "",
            is_diffusers: false,
        }
    }

    /// Whether they are diffusers' names; the authors' otherwise.
    pub fn is_diffusers(self) -> bool {
        self.is_diffusers
    }

    /// `w`, to be asked for by the original names.
    pub fn translate(self, w: &Weights) -> Weights {
        w.translated(move |original| self.file_key(original))
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        let name = if self.is_diffusers {
            diffusers_key(original)
        } else {
            original.to_owned()
        };
        format!("{}{name}", self.prefix)
    }

    /// Which vectors of the final modulation are the shift and the scale: diffusers has them the other way round.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        if self.is_diffusers { (1, 0) } else { (0, 1) }
    }

    /// How many double and single blocks there are.
    pub fn count_blocks(self, w: &Weights) -> (usize, usize) {
        let (double, single) = if self.is_diffusers {
            ("transformer_blocks", "single_transformer_blocks")
        } else {
            ("double_blocks", "single_blocks")
        };
        let count = |blocks: &str| {
            let start = format!("{}{blocks}.", self.prefix);
            let numbers = w.keys().filter_map(|key| {
                let (number, _) = key.strip_prefix(&start)?.split_once('.')?;
                number.parse::<usize>().ok()
            });
            numbers.collect::<BTreeSet<_>>().len()
        };
        (count(double), count(single))
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected(self, w: &Weights) -> Vec<String> {
        let mut keys = w.finish();
        keys.retain(|key| key.starts_with(self.prefix));
        keys
    }
}

fn diffusers_key(original: &str) -> String {
    for (ours, theirs, names) in [
        ("double_blocks", "transformer_blocks", &DOUBLE[..]),
        ("single_blocks", "single_transformer_blocks", &SINGLE),
    ] {
        let inner = original
            .strip_prefix(ours)
            .and_then(|rest| rest.strip_prefix('.'));
        if let Some((number, name)) = inner.and_then(|inner| inner.split_once('.')) {
            return format!("{theirs}.{number}.{}", renamed(name, names));
        }
    }
    renamed(original, &OUTER)
}

fn renamed(name: &str, names: &[(&str, &str)]) -> String {
    let found = names.iter().find_map(|(ours, theirs)| {
        let rest = name.strip_prefix(ours)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("{theirs}{rest}"))
    });
    found.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = TransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        for (original, expected) in [
            ("img_in.weight", "x_embedder.weight"),
            (
                "guidance_in.out_layer.bias",
                "time_text_embed.guidance_embedder.linear_2.bias",
            ),
            (
                "double_blocks.12.txt_attn.qkv.v.bias",
                "transformer_blocks.12.attn.add_v_proj.bias",
            ),
            (
                "double_blocks.1.img_attn.norm.key_norm.scale",
                "transformer_blocks.1.attn.norm_k.weight",
            ),
            (
                "double_blocks.0.txt_mlp.2.weight",
                "transformer_blocks.0.ff_context.net.2.weight",
            ),
            (
                "single_blocks.37.linear1.mlp.weight",
                "single_transformer_blocks.37.proj_mlp.weight",
            ),
            (
                "single_blocks.3.linear2.weight",
                "single_transformer_blocks.3.proj_out.weight",
            ),
            ("final_layer.linear.bias", "proj_out.bias"),
            // Neither file has such a thing: the parts are asked for instead.
            (
                "single_blocks.3.linear1.weight",
                "single_transformer_blocks.3.linear1.weight",
            ),
        ] {
            assert_eq!(diffusers.file_key(original), expected);
        }
        let prefixed = TransformerKeys {
            prefix: "model.diffusion_model.",
            is_diffusers: false,
        };
        assert_eq!(
            prefixed.file_key("img_in.bias"),
            "model.diffusion_model.img_in.bias"
        );
    }
}
