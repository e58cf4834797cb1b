//! Spectrogram and waveform against `tests/fixtures/ltx2`.

use safelight_core::networks::NetworkConfig as _;
use safelight_core::networks::ltx2::{Ltx2AudioVaeConfig, Ltx2VocoderConfig};
use tch::Kind;

use super::{MelDecoder, MelVocoder};
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{given, open, tiny_network, tiny_output};

const MEL_LIMIT: f64 = 1e-5;
/// Two vocoders in a row amplify roundings.
const WAVE_LIMIT: f64 = 5e-5;

#[test]
fn spectrogram_is_that_of_diffusers() {
    let (config, _folder, path) = tiny_network("audio_vae");
    let config: Ltx2AudioVaeConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    let decoder = MelDecoder::new(&config, &open(&path, Kind::Float)).unwrap();
    let latents = given("audio_latents", &[1, 8, 5, 2]);
    let mel = decoder.decode(&latents, &|| false).unwrap();
    assert_close("mel", &mel, &tiny_output("audio_vae.mel"), MEL_LIMIT);
    assert!(decoder.decode(&latents, &|| true).is_none());
    // Channels before frequencies in a token, which has a mean and a deviation for each.
    let tokens = given("audio", &[1, 5, 16]);
    assert_eq!(decoder.denormalize(&tokens).size(), [1, 8, 5, 2]);
}

#[test]
fn waveform_is_that_of_diffusers() {
    let (config, _folder, path) = tiny_network("vocoder");
    let config: Ltx2VocoderConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    let weights = open(&path, Kind::Float);
    let vocoder = MelVocoder::new(&config, &weights).unwrap();
    assert_eq!(weights.finish(), [""; 0]);
    let mel = given("mel", &[1, 2, 9, 8]);
    let low = vocoder.low(&mel, &|| false).unwrap();
    assert_close("low", &low, &tiny_output("vocoder.low"), WAVE_LIMIT);
    let waveform = vocoder.forward(&mel, &|| false).unwrap();
    let expected = tiny_output("vocoder.waveform");
    assert_close("waveform", &waveform, &expected, WAVE_LIMIT);
    assert!(vocoder.forward(&mel, &|| true).is_none());
}
