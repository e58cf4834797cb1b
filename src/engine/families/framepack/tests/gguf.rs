//! A transformer from GGUF under the names that city96's files have: every storage against the same numbers in f32.

use super::dialects::authors;
use super::*;
use crate::weights::tests::made_up_gguf::{GgufFile, Stored, both_forms};

fn ask(place: &Path, case: &Case) -> Tensor {
    let weights = Weights::open(place, Kind::Float, Device::Cpu).unwrap();
    let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
    let unexpected = FramePackTransformer::unexpected_keys(&weights);
    assert_eq!(unexpected, [""; 0]);
    case.ask("f1", &transformer)
}

/// In the names of HunyuanVideo's authors, which files of city96's tool have without a prefix.
fn tensors_of_gguf() -> Vec<(String, Tensor)> {
    let all = authors("tiny").into_iter();
    all.map(|(key, tensor)| (key.replace("model.model.", ""), tensor))
        .collect()
}

#[test]
fn gguf_framepack_transformer_matches_its_dequantised_weights() {
    let case = &cases()["f1"];
    let folder = tempfile::tempdir().unwrap();
    let places = both_forms(folder.path(), &tensors_of_gguf(), str::to_owned);
    let [found, expected] = places.map(|place| ask(&place, case));
    assert_eq!(found, expected);
    // Eight bits are near the truth, and not it.
    let far = distance(&found, &answer("f1"));
    assert!((1e-4..0.05).contains(&far), "{far}");
}

#[test]
fn halves_of_both_kinds_and_mixed_files_are_read() {
    let case = &cases()["f1"];
    let folder = tempfile::tempdir().unwrap();
    let exact = limit("framepack/transformer/answers", "f1", CALL_LIMIT);
    for (name, stored, limit, all) in [
        ("F32", Stored::F32, exact, tensors_of_gguf()),
        ("F16", Stored::F16, 2e-3, tensors_of_gguf()),
        // Other tools keep the names of diffusers.
        ("BF16", Stored::BF16, 2e-2, tensors("tiny")),
    ] {
        let mut file = GgufFile::default().text("general.architecture", "hyvid");
        for (key, tensor) in all {
            file = match tensor.dim() {
                1 => file.plain(&key, &tensor),
                _ => file.stored(&key, &tensor, stored),
            };
        }
        let path = folder.path().join(format!("framepack-{name}.gguf"));
        file.write(&path);
        assert_close(name, &ask(&path, case), &answer("f1"), limit);
    }
}
