//! The names of diffusers' Wan transformer, from the original names that our fields have.

/// `blocks.0.self_attn.q.weight` -> `blocks.0.attn1.to_q.weight`
pub fn diffusers_from_original(key: &str) -> String {
    let whole = [
        (
            "text_embedding.0.",
            "condition_embedder.text_embedder.linear_1.",
        ),
        (
            "text_embedding.2.",
            "condition_embedder.text_embedder.linear_2.",
        ),
        (
            "time_embedding.0.",
            "condition_embedder.time_embedder.linear_1.",
        ),
        (
            "time_embedding.2.",
            "condition_embedder.time_embedder.linear_2.",
        ),
        ("time_projection.1.", "condition_embedder.time_proj."),
        (
            "img_emb.emb_pos",
            "condition_embedder.image_embedder.pos_embed",
        ),
        (
            "img_emb.proj.0.",
            "condition_embedder.image_embedder.norm1.",
        ),
        (
            "img_emb.proj.1.",
            "condition_embedder.image_embedder.ff.net.0.proj.",
        ),
        (
            "img_emb.proj.3.",
            "condition_embedder.image_embedder.ff.net.2.",
        ),
        (
            "img_emb.proj.4.",
            "condition_embedder.image_embedder.norm2.",
        ),
        ("head.head.", "proj_out."),
        ("head.modulation", "scale_shift_table"),
    ];
    for (ours, theirs) in whole {
        if let Some(rest) = key.strip_prefix(ours) {
            return format!("{theirs}{rest}");
        }
    }
    let Some((block, rest)) = split_block(key) else {
        return key.to_owned();
    };
    let parts = [
        ("modulation", "scale_shift_table"),
        ("norm3.", "norm2."),
        ("ffn.0.", "ffn.net.0.proj."),
        ("ffn.2.", "ffn.net.2."),
        ("self_attn.", "attn1."),
        ("cross_attn.", "attn2."),
    ];
    let rest = parts
        .into_iter()
        .find_map(|(ours, theirs)| Some(format!("{theirs}{}", rest.strip_prefix(ours)?)))
        .unwrap_or_else(|| rest.to_owned());
    let leaves = [
        ("q.", "to_q."),
        ("k.", "to_k."),
        ("v.", "to_v."),
        ("o.", "to_out.0."),
        ("k_img.", "add_k_proj."),
        ("v_img.", "add_v_proj."),
        ("norm_k_img.", "norm_added_k."),
    ];
    if let Some((attention, leaf)) = rest.split_once('.')
        && attention.starts_with("attn")
        && let Some(leaf) = leaves
            .into_iter()
            .find_map(|(ours, theirs)| Some(format!("{theirs}{}", leaf.strip_prefix(ours)?)))
    {
        return format!("{block}.{attention}.{leaf}");
    }
    format!("{block}.{rest}")
}

/// `blocks.12.norm3.bias` -> `blocks.12`, `norm3.bias`
fn split_block(key: &str) -> Option<(&str, &str)> {
    let number = key.strip_prefix("blocks.")?.split('.').next()?;
    let (block, rest) = key.split_at("blocks.".len() + number.len());
    Some((block, rest.strip_prefix('.')?))
}

#[cfg(test)]
mod tests {
    use super::diffusers_from_original;

    #[test]
    fn every_name_of_a_block_is_translated() {
        for (ours, theirs) in [
            ("self_attn.q.weight", "attn1.to_q.weight"),
            ("self_attn.norm_k.weight", "attn1.norm_k.weight"),
            ("cross_attn.o.bias", "attn2.to_out.0.bias"),
            ("norm3.bias", "norm2.bias"),
            ("ffn.0.weight", "ffn.net.0.proj.weight"),
            ("ffn.2.bias", "ffn.net.2.bias"),
            ("modulation", "scale_shift_table"),
        ] {
            let found = diffusers_from_original(&format!("blocks.11.{ours}"));
            assert_eq!(found, format!("blocks.11.{theirs}"));
        }
    }

    #[test]
    fn names_outside_of_blocks_are_translated() {
        for (ours, theirs) in [
            ("patch_embedding.weight", "patch_embedding.weight"),
            ("head.head.bias", "proj_out.bias"),
            ("head.modulation", "scale_shift_table"),
            (
                "time_projection.1.weight",
                "condition_embedder.time_proj.weight",
            ),
            (
                "text_embedding.2.bias",
                "condition_embedder.text_embedder.linear_2.bias",
            ),
        ] {
            assert_eq!(diffusers_from_original(ours), theirs);
        }
    }
}
