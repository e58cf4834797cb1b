//! Tensor types of a GGUF file: names and block sizes.
//!
//! The engine interprets the bytes of a block.

use safetensors::Dtype;

use crate::enum_macros::named;
use crate::formats::weights::TensorType;

named! {
    /// Numbers that share scales, as this version can expand them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum BlockType {
        Q4_0 = "Q4_0",
        Q4_1 = "Q4_1",
        Q5_0 = "Q5_0",
        Q5_1 = "Q5_1",
        Q8_0 = "Q8_0",
        Q2K = "Q2_K",
        Q3K = "Q3_K",
        Q4K = "Q4_K",
        Q5K = "Q5_K",
        Q6K = "Q6_K",
        Iq4Nl = "IQ4_NL",
        Iq4Xs = "IQ4_XS",
    }
}

impl BlockType {
    /// Numbers and bytes of one block.
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::Iq4Xs => (256, 136),
        }
    }

    /// Numbers in one block.
    pub fn block_len(self) -> usize {
        self.sizes().0
    }

    pub fn block_bytes(self) -> usize {
        self.sizes().1
    }
}

/// Type of a number, with the values and bytes of one of its blocks. `None` for numbers that were given to no type, or
/// to one that is gone.
pub(super) fn type_of_id(id: u32) -> Option<(TensorType, u64, u64)> {
    let plain = |dtype: Dtype| Some((TensorType::Plain(dtype), 1, dtype.bitsize() as u64 / 8));
    let foreign = |name, len, bytes| Some((TensorType::Foreign(name), len, bytes));
    let block = match id {
        0 => return plain(Dtype::F32),
        1 => return plain(Dtype::F16),
        24 => return plain(Dtype::I8),
        25 => return plain(Dtype::I16),
        26 => return plain(Dtype::I32),
        27 => return plain(Dtype::I64),
        28 => return plain(Dtype::F64),
        30 => return plain(Dtype::BF16),
        9 => return foreign("Q8_1", 32, 40),
        15 => return foreign("Q8_K", 256, 292),
        16 => return foreign("IQ2_XXS", 256, 66),
        17 => return foreign("IQ2_XS", 256, 74),
        18 => return foreign("IQ3_XXS", 256, 98),
        19 => return foreign("IQ1_S", 256, 50),
        21 => return foreign("IQ3_S", 256, 110),
        22 => return foreign("IQ2_S", 256, 82),
        29 => return foreign("IQ1_M", 256, 56),
        34 => return foreign("TQ1_0", 256, 54),
        35 => return foreign("TQ2_0", 256, 66),
        39 => return foreign("MXFP4", 32, 17),
        40 => return foreign("NVFP4", 64, 36),
        41 => return foreign("Q1_0", 128, 18),
        2 => BlockType::Q4_0,
        3 => BlockType::Q4_1,
        6 => BlockType::Q5_0,
        7 => BlockType::Q5_1,
        8 => BlockType::Q8_0,
        10 => BlockType::Q2K,
        11 => BlockType::Q3K,
        12 => BlockType::Q4K,
        13 => BlockType::Q5K,
        14 => BlockType::Q6K,
        20 => BlockType::Iq4Nl,
        23 => BlockType::Iq4Xs,
        _ => return None,
    };
    let (len, bytes) = block.sizes();
    Some((TensorType::Blocks(block), len as u64, bytes as u64))
}

/// Name of a type that GGUF once had.
pub(super) fn removed_type(id: u32) -> Option<&'static str> {
    Some(match id {
        4 => "Q4_2",
        5 => "Q4_3",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        _ => return None,
    })
}
