//! The head by which a SigLIP makes one vector of a picture: a question that is learnt attends to all patches.
//!
//! FramePack reads the patches alone; this is for records.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.

use safelight_core::networks::SiglipConfig;
use tch::Tensor;

use super::siglip::position;
use crate::nn::{LayerNorm, attention, join_heads, split_heads};
use crate::weights::{Weights, WeightsError};

pub struct SiglipHead {
    /// `(1, 1, C)`
    probe: Tensor,
    /// Of queries, keys and values in one: `(3 C, C)`
    in_proj: [Tensor; 2],
    out_proj: [Tensor; 2],
    layernorm: LayerNorm,
    fc1: [Tensor; 2],
    fc2: [Tensor; 2],
    num_heads: i64,
}

impl SiglipHead {
    /// `None` where the file has none.
    pub fn read(config: &SiglipConfig, w: &Weights) -> Result<Option<Self>, WeightsError> {
        let w = &(&position(w) / "head");
        if !w.has("probe") {
            return Ok(None);
        }
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        let linear = |weight: &str, bias: &str, [output, input]: [i64; 2]| {
            Ok::<_, WeightsError>([
                w.tensor(weight, &[output, input])?,
                w.tensor(bias, &[output])?,
            ])
        };
        Ok(Some(Self {
            probe: w.tensor("probe", &[1, 1, dim])?,
            in_proj: linear(
                "attention.in_proj_weight",
                "attention.in_proj_bias",
                [3 * dim, dim],
            )?,
            out_proj: linear(
                "attention.out_proj.weight",
                "attention.out_proj.bias",
                [dim, dim],
            )?,
            layernorm: LayerNorm::new(dim, config.layer_norm_eps, &(w / "layernorm"))?,
            fc1: linear("mlp.fc1.weight", "mlp.fc1.bias", [inner, dim])?,
            fc2: linear("mlp.fc2.weight", "mlp.fc2.bias", [dim, inner])?,
            num_heads: config.num_attention_heads,
        }))
    }

    /// `states`: `(N, L, C)`, after the last norm. Returns `(N, C)`.
    pub fn pooled(&self, states: &Tensor) -> Tensor {
        let [weights, biases] = self.in_proj.each_ref().map(|all| all.chunk(3, 0));
        let heads = |xs: &Tensor, part: usize| {
            let xs = xs.linear(&weights[part], Some(&biases[part]));
            split_heads(&xs, self.num_heads)
        };
        let asked = self.probe.expand([states.size()[0], -1, -1], false);
        let (q, k, v) = (heads(&asked, 0), heads(states, 1), heads(states, 2));
        let answers = join_heads(&attention(&q, &k, &v, None, None));
        let xs = linear(&answers, &self.out_proj);
        let normal = self.layernorm.forward_as_kind(&xs);
        let inner = linear(&normal, &self.fc1).gelu("tanh");
        (xs + linear(&inner, &self.fc2)).select(1, 0)
    }
}

fn linear(xs: &Tensor, [weight, bias]: &[Tensor; 2]) -> Tensor {
    xs.linear(weight, Some(bias))
}
