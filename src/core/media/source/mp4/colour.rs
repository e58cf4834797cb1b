//! The primaries, transfer, matrix and range that a file names for the colours of its frames.
//!
//! A file that names no matrix is taken for BT.601 of limited range, as ffmpeg does, which writes and reads most of them.

use safelight_loops::yuv::YuvMatrix;

use super::super::display::UNSPECIFIED;
use crate::formats::mp4::BoxBytes;

/// Numbers in the tables of ITU-T H.273.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoColor {
    pub primaries: u8,
    pub transfer: u8,
    pub matrix: u8,
    pub is_full_range: bool,
}

impl VideoColor {
    pub const UNKNOWN: Self = Self {
        primaries: UNSPECIFIED,
        transfer: UNSPECIFIED,
        matrix: UNSPECIFIED,
        is_full_range: false,
    };

    /// From the content of a `colr` box; `None` for an ICC profile.
    pub fn from_box(content: &[u8]) -> Option<Self> {
        let mut bytes = BoxBytes(content);
        let kind = bytes.array::<4>()?;
        let mut number = || bytes.u16().and_then(|number| u8::try_from(number).ok());
        let (primaries, transfer, matrix) = (number()?, number()?, number()?);
        let is_full_range = match &kind {
            b"nclx" => bytes.u8()? & 0x80 != 0,
            b"nclc" => false,
            _ => return None,
        };
        Some(Self {
            primaries,
            transfer,
            matrix,
            is_full_range,
        })
    }

    /// Fills from `other` what this leaves unspecified.
    pub fn or(self, other: Self) -> Self {
        let or = |own, other| if own == UNSPECIFIED { other } else { own };
        Self {
            primaries: or(self.primaries, other.primaries),
            transfer: or(self.transfer, other.transfer),
            matrix: or(self.matrix, other.matrix),
            is_full_range: if self.matrix == UNSPECIFIED {
                other.is_full_range || self.is_full_range
            } else {
                self.is_full_range
            },
        }
    }

    /// A sentence on a matrix that is none of red, green and blue against luma, or unknown.
    pub fn matrix_notice(self) -> Option<String> {
        let is_undone = matches!(self.matrix, 1..=7 | 9);
        (!is_undone).then(|| {
            let matrix = self.matrix;
            format!("Its colour matrix {matrix} cannot be converted: colours may be wrong")
        })
    }

    pub fn matrix(self) -> YuvMatrix {
        let (red, blue) = match self.matrix {
            1 => (0.2126, 0.0722),
            4 => (0.30, 0.11),
            7 => (0.212, 0.087),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        YuvMatrix {
            red,
            blue,
            is_full_range: self.is_full_range,
        }
    }
}
