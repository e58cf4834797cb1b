//! RGB to the planes of a video frame, 4:2:0, and back.
//!
//! Written as BT.709 of limited range: not left to the encoder's conversion, which is BT.601 and would shift every
//! colour.
//! A chroma sample is the mean of its four pixels: the standard sites it on the left pair, but ffmpeg and browsers
//! neither write nor read it so, and with them the mean is closest (by 1.2 dB).

/// The planes of one frame, padded by repeating the edges.
pub struct YuvPlanes {
    pub width: usize,
    pub height: usize,
    pub y: Vec<u8>,
    pub u: Vec<u8>,
    pub v: Vec<u8>,
}

/// Fractional bits of the coefficients.
const BITS: u32 = 16;

/// A row of the conversion matrix in fixed point; `range` is the span of the limited range.
const fn fixed(range: f64, red: f64, green: f64, blue: f64) -> [i32; 3] {
    let scale = range / 255.0 * (1 << BITS) as f64;
    // A cast in a constant cuts towards zero: half is added away from it.
    [
        round(red * scale),
        round(green * scale),
        round(blue * scale),
    ]
}

const fn round(value: f64) -> i32 {
    if value < 0.0 {
        (value - 0.5) as i32
    } else {
        (value + 0.5) as i32
    }
}

/// BT.709 weights of red and blue; green is the rest.
const KR: f64 = 0.2126;
const KB: f64 = 0.0722;
const KG: f64 = 1.0 - KR - KB;

const LUMA: [i32; 3] = fixed(219.0, KR, KG, KB);
const BLUE_DIFFERENCE: [i32; 3] = fixed(224.0, -KR / (2.0 - 2.0 * KB), -KG / (2.0 - 2.0 * KB), 0.5);
const RED_DIFFERENCE: [i32; 3] = fixed(224.0, 0.5, -KG / (2.0 - 2.0 * KR), -KB / (2.0 - 2.0 * KR));

fn dot(row: [i32; 3], rgb: [i32; 3]) -> i32 {
    row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]
}

/// The planes of an image, padded at the right and bottom to `width × height`, which are even.
pub fn planes_from_rgb(
    rgb: &[u8],
    (image_width, image_height): (usize, usize),
    (width, height): (usize, usize),
) -> YuvPlanes {
    let mut planes = YuvPlanes {
        width,
        height,
        y: Vec::with_capacity(width * height),
        u: Vec::with_capacity(width * height / 4),
        v: Vec::with_capacity(width * height / 4),
    };
    let mut pair = vec![[0; 3]; width];
    for y in (0..height).step_by(2) {
        pair.fill([0; 3]);
        for row in [y, y + 1] {
            let start = row.min(image_height - 1) * image_width * 3;
            let rgb = &rgb[start..start + image_width * 3];
            for (x, sum) in pair.iter_mut().enumerate() {
                let at = x.min(image_width - 1) * 3;
                let pixel = [rgb[at], rgb[at + 1], rgb[at + 2]].map(i32::from);
                for (sum, sample) in sum.iter_mut().zip(pixel) {
                    *sum += sample;
                }
                let luma = dot(LUMA, pixel) + (1 << (BITS - 1));
                planes.y.push((16 + (luma >> BITS)) as u8);
            }
        }
        for two in pair.chunks_exact(2) {
            let sum = std::array::from_fn(|i| two[0][i] + two[1][i]);
            let difference = |row| {
                // The sum of four pixels has two more bits.
                let value = (dot(row, sum) + (1 << (BITS + 1))) >> (BITS + 2);
                (128 + value).clamp(0, 255) as u8
            };
            planes.u.push(difference(BLUE_DIFFERENCE));
            planes.v.push(difference(RED_DIFFERENCE));
        }
    }
    planes
}

/// The planes of a decoded frame: luma, and two of half the width and height.
pub struct DecodedPlanes<'a> {
    pub width: usize,
    pub height: usize,
    pub y: &'a [u8],
    pub u: &'a [u8],
    pub v: &'a [u8],
    pub stride: usize,
    pub chroma_stride: usize,
}

/// One matrix and range: the weights of red and blue in luma, and whether all 256 levels are used.
#[derive(Clone, Copy)]
pub struct YuvMatrix {
    pub red: f32,
    pub blue: f32,
    pub is_full_range: bool,
}

/// Fractional bits of the coefficients of the way back.
const BACK_BITS: i32 = 13;
const HALF: i32 = 1 << (BACK_BITS - 1);
/// Colour differences are interpolated with four more bits.
const CHROMA_BITS: i32 = 4;

/// Integer factors of one matrix and range.
struct YuvFactors {
    luma: i32,
    black: i32,
    red_v: i32,
    green_u: i32,
    green_v: i32,
    blue_u: i32,
}

impl YuvFactors {
    fn from_matrix(matrix: YuvMatrix) -> Self {
        let YuvMatrix { red, blue, .. } = matrix;
        let green = 1.0 - red - blue;
        let (luma_range, chroma_range, black) = if matrix.is_full_range {
            (255.0, 255.0, 0)
        } else {
            (219.0, 224.0, 16)
        };
        let fixed = |value: f32| (value * (1 << BACK_BITS) as f32).round() as i32;
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
            let value = (luma + (chroma >> CHROMA_BITS)) >> BACK_BITS;
            value.clamp(0, 255) as u8
        };
        [
            add(self.red_v * v),
            add(self.green_u * u + self.green_v * v),
            add(self.blue_u * u),
        ]
    }
}

/// RGB of the frame. A chroma sample is in the middle of its four pixels, as this program writes them, and interpolated
/// between them. `None` if the planes are too short.
pub fn rgb_from_planes(planes: &DecodedPlanes<'_>, matrix: YuvMatrix) -> Option<Vec<u8>> {
    let factors = YuvFactors::from_matrix(matrix);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_colours_get_the_values_of_bt709() {
        // From the standard's table for 75 % and 100 % bars.
        for (rgb, yuv) in [
            ([255, 255, 255], [235, 128, 128]),
            ([0, 0, 0], [16, 128, 128]),
            ([255, 0, 0], [63, 102, 240]),
            ([0, 255, 0], [173, 42, 26]),
            ([0, 0, 255], [32, 240, 118]),
            ([191, 191, 0], [168, 44, 136]),
        ] {
            let planes = planes_from_rgb(&rgb.repeat(9), (3, 3), (4, 4));
            assert_eq!((planes.width, planes.height), (4, 4));
            assert_eq!((planes.y.len(), planes.u.len(), planes.v.len()), (16, 4, 4));
            for (plane, expected) in [planes.y, planes.u, planes.v].iter().zip(yuv) {
                assert!(
                    plane.iter().all(|byte| *byte == expected),
                    "{rgb:?}: {plane:?}"
                );
            }
        }
    }
}
