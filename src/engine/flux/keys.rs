//! The names of a Flux transformer's tensors: this code asks with the authors' own, which the catalogue's table
//! translates into those of the file.
//!
//! Where diffusers has several matrices in the place of one, this code asks for parts of that one: `img_attn.qkv.q`,
//! `linear1.mlp`. Does not look at shapes or at how numbers are stored.

use safelight_core::catalog::FluxTransformerKeys;

use crate::weights::Weights;

/// How the tensors of one file or folder are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys(FluxTransformerKeys);

impl TransformerKeys {
    /// What is no Flux transformer counts as one in the original names: the first key asked for says what is wrong.
    pub fn detect(w: &Weights) -> Self {
        let found = FluxTransformerKeys::detect(|key| w.has(key));
        Self(found.unwrap_or(FluxTransformerKeys::ORIGINAL))
    }

    /// Whether they are diffusers' names; the authors' otherwise.
    pub fn is_diffusers(self) -> bool {
        self.0.is_diffusers
    }

    /// `w`, to be asked for by the original names.
    pub fn translate(self, w: &Weights) -> Weights {
        w.translated(move |original| self.file_key(original))
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        self.0.file_key(original)
    }

    /// Which vectors of the final modulation are the shift and the scale: diffusers has them the other way round.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        if self.is_diffusers() { (1, 0) } else { (0, 1) }
    }

    /// How many double and single blocks there are.
    pub fn count_blocks(self, w: &Weights) -> (usize, usize) {
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
