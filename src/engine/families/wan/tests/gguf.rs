//! A model whose transformer stays in GGUF's blocks against the same numbers in f32.

use super::*;
use crate::weights::Weights;
use crate::weights::tests::made_up_gguf::both_forms;

#[test]
fn gguf_wan_transformer_matches_its_dequantised_weights() {
    let folder = tempfile::tempdir().unwrap();
    let all = Weights::read_all(&fixtures().join("pipeline/transformer")).unwrap();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| {
        let mut run = Run::open("text_to_video");
        run.config.files.transformer = place;
        let mut capture = StageCapture::off();
        let state = run.denoise_part(Expert::Only, None, &mut capture, &NoHooks);
        (state.unwrap().latents, run)
    });
    assert_eq!(found.0, expected.0);
    let distance = (&found.0 - expected.1.get("latents.final")).norm();
    assert!(distance.double_value(&[]) > 0.0);
}
