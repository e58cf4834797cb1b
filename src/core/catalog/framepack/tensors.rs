//! Every tensor of a FramePack transformer, in any dialect: its name and its shape.

use super::config::FramePackConfig;
use super::keys::FramePackTransformerKeys;
use crate::catalog::CatalogError;
use crate::catalog::weights::WeightSet;

/// Width of the sinusoids of timestep and guidance.
const SINUSOIDS: u64 = 256;
/// How much wider the token refiner's feed-forward layers are, and the middle of the image projection.
const REFINER_MLP_RATIO: u64 = 4;
const IMAGE_RATIO: u64 = 3;

/// A list of tensors in one file's names.
struct Table {
    keys: FramePackTransformerKeys,
    tensors: Vec<(String, Vec<u64>)>,
}

impl Table {
    fn add(&mut self, name: &str, shape: Vec<u64>) {
        self.tensors.push((self.keys.file_key(name), shape));
    }

    /// With a bias, one number for each output.
    fn layer(&mut self, name: &str, shape: Vec<u64>) {
        self.add(&format!("{name}.bias"), vec![shape[0]]);
        self.add(&format!("{name}.weight"), shape);
    }

    fn linear(&mut self, name: &str, output: u64, input: u64) {
        self.layer(name, vec![output, input]);
    }

    /// One matrix of several parts, and each of them alone in diffusers' names.
    fn fused(&mut self, name: &str, parts: &[(&str, u64)], input: u64) {
        if self.keys.is_diffusers() {
            for (part, output) in parts {
                self.linear(&format!("{name}.{part}"), *output, input);
            }
        } else {
            let output = parts.iter().map(|(_, output)| output).sum();
            self.linear(name, output, input);
        }
    }

    fn norms(&mut self, name: &str, head_dim: u64) {
        self.add(&format!("{name}.query_norm.scale"), vec![head_dim]);
        self.add(&format!("{name}.key_norm.scale"), vec![head_dim]);
    }

    fn embedder(&mut self, name: &str, output: u64, input: u64) {
        self.linear(&format!("{name}.in_layer"), output, input);
        self.linear(&format!("{name}.out_layer"), output, output);
    }
}

/// All of them.
pub(super) fn tensors(
    cfg: &FramePackConfig,
    keys: FramePackTransformerKeys,
) -> Vec<(String, Vec<u64>)> {
    let mut table = Table {
        keys,
        tensors: Vec::new(),
    };
    outer(&mut table, cfg);
    refiner(&mut table, cfg);
    blocks(&mut table, cfg);
    table.tensors
}

fn outer(table: &mut Table, cfg: &FramePackConfig) {
    let (dim, channels) = (cfg.dim(), cfg.in_channels);
    table.layer("img_in.proj", vec![dim, channels, 1, 2, 2]);
    table.layer("clean_x_embedder.proj", vec![dim, channels, 1, 2, 2]);
    table.layer("clean_x_embedder.proj_2x", vec![dim, channels, 2, 4, 4]);
    table.layer("clean_x_embedder.proj_4x", vec![dim, channels, 4, 8, 8]);
    let middle = IMAGE_RATIO * dim;
    table.linear("image_projection.up", middle, cfg.image_proj_dim);
    table.linear("image_projection.down", dim, middle);
    table.embedder("time_in", dim, SINUSOIDS);
    table.embedder("vector_in", dim, cfg.pooled_projection_dim);
    if cfg.guidance_embeds {
        table.embedder("guidance_in", dim, SINUSOIDS);
    }
    table.linear("final_layer.adaLN_modulation.1", 2 * dim, dim);
    table.linear("final_layer.linear", 4 * cfg.out_channels, dim);
}

fn refiner(table: &mut Table, cfg: &FramePackConfig) {
    let (dim, text) = (cfg.dim(), cfg.text_embed_dim);
    table.linear("txt_in.input_embedder", dim, text);
    table.embedder("txt_in.t_embedder", dim, SINUSOIDS);
    table.embedder("txt_in.c_embedder", dim, text);
    for block in 0..cfg.num_refiner_layers {
        let name = |part: &str| format!("txt_in.individual_token_refiner.blocks.{block}.{part}");
        table.layer(&name("norm1"), vec![dim]);
        table.layer(&name("norm2"), vec![dim]);
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        table.fused(&name("self_attn.qkv"), &parts, dim);
        table.linear(&name("self_attn.proj"), dim, dim);
        table.linear(&name("mlp.0"), REFINER_MLP_RATIO * dim, dim);
        table.linear(&name("mlp.2"), dim, REFINER_MLP_RATIO * dim);
        table.linear(&name("adaLN_modulation.1"), 2 * dim, dim);
    }
}

fn blocks(table: &mut Table, cfg: &FramePackConfig) {
    let (dim, mlp, head_dim) = (cfg.dim(), cfg.mlp_dim(), cfg.attention_head_dim);
    for block in 0..cfg.num_layers {
        for stream in ["img", "txt"] {
            let name = |part: &str| format!("double_blocks.{block}.{stream}_{part}");
            table.linear(&name("mod.lin"), 6 * dim, dim);
            let parts = [("q", dim), ("k", dim), ("v", dim)];
            table.fused(&name("attn.qkv"), &parts, dim);
            table.norms(&name("attn.norm"), head_dim);
            table.linear(&name("attn.proj"), dim, dim);
            table.linear(&name("mlp.0"), mlp, dim);
            table.linear(&name("mlp.2"), dim, mlp);
        }
    }
    for block in 0..cfg.num_single_layers {
        let name = |part: &str| format!("single_blocks.{block}.{part}");
        table.linear(&name("modulation.lin"), 3 * dim, dim);
        let parts = [("q", dim), ("k", dim), ("v", dim), ("mlp", mlp)];
        table.fused(&name("linear1"), &parts, dim);
        table.norms(&name("norm"), head_dim);
        table.linear(&name("linear2"), dim, dim + mlp);
    }
}

/// Checks that all of a transformer is there, in the shapes that its config says, and no more blocks.
pub(super) fn check_transformer(
    weights: &WeightSet,
    cfg: &FramePackConfig,
) -> Result<(), CatalogError> {
    let keys = FramePackTransformerKeys::detect(|key| weights.has(key))
        .unwrap_or(FramePackTransformerKeys::DIFFUSERS);
    for (key, shape) in tensors(cfg, keys) {
        weights.expect(&key, &shape)?;
    }
    let counts = [
        cfg.num_refiner_layers,
        cfg.num_layers,
        cfg.num_single_layers,
    ];
    for (blocks, count) in keys.block_names().iter().zip(counts) {
        weights.no_more_layers(&format!("{blocks}.{count}."), count)?;
    }
    let guidance = keys.file_key("guidance_in.in_layer.weight");
    if !cfg.guidance_embeds && weights.has(&guidance) {
        return Err(CatalogError::Config {
            reason: format!("expected no guidance by the config, found the tensor '{guidance}'"),
            path: weights.files.first().cloned().unwrap_or_default(),
        });
    }
    Ok(())
}
