//! Planes of a decoded frame to RGB, by the matrix and range that the file names.
//!
//! A file that names none is taken for BT.601 of limited range, as ffmpeg does, which writes and reads
//! most of them. Wide gamuts and curves are not converted: only the matrix is undone.

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

    /// The weights of red and blue in luma.
    fn weights(self) -> (f32, f32) {
        match self.matrix {
            1 => (0.2126, 0.0722),
            4 => (0.30, 0.11),
            7 => (0.212, 0.087),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        }
    }
}

/// The planes of one frame: luma, and two of half the width and height.
pub(super) struct Planes<'a> {
    pub width: usize,
    pub height: usize,
    pub y: &'a [u8],
    pub u: &'a [u8],
    pub v: &'a [u8],
    pub stride: usize,
    pub chroma_stride: usize,
}

/// Fractional bits of the coefficients.
const BITS: i32 = 13;
const HALF: i32 = 1 << (BITS - 1);
/// Colour differences are interpolated with four more bits.
const CHROMA_BITS: i32 = 4;

/// Integer factors of one matrix and range.
struct Factors {
    luma: i32,
    black: i32,
    red_v: i32,
    green_u: i32,
    green_v: i32,
    blue_u: i32,
}

impl Factors {
    fn of(colour: Colour) -> Self {
        let (red, blue) = colour.weights();
        let green = 1.0 - red - blue;
        let (luma_range, chroma_range, black) = if colour.is_full_range {
            (255.0, 255.0, 0)
        } else {
            (219.0, 224.0, 16)
        };
        let fixed = |value: f32| (value * (1 << BITS) as f32).round() as i32;
        let chroma = 255.0 / chroma_range;
        Self {
            luma: fixed(255.0 / luma_range),
            black,
            red_v: fixed(2.0 * (1.0 - red) * chroma),
            green_u: fixed(-2.0 * blue * (1.0 - blue) / green * chroma),
            green_v: fixed(-2.0 * red * (1.0 - red) / green * chroma),
            blue_u: fixed(2.0 * (1.0 - blue) * chroma),
        }
    }

    /// The colour differences come times 16, around zero.
    fn rgb(&self, y: u8, u: i32, v: i32) -> [u8; 3] {
        let luma = (i32::from(y) - self.black) * self.luma + HALF;
        let add = |chroma: i32| {
            let value = (luma + (chroma >> CHROMA_BITS)) >> BITS;
            value.clamp(0, 255) as u8
        };
        [
            add(self.red_v * v),
            add(self.green_u * u + self.green_v * v),
            add(self.blue_u * u),
        ]
    }
}

/// RGB of the frame. A colour sample stands in the middle of its four pixels, which is how this program
/// writes them; between them it is interpolated.
pub(super) fn rgb_from_planes(planes: &Planes<'_>, colour: Colour) -> Option<Vec<u8>> {
    let factors = Factors::of(colour);
    let (width, height) = (planes.width, planes.height);
    let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
    let mut rgb = Vec::with_capacity(width * height * 3);
    let mut u_row = vec![0; columns];
    let mut v_row = vec![0; columns];
    for y in 0..height {
        let near = y / 2;
        let far = neighbour(y, rows);
        for (plane, row) in [(planes.u, &mut u_row), (planes.v, &mut v_row)] {
            let line = |index: usize| plane.get(index * planes.chroma_stride..)?.get(..columns);
            let (near, far) = (line(near)?, line(far)?);
            for ((mixed, near), far) in row.iter_mut().zip(near).zip(far) {
                *mixed = 3 * (i32::from(*near) - 128) + i32::from(*far) - 128;
            }
        }
        let luma = planes.y.get(y * planes.stride..)?.get(..width)?;
        for (x, luma) in luma.iter().enumerate() {
            let (near, far) = (x / 2, neighbour(x, columns));
            let u = 3 * u_row[near] + u_row[far];
            let v = 3 * v_row[near] + v_row[far];
            rgb.extend(factors.rgb(*luma, u, v));
        }
    }
    Some(rgb)
}

/// The colour sample on the other side of pixel `at`: the one before for even pixels.
fn neighbour(at: usize, count: usize) -> usize {
    if at.is_multiple_of(2) {
        (at / 2).saturating_sub(1)
    } else {
        (at / 2 + 1).min(count - 1)
    }
}
