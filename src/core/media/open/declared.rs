//! Colour spaces that image files declare, and their conversion.

use exif::{In, Reader, Tag, Value};
use image::DynamicImage;
use moxcms::{ColorProfile, ProfileText};

use super::super::colour::{ColourConversion, PrimariesXy, hdr_words};
use super::{DecodeFailure, TONE_MAPPED, other};
use crate::media::RgbPixels;
use crate::sanitize::one_line;

/// Larger profiles are not read: tables for the best printers take 3 MB.
pub(super) const MAX_PROFILE_BYTES: u64 = 16 << 20;

/// Characters of a profile's name.
const MAX_NAME: usize = 80;

/// Marks of the DCF option file of EXIF: Adobe RGB without a profile.
const ADOBE_INTEROP: &[u8] = b"R03";
const ADOBE_COLOR_SPACE: u32 = 2;

/// Colours that a file declares.
#[derive(Debug, Default)]
pub(in crate::media) enum DeclaredColours {
    #[default]
    Untagged,
    Icc(Vec<u8>),
    Cicp(CicpColours),
    /// PNG's cHRM and gAMA.
    Gamma(Option<PrimariesXy>, Option<f64>),
    AdobeRgb,
    /// An ICC profile that the decoder has converted with.
    Converted(Vec<u8>),
    /// Colours that cannot be read, and why.
    Unreadable(String),
}

/// Colours by the code points of H.273.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::media) struct CicpColours {
    pub primaries: u8,
    pub transfer: u8,
    /// Peak of PQ in cd/m².
    pub peak: Option<f64>,
    /// Samples were of narrow range, and are expanded already.
    pub is_narrow: bool,
}

impl CicpColours {
    pub fn conversion(&self) -> Result<Option<ColourConversion>, String> {
        ColourConversion::from_cicp(self.primaries, self.transfer, self.peak)
    }

    /// In words, such as `BT.2020, narrow range`.
    pub fn in_words(&self) -> String {
        let words = match (hdr_words(self.transfer, self.peak), self.primaries) {
            (Some(words), _) => format!("HDR {words}{TONE_MAPPED}"),
            (None, 5 | 6) => "BT.601".to_owned(),
            (None, 7) => "SMPTE 240M".to_owned(),
            (None, 9) => "BT.2020".to_owned(),
            (None, 11 | 12) => "P3".to_owned(),
            (None, 1) if matches!(self.transfer, 1 | 13) => "BT.709".to_owned(),
            (None, primaries) => format!(
                "colour primaries {primaries} and transfer characteristics {}",
                self.transfer
            ),
        };
        let range = if self.is_narrow { ", narrow range" } else { "" };
        format!("{words}{range}")
    }
}

/// Pixels in sRGB, and notices about their colours.
pub(in crate::media) struct SrgbPixels {
    pub image: RgbPixels,
    /// Declared colours in words, where they are not those of sRGB.
    pub colours: Option<String>,
    pub notice: Option<String>,
}

impl DeclaredColours {
    /// Those of a decoder: its ICC profile, else the colour space of its EXIF block.
    pub fn from_metadata(profile: Option<Vec<u8>>, exif: Option<&[u8]>) -> Self {
        match profile {
            Some(profile) if profile.len() as u64 > MAX_PROFILE_BYTES => {
                Self::Unreadable("its ICC profile is too large".to_owned())
            }
            Some(profile) => Self::Icc(profile),
            None if exif.is_some_and(is_adobe_rgb) => Self::AdobeRgb,
            None => Self::Untagged,
        }
    }

    fn conversion(&self) -> Result<Option<ColourConversion>, String> {
        match self {
            Self::Untagged | Self::Converted(_) => Ok(None),
            Self::Icc(profile) => ColourConversion::from_icc(profile),
            Self::Cicp(colours) => colours.conversion(),
            Self::Gamma(primaries, gamma) => ColourConversion::from_gamma(*primaries, *gamma),
            Self::AdobeRgb => ColourConversion::from_adobe_rgb(),
            Self::Unreadable(why) => Err(why.clone()),
        }
    }

    /// The conversion of RGB samples.
    pub fn rgb_conversion(&self) -> Result<Option<ColourConversion>, String> {
        let fits = |found: &ColourConversion| found.channels == 3;
        Ok(self.conversion()?.filter(fits))
    }

    /// In words, such as `the ICC profile “Display P3”`.
    fn in_words(&self) -> String {
        match self {
            Self::Untagged => "sRGB".to_owned(),
            Self::Icc(profile) | Self::Converted(profile) => profile_name(profile).map_or_else(
                || "an ICC profile".to_owned(),
                |name| format!("the ICC profile “{name}”"),
            ),
            Self::Cicp(colours) => colours.in_words(),
            Self::Gamma(..) => "PNG's gamma and primaries".to_owned(),
            Self::AdobeRgb => "Adobe RGB".to_owned(),
            Self::Unreadable(_) => "an ICC profile".to_owned(),
        }
    }

    /// Converts decoded pixels to sRGB and drops their alpha; as they are where that is not possible.
    pub fn converted(&self, image: DynamicImage) -> Result<SrgbPixels, DecodeFailure> {
        let is_grey = !image.color().has_color();
        let conversion = self.conversion().and_then(|found| match found {
            Some(found) if found.channels == 3 || (found.channels == 1 && is_grey) => {
                Ok(Some(found))
            }
            Some(_) => Err("its ICC profile is for another kind of pixels".to_owned()),
            None => Ok(None),
        });
        let is_converted = match self {
            Self::Converted(_) => true,
            Self::Cicp(colours) => colours.is_narrow,
            _ => false,
        };
        let (image, colours, notice) = match conversion {
            Ok(None) => (
                other::rgb_image(image)?,
                is_converted.then(|| self.in_words()),
                None,
            ),
            Ok(Some(conversion)) => (
                convert(image, &conversion).map_err(DecodeFailure::Damaged)?,
                Some(self.in_words()),
                None,
            ),
            Err(why) => (
                other::rgb_image(image)?,
                None,
                Some(format!("The colours are taken as sRGB: {why}")),
            ),
        };
        Ok(SrgbPixels {
            image,
            colours,
            notice,
        })
    }
}

fn convert(image: DynamicImage, conversion: &ColourConversion) -> Result<RgbPixels, String> {
    let (width, height) = (image.width(), image.height());
    let bytes_a_channel = image.color().bytes_per_pixel() / image.color().channel_count();
    let rgb = match (conversion.channels, bytes_a_channel) {
        (1, 1) => conversion.convert_bytes(image.into_luma8().into_raw()),
        (1, _) => conversion.convert_words(image.into_luma16().as_raw()),
        (_, 1) => conversion.convert_bytes(image.into_rgb8().into_raw()),
        _ => conversion.convert_words(image.into_rgb16().as_raw()),
    };
    RgbPixels::new(width, height, rgb?).map_err(|err| err.to_string())
}

/// Converts CMYK, from 0 for no ink, with the ICC profile that is declared; `None` where that is none of CMYK.
pub(super) fn rgb_from_cmyk(
    samples: Vec<u8>,
    colours: &DeclaredColours,
) -> Option<(Vec<u8>, DeclaredColours)> {
    let DeclaredColours::Icc(profile) = colours else {
        return None;
    };
    let conversion = ColourConversion::from_icc(profile).ok().flatten()?;
    if conversion.channels != 4 {
        return None;
    }
    let rgb = conversion.convert_bytes(samples).ok()?;
    Some((rgb, DeclaredColours::Converted(profile.clone())))
}

/// The name of an ICC profile, on one line.
fn profile_name(profile: &[u8]) -> Option<String> {
    let name = match ColorProfile::new_from_slice(profile).ok()?.description? {
        ProfileText::PlainString(name) => name,
        ProfileText::Localizable(names) => names.into_iter().next()?.value,
        ProfileText::Description(name) => name.ascii_string,
    };
    let name = one_line(name.trim_matches(['\0', ' ']), MAX_NAME).into_owned();
    (!name.is_empty()).then_some(name)
}

/// Returns true if an EXIF block says that the colours are Adobe RGB.
fn is_adobe_rgb(block: &[u8]) -> bool {
    let block = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    let read = Reader::new()
        .continue_on_error(true)
        .read_raw(block.to_vec());
    let Ok(exif) = read.or_else(|err| err.distill_partial_result(|_| ())) else {
        return false;
    };
    let value = |tag| exif.get_field(tag, In::PRIMARY).map(|field| &field.value);
    let is_interop = matches!(value(Tag::InteroperabilityIndex),
        Some(Value::Ascii(parts)) if parts.first().is_some_and(|it| it.starts_with(ADOBE_INTEROP)));
    is_interop || value(Tag::ColorSpace).and_then(|it| it.get_uint(0)) == Some(ADOBE_COLOR_SPACE)
}
