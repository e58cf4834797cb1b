//! The parts that a Flux transformer needs beside it.

use crate::families::parts::{check_width, clip_l, flux_vae};
use crate::library::companions::wanted::{TokenizerForm, Wanted, WantedTokenizer};
use crate::model::Component;
use crate::networks::PartKind;
use crate::networks::{FluxTransformerConfig, NetworkConfig as _, T5Config, T5Keys, T5Kind};

/// What to get where a companion is missing or wrong.
const T5: &str = "t5xxl_fp16.safetensors from comfyanonymous/flux_text_encoders";

pub(super) fn parts(transformer: &FluxTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        flux_vae(transformer.latent_channels()),
        clip_l(Component::TextEncoder, transformer.pooled_projection_dim),
        t5_xxl(transformer),
    ]
}

fn t5_xxl(transformer: &FluxTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder2,
        part: PartKind::T5,
        what: "a T5-XXL text encoder".to_owned(),
        kind: "a T5 text encoder",
        example: T5,
        usual: &[
            "t5xxl",
            "t5-v1_1-xxl",
            "google_t5-v1_1-xxl_encoderonly",
            "text_encoder_2",
        ],
        word: "t5",
        is_in: |weights| T5Keys::kind_in(weights) == Some(T5Kind::T5),
        fits: Box::new(|weights, place| {
            let config = T5Config::read_as(T5Kind::T5, place)?;
            let what = ["a T5 text encoder", "d_model"];
            let widths = [transformer.joint_attention_dim, config.d_model];
            check_width(what, "joint_attention_dim", widths, T5, place)?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of T5",
            example: "the folder tokenizer_2 that was published with this text encoder",
            folders: &[
                "tokenizer_2",
                "tokenizer_3",
                "tokenizer",
                "t5-xxl",
                "google/t5-v1_1-xxl",
                "tokenizers/t5-xxl",
            ],
            bundled: Some("t5-xxl"),
            form: TokenizerForm::Pieces,
            vocab_size: |place| Ok(T5Config::read_as(T5Kind::T5, place)?.vocab_size),
        }),
    }
}
