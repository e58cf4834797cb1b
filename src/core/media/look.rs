//! Size and length of a file, from its headers alone, and its first image: for lists of many files.
//!
//! Images and videos are distinguished by their content, as everywhere; settings are not read here.

use std::io::BufReader;
use std::path::Path;

use image::ImageReader;

use super::kind::{self, FileFormat};
use super::open::{DecodeFailure, EMPTY, PngReader, check_size, heif, tiff};
use super::source::{ClipInfo, clip_info, first_frame, is_animated_png};
use super::{ClipReader, MediaError, OpenedImage, RgbPixels, open_image, sound_for};

/// Size and length of the picture or clip at `path`; a picture is one frame, of 0 frames a second. A numbered picture is
/// looked at alone.
pub fn media_info(path: &Path) -> Result<ClipInfo, MediaError> {
    let opened = kind::open_file(path, "read the file")?;
    if opened.len == 0 {
        return Err(MediaError::with_path(EMPTY, path));
    }
    let size = match opened.kind {
        FileFormat::Png if is_animated_png(path) => return moving_info(path),
        FileFormat::Mp4 | FileFormat::Foreign(_) | FileFormat::Gif | FileFormat::WebP => {
            return moving_info(path);
        }
        FileFormat::Tiff => tiff::size(BufReader::new(opened.file), opened.len),
        FileFormat::Avif | FileFormat::Heic => heif::size(opened.file, opened.len),
        FileFormat::Png => {
            PngReader::open(BufReader::new(opened.file), opened.len).map(|it| it.size())
        }
        FileFormat::Jpeg | FileFormat::Bmp => ImageReader::new(BufReader::new(opened.file))
            .with_guessed_format()
            .map_err(DecodeFailure::Io)
            .and_then(|image| {
                let size = image.into_dimensions();
                size.map_err(|err| DecodeFailure::Damaged(err.to_string()))
            }),
        FileFormat::Json | FileFormat::Other(_) => {
            return Err(MediaError::NotAPicture {
                found: opened.kind.described().to_owned(),
                path: path.to_path_buf(),
            });
        }
    };
    size.and_then(|(width, height)| check_size(width, height).map(|()| (width, height)))
        .map(|(width, height)| ClipInfo::picture(width, height))
        .map_err(|failure| failure.into_error(opened.kind.name(), path))
}

fn moving_info(path: &Path) -> Result<ClipInfo, MediaError> {
    let info = clip_info(path)?;
    Ok(if info.num_frames > 1 {
        info
    } else {
        ClipInfo::picture(info.width, info.height)
    })
}

/// As [`media_info`], of a file that is given where a clip may be, which numbered pictures are there together.
pub fn clip_or_picture_info(path: &Path) -> Result<ClipInfo, MediaError> {
    match clip_info(path) {
        Ok(clip) if clip.num_frames > 1 => Ok(clip),
        _ => media_info(path),
    }
}

/// The image at `path`, or the first frame of the video there; no more of it is decoded.
pub fn first_image(path: &Path) -> Result<OpenedImage, MediaError> {
    match kind::open_file(path, "read the file")?.kind {
        FileFormat::Mp4 | FileFormat::Foreign(_) => first_frame(path),
        _ => open_image(path),
    }
}

/// As [`first_image`], without its alpha.
pub fn first_picture(path: &Path) -> Result<RgbPixels, MediaError> {
    first_image(path).map(|image| image.picture)
}

/// Describes the file at `path`, one fact a line.
pub fn describe_media(path: &Path) -> Result<Vec<String>, MediaError> {
    let info = media_info(path)?;
    let image = first_image(path)?;
    let reader = ClipReader::open(path).ok();
    let is_moving = info.num_frames > 1;
    let is_video = kind::open_file(path, "read the file")?
        .kind
        .demuxer()
        .is_some();
    let (width, height) = (image.picture.width, image.picture.height);
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
    lines.extend(converted.chain(image.notice));
    if let Some(reader) = reader.filter(|_| is_moving || is_video) {
        lines.extend(reader.conversions().to_vec());
        lines.extend(reader.format_notices().to_vec());
        lines.extend(reader.starts().map(|starts| {
            let fps = starts.fps();
            format!(
                "uneven frame times, {fps:.1} fps on average: kept where it is upscaled to MP4, WebP or GIF, resampled elsewhere"
            )
        }));
    }
    if image.alpha.is_some() {
        let kept = if is_moving {
            "kept where it is upscaled to WebP or numbered PNG images; opaque everywhere else"
        } else {
            "kept where it is upscaled to PNG or WebP; opaque where it is generated from"
        };
        lines.push(format!("transparent parts: {kept}"));
    }
    if let Ok(found) = sound_for(path, Path::new("a.mp4")) {
        let kept = "sound: copied where it is upscaled or interpolated to MP4; not used elsewhere";
        lines.extend(found.sound.map(|_| kept.to_owned()));
        lines.extend(found.left_out.map(|text| {
            let why = text.strip_prefix("the result has no sound: ");
            why.map_or_else(|| text.clone(), |why| format!("sound: not used: {why}"))
        }));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::super::{ClipOptions, open_picture, write_clip, write_png};
    use super::*;

    #[test]
    fn a_clip_tells_its_length_and_shows_its_first_frame() {
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
            let options = ClipOptions {
                fps: 10.0,
                ..ClipOptions::default()
            };
            write_clip(&path, &frames, options).unwrap();
            let info = media_info(&path).unwrap();
            assert_eq!((info.width, info.height, info.num_frames), (64, 48, 5));
            assert!((info.fps - 10.0).abs() < 0.2, "{name} {}", info.fps);
            let first = first_picture(&path).unwrap();
            assert_eq!((first.width, first.height), (64, 48));
            assert!(first.pixel(20, 20)[0] < 20, "{name}: {first:?}");
        }
    }

    #[test]
    fn a_picture_is_one_frame_and_something_else_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a_0001.png");
        write_png(&path, &RgbPixels::from_fn(7, 5, |_, _| [9; 3]).unwrap()).unwrap();
        assert_eq!(media_info(&path).unwrap(), ClipInfo::picture(7, 5));
        assert_eq!(first_picture(&path).unwrap().pixel(0, 0), [9; 3]);
        let other = folder.path().join("b.png");
        for (bytes, told) in [
            (&b""[..], "empty"),
            (b"%PDF-1.4", "PDF"),
            (b"\x89PNG\r\n\x1a\n", "PNG"),
        ] {
            std::fs::write(&other, bytes).unwrap();
            let err = media_info(&other).unwrap_err().to_string();
            assert!(err.contains(told), "{err}");
        }
    }

    #[test]
    fn every_picture_that_opens_tells_its_size_before() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/media");
        for name in [
            "palette.tiff",
            "cmyk.tiff",
            "grey_alpha.tiff",
            "lzw.tiff",
            "palette.bmp",
        ] {
            let picture = open_picture(&folder.join(name)).unwrap();
            let info = ClipInfo::picture(picture.width, picture.height);
            assert_eq!(media_info(&folder.join(name)).unwrap(), info, "{name}");
        }
    }
}
