//! The names of a packed HunyuanVideo transformer's tensors: this code asks with ComfyUI's, which are Flux's wherever
//! the two models have the same layer, and which the catalogue's table translates into those of the file.
//!
//! Where diffusers has several matrices in the place of one, this code asks for parts of that one: `img_attn.qkv.q`,
//! `linear1.mlp`. Does not look at shapes or at how numbers are stored.

use safelight_core::catalog::{FramePackBlocks, FramePackTransformerKeys};

use crate::weights::Weights;

/// How the tensors of one file or folder are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys(FramePackTransformerKeys);

impl TransformerKeys {
    /// What is no such transformer counts as one in diffusers' names: the first key asked for says what is wrong.
    pub fn detect(w: &Weights) -> Self {
        let found = FramePackTransformerKeys::detect(|key| w.has(key));
        Self(found.unwrap_or(FramePackTransformerKeys::DIFFUSERS))
    }

    /// Whether they are diffusers' names.
    pub fn is_diffusers(self) -> bool {
        self.0.is_diffusers()
    }

    /// `w`, to be asked for by ComfyUI's names.
    pub fn translate(self, w: &Weights) -> Weights {
        w.translated(move |name| self.file_key(name))
    }

    /// What the file calls the tensor that ComfyUI calls `name`.
    pub fn file_key(self, name: &str) -> String {
        self.0.file_key(name)
    }

    /// Which vectors of the final modulation are the shift and the scale: diffusers has them the other way round.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        if self.is_diffusers() { (1, 0) } else { (0, 1) }
    }

    /// How many blocks there are.
    pub fn count_blocks(self, w: &Weights) -> FramePackBlocks {
        let keys: Vec<&str> = w.keys().collect();
        self.0.count_blocks(&keys)
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected(self, w: &Weights) -> Vec<String> {
        let mut keys = w.finish();
        keys.retain(|key| key.starts_with(self.0.prefix));
        keys
    }
}
