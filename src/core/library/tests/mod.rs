//! What is found on disks that these tests write: installs, pairs of experts, companions, and how weights are stored.

mod gguf;
pub(crate) mod installs;
mod other_models;
mod pairs;
pub(crate) mod parts;
mod previews;
mod storage;
