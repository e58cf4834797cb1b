//! Outpainting a video: its frames with gray margins, as numbered images, and the mask of what is new.
//!
//! Written and never held: of a long video one frame at a time. The margins and the mask are those of [`extend_image`](crate::media::extend_image).

use std::ops::ControlFlow;
use std::path::Path;

use super::{InputMedia, JobId, SourceVideo, StartImage};
use crate::files::{make_private, make_private_folder};
use crate::media::{
    ImageMask, MediaError, OutpaintMargins, RgbPixels, VideoInfo, VideoReader, first_frame,
    open_rgb, with_gray, write_mask, write_png,
};
use crate::naming::{self, numbered_path};

/// The image, or the video's first frame.
pub fn first_of(source: &InputMedia) -> Result<RgbPixels, MediaError> {
    match source {
        InputMedia::Image(image) => open_rgb(&image.path),
        InputMedia::Video(video) => first_frame(&video.path).map(|frame| frame.image),
    }
}

/// Writes at most `num_frames` first frames of a video, with gray margins, and their mask into a new folder in this
/// one, readable only by its owner; returns both paths. An image has one frame.
pub fn write_extended_video(
    folder: &Path,
    source: &InputMedia,
    most: u32,
    margins: OutpaintMargins,
    mask: &ImageMask,
) -> Result<(InputMedia, StartImage), MediaError> {
    let stem = source.path().file_stem().unwrap_or_default();
    let slug = naming::slug(&stem.to_string_lossy());
    let folder = folder.join(format!("{slug}-extended-{}", JobId::next()));
    let disk = |err| MediaError::from_io("save the frames", &err, &folder);
    make_private_folder(&folder).map_err(disk)?;
    let frame = folder.join(format!("{slug}.png"));
    let mut num_frames = 0;
    let mut write = |image: RgbPixels| {
        num_frames += 1;
        let file = numbered_path(&frame, num_frames as usize);
        write_png(&file, &with_gray(&image, margins)?)?;
        make_private(&file).map_err(disk)
    };
    match source {
        InputMedia::Image(image) => write(open_rgb(&image.path)?)?,
        InputMedia::Video(video) => each_frame(&video.path, most, &mut write)?,
    }
    let (width, height) = (mask.width(), mask.height());
    let sized = |path| StartImage {
        path,
        width,
        height,
    };
    let file = folder.join(format!("{slug}-mask.png"));
    write_mask(&file, width, height, mask.values())?;
    make_private(&file).map_err(disk)?;
    let first = numbered_path(&frame, 1);
    let extended = match source {
        InputMedia::Video(video) if num_frames > 1 => InputMedia::Video(SourceVideo {
            path: first,
            info: VideoInfo {
                width,
                height,
                num_frames,
                is_uneven: false,
                ..video.info
            },
        }),
        _ => InputMedia::Image(sized(first)),
    };
    Ok((extended, sized(file)))
}

fn each_frame(
    path: &Path,
    most: u32,
    write: &mut dyn FnMut(RgbPixels) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let mut written = Ok(());
    let mut reader = VideoReader::open(path)?;
    reader.read_even(reader.info().fps, &mut |number, image| {
        if number < most {
            written = write(image);
        }
        if written.is_err() || number + 1 >= most {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{
        OutpaintFill, OutpaintRequest, VideoOptions, extend_image, mask_of_image, open_video,
        video_info, write_video,
    };

    #[test]
    fn every_frame_of_a_video_gets_gray_margins_and_all_share_one_mask() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my boat.webp");
        let frames: Vec<RgbPixels> = (0..6_u8)
            .map(|index| RgbPixels::from_fn(16, 8, |x, _| [index * 40, x as u8, 9]).unwrap())
            .collect();
        write_video(&path, &frames, VideoOptions::default()).unwrap();
        let info = video_info(&path).unwrap();
        let source = InputMedia::Video(SourceVideo { path, info });
        let first = first_of(&source).unwrap();
        let requested: OutpaintRequest = "right=8,top=8,overlap=0".parse().unwrap();
        let mask = extend_image(&first, None, requested, OutpaintFill::Gray)
            .unwrap()
            .mask;
        let made =
            write_extended_video(folder.path(), &source, 5, requested.margins, &mask).unwrap();
        let (InputMedia::Video(video), mask_file) = made else {
            panic!("five frames are a video");
        };
        assert_eq!((video.info.width, video.info.height), (24, 16));
        assert_eq!((video.info.num_frames, video.info.fps), (5, info.fps));
        assert_eq!(video_info(&video.path).unwrap().num_frames, 5);
        let given = open_video(source.path()).unwrap().frames;
        for (frame, given) in open_video(&video.path).unwrap().frames.iter().zip(&given) {
            assert_eq!(frame.pixel(23, 15), [127; 3]);
            assert_eq!(frame.pixel(3, 0), [127; 3]);
            assert_eq!(frame.pixel(3, 8), given.pixel(3, 0));
        }
        let written = mask_of_image(&open_rgb(&mask_file.path).unwrap());
        assert_eq!(written.values(), mask.values());
        assert_eq!(
            (mask.value(23, 15), mask.value(3, 0), mask.value(3, 9)),
            (255, 255, 0)
        );
        for file in [&video.path, &mask_file.path] {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0);
        }
    }
}
