//! Gemma 3 against `tests/fixtures/ltx2`.

use safelight_core::networks::{LanguageConfig, LanguageTap, NetworkConfig as _};
use tch::{Kind, Tensor};

use crate::closeness::assert_close;
use crate::hooks::NoHooks;
use crate::text::LanguageEncoder;
use crate::weights::tests::fixtures::{open, tiny_network, tiny_output};

#[test]
fn all_hidden_states_of_gemma_are_those_of_transformers() {
    let (config, _folder, path) = tiny_network("text_encoder");
    let config = LanguageConfig {
        tap: LanguageTap::All,
        ..serde_json::from_value(config).unwrap()
    };
    config.check().unwrap();
    let weights = open(&path, Kind::Float);
    let encoder = LanguageEncoder::new(&config, &weights).unwrap();
    assert_eq!(LanguageEncoder::unexpected_keys(&weights), [""; 0]);
    let ids: Vec<i64> = (0..12)
        .map(|i| if i == 0 { 2 } else { i * 37 % 300 })
        .collect();
    let ids = Tensor::from_slice(&ids).unsqueeze(0);
    let states = encoder.forward(&ids, &ids.ones_like(), &NoHooks).unwrap();
    let expected = tiny_output("text_encoder.states");
    assert_close("hidden states", &states, &expected, 3e-6);
}
