//! A transformer whose matrices stay in GGUF's blocks against the same numbers in f32.

use super::dialects::originals;
use super::*;
use crate::weights::tests::made_up_gguf::both_forms;

#[test]
fn a_transformer_in_blocks_gives_what_its_numbers_give() {
    let run = Run::open("dev");
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals(&weights_of("dev")).into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| run.answer_by(&opened(&place)));
    assert_eq!(found, expected);
    // Eight bits are near the truth, and not it.
    let far = distance(&found, run.get("step.00.transformer.cond"));
    assert!((1e-4..0.05).contains(&far), "{far}");
}
