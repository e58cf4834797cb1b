//! Declared colours of images and videos, converted to 8-bit sRGB.
//!
//! Matrix spaces (H.273 code points, PNG's gAMA and cHRM, Adobe RGB) are converted in linear light by
//! [`safelight_loops::srgb`]; ICC profiles by `moxcms`. Colours outside sRGB's gamut are clipped.
//!
//! PQ and HLG are tone mapped: light is taken relative to the SDR white of 203 cd/m² of BT.2408, HLG is rendered for a
//! display of 1,000 cd/m² (BT.2100), and the largest component goes through the curve of BT.2390 (EETF) from the declared
//! peak of PQ, else 1,000 cd/m², to 203 cd/m²: shadows stay as they are (from 1,000 cd/m² those below 85), highlights
//! roll off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use moxcms::{
    Chromaticity, CicpColorPrimaries, ColorPrimaries, ColorProfile, DataColorSpace, Layout,
    TransferCharacteristics, Transform16BitExecutor, TransformOptions,
};
use safelight_loops::srgb::{CODES, ToSrgb, ToneMap, narrow, widen};

/// Transfer characteristics of H.273.
pub(super) const PQ: u8 = 16;
const HLG: u8 = 18;

/// In cd/m².
const SDR_WHITE: f64 = 203.0;
const HDR_PEAK: f64 = 1000.0;
const PQ_PEAK: f64 = 10_000.0;

/// The exponent of HLG's system gamma for [`HDR_PEAK`].
const HLG_GAMMA: f64 = 1.2;

const TONE_STEPS: usize = 1 << 14;

/// Colours that differ by no more from sRGB are sRGB: variants of its profile round their numbers differently.
const SRGB_TOLERANCE: u8 = 2;

/// Pixels converted at a time where a copy of them is needed.
const PIXELS_AT_ONCE: usize = 1 << 14;

/// An exponent beyond these is no gamma of an image.
const GAMMAS: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// Peak of PQ, in cd/m²: MaxCLL, else that of the mastering display, of which 0 and nonsense mean unknown.
pub(super) fn declared_peak(max_cll: f64, mastering: f64) -> Option<f64> {
    let mut peaks = [max_cll, mastering].into_iter();
    peaks.find(|peak| (1.0..=PQ_PEAK).contains(peak))
}

/// Kind and peak of HDR for notices, in words that follow "HDR"; `None` for the transfer characteristics of SDR.
pub(super) fn hdr_words(transfer: u8, peak: Option<f64>) -> Option<String> {
    match (transfer, peak) {
        (PQ, Some(peak)) => Some(format!("(PQ with a peak of {peak:.0} cd/m²)")),
        (PQ, None) => Some(format!("(PQ, peak not declared: {HDR_PEAK} cd/m² assumed)")),
        (HLG, _) => Some("(HLG)".to_owned()),
        _ => None,
    }
}

/// A conversion to 8-bit sRGB. Constructors return `None` where the samples are sRGB already, and else the reason why
/// there is no conversion.
pub(super) struct ColourConversion {
    steps: ConversionSteps,
    /// Samples of a pixel before the conversion: 1 (grey), 3 or 4 (CMYK).
    pub channels: usize,
}

enum ConversionSteps {
    Linear(Box<ToSrgb>),
    Icc(Arc<Transform16BitExecutor>),
}

/// White, red, green and blue in CIE xy.
pub(super) type PrimariesXy = [[f32; 2]; 4];

const SRGB_PRIMARIES: PrimariesXy = [[0.3127, 0.329], [0.64, 0.33], [0.3, 0.6], [0.15, 0.06]];
const ADOBE_PRIMARIES: PrimariesXy = [[0.3127, 0.329], [0.64, 0.33], [0.21, 0.71], [0.15, 0.06]];

impl ColourConversion {
    /// From colour primaries and transfer characteristics of H.273, as in cICP, nclx and video streams. Unspecified ones
    /// (2) are those of sRGB, and the camera curves of SDR video (BT.601, BT.709, BT.2020) count as sRGB's, as in players.
    /// `peak`: that of PQ as declared, in cd/m².
    pub fn from_cicp(
        primaries: u8,
        transfer: u8,
        peak: Option<f64>,
    ) -> Result<Option<Self>, String> {
        let unknown = |what: &str, code: u8| format!("{what} {code} are unknown");
        let code = if primaries == 2 { 1 } else { primaries };
        let primaries = CicpColorPrimaries::try_from(code)
            .ok()
            .and_then(|code| ColorPrimaries::try_from(code).ok())
            .map(|rgb| {
                let [red, green, blue] = [rgb.red, rgb.green, rgb.blue].map(|it| [it.x, it.y]);
                let white = match code {
                    4 | 8 => [0.310, 0.316],
                    10 => [1.0 / 3.0; 2],
                    11 => [0.314, 0.351],
                    _ => SRGB_PRIMARIES[0],
                };
                [white, red, green, blue]
            })
            .ok_or_else(|| unknown("colour primaries", primaries))?;
        let code = match transfer {
            1 | 2 | 6 | 14 | 15 => 13,
            other => other,
        };
        let curve = TransferCharacteristics::try_from(code)
            .ok()
            .filter(|curve| *curve != TransferCharacteristics::Reserved)
            .ok_or_else(|| unknown("transfer characteristics", transfer))?;
        Self::from_curve(primaries, code, peak, |v| curve.linearize(v))
    }

    /// From PNG's cHRM and gAMA; a missing one defaults to that of sRGB. `gamma`: exponent of encoding, such as 0.45455.
    pub fn from_gamma(
        primaries: Option<PrimariesXy>,
        gamma: Option<f64>,
    ) -> Result<Option<Self>, String> {
        let is_srgb = primaries.is_none_or(|own| {
            let pairs = own.as_flattened().iter().zip(SRGB_PRIMARIES.as_flattened());
            pairs.into_iter().all(|(a, b)| (a - b).abs() < 0.002)
        });
        // 1/2.2 is how sRGB is written in gAMA.
        let gamma = gamma.filter(|gamma| !(is_srgb && (gamma - 1.0 / 2.2).abs() < 0.001));
        if is_srgb && gamma.is_none() {
            return Ok(None);
        }
        let primaries = primaries.unwrap_or(SRGB_PRIMARIES);
        match gamma {
            Some(gamma) if GAMMAS.contains(&gamma) => {
                Self::from_curve(primaries, 0, None, |v| v.powf(1.0 / gamma))
            }
            Some(gamma) => Err(format!("a gamma of {gamma} is none of an image")),
            None => Self::from_curve(primaries, 0, None, |v| {
                TransferCharacteristics::Srgb.linearize(v)
            }),
        }
    }

    /// From Adobe RGB (1998), which cameras name in EXIF without a profile.
    pub fn from_adobe_rgb() -> Result<Option<Self>, String> {
        Self::from_curve(ADOBE_PRIMARIES, 0, None, |v| v.powf(563.0 / 256.0))
    }

    /// From the bytes of an ICC profile for grey, RGB or CMYK.
    pub fn from_icc(profile: &[u8]) -> Result<Option<Self>, String> {
        // A panic of the decoder counts as an invalid profile.
        catch_unwind(AssertUnwindSafe(|| Self::from_sound_icc(profile)))
            .unwrap_or_else(|_| Err("its ICC profile is damaged".to_owned()))
    }

    fn from_sound_icc(profile: &[u8]) -> Result<Option<Self>, String> {
        let profile = ColorProfile::new_from_slice(profile)
            .map_err(|err| format!("its ICC profile is damaged ({err})"))?;
        if let Some(cicp) = &profile.cicp {
            let (primaries, transfer) = (
                cicp.color_primaries as u8,
                cicp.transfer_characteristics as u8,
            );
            if matches!(transfer, PQ | HLG) {
                return Self::from_cicp(primaries, transfer, None);
            }
        }
        let (layout, channels) = match profile.color_space {
            DataColorSpace::Gray => (Layout::Gray, 1),
            DataColorSpace::Rgb => (Layout::Rgb, 3),
            DataColorSpace::Cmyk => (Layout::Rgba, 4),
            _ => return Err("its ICC profile is not for grey, RGB or CMYK".to_owned()),
        };
        let options = TransformOptions {
            prefer_fixed_point: false,
            ..TransformOptions::default()
        };
        let srgb = ColorProfile::new_srgb();
        let transform = profile
            .create_transform_16bit(layout, &srgb, Layout::Rgb, options)
            .map_err(|err| format!("its ICC profile is of an unsupported kind ({err})"))?;
        Self::unless_srgb(ConversionSteps::Icc(transform), channels)
    }

    /// `transfer` is a code point of H.273 or 0 for none; `linear` its curve, of values from 0 to 1.
    fn from_curve(
        primaries: PrimariesXy,
        transfer: u8,
        peak: Option<f64>,
        linear: impl Fn(f64) -> f64,
    ) -> Result<Option<Self>, String> {
        let (matrix, luma) = matrix_to_srgb(primaries)?;
        let linear = |v: f64| match transfer {
            PQ => linear(v) * PQ_PEAK / SDR_WHITE,
            // moxcms includes the system gamma, a channel at a time.
            HLG => linear(v).powf(1.0 / HLG_GAMMA),
            _ => linear(v),
        };
        let last = (CODES - 1) as f64;
        let to_srgb = ToSrgb {
            linear: (0..CODES)
                .map(|code| linear(code as f64 / last) as f32)
                .collect(),
            tone: match transfer {
                PQ => Some(tone_map(peak.unwrap_or(HDR_PEAK), None)),
                HLG => Some(tone_map(HDR_PEAK, Some(luma))),
                _ => None,
            },
            matrix,
            encode: (0..CODES)
                .map(|code| {
                    let light = code as f64 / last;
                    (TransferCharacteristics::Srgb.gamma(light) * 255.0).round() as u8
                })
                .collect(),
        };
        Self::unless_srgb(ConversionSteps::Linear(Box::new(to_srgb)), 3)
    }

    /// The conversion, or `None` where it changes no colour visibly.
    fn unless_srgb(steps: ConversionSteps, channels: usize) -> Result<Option<Self>, String> {
        let conversion = Self { steps, channels };
        let samples: Vec<u8> = match channels {
            1 => (0..=u8::MAX).collect(),
            3 => {
                let greys = (0..=u8::MAX).map(|grey| [grey; 3]);
                let side = || (0..=u8::MAX).step_by(51);
                let colours =
                    side().flat_map(|r| side().flat_map(move |g| side().map(move |b| [r, g, b])));
                greys.chain(colours).flatten().collect()
            }
            _ => return Ok(Some(conversion)),
        };
        let converted = conversion.convert_words(&widen(&samples))?;
        let is_near = |(before, after): (&u8, &u8)| before.abs_diff(*after) <= SRGB_TOLERANCE;
        let is_srgb = match channels {
            1 => samples.iter().zip(converted.iter().step_by(3)).all(is_near),
            _ => samples.iter().zip(&converted).all(is_near),
        };
        Ok((!is_srgb).then_some(conversion))
    }

    /// Converts 16-bit samples, [`channels`](Self::channels) a pixel, to 8-bit RGB.
    pub fn convert_words(&self, samples: &[u16]) -> Result<Vec<u8>, String> {
        match &self.steps {
            ConversionSteps::Linear(to_srgb) => Ok(to_srgb.convert_words(samples)),
            ConversionSteps::Icc(transform) => {
                let mut rgb = vec![0; samples.len() / self.channels * 3];
                let done =
                    catch_unwind(AssertUnwindSafe(|| transform.transform(samples, &mut rgb)));
                match done {
                    Ok(Ok(())) => Ok(narrow(&rgb)),
                    _ => Err("its ICC profile is damaged".to_owned()),
                }
            }
        }
    }

    /// Converts 8-bit samples, [`channels`](Self::channels) a pixel, to 8-bit RGB; RGB in place.
    pub fn convert_bytes(&self, mut samples: Vec<u8>) -> Result<Vec<u8>, String> {
        if self.channels == 3 {
            self.convert_rgb(&mut samples)?;
            return Ok(samples);
        }
        let mut rgb = Vec::with_capacity(samples.len() / self.channels * 3);
        for part in samples.chunks(PIXELS_AT_ONCE * self.channels) {
            rgb.extend(self.convert_words(&widen(part))?);
        }
        Ok(rgb)
    }

    /// Converts 8-bit RGB in place, where [`channels`](Self::channels) is 3.
    pub fn convert_rgb(&self, rgb: &mut [u8]) -> Result<(), String> {
        if let ConversionSteps::Linear(to_srgb) = &self.steps {
            to_srgb.convert_bytes(rgb);
            return Ok(());
        }
        for part in rgb.chunks_mut(PIXELS_AT_ONCE * 3) {
            part.copy_from_slice(&self.convert_words(&widen(part))?);
        }
        Ok(())
    }
}

/// Linear RGB of these primaries to linear sRGB, adapted to its white (Bradford), and their luminance coefficients.
fn matrix_to_srgb(primaries: PrimariesXy) -> Result<([[f32; 3]; 3], [f32; 3]), String> {
    let [white, r, g, b] = primaries;
    let area = (r[0] - b[0]) * (g[1] - b[1]) - (g[0] - b[0]) * (r[1] - b[1]);
    if area.abs() < 1e-4 || primaries.iter().any(|xy| xy[1] < 0.0) || white[1] < 1e-3 {
        return Err("its primaries do not span colours".to_owned());
    }
    let profile_of = |primaries: PrimariesXy| {
        let [white, red, green, blue] = primaries.map(|[x, y]| Chromaticity { x, y });
        let primaries = ColorPrimaries { red, green, blue };
        let mut profile = ColorProfile::new_srgb();
        profile.update_rgb_colorimetry(white.to_xyyb(), primaries);
        (profile, primaries.transform_to_xyz_d(white).v[1])
    };
    let (profile, luma) = profile_of(primaries);
    let matrix = profile.transform_matrix(&profile_of(SRGB_PRIMARIES).0).v;
    let is_sound = matrix.as_flattened().iter().all(|it| it.abs() < 100.0);
    is_sound
        .then(|| {
            (
                matrix.map(|row| row.map(|it| it as f32)),
                luma.map(|it| it as f32),
            )
        })
        .ok_or_else(|| "its primaries do not span colours".to_owned())
}

/// The EETF of BT.2390, section 5.4.1, from `peak` in cd/m², with both blacks at 0; `luma` with HLG's system gamma.
fn tone_map(peak: f64, luma: Option<[f32; 3]>) -> ToneMap {
    let pq = |light: f64| TransferCharacteristics::Smpte2084.gamma(light / PQ_PEAK);
    let peak = peak.clamp(SDR_WHITE, PQ_PEAK);
    let peak_code = pq(peak);
    let white = pq(SDR_WHITE) / peak_code;
    let knee = 1.5 * white - 0.5;
    let mapped = |light: f64| {
        let code = pq(light) / peak_code;
        if code <= knee {
            return light;
        }
        let t = (code - knee) / (1.0 - knee);
        let (t2, t3) = (t * t, t * t * t);
        let code = (2.0 * t3 - 3.0 * t2 + 1.0) * knee
            + (t3 - 2.0 * t2 + t) * (1.0 - knee)
            + (3.0 * t2 - 2.0 * t3) * white;
        TransferCharacteristics::Smpte2084.linearize(code * peak_code) * PQ_PEAK
    };
    let factor = |step: usize| {
        let light = peak * step as f64 / (TONE_STEPS - 1) as f64;
        (mapped(light) / light.max(1e-6)) as f32
    };
    ToneMap {
        system_gamma: luma.map(|luma| {
            (
                luma,
                (HLG_GAMMA - 1.0) as f32,
                (HDR_PEAK / SDR_WHITE) as f32,
            )
        }),
        peak: (peak / SDR_WHITE) as f32,
        factors: std::iter::once(1.0)
            .chain((1..TONE_STEPS).map(factor))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(conversion: Result<Option<ColourConversion>, String>, rgb: [u8; 3]) -> [u8; 3] {
        let converted = conversion.unwrap().unwrap().convert_bytes(rgb.to_vec());
        converted.unwrap().try_into().unwrap()
    }

    #[track_caller]
    fn assert_near(found: [u8; 3], expected: [u8; 3], tolerance: u8) {
        let is_near = found
            .iter()
            .zip(expected)
            .all(|(a, b)| a.abs_diff(b) <= tolerance);
        assert!(is_near, "{found:?} is not {expected:?}");
    }

    #[test]
    fn srgb_and_the_curves_of_sdr_video_need_no_conversion() {
        for (primaries, transfer) in [(1, 13), (1, 1), (2, 2), (1, 6), (1, 14)] {
            let conversion = ColourConversion::from_cicp(primaries, transfer, None).unwrap();
            assert!(conversion.is_none(), "{primaries} {transfer}");
        }
        assert!(
            ColourConversion::from_gamma(None, Some(0.45455))
                .unwrap()
                .is_none()
        );
        let written = SRGB_PRIMARIES.map(|xy| xy.map(|it| it + 0.0002));
        let conversion = ColourConversion::from_gamma(Some(written), Some(0.45455));
        assert!(conversion.unwrap().is_none());
    }

    #[test]
    fn wide_gamuts_are_converted() {
        let p3 = || ColourConversion::from_cicp(12, 13, None);
        assert_near(converted(p3(), [220, 30, 30]), [241, 0, 0], 1);
        assert_near(converted(p3(), [240, 240, 240]), [240, 240, 240], 0);
        let adobe = ColourConversion::from_adobe_rgb;
        assert_near(converted(adobe(), [220, 30, 30]), [255, 24, 24], 1);
        let linear = ColourConversion::from_gamma(None, Some(1.0));
        assert_near(converted(linear, [55, 55, 55]), [128, 128, 128], 1);
    }

    #[test]
    fn hdr_keeps_shadows_and_rolls_off_highlights() {
        // The code values of 50 and 203 cd/m², and of the peak.
        let pq = |code| converted(ColourConversion::from_cicp(9, 16, None), [code; 3]);
        assert_near(pq(112), [137; 3], 3);
        assert_near(pq(148), [229; 3], 3);
        assert_near(pq(255), [255; 3], 0);
        let hlg = |code| converted(ColourConversion::from_cicp(9, 18, None), [code; 3]);
        assert_near(hlg(191), [229; 3], 2);
        assert_near(hlg(255), [255; 3], 1);
        assert_near(hlg(0), [0; 3], 0);
    }

    #[test]
    fn a_declared_peak_decides_which_highlights_keep_detail() {
        let pq = |code, peak| {
            let conversion = ColourConversion::from_cicp(9, 16, peak);
            converted(conversion, [code; 3])[0]
        };
        // 1,000 and 4,000 cd/m².
        let (thousand, four_thousand) = (192, 230);
        assert_eq!(pq(thousand, None), pq(four_thousand, None));
        assert!(pq(thousand, Some(4000.0)) < pq(four_thousand, Some(4000.0)));
        // A peak of SDR leaves everything below its white as it is.
        assert!(pq(148, Some(150.0)) > pq(148, None));
        for peak in [203.0, 10_000.0] {
            assert_eq!((pq(0, Some(peak)), pq(255, Some(peak))), (0, 255));
        }
        assert_eq!(declared_peak(0.0, 4000.0), Some(4000.0));
        assert_eq!(declared_peak(1200.0, 4000.0), Some(1200.0));
        assert_eq!(declared_peak(f64::NAN, f64::INFINITY), None);
    }

    #[test]
    fn a_profile_of_srgb_is_recognised_and_another_one_is_converted() {
        let srgb = ColorProfile::new_srgb().encode().unwrap();
        assert!(ColourConversion::from_icc(&srgb).unwrap().is_none());
        let p3 = ColorProfile::new_display_p3().encode().unwrap();
        let p3 = ColourConversion::from_icc(&p3);
        assert_near(converted(p3, [220, 30, 30]), [241, 0, 0], 1);
        let grey = ColorProfile::new_gray_with_gamma(1.0).encode().unwrap();
        let grey = ColourConversion::from_icc(&grey).unwrap().unwrap();
        let rgb = grey.convert_bytes(vec![55]).unwrap();
        assert_near(rgb.try_into().unwrap(), [128; 3], 1);
        let pq = ColorProfile::new_bt2020_pq().encode().unwrap();
        let pq = ColourConversion::from_icc(&pq);
        assert_near(converted(pq, [148; 3]), [229; 3], 3);
    }

    #[test]
    fn unsupported_colour_conversions_return_a_reason() {
        for conversion in [
            ColourConversion::from_cicp(3, 13, None),
            ColourConversion::from_cicp(1, 99, None),
            ColourConversion::from_gamma(None, Some(0.00001)),
            ColourConversion::from_gamma(Some([[0.3, 0.0]; 4]), None),
            ColourConversion::from_icc(b"not a profile"),
        ] {
            assert!(conversion.err().is_some_and(|err| !err.is_empty()));
        }
    }
}
