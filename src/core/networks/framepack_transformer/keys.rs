//! The names of a FramePack transformer's tensors: diffusers', in which it is published, HunyuanVideo's authors' own,
//! and those that ComfyUI gives it, which are Flux's where the two have the same parts.
//!
//! Readers ask with ComfyUI's. Where diffusers has several matrices in the place of one, they ask for parts of that
//! one: `img_attn.qkv.q`, `linear1.mlp`. `clean_x_embedder` and `image_projection` are called so by all. Knows no
//! shapes.

use crate::networks::stream_blocks::{self, DOUBLE, List, Names, OUTER, SINGLE};

/// Whose names a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePackDialect {
    /// Those that readers ask with: the first column of `Names`, as the others are the next.
    Comfy,
    /// `img_attn_qkv`, `mlp.fc1`.
    Hunyuan,
    Diffusers,
}

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

/// The text's way into the transformer, outside the refiner's blocks.
const TEXT: [Names; 5] = [
    [
        "txt_in.input_embedder",
        "txt_in.input_embedder",
        "context_embedder.proj_in",
    ],
    [
        "txt_in.t_embedder.in_layer",
        "txt_in.t_embedder.mlp.0",
        "context_embedder.time_text_embed.timestep_embedder.linear_1",
    ],
    [
        "txt_in.t_embedder.out_layer",
        "txt_in.t_embedder.mlp.2",
        "context_embedder.time_text_embed.timestep_embedder.linear_2",
    ],
    [
        "txt_in.c_embedder.in_layer",
        "txt_in.c_embedder.linear_1",
        "context_embedder.time_text_embed.text_embedder.linear_1",
    ],
    [
        "txt_in.c_embedder.out_layer",
        "txt_in.c_embedder.linear_2",
        "context_embedder.time_text_embed.text_embedder.linear_2",
    ],
];

/// Inside a block of the token refiner.
const REFINER: [Names; 8] = [
    ["self_attn.qkv.q", "", "attn.to_q"],
    ["self_attn.qkv.k", "", "attn.to_k"],
    ["self_attn.qkv.v", "", "attn.to_v"],
    ["self_attn.qkv", "self_attn_qkv", ""],
    ["self_attn.proj", "self_attn_proj", "attn.to_out.0"],
    ["mlp.0", "mlp.fc1", "ff.net.0.proj"],
    ["mlp.2", "mlp.fc2", "ff.net.2"],
    [
        "adaLN_modulation.1",
        "adaLN_modulation.1",
        "norm_out.linear",
    ],
];

/// The lists of blocks in the names that readers ask with, diffusers' names of them, and what is in one.
const LISTS: [List; 3] = [
    (
        "txt_in.individual_token_refiner.blocks",
        "context_embedder.token_refiner.refiner_blocks",
        &REFINER,
    ),
    DOUBLE,
    SINGLE,
];

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

    /// The same, where what is no FramePack transformer counts as one in diffusers' names: the first key that is asked
    /// for says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::DIFFUSERS)
    }

    /// The same for all that came of HunyuanVideo's transformer.
    pub(crate) fn detect_hunyuan(has: impl Fn(&str) -> bool) -> Option<Self> {
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

    pub fn is_diffusers(self) -> bool {
        self.dialect == FramePackDialect::Diffusers
    }

    /// What the file calls the tensor that is `name` in ComfyUI.
    pub fn file_key(self, name: &str) -> String {
        let own = match self.dialect {
            FramePackDialect::Comfy => name.to_owned(),
            other => stream_blocks::renamed(name, &LISTS, &[&TEXT, &OUTER], other as usize),
        };
        format!("{}{own}", self.prefix)
    }

    /// What the file calls the lists of the refiner's, the double and the single blocks.
    pub fn block_names(self) -> [String; 3] {
        LISTS.map(|(list, diffusers, _)| {
            let name = if self.is_diffusers() { diffusers } else { list };
            format!("{}{name}", self.prefix)
        })
    }

    /// Which vectors of the final modulation are the shift and the scale.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        stream_blocks::final_shift_and_scale(self.is_diffusers())
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
