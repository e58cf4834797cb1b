//! Sequence parameter set of H.264: frame size, pixel aspect ratio, sampling, depth and colours.
//!
//! Everything else is skipped; the decoder reads it again.

use super::colour::VideoColor;
use crate::formats::mp4::{BoxBytes, mastering_peak};

/// The part of a sequence parameter set that matters before decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceParameters {
    /// Number of the profile, from annex A of the standard.
    pub profile: u8,
    /// Pixels, without the padding.
    pub width: u32,
    pub height: u32,
    /// 1 is 4:2:0.
    pub chroma_format: u32,
    pub bit_depth: u32,
    pub is_interlaced: bool,
    /// Width and height of a pixel on a screen, in any unit.
    pub pixel_aspect: Option<(u32, u32)>,
    pub colour: Option<VideoColor>,
}

/// Pixel aspect ratios by their number, from table E-1 of the standard; 0 is "unspecified".
const PIXEL_ASPECTS: [(u32, u32); 17] = [
    (0, 0),
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

/// Profiles whose sets begin with sampling and depth.
const HIGH_PROFILES: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

impl SequenceParameters {
    /// Reads a unit with its header byte, without its start code.
    pub fn read(unit: &[u8]) -> Option<Self> {
        let bytes = without_emulation(unit.get(1..)?);
        let mut bits = BitReader {
            bytes: &bytes,
            at: 0,
        };
        let profile = bits.number(8)? as u8;
        bits.number(16)?; // Constraints and level.
        bits.exp_golomb()?; // Its id.
        let (mut chroma_format, mut bit_depth) = (1, 8);
        let mut is_separate = false;
        if HIGH_PROFILES.contains(&profile) {
            chroma_format = bits.exp_golomb()?;
            if chroma_format == 3 {
                is_separate = bits.flag()?;
            }
            bit_depth = 8 + bits.exp_golomb()?.max(bits.exp_golomb()?);
            bits.flag()?; // Lossless blocks skip the transform.
            if bits.flag()? {
                skip_scaling_lists(&mut bits, chroma_format)?;
            }
        }
        bits.exp_golomb()?; // Bits of the frame number.
        skip_order_count(&mut bits)?;
        bits.exp_golomb()?; // Reference frames.
        bits.flag()?; // Gaps are allowed.
        let columns = bits.exp_golomb()?.checked_add(1)?;
        let map_rows = bits.exp_golomb()?.checked_add(1)?;
        let is_interlaced = !bits.flag()?;
        let fields = 1 + u32::from(is_interlaced);
        if is_interlaced {
            bits.flag()?; // Blocks switch between frame and field.
        }
        bits.flag()?; // Inference of direct vectors.
        let (mut width, mut height) = (
            columns.checked_mul(16)?,
            map_rows.checked_mul(16)?.checked_mul(fields)?,
        );
        if bits.flag()? {
            let mut edge = || bits.exp_golomb();
            let [left, right, top, bottom] = [edge()?, edge()?, edge()?, edge()?];
            let has_planes = chroma_format != 0 && !is_separate;
            let unit_x = 1 + u32::from(has_planes && chroma_format != 3);
            let unit_y = fields * (1 + u32::from(has_planes && chroma_format == 1));
            width = width.checked_sub(left.checked_add(right)?.checked_mul(unit_x)?)?;
            height = height.checked_sub(top.checked_add(bottom)?.checked_mul(unit_y)?)?;
        }
        let (mut pixel_aspect, mut colour) = (None, None);
        if bits.flag()? {
            // A description that is cut counts as far as it goes.
            read_display(&mut bits, &mut pixel_aspect, &mut colour);
        }
        Some(Self {
            profile,
            width,
            height,
            chroma_format,
            bit_depth,
            is_interlaced,
            pixel_aspect,
            colour,
        })
    }
}

fn skip_scaling_lists(bits: &mut BitReader<'_>, chroma_format: u32) -> Option<()> {
    let lists = if chroma_format == 3 { 12 } else { 8 };
    for list in 0..lists {
        if !bits.flag()? {
            continue;
        }
        let (mut last, mut next) = (8, 8);
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (last + bits.signed_exp_golomb()?).rem_euclid(256);
            }
            if next != 0 {
                last = next;
            }
        }
    }
    Some(())
}

fn skip_order_count(bits: &mut BitReader<'_>) -> Option<()> {
    match bits.exp_golomb()? {
        0 => {
            bits.exp_golomb()?;
        }
        1 => {
            bits.flag()?;
            bits.exp_golomb()?;
            bits.exp_golomb()?;
            let count = bits.exp_golomb()?;
            for _ in 0..count.min(256) {
                bits.exp_golomb()?;
            }
        }
        _ => {}
    }
    Some(())
}

/// Reads the description for displays (VUI) up to its colours.
fn read_display(
    bits: &mut BitReader<'_>,
    pixel_aspect: &mut Option<(u32, u32)>,
    colour: &mut Option<VideoColor>,
) -> Option<()> {
    const OWN_ASPECT: u32 = 255;
    if bits.flag()? {
        *pixel_aspect = match bits.number(8)? {
            OWN_ASPECT => Some((bits.number(16)?, bits.number(16)?)),
            number => PIXEL_ASPECTS.get(number as usize).copied(),
        };
    }
    if bits.flag()? {
        bits.flag()?; // Overscan is allowed.
    }
    if bits.flag()? {
        bits.number(3)?; // The television system.
        let described = colour.insert(VideoColor {
            is_full_range: bits.flag()?,
            ..VideoColor::UNKNOWN
        });
        if bits.flag()? {
            described.primaries = bits.number(8)? as u8;
            described.transfer = bits.number(8)? as u8;
            described.matrix = bits.number(8)? as u8;
        }
    }
    Some(())
}

/// Reads the light levels of supplemental information (SEI), in cd/m²: MaxCLL and the peak of the mastering display.
/// `unit` begins with its header byte.
pub(super) fn read_light(unit: &[u8], max_cll: &mut f64, mastering: &mut f64) -> Option<()> {
    const MASTERING_DISPLAY: usize = 137;
    const LIGHT_LEVELS: usize = 144;
    let payload = without_emulation(unit.get(1..)?);
    let mut bytes = BoxBytes(&payload);
    // Type and length are sums of bytes, of which all but the last are 255.
    let sum = |bytes: &mut BoxBytes<'_>| {
        let mut sum = 0;
        loop {
            let byte = bytes.u8()?;
            sum += usize::from(byte);
            if byte < u8::MAX {
                return Some(sum);
            }
        }
    };
    loop {
        let kind = sum(&mut bytes)?;
        let length = sum(&mut bytes)?;
        let message = bytes.take(length)?;
        match kind {
            MASTERING_DISPLAY => *mastering = mastering_peak(message)?,
            LIGHT_LEVELS => *max_cll = BoxBytes(message).u16()?.into(),
            _ => {}
        }
    }
}

/// The payload without the bytes that keep start codes out of it.
fn without_emulation(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len());
    let mut zeros = 0;
    for &byte in payload {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn flag(&mut self) -> Option<bool> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    fn number(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0_u32, |value, _| Some(value << 1 | u32::from(self.flag()?)))
    }

    fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.number(zeros)?;
        Some((1_u32 << zeros) - 1 + rest)
    }

    fn signed_exp_golomb(&mut self) -> Option<i64> {
        let value = i64::from(self.exp_golomb()?);
        Some(if value % 2 == 0 {
            -(value / 2)
        } else {
            value / 2 + 1
        })
    }
}
