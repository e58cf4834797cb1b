//! RGB samples through linear light to 8-bit sRGB: per-channel table, tone mapping, 3 × 3 matrix, encoding.

/// Codes of a 16-bit sample.
pub const CODES: usize = 1 << 16;

/// Tables and matrix of one conversion.
pub struct ToSrgb {
    /// Linear light of each 16-bit code; 1.0 is SDR white.
    pub linear: Vec<f32>,
    pub tone: Option<ToneMap>,
    /// Linear source RGB to linear sRGB.
    pub matrix: [[f32; 3]; 3],
    /// 8-bit sRGB of linear light from 0 to 1 in [`CODES`] steps.
    pub encode: Vec<u8>,
}

/// A curve on the largest component; hue and saturation stay.
pub struct ToneMap {
    /// Luminance coefficients, exponent and gain of the HLG system gamma: `rgb · gain · luminance ^ exponent`.
    pub system_gamma: Option<([f32; 3], f32, f32)>,
    /// Largest component that the curve covers; more is clipped to it.
    pub peak: f32,
    /// Factor for a largest component of 0 to `peak`, in equal steps.
    pub factors: Vec<f32>,
}

impl ToSrgb {
    fn pixel(&self, codes: [u16; 3]) -> [u8; 3] {
        let mut rgb = codes.map(|code| self.linear[usize::from(code)]);
        if let Some(tone) = &self.tone {
            tone.apply(&mut rgb);
        }
        self.matrix.map(|row| {
            let light = dot(row, rgb).clamp(0.0, 1.0);
            self.encode[(light * (CODES - 1) as f32 + 0.5) as usize]
        })
    }

    /// Converts 16-bit RGB.
    pub fn convert_words(&self, rgb: &[u16]) -> Vec<u8> {
        let pixels = rgb.as_chunks::<3>().0;
        pixels.iter().flat_map(|pixel| self.pixel(*pixel)).collect()
    }

    /// Converts 8-bit RGB in place.
    pub fn convert_bytes(&self, rgb: &mut [u8]) {
        for pixel in rgb.as_chunks_mut::<3>().0 {
            *pixel = self.pixel(pixel.map(widened));
        }
    }
}

impl ToneMap {
    #[inline(always)]
    fn apply(&self, rgb: &mut [f32; 3]) {
        let mut scale = 1.0;
        if let Some((luma, exponent, gain)) = self.system_gamma {
            scale = gain * dot(luma, *rgb).max(0.0).powf(exponent);
        }
        let largest = rgb[0].max(rgb[1]).max(rgb[2]) * scale;
        let last = self.factors.len() - 1;
        let step = (largest / self.peak * last as f32 + 0.5) as usize;
        if step > last {
            scale *= self.peak / largest;
        }
        scale *= self.factors[step.min(last)];
        for component in rgb {
            *component *= scale;
        }
    }
}

fn dot(row: [f32; 3], rgb: [f32; 3]) -> f32 {
    row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]
}

fn widened(byte: u8) -> u16 {
    u16::from(byte) * 257
}

/// 8-bit samples as 16-bit ones of the same brightness.
pub fn widen(samples: &[u8]) -> Vec<u16> {
    samples.iter().map(|byte| widened(*byte)).collect()
}

/// 16-bit samples rounded to 8 bits.
pub fn narrow(samples: &[u16]) -> Vec<u8> {
    samples
        .iter()
        .map(|word| ((u32::from(*word) + 128) / 257) as u8)
        .collect()
}
