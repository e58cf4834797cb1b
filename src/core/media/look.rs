//! Size and length of a file, from its headers alone, for lists of many files; and its description.
//!
//! Images and videos are distinguished by their content, as everywhere; settings are not read here.

use std::io::BufReader;
use std::path::Path;

use image::ImageDecoder as _;
use image::codecs::bmp::BmpDecoder;

use super::open::{DecodeFailure, EMPTY, check_size, heif, jpeg, not_an_image, png, tiff};
use super::source::{VideoInfo, video_info};
use super::{MediaError, VideoReader, open_image, sound_for};
use crate::formats::kind::FileFormat;
use crate::media::OpenedImage;
use crate::media::open::only_first;
use crate::media::opened::open_file;

/// Size and length of the image or video at `path`, upright; an image is one frame, of 0 frames a second. A numbered image
/// is looked at alone.
pub fn media_info(path: &Path) -> Result<VideoInfo, MediaError> {
    let opened = open_file(path, "read the file")?;
    if opened.len == 0 {
        return Err(MediaError::with_path(EMPTY, path));
    }
    let (len, file) = (opened.len, BufReader::new(opened.file));
    let size = match opened.kind {
        FileFormat::Png if !png::is_animated(path) => png::size(file, len),
        FileFormat::Png
        | FileFormat::Mp4
        | FileFormat::Foreign(_)
        | FileFormat::Gif
        | FileFormat::WebP => {
            let info = video_info(path)?;
            if info.num_frames > 1 {
                return Ok(info);
            }
            Ok((info.width, info.height))
        }
        FileFormat::Tiff => tiff::size(file, len),
        FileFormat::Avif | FileFormat::Heic => heif::size(file, len),
        FileFormat::Jpeg => jpeg::size(file),
        FileFormat::Bmp => BmpDecoder::new(file)
            .map(|image| image.dimensions())
            .map_err(DecodeFailure::from),
        FileFormat::Json | FileFormat::Other(_) => {
            return Err(not_an_image(opened.kind, path));
        }
    };
    size.and_then(|(width, height)| check_size(width, height).map(|()| (width, height)))
        .map(|(width, height)| VideoInfo::image(width, height))
        .map_err(|failure| failure.into_error(opened.kind.name(), path))
}

/// As [`media_info`], of a file that is given where a video may be, which numbered images are there together.
pub fn video_or_image_info(path: &Path) -> Result<VideoInfo, MediaError> {
    match video_info(path) {
        Ok(video) if video.num_frames > 1 => Ok(video),
        _ => media_info(path),
    }
}

/// Describes the file at `path`, one fact a line.
pub fn describe_media(path: &Path) -> Result<Vec<String>, MediaError> {
    let info = media_info(path)?;
    let image = open_image(path)?;
    let is_moving = info.num_frames > 1;
    let kind = open_file(path, "read the file")?.kind;
    let is_video = kind.demuxer().is_some();
    let reader = (is_moving || is_video).then(|| VideoReader::open(path));
    let reader = reader.transpose()?;
    let (width, height) = (image.image.width, image.image.height);
    let mut lines = vec![if is_moving {
        let (frames, fps) = (info.num_frames, (info.fps * 100.0).round() / 100.0);
        format!(
            "video of {width} × {height} pixels: {frames} frames, {fps} a second; where an image is needed, the first frame is used"
        )
    } else if is_video {
        format!("video of {width} × {height} pixels with a single frame, which is used as an image")
    } else {
        format!("image of {width} × {height} pixels")
    }];
    let converted = image
        .colours
        .into_iter()
        .map(|it| format!("colours: {it}, converted to sRGB"));
    lines.extend(converted.chain(image.notice).chain(image.unused));
    let has_alpha = reader
        .as_ref()
        .map_or_else(|| image.alpha.is_some(), VideoReader::has_alpha);
    if let Some(reader) = reader {
        lines.extend(reader.conversions().to_vec());
        lines.extend(reader.format_notices().to_vec());
        lines.extend(reader.starts().map(|starts| {
            let fps = starts.fps();
            format!(
                "uneven frame times, {fps:.1} fps on average: kept where it is upscaled to MP4, WebP or GIF, resampled elsewhere"
            )
        }));
    }
    if has_alpha {
        let kept = if is_moving {
            "kept where it is upscaled to WebP or numbered PNG images; opaque everywhere else"
        } else {
            "kept where it is upscaled to PNG or WebP; opaque where it is generated from"
        };
        lines.push(format!("transparent parts: {kept}"));
    }
    if let Ok(found) = sound_for(path, Path::new("a.mp4")) {
        lines.extend(found.sound.map(|sound| {
            let codec = sound.codec().name();
            format!(
                "sound: {codec}, kept in an MP4 that is made of the whole video or a part of it"
            )
        }));
        lines.extend(found.left_out.map(|text| {
            let why = text.strip_prefix("The result has no sound: ");
            why.map_or_else(|| text.clone(), |why| format!("sound: not used: {why}"))
        }));
    }
    Ok(lines)
}

const BECOMES_OPAQUE: &str =
    "Transparent parts become opaque, in the colours stored under them (often black or white)";

impl OpenedImage {
    /// Losses where the image at `path` is used as an opaque one, each as a sentence.
    pub fn notices(&self, path: &Path) -> Vec<String> {
        let opaque = self.alpha.is_some().then(|| BECOMES_OPAQUE.to_owned());
        let frames = match media_info(path) {
            Ok(info) => only_first(info.num_frames as usize, "frames"),
            Err(_) => Some("Only the first frame is used: the file is incomplete".to_owned()),
        };
        let own = self.notice.iter().chain(&self.unused).cloned();
        let own = self.hdr_notice().into_iter().chain(own);
        opaque.into_iter().chain(frames).chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RgbPixels, VideoOptions, open_rgb, write_png, write_video};
    use super::*;

    #[test]
    fn media_info_and_first_frame_are_read_from_every_video_format() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<_> = (0..5)
            .map(|i| RgbPixels::from_fn(64, 48, |_, _| [i * 50, 90, 40]).unwrap())
            .collect();
        for name in [
            #[cfg(feature = "h264")]
            "a.mp4",
            "a.gif",
            "a.webp",
        ] {
            let path = folder.path().join(name);
            let options = VideoOptions {
                fps: 10.0,
                ..VideoOptions::default()
            };
            write_video(&path, &frames, options).unwrap();
            let info = media_info(&path).unwrap();
            assert_eq!((info.width, info.height, info.num_frames), (64, 48, 5));
            assert!((info.fps - 10.0).abs() < 0.2, "{name} {}", info.fps);
            let first = open_rgb(&path).unwrap();
            assert_eq!((first.width, first.height), (64, 48));
            assert!(first.pixel(20, 20)[0] < 20, "{name}: {first:?}");
        }
    }

    #[test]
    fn image_counts_as_one_frame_and_invalid_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a_0001.png");
        write_png(&path, &RgbPixels::from_fn(7, 5, |_, _| [9; 3]).unwrap()).unwrap();
        assert_eq!(media_info(&path).unwrap(), VideoInfo::image(7, 5));
        assert_eq!(open_rgb(&path).unwrap().pixel(0, 0), [9; 3]);
        let other = folder.path().join("b.png");
        for (bytes, message) in [
            (&b""[..], "empty"),
            (b"%PDF-1.4", "PDF"),
            (b"\x89PNG\r\n\x1a\n", "PNG"),
        ] {
            std::fs::write(&other, bytes).unwrap();
            let err = media_info(&other).unwrap_err().to_string();
            assert!(err.contains(message), "{err}");
        }
    }

    #[test]
    fn media_info_matches_the_decoded_size_of_every_image() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/media");
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let end = path.extension().unwrap_or_default();
            if ["rgb", "txt", "py"].iter().any(|other| end == *other) {
                continue;
            }
            let (info, image) = (media_info(&path).unwrap(), open_rgb(&path).unwrap());
            let expected = (image.width, image.height);
            assert_eq!((info.width, info.height), expected, "{}", path.display());
        }
    }
}
