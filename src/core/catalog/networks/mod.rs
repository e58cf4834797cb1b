//! Networks that are parts of models of several families: what their files call their tensors, which shapes those
//! have, and what a header alone says of their numbers.
//!
//! Which of them a family needs, and of what widths, is the family's business.

pub mod clip;
pub mod kl_vae;
pub mod t5;
