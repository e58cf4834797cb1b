//! The names that Wan's authors gave to UMT5's tensors (`umt5-xxl-enc`), from those of `transformers` that our
//! fields have.

use crate::weights::Weights;

/// The same position, asked in the names of `transformers` whichever names the file has.
pub(super) fn in_our_names(w: &Weights) -> Weights {
    if w.has("token_embedding.weight") {
        w.translated(authors_from_transformers)
    } else {
        w.clone()
    }
}

/// `encoder.block.3.layer.1.DenseReluDense.wo.weight` -> `blocks.3.ffn.fc2.weight`
fn authors_from_transformers(key: &str) -> String {
    let renamed = match key {
        "shared.weight" => Some("token_embedding.weight".to_owned()),
        "encoder.final_layer_norm.weight" => Some("norm.weight".to_owned()),
        key => in_block(key),
    };
    renamed.unwrap_or_else(|| key.to_owned())
}

fn in_block(key: &str) -> Option<String> {
    let (block, rest) = key.strip_prefix("encoder.block.")?.split_once('.')?;
    let names = [
        ("layer.0.layer_norm.", "norm1."),
        (
            "layer.0.SelfAttention.relative_attention_bias.",
            "pos_embedding.embedding.",
        ),
        ("layer.0.SelfAttention.", "attn."),
        ("layer.1.layer_norm.", "norm2."),
        ("layer.1.DenseReluDense.wi_0.", "ffn.gate.0."),
        ("layer.1.DenseReluDense.wi_1.", "ffn.fc1."),
        ("layer.1.DenseReluDense.wo.", "ffn.fc2."),
    ];
    names.into_iter().find_map(|(ours, theirs)| {
        let leaf = rest.strip_prefix(ours)?;
        Some(format!("blocks.{block}.{theirs}{leaf}"))
    })
}
