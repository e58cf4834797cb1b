//! The names of a packed HunyuanVideo transformer's tensors: diffusers', which the published files have, the authors'
//! own, and ComfyUI's.
//!
//! This code asks with ComfyUI's, which are Flux's wherever the two models have the same layer. Does not look at shapes
//! or at how numbers are stored.

use safelight_core::catalog::FluxTransformerKeys;

use crate::weights::Weights;

/// Who named the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Diffusers,
    Authors,
    Comfy,
}

/// How the tensors of one file or folder are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys {
    prefix: &'static str,
    dialect: Dialect,
}

const PREFIXES: [&str; 5] = [
    "",
    "model.model.",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
];

/// A tensor by which each dialect is known.
const MARKS: [(&str, Dialect); 3] = [
    ("x_embedder.proj.weight", Dialect::Diffusers),
    ("time_in.mlp.0.weight", Dialect::Authors),
    ("time_in.in_layer.weight", Dialect::Comfy),
];

/// ComfyUI's and diffusers' names within the text's refiner.
const REFINER: [(&str, &str); 6] = [
    ("input_embedder", "proj_in"),
    (
        "t_embedder.in_layer",
        "time_text_embed.timestep_embedder.linear_1",
    ),
    (
        "t_embedder.out_layer",
        "time_text_embed.timestep_embedder.linear_2",
    ),
    (
        "c_embedder.in_layer",
        "time_text_embed.text_embedder.linear_1",
    ),
    (
        "c_embedder.out_layer",
        "time_text_embed.text_embedder.linear_2",
    ),
    (
        "individual_token_refiner.blocks",
        "token_refiner.refiner_blocks",
    ),
];

/// The same within one of its blocks.
const REFINER_BLOCK: [(&str, &str); 7] = [
    (".self_attn.qkv.q.", ".attn.to_q."),
    (".self_attn.qkv.k.", ".attn.to_k."),
    (".self_attn.qkv.v.", ".attn.to_v."),
    (".self_attn.proj.", ".attn.to_out.0."),
    (".mlp.0.", ".ff.net.0.proj."),
    (".mlp.2.", ".ff.net.2."),
    (".adaLN_modulation.1.", ".norm_out.linear."),
];

/// ComfyUI's and the authors' names; where several fit, the first one counts.
const AUTHORS: [(&str, &str); 20] = [
    ("time_in.in_layer.", "time_in.mlp.0."),
    ("time_in.out_layer.", "time_in.mlp.2."),
    ("guidance_in.in_layer.", "guidance_in.mlp.0."),
    ("guidance_in.out_layer.", "guidance_in.mlp.2."),
    ("t_embedder.in_layer.", "t_embedder.mlp.0."),
    ("t_embedder.out_layer.", "t_embedder.mlp.2."),
    ("c_embedder.in_layer.", "c_embedder.linear_1."),
    ("c_embedder.out_layer.", "c_embedder.linear_2."),
    ("_mod.lin.", "_mod.linear."),
    (".modulation.lin.", ".modulation.linear."),
    ("_attn.qkv.", "_attn_qkv."),
    ("_attn.proj.", "_attn_proj."),
    ("_attn.norm.query_norm.scale", "_attn_q_norm.weight"),
    ("_attn.norm.key_norm.scale", "_attn_k_norm.weight"),
    (".norm.query_norm.scale", ".q_norm.weight"),
    (".norm.key_norm.scale", ".k_norm.weight"),
    ("_mlp.0.", "_mlp.fc1."),
    ("_mlp.2.", "_mlp.fc2."),
    (".mlp.0.", ".mlp.fc1."),
    (".mlp.2.", ".mlp.fc2."),
];

impl TransformerKeys {
    /// What is no such transformer counts as one in diffusers' names: the first key asked for says what is wrong.
    pub fn detect(w: &Weights) -> Self {
        let known = PREFIXES.iter().flat_map(|prefix| {
            MARKS
                .iter()
                .map(move |(mark, dialect)| (prefix, mark, dialect))
        });
        for (prefix, mark, &dialect) in known {
            if w.has(&format!("{prefix}{mark}")) {
                return Self { prefix, dialect };
            }
        }
        Self {
            prefix: "",
            dialect: Dialect::Diffusers,
        }
    }

    /// Whether they are diffusers' names.
    pub fn is_diffusers(self) -> bool {
        self.dialect == Dialect::Diffusers
    }

    /// `w`, to be asked for by ComfyUI's names.
    pub fn translate(self, w: &Weights) -> Weights {
        w.translated(move |name| self.file_key(name))
    }

    /// What the file calls the tensor that ComfyUI calls `name`.
    pub fn file_key(self, name: &str) -> String {
        let own = match self.dialect {
            Dialect::Comfy => name.to_owned(),
            Dialect::Authors => replaced(name, &AUTHORS),
            Dialect::Diffusers => diffusers_key(name),
        };
        format!("{}{own}", self.prefix)
    }

    /// Which vectors of the final modulation are the shift and the scale: diffusers has them the other way round.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        if self.is_diffusers() { (1, 0) } else { (0, 1) }
    }

    /// How many double and single blocks there are, and how many in the text's refiner.
    pub fn count_blocks(self, w: &Weights) -> [i64; 3] {
        let named = self.translate(w);
        let count = |blocks: &str, leaf: &str| {
            let has = |i: &i64| named.has(&format!("{blocks}.{i}.{leaf}"));
            // No file has as many keys as this.
            (0..1 << 16).take_while(has).count() as i64
        };
        [
            count("double_blocks", "img_attn.proj.weight"),
            count("single_blocks", "linear2.weight"),
            count(
                "txt_in.individual_token_refiner.blocks",
                "self_attn.proj.weight",
            ),
        ]
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected(self, w: &Weights) -> Vec<String> {
        let mut keys = w.finish();
        keys.retain(|key| key.starts_with(self.prefix));
        keys
    }
}

fn diffusers_key(name: &str) -> String {
    let Some(inner) = name.strip_prefix("txt_in.") else {
        let flux = FluxTransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        return flux.file_key(name);
    };
    let (start, own) = REFINER
        .iter()
        .find(|(comfy, _)| inner.starts_with(comfy))
        .copied()
        .unwrap_or_default();
    let rest = &inner[start.len()..];
    format!("context_embedder.{own}{}", replaced(rest, &REFINER_BLOCK))
}

/// `name` with the first of `names` that is in it replaced.
fn replaced(name: &str, names: &[(&str, &str)]) -> String {
    match names.iter().find(|(ours, _)| name.contains(ours)) {
        Some((ours, theirs)) => name.replacen(ours, theirs, 1),
        None => name.to_owned(),
    }
}
