//! The names of a FramePack transformer's tensors: diffusers', in which it is published, HunyuanVideo's authors' own,
//! and those that ComfyUI gives it, which are Flux's where the two have the same parts.
//!
//! Readers ask with ComfyUI's. Where diffusers has several matrices in the place of one, they ask for parts of that
//! one: `img_attn.qkv.q`, `linear1.mlp`. `clean_x_embedder` and `image_projection` are called so by all. Knows no
//! shapes.

use std::collections::BTreeSet;

/// Whose names a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePackDialect {
    /// Those that readers ask with.
    Comfy,
    /// `img_attn_qkv`, `mlp.fc1`.
    Hunyuan,
    Diffusers,
}

/// How the tensors of one file or folder are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePackTransformerKeys {
    pub prefix: &'static str,
    pub dialect: FramePackDialect,
}

const PREFIXES: [&str; 5] = [
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
    "model.model.",
];

/// What only FramePack has of all that came of HunyuanVideo.
const MARK: &str = "clean_x_embedder.proj.weight";
/// By which HunyuanVideo's transformers are known; two of three are enough for a file that lacks one.
const DIFFUSERS_MARKS: [&str; 3] = [
    "x_embedder.proj.weight",
    "context_embedder.proj_in.weight",
    "proj_out.weight",
];
const ORIGINAL_MARKS: [&str; 3] = [
    "img_in.proj.weight",
    "txt_in.input_embedder.weight",
    "final_layer.linear.weight",
];
/// Either tells the authors' own names from ComfyUI's.
const HUNYUAN_MARKS: [&str; 2] = [
    "time_in.mlp.0.weight",
    "double_blocks.0.img_attn_qkv.weight",
];

/// ComfyUI's, the authors' and diffusers' name of one layer.
type Names = (&'static str, &'static str, &'static str);

/// Outside the blocks.
const OUTER: [Names; 16] = [
    ("img_in.proj", "img_in.proj", "x_embedder.proj"),
    (
        "time_in.in_layer",
        "time_in.mlp.0",
        "time_text_embed.timestep_embedder.linear_1",
    ),
    (
        "time_in.out_layer",
        "time_in.mlp.2",
        "time_text_embed.timestep_embedder.linear_2",
    ),
    (
        "guidance_in.in_layer",
        "guidance_in.mlp.0",
        "time_text_embed.guidance_embedder.linear_1",
    ),
    (
        "guidance_in.out_layer",
        "guidance_in.mlp.2",
        "time_text_embed.guidance_embedder.linear_2",
    ),
    (
        "vector_in.in_layer",
        "vector_in.in_layer",
        "time_text_embed.text_embedder.linear_1",
    ),
    (
        "vector_in.out_layer",
        "vector_in.out_layer",
        "time_text_embed.text_embedder.linear_2",
    ),
    (
        "txt_in.input_embedder",
        "txt_in.input_embedder",
        "context_embedder.proj_in",
    ),
    (
        "txt_in.t_embedder.in_layer",
        "txt_in.t_embedder.mlp.0",
        "context_embedder.time_text_embed.timestep_embedder.linear_1",
    ),
    (
        "txt_in.t_embedder.out_layer",
        "txt_in.t_embedder.mlp.2",
        "context_embedder.time_text_embed.timestep_embedder.linear_2",
    ),
    (
        "txt_in.c_embedder.in_layer",
        "txt_in.c_embedder.linear_1",
        "context_embedder.time_text_embed.text_embedder.linear_1",
    ),
    (
        "txt_in.c_embedder.out_layer",
        "txt_in.c_embedder.linear_2",
        "context_embedder.time_text_embed.text_embedder.linear_2",
    ),
    ("final_layer.linear", "final_layer.linear", "proj_out"),
    (
        "final_layer.adaLN_modulation.1",
        "final_layer.adaLN_modulation.1",
        "norm_out.linear",
    ),
    ("clean_x_embedder", "clean_x_embedder", "clean_x_embedder"),
    ("image_projection", "image_projection", "image_projection"),
];

/// Inside a block of the token refiner.
const REFINER: [Names; 9] = [
    ("self_attn.qkv.q", "", "attn.to_q"),
    ("self_attn.qkv.k", "", "attn.to_k"),
    ("self_attn.qkv.v", "", "attn.to_v"),
    ("self_attn.qkv", "self_attn_qkv", ""),
    ("self_attn.proj", "self_attn_proj", "attn.to_out.0"),
    ("mlp.0", "mlp.fc1", "ff.net.0.proj"),
    ("mlp.2", "mlp.fc2", "ff.net.2"),
    (
        "adaLN_modulation.1",
        "adaLN_modulation.1",
        "norm_out.linear",
    ),
    ("norm", "norm", "norm"),
];

/// Inside `double_blocks.N` and `transformer_blocks.N`.
const DOUBLE: [Names; 20] = [
    ("img_mod.lin", "img_mod.linear", "norm1.linear"),
    ("txt_mod.lin", "txt_mod.linear", "norm1_context.linear"),
    ("img_attn.qkv.q", "", "attn.to_q"),
    ("img_attn.qkv.k", "", "attn.to_k"),
    ("img_attn.qkv.v", "", "attn.to_v"),
    ("img_attn.qkv", "img_attn_qkv", ""),
    ("txt_attn.qkv.q", "", "attn.add_q_proj"),
    ("txt_attn.qkv.k", "", "attn.add_k_proj"),
    ("txt_attn.qkv.v", "", "attn.add_v_proj"),
    ("txt_attn.qkv", "txt_attn_qkv", ""),
    (
        "img_attn.norm.query_norm.scale",
        "img_attn_q_norm.weight",
        "attn.norm_q.weight",
    ),
    (
        "img_attn.norm.key_norm.scale",
        "img_attn_k_norm.weight",
        "attn.norm_k.weight",
    ),
    (
        "txt_attn.norm.query_norm.scale",
        "txt_attn_q_norm.weight",
        "attn.norm_added_q.weight",
    ),
    (
        "txt_attn.norm.key_norm.scale",
        "txt_attn_k_norm.weight",
        "attn.norm_added_k.weight",
    ),
    ("img_attn.proj", "img_attn_proj", "attn.to_out.0"),
    ("txt_attn.proj", "txt_attn_proj", "attn.to_add_out"),
    ("img_mlp.0", "img_mlp.fc1", "ff.net.0.proj"),
    ("img_mlp.2", "img_mlp.fc2", "ff.net.2"),
    ("txt_mlp.0", "txt_mlp.fc1", "ff_context.net.0.proj"),
    ("txt_mlp.2", "txt_mlp.fc2", "ff_context.net.2"),
];

/// Inside `single_blocks.N` and `single_transformer_blocks.N`.
const SINGLE: [Names; 9] = [
    ("modulation.lin", "modulation.linear", "norm.linear"),
    ("linear1.q", "", "attn.to_q"),
    ("linear1.k", "", "attn.to_k"),
    ("linear1.v", "", "attn.to_v"),
    ("linear1.mlp", "", "proj_mlp"),
    ("linear1", "linear1", ""),
    ("linear2", "linear2", "proj_out"),
    (
        "norm.query_norm.scale",
        "q_norm.weight",
        "attn.norm_q.weight",
    ),
    ("norm.key_norm.scale", "k_norm.weight", "attn.norm_k.weight"),
];

/// The lists of blocks in the names that readers ask with, diffusers' names of them, and what is in one.
const LISTS: [(&str, &str, &[Names]); 3] = [
    (
        "txt_in.individual_token_refiner.blocks",
        "context_embedder.token_refiner.refiner_blocks",
        &REFINER,
    ),
    ("double_blocks", "transformer_blocks", &DOUBLE),
    ("single_blocks", "single_transformer_blocks", &SINGLE),
];

/// How many blocks of each kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePackBlocks {
    pub refiner: usize,
    pub double: usize,
    pub single: usize,
}

impl FramePackTransformerKeys {
    /// The names that readers ask with, bare.
    pub const COMFY: Self = Self {
        prefix: "",
        dialect: FramePackDialect::Comfy,
    };
    /// The names of the published files.
    pub const DIFFUSERS: Self = Self {
        prefix: "",
        dialect: FramePackDialect::Diffusers,
    };

    /// The dialect of a file, by whether it has a key; `None` for what is no FramePack transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let found = Self::detect_hunyuan(&has)?;
        has(&format!("{}{MARK}", found.prefix)).then_some(found)
    }

    /// The same for all that came of HunyuanVideo's transformer.
    pub(in crate::catalog) fn detect_hunyuan(has: impl Fn(&str) -> bool) -> Option<Self> {
        for prefix in PREFIXES {
            let is_there = |mark: &&&str| has(&format!("{prefix}{mark}"));
            let has_two = |marks: &[&str]| marks.iter().filter(is_there).count() >= 2;
            let dialect = if has_two(&DIFFUSERS_MARKS) {
                FramePackDialect::Diffusers
            } else if !has_two(&ORIGINAL_MARKS) {
                continue;
            } else if HUNYUAN_MARKS.iter().any(|mark| is_there(&mark)) {
                FramePackDialect::Hunyuan
            } else {
                FramePackDialect::Comfy
            };
            return Some(Self { prefix, dialect });
        }
        None
    }

    /// Whether these are diffusers' names, in which the final modulation has its halves the other way round.
    pub fn is_diffusers(self) -> bool {
        self.dialect == FramePackDialect::Diffusers
    }

    /// What the file calls the tensor that is `name` in ComfyUI.
    pub fn file_key(self, name: &str) -> String {
        format!("{}{}", self.prefix, self.own_name(name))
    }

    fn own_name(self, name: &str) -> String {
        if self.dialect == FramePackDialect::Comfy {
            return name.to_owned();
        }
        for (list, diffusers, names) in LISTS {
            let inner = name
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix('.'))
                .and_then(|rest| rest.split_once('.'));
            if let Some((number, rest)) = inner {
                let list = if self.is_diffusers() { diffusers } else { list };
                return format!("{list}.{number}.{}", self.renamed(rest, names));
            }
        }
        self.renamed(name, &OUTER)
    }

    fn renamed(self, name: &str, names: &[Names]) -> String {
        let found = names.iter().find_map(|(comfy, hunyuan, diffusers)| {
            let theirs = match self.dialect {
                FramePackDialect::Comfy => comfy,
                FramePackDialect::Hunyuan => hunyuan,
                FramePackDialect::Diffusers => diffusers,
            };
            if theirs.is_empty() {
                return None;
            }
            let rest = name.strip_prefix(comfy)?;
            // `norm` stands for `norm1` and `norm2`.
            let is_whole = rest.is_empty() || rest.starts_with('.') || *comfy == "norm";
            is_whole.then(|| format!("{theirs}{rest}"))
        });
        found.unwrap_or_else(|| name.to_owned())
    }

    /// How many blocks there are among these keys.
    pub fn count_blocks(self, keys: &[&str]) -> FramePackBlocks {
        let count = |index: usize| {
            let start = format!("{}.", self.block_names()[index]);
            let numbers = keys.iter().filter_map(|key| {
                let (number, _) = key.strip_prefix(&start)?.split_once('.')?;
                number.parse::<usize>().ok()
            });
            numbers.collect::<BTreeSet<_>>().len()
        };
        FramePackBlocks {
            refiner: count(0),
            double: count(1),
            single: count(2),
        }
    }

    /// What the file calls the lists of the refiner's, the double and the single blocks.
    pub fn block_names(self) -> [String; 3] {
        LISTS.map(|(list, diffusers, _)| {
            let name = if self.is_diffusers() { diffusers } else { list };
            format!("{}{name}", self.prefix)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_dialects_are_those_of_the_file() {
        for (comfy, hunyuan, diffusers) in [
            (
                "double_blocks.3.img_attn.qkv.q.weight",
                None,
                "transformer_blocks.3.attn.to_q.weight",
            ),
            (
                "double_blocks.3.txt_attn.qkv.bias",
                Some("double_blocks.3.txt_attn_qkv.bias"),
                "transformer_blocks.3.txt_attn.qkv.bias",
            ),
            (
                "single_blocks.12.norm.key_norm.scale",
                Some("single_blocks.12.k_norm.weight"),
                "single_transformer_blocks.12.attn.norm_k.weight",
            ),
            (
                "single_blocks.12.linear1.mlp.bias",
                None,
                "single_transformer_blocks.12.proj_mlp.bias",
            ),
            (
                "txt_in.individual_token_refiner.blocks.1.norm2.weight",
                Some("txt_in.individual_token_refiner.blocks.1.norm2.weight"),
                "context_embedder.token_refiner.refiner_blocks.1.norm2.weight",
            ),
            (
                "txt_in.individual_token_refiner.blocks.1.adaLN_modulation.1.bias",
                Some("txt_in.individual_token_refiner.blocks.1.adaLN_modulation.1.bias"),
                "context_embedder.token_refiner.refiner_blocks.1.norm_out.linear.bias",
            ),
            (
                "txt_in.c_embedder.out_layer.weight",
                Some("txt_in.c_embedder.linear_2.weight"),
                "context_embedder.time_text_embed.text_embedder.linear_2.weight",
            ),
            (
                "img_in.proj.weight",
                Some("img_in.proj.weight"),
                "x_embedder.proj.weight",
            ),
            (
                "clean_x_embedder.proj_4x.weight",
                Some("clean_x_embedder.proj_4x.weight"),
                "clean_x_embedder.proj_4x.weight",
            ),
        ] {
            let key = |dialect| {
                let prefix = "";
                FramePackTransformerKeys { prefix, dialect }.file_key(comfy)
            };
            assert_eq!(key(FramePackDialect::Comfy), comfy);
            assert_eq!(key(FramePackDialect::Diffusers), diffusers);
            if let Some(hunyuan) = hunyuan {
                assert_eq!(key(FramePackDialect::Hunyuan), hunyuan);
            }
        }
    }
}
