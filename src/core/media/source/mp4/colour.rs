//! The matrix and range that a file names for the colours of its frames.
//!
//! A file that names none is taken for BT.601 of limited range, as ffmpeg does, which writes and reads
//! most of them. Wide gamuts and curves are not converted: only the matrix is undone.

use safelight_loops::yuv::Matrix;

use crate::formats::mp4::Bytes;

/// How luma and colour differences stand for red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    /// The number of the matrix in the standards' common table; 2 is "unspecified".
    pub matrix: u16,
    pub is_full_range: bool,
}

const UNSPECIFIED: u16 = 2;

impl Colour {
    pub const UNKNOWN: Self = Self {
        matrix: UNSPECIFIED,
        is_full_range: false,
    };

    /// From the content of a `colr` box.
    pub fn from_box(content: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(content);
        let kind = bytes.array::<4>()?;
        bytes.skip(4)?;
        let matrix = bytes.u16()?;
        match &kind {
            b"nclx" => Some(Self {
                matrix,
                is_full_range: bytes.u8()? & 0x80 != 0,
            }),
            b"nclc" => Some(Self {
                matrix,
                is_full_range: false,
            }),
            _ => None,
        }
    }

    pub fn is_named(self) -> bool {
        self.matrix != UNSPECIFIED
    }

    pub fn matrix(self) -> Matrix {
        let (red, blue) = match self.matrix {
            1 => (0.2126, 0.0722),
            4 => (0.30, 0.11),
            7 => (0.212, 0.087),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        Matrix {
            red,
            blue,
            is_full_range: self.is_full_range,
        }
    }
}
