//! T5 encoders in fp8 against diffusers with the same numbers (`tests/fixtures/fp8`).

use safelight_core::networks::{T5Config, T5Kind};

use crate::closeness::{assert_close, limit};
use crate::hooks::NoHooks;
use crate::text::T5Encoder;
use crate::weights::tests::as_fp8::{FORMS, Recorded, opened};

#[test]
fn fp8_t5_encoder_matches_the_recorded_hidden_states() {
    for (family, component, t5, base) in [
        ("flux", "text_encoder_2", T5Kind::T5, 2e-6),
        ("wan", "text_encoder", T5Kind::Umt5, 1e-5),
    ] {
        let recorded = Recorded::open(family);
        let tensors = recorded.weights(component);
        for (kind, scales, name) in FORMS {
            let folder = recorded.folder(component, &tensors, kind, scales);
            let config = T5Config::read_as(t5, folder.path()).unwrap();
            let weights = opened(folder.path());
            let encoder = T5Encoder::new(&config, &weights).unwrap();
            assert_eq!(T5Encoder::unexpected_keys(&weights), Vec::<String>::new());
            let ids = recorded.get("input_ids");
            // FLUX.1 attends to padding.
            let mask = (t5 == T5Kind::Umt5).then(|| recorded.get("attention_mask"));
            let found = encoder.forward(ids, mask, &NoHooks).unwrap();
            let expected = recorded.get(&format!("{name}.hidden"));
            let found = found.narrow(1, 0, expected.size()[1]);
            let limit = limit(&format!("fp8/{family}"), &format!("{name}.hidden"), base);
            assert_close(&format!("{family} {name}"), &found, expected, limit);
        }
    }
}
