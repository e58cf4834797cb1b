//! Networks that are parts of models of several families: what their files call their tensors, which shapes those
//! have, and what a header alone says of their numbers.
//!
//! Which of them a family needs, and of what widths, is the family's business.

pub mod clip;
pub mod kl_vae;
pub mod llama;
pub mod siglip;
pub mod t5;
pub mod video_vae;

/// A key whose start is one of the first names, with the second in its place.
pub(super) fn with_start_replaced(key: &str, starts: &[(&str, &str)]) -> Option<String> {
    starts
        .iter()
        .find_map(|(ours, theirs)| Some(format!("{theirs}{}", key.strip_prefix(ours)?)))
}
