//! Every tensor of a Flux transformer, in either dialect: its name and its shape.

use super::config::FluxTransformerConfig;
use super::keys::FluxTransformerKeys;
use crate::catalog::CatalogError;
use crate::catalog::weights::WeightSet;

/// Width of the sinusoids of timestep and guidance.
const SINUSOIDS: u64 = 256;
/// How much wider the feed-forward layers are.
const MLP_RATIO: u64 = 4;

/// A list of tensors in one file's names.
struct Table {
    keys: FluxTransformerKeys,
    tensors: Vec<(String, Vec<u64>)>,
}

impl Table {
    fn add(&mut self, name: &str, shape: Vec<u64>) {
        self.tensors.push((self.keys.file_key(name), shape));
    }

    fn linear(&mut self, name: &str, output: u64, input: u64) {
        self.add(&format!("{name}.weight"), vec![output, input]);
        self.add(&format!("{name}.bias"), vec![output]);
    }

    /// One matrix of several parts in the authors' names, and each of them alone in diffusers'.
    fn fused(&mut self, name: &str, parts: &[(&str, u64)], input: u64) {
        if self.keys.is_diffusers {
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
}

/// All of them.
pub(super) fn tensors(
    cfg: &FluxTransformerConfig,
    keys: FluxTransformerKeys,
) -> Vec<(String, Vec<u64>)> {
    let (dim, head_dim) = (cfg.dim(), cfg.attention_head_dim);
    let mlp = MLP_RATIO * dim;
    let mut table = Table {
        keys,
        tensors: Vec::new(),
    };
    table.linear("img_in", dim, cfg.in_channels);
    table.linear("txt_in", dim, cfg.joint_attention_dim);
    let guidance = cfg.guidance_embeds.then_some(("guidance_in", SINUSOIDS));
    let embedders = [
        ("time_in", SINUSOIDS),
        ("vector_in", cfg.pooled_projection_dim),
    ];
    for (name, input) in embedders.into_iter().chain(guidance) {
        table.linear(&format!("{name}.in_layer"), dim, input);
        table.linear(&format!("{name}.out_layer"), dim, dim);
    }
    for block in 0..cfg.num_layers {
        for stream in ["img", "txt"] {
            let name = |part: &str| format!("double_blocks.{block}.{stream}_{part}");
            table.linear(&name("mod.lin"), 6 * dim, dim);
            table.fused(
                &name("attn.qkv"),
                &[("q", dim), ("k", dim), ("v", dim)],
                dim,
            );
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
    table.linear("final_layer.adaLN_modulation.1", 2 * dim, dim);
    table.linear("final_layer.linear", cfg.out_channels(), dim);
    table.tensors
}

/// Checks that all of a transformer is there, in the shapes that its config says, and no more blocks.
pub(super) fn check_transformer(
    weights: &WeightSet,
    cfg: &FluxTransformerConfig,
) -> Result<(), CatalogError> {
    let keys = FluxTransformerKeys::detect(|key| weights.has(key))
        .unwrap_or(FluxTransformerKeys::ORIGINAL);
    for (key, shape) in tensors(cfg, keys) {
        weights.expect(&key, &shape)?;
    }
    let (double, single) = keys.block_names();
    for (blocks, count) in [(double, cfg.num_layers), (single, cfg.num_single_layers)] {
        weights.no_more_layers(&format!("{}{blocks}.{count}.", keys.prefix), count)?;
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
