//! Fixtures of the tiny U-Net, and its quirks. Tests of every network are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::networks::SdxlUnetConfig;
use tch::Tensor;

use super::SdxlUnet;
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for SdxlUnet {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("sdxl"),
            timestep: 250.0,
            size: (48, 32),
            input: "in.latents",
            limits: [1e-5, 1e-5],
            loras: &[
                "kohya",
                "kohya_diffusers_names",
                "kohya_conv",
                "kohya_dora",
                "diffusers_conv",
            ],
            other_loras: &[],
            streamed_loras: ["kohya_conv", "kohya_dora"],
            named: ["transformer_blocks.0.attn2.to_v", "conv_in.weight"],
            fp8: 2.0,
            has_skips: false,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        let copies = diffusers.iter();
        copies
            .map(|(name, tensor)| (authors_name(name), tensor.shallow_clone()))
            .collect()
    }

    fn text(config: &SdxlUnetConfig, tokens: i64) -> TextEmbeds {
        let text = made_up("in.prompt_embeds", &[1, tokens, config.cross_attention_dim]);
        TextEmbeds {
            pooled: Some(made_up("in.pooled", &[1, config.pooled_width()])),
            ..TextEmbeds::of_states(text)
        }
    }
}

fn authors_name(name: &str) -> String {
    let mut rows: Vec<(String, String)> = [
        ("time_embedding.linear_1", "time_embed.0"),
        ("time_embedding.linear_2", "time_embed.2"),
        ("add_embedding.linear_1", "label_emb.0.0"),
        ("add_embedding.linear_2", "label_emb.0.2"),
        ("conv_in", "input_blocks.0.0"),
        ("mid_block.resnets.0", "middle_block.0"),
        ("mid_block.attentions.0", "middle_block.1"),
        ("mid_block.resnets.1", "middle_block.2"),
        ("conv_norm_out", "out.0"),
        ("conv_out", "out.2"),
    ]
    .map(|(own, other)| (own.to_owned(), other.to_owned()))
    .to_vec();
    for level in 0..3 {
        for (side, other, first, count) in [
            ("down_blocks", "input_blocks", 3 * level + 1, 2),
            ("up_blocks", "output_blocks", 3 * level, 3),
        ] {
            for i in 0..count {
                let place = format!("{other}.{}", first + i);
                let own = format!("{side}.{level}");
                rows.push((format!("{own}.resnets.{i}"), format!("{place}.0")));
                rows.push((format!("{own}.attentions.{i}"), format!("{place}.1")));
            }
        }
        let [down, up] = [3 * level + 3, 3 * level + 2];
        rows.push((
            format!("down_blocks.{level}.downsamplers.0.conv"),
            format!("input_blocks.{down}.0.op"),
        ));
        rows.push((
            format!("up_blocks.{level}.upsamplers.0.conv"),
            format!("output_blocks.{up}.2.conv"),
        ));
    }
    let mut name = name.to_owned();
    if name.contains(".resnets.") {
        for (own, other) in [
            (".norm1.", ".in_layers.0."),
            (".conv1.", ".in_layers.2."),
            (".time_emb_proj.", ".emb_layers.1."),
            (".norm2.", ".out_layers.0."),
            (".conv2.", ".out_layers.3."),
            (".conv_shortcut.", ".skip_connection."),
        ] {
            name = name.replace(own, other);
        }
    }
    let row = rows.iter().find_map(|(own, other)| {
        let end = name.strip_prefix(own.as_str())?;
        end.starts_with('.').then(|| format!("{other}{end}"))
    });
    row.unwrap_or_else(|| panic!("the authors have no {name}"))
}

/// Rows and columns of the lowest level are those of the level above, halved and rounded up.
#[test]
fn pixels_are_repeated_up_to_an_odd_size() {
    let xs = Tensor::arange(6, (tch::Kind::Float, tch::Device::Cpu)).view([1, 2, 3, 1]);
    let like = Tensor::zeros([1, 3, 5, 1], (tch::Kind::Float, tch::Device::Cpu));
    let found = Vec::<f32>::try_from(super::enlarged(&xs, &like).flatten(0, -1)).unwrap();
    let first = [0.0, 0.0, 1.0, 1.0, 2.0];
    assert_eq!(found[..10], [first, first].concat());
    assert_eq!(found[10..], [3.0, 3.0, 4.0, 4.0, 5.0]);
}
