//! CLIP's image preprocessing: resize, centre crop and normalisation.
//!
//! Equals `transformers`' `CLIPImageProcessor` with its torchvision backend, bit for bit: images are resized as bytes,
//! by libtorch's routine. Opens no files.

use std::path::{Path, PathBuf};

use safelight_core::media::RgbPixels;
use safelight_core::model::read_json;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tch::{Kind, Tensor};

use crate::error::EngineError;

/// Edges beyond this are no image encoder's.
const MAX_EDGE: i64 = 4096;
/// An image far longer than wide grows with its ratio when its short edge is resized.
const MAX_RESIZED: i64 = 1 << 28;

/// Checked content of `preprocessor_config.json`.
#[derive(Clone, Debug)]
pub struct ClipImageProcessor {
    resize: Option<(ResizeTarget, ResampleFilter)>,
    crop: Option<[i64; 2]>,
    rescale_factor: Option<f64>,
    /// Mean and deviation of red, green and blue
    normalize: Option<[[f64; 3]; 2]>,
}

/// Target size of an image.
#[derive(Clone, Copy, Debug)]
enum ResizeTarget {
    ShortestEdge(i64),
    Exact([i64; 2]),
}

#[derive(Clone, Copy, Debug)]
enum ResampleFilter {
    Nearest,
    Bilinear,
    Bicubic,
}

/// `preprocessor_config.json` as it is written. What is left out is as in the published files.
#[derive(Deserialize)]
#[serde(default)]
struct WrittenProcessor {
    do_resize: bool,
    size: WrittenSize,
    resample: u8,
    do_center_crop: bool,
    crop_size: WrittenSize,
    do_rescale: bool,
    rescale_factor: f64,
    do_normalize: bool,
    image_mean: [f64; 3],
    image_std: [f64; 3],
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum WrittenSize {
    Edge(i64),
    Exact { height: i64, width: i64 },
    ShortestEdge { shortest_edge: i64 },
}

impl Default for WrittenProcessor {
    fn default() -> Self {
        Self {
            do_resize: true,
            size: WrittenSize::Edge(224),
            resample: 3,
            do_center_crop: true,
            crop_size: WrittenSize::Edge(224),
            do_rescale: true,
            rescale_factor: 1.0 / 255.0,
            do_normalize: true,
            image_mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
            image_std: [0.268_629_54, 0.261_302_58, 0.275_777_11],
        }
    }
}

impl Default for ClipImageProcessor {
    /// As published with Wan 2.1.
    fn default() -> Self {
        Self::from_written(&WrittenProcessor::default()).expect("the published values are sound")
    }
}

impl ClipImageProcessor {
    /// Reads `preprocessor_config.json`, or the folder that has it; without a place, the published values.
    pub fn read(place: Option<&Path>) -> Result<Self, EngineError> {
        Self::read_over(place, json!({}))
    }

    /// Like `read`, with other defaults than CLIP's.
    pub(super) fn read_over(
        place: Option<&Path>,
        mut published: Value,
    ) -> Result<Self, EngineError> {
        let path = match place {
            Some(folder) if folder.is_dir() => folder.join("preprocessor_config.json"),
            Some(file) => file.to_owned(),
            None => PathBuf::new(),
        };
        if place.is_some() {
            let written: Map<String, Value> = read_json(&path)?;
            for (name, value) in written.into_iter().filter(|(_, value)| !value.is_null()) {
                published[name] = value;
            }
        }
        let wrong = |reason: String| EngineError::config(reason, &path);
        let written = WrittenProcessor::deserialize(published)
            .map_err(|err| wrong(format!("not the JSON it should be: {err}")))?;
        Self::from_written(&written).map_err(wrong)
    }

    /// Checks that every image gets the encoder's size. `place`: path of the processor, for the error
    pub fn check(&self, image_size: i64, place: &Path) -> Result<(), EngineError> {
        let expected = [image_size; 2];
        let found = match (self.crop, self.resize) {
            (Some(size), _) | (None, Some((ResizeTarget::Exact(size), _))) => Some(size),
            _ => None,
        };
        if found == Some(expected) {
            return Ok(());
        }
        let [height, width] = expected;
        let found = match found {
            Some([height, width]) => format!("{width}x{height}"),
            None => "any size".to_owned(),
        };
        let reason = format!("the image encoder reads images of {width}x{height}, not {found}");
        Err(EngineError::config(reason, place))
    }

    fn from_written(written: &WrittenProcessor) -> Result<Self, String> {
        let edges = |edges: [i64; 2]| {
            let is_sound = edges.iter().all(|edge| (1..=MAX_EDGE).contains(edge));
            let reason =
                || format!("expected edges between 1 and {MAX_EDGE} pixels, found {edges:?}");
            is_sound.then_some(edges).ok_or_else(reason)
        };
        let size = match written.size {
            WrittenSize::Edge(edge)
            | WrittenSize::ShortestEdge {
                shortest_edge: edge,
            } => ResizeTarget::ShortestEdge(edges([edge; 2])?[0]),
            WrittenSize::Exact { height, width } => ResizeTarget::Exact(edges([height, width])?),
        };
        let crop = match written.crop_size {
            WrittenSize::Edge(edge) => edges([edge; 2])?,
            WrittenSize::Exact { height, width } => edges([height, width])?,
            WrittenSize::ShortestEdge { .. } => {
                return Err("its crop_size has no height and width".to_owned());
            }
        };
        let filter = match written.resample {
            0 => ResampleFilter::Nearest,
            2 => ResampleFilter::Bilinear,
            // Lanczos (1) falls back to bicubic there, too.
            1 | 3 => ResampleFilter::Bicubic,
            other => return Err(format!("its resample {other} is not supported")),
        };
        let factor = written.rescale_factor;
        let is_sound = |n: &f64| n.is_finite() && *n != 0.0;
        if !is_sound(&factor)
            || !written.image_std.iter().all(is_sound)
            || !written.image_mean.iter().all(|n| n.is_finite())
        {
            return Err("its numbers make no sense".to_owned());
        }
        Ok(Self {
            resize: written.do_resize.then_some((size, filter)),
            crop: written.do_center_crop.then_some(crop),
            rescale_factor: written.do_rescale.then_some(factor),
            normalize: written
                .do_normalize
                .then_some([written.image_mean, written.image_std]),
        })
    }

    /// `image`: `(1, 3, H, W)` bytes -> the same, resized
    fn resized(&self, image: Tensor, [height, width]: [i64; 2]) -> Result<Tensor, EngineError> {
        let Some((size, filter)) = self.resize else {
            return Ok(image);
        };
        let size = match size {
            ResizeTarget::Exact(size) => size,
            ResizeTarget::ShortestEdge(edge) if width <= height => [edge * height / width, edge],
            ResizeTarget::ShortestEdge(edge) => [edge, edge * width / height],
        };
        if size[0] * size[1] * 3 > MAX_RESIZED {
            return Err(EngineError::request(format!(
                "an image of {width}x{height} is too long for the image encoder"
            )));
        }
        if size == [height, width] {
            return Ok(image);
        }
        Ok(match filter {
            ResampleFilter::Nearest => {
                image.f_internal_upsample_nearest_exact2d(size, None, None)?
            }
            ResampleFilter::Bilinear => {
                image.f_internal_upsample_bilinear2d_aa(size, false, None, None)?
            }
            ResampleFilter::Bicubic => {
                image.f_internal_upsample_bicubic2d_aa(size, false, None, None)?
            }
        })
    }

    /// `image`: `(1, 3, H, W)` bytes -> the same, with its middle cut out; black surrounds what is too small
    fn cropped(&self, image: Tensor) -> Tensor {
        let Some([height, width]) = self.crop else {
            return image;
        };
        let (_, _, h, w) = image.size4().expect("an image has four dimensions");
        let (down, right) = ((height - h).max(0), (width - w).max(0));
        let image = if down + right > 0 {
            let sides = [right / 2, (right + 1) / 2, down / 2, (down + 1) / 2];
            image.constant_pad_nd(sides)
        } else {
            image
        };
        let (top, left) = ((h - height).max(0) / 2, (w - width).max(0) / 2);
        image.narrow(2, top, height).narrow(3, left, width)
    }

    /// `image`: `(1, 3, H, W)` in [0, 1], not bytes -> what [`pixel_values`] gives of bytes
    pub(super) fn of_numbers(&self, image: Tensor) -> Result<Tensor, EngineError> {
        let (_, _, height, width) = image.size4().expect("an image has four dimensions");
        let image = self.cropped(self.resized(image, [height, width])?);
        Ok(self.normalized(&image, None))
    }

    /// `image`: bytes, or numbers that are not rescaled -> f32; the order of the operations decides the last bits
    fn normalized(&self, image: &Tensor, rescale_factor: Option<f64>) -> Tensor {
        let per_channel = |numbers: [f64; 3]| {
            let numbers = numbers.map(|n| n as f32);
            let numbers = Tensor::from_slice(&numbers).view([3, 1, 1]);
            match rescale_factor {
                Some(factor) => numbers * (1.0 / factor),
                None => numbers,
            }
        };
        let image = image.to_kind(Kind::Float);
        match (self.normalize, rescale_factor) {
            (Some([mean, std]), _) => (image - per_channel(mean)) / per_channel(std),
            (None, Some(factor)) => image * factor,
            (None, None) => image,
        }
    }
}

/// An image as the image encoder reads it.
///
/// `rgb`: the image as it was opened, `width` x `height` bytes of red, green and blue row by row. It must not
/// have been resized to the video: diffusers gives the image encoder the original, and only the autoencoder gets the
/// resized one. -> `(1, 3, 224, 224)` in f32 on the CPU (or what else the processor says).
pub fn pixel_values(
    rgb: &[u8],
    width: u32,
    height: u32,
    processor: &ClipImageProcessor,
) -> Result<Tensor, EngineError> {
    let size = [i64::from(height), i64::from(width)];
    let count = u64::from(width) * u64::from(height) * 3;
    if count == 0 || rgb.len() as u64 != count {
        return Err(EngineError::request(format!(
            "an image of {width}x{height} has {count} bytes, but {} came",
            rgb.len()
        )));
    }
    let image = Tensor::f_from_data_size(rgb, &[size[0], size[1], 3], Kind::Uint8)?;
    // h w c -> 1 c h w
    let image = image.permute([2, 0, 1]).unsqueeze(0).contiguous();
    let image = processor.resized(image, size)?;
    Ok(processor.normalized(&processor.cropped(image), processor.rescale_factor))
}

/// SigLIP's, as in FramePack: values in [0, 1], resized and normalised.
///
/// FramePack's pipeline passes the image already resized to the video's size, as floats rather than bytes. Bicubic
/// resizing then goes below 0 and above 1 and is not clamped: the model receives these values.
#[derive(Clone, Debug)]
pub struct SiglipImageProcessor(ClipImageProcessor);

impl SiglipImageProcessor {
    /// Reads `preprocessor_config.json`, or the folder that has it; without a place, the values published with the
    /// so400m of 384 pixels.
    pub fn read(place: Option<&Path>) -> Result<Self, EngineError> {
        let published = json!({
            "size": {"height": 384, "width": 384},
            "do_center_crop": false,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        });
        ClipImageProcessor::read_over(place, published).map(Self)
    }

    /// As [`ClipImageProcessor::check`].
    pub fn check(&self, image_size: i64, place: &Path) -> Result<(), EngineError> {
        self.0.check(image_size, place)
    }

    /// Preprocesses an opened image, resized as bytes, as in pipelines that receive images.
    pub fn of_bytes(&self, image: &RgbPixels) -> Result<Tensor, EngineError> {
        pixel_values(&image.rgb, image.width, image.height, &self.0)
    }

    /// `image`: `(1, 3, H, W)` in [-1, 1], f32 on the CPU, as the autoencoder gets it -> `(1, 3, 384, 384)` (or what
    /// else the processor says), mostly in [-1, 1]
    pub fn pixel_values(&self, image: &Tensor) -> Result<Tensor, EngineError> {
        self.0.of_numbers((image + 1.0) / 2.0)
    }
}
