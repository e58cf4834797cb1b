//! Outpainting a clip: its frames with gray margins, as numbered pictures, and the mask of what is new.
//!
//! Written and never held: of a long clip one frame at a time. The margins and the mask are those of [`extend_picture`](crate::media::extend_picture).

use std::ops::ControlFlow;
use std::path::Path;

use super::{InputMedia, JobId, SourceClip, StartPicture};
use crate::files::{make_private, make_private_folder};
use crate::media::{
    ClipInfo, ClipReader, ImageMask, MediaError, OutpaintMargins, RgbPixels, first_frame,
    open_picture, with_gray, write_mask, write_png,
};
use crate::naming::{self, numbered_path};

/// The picture, or the clip's first frame.
pub fn first_of(source: &InputMedia) -> Result<RgbPixels, MediaError> {
    match source {
        InputMedia::Picture(picture) => open_picture(&picture.path),
        InputMedia::Clip(clip) => first_frame(&clip.path).map(|frame| frame.picture),
    }
}

/// Writes at most `num_frames` first frames of a video, with gray margins, and their mask into a new folder in this
/// one, readable only by its owner; returns both paths. An image has one frame.
pub fn write_extended_clip(
    folder: &Path,
    source: &InputMedia,
    most: u32,
    margins: OutpaintMargins,
    mask: &ImageMask,
) -> Result<(InputMedia, StartPicture), MediaError> {
    let stem = source.path().file_stem().unwrap_or_default();
    let slug = naming::slug(&stem.to_string_lossy());
    let folder = folder.join(format!("{slug}-extended-{}", JobId::next()));
    let disk = |err| MediaError::from_io("save the frames", err, &folder);
    make_private_folder(&folder).map_err(disk)?;
    let frame = folder.join(format!("{slug}.png"));
    let mut num_frames = 0;
    let mut write = |picture: RgbPixels| {
        num_frames += 1;
        let file = numbered_path(&frame, num_frames as usize);
        write_png(&file, &with_gray(&picture, margins)?)?;
        make_private(&file).map_err(disk)
    };
    match source {
        InputMedia::Picture(picture) => write(open_picture(&picture.path)?)?,
        InputMedia::Clip(clip) => each_frame(&clip.path, most, &mut write)?,
    }
    let (width, height) = (mask.width(), mask.height());
    let sized = |path| StartPicture {
        path,
        width,
        height,
    };
    let file = folder.join(format!("{slug}-mask.png"));
    write_mask(&file, width, height, mask.values())?;
    make_private(&file).map_err(disk)?;
    let first = numbered_path(&frame, 1);
    let extended = match source {
        InputMedia::Clip(clip) if num_frames > 1 => InputMedia::Clip(SourceClip {
            path: first,
            info: ClipInfo {
                width,
                height,
                num_frames,
                is_uneven: false,
                ..clip.info
            },
        }),
        _ => InputMedia::Picture(sized(first)),
    };
    Ok((extended, sized(file)))
}

fn each_frame(
    path: &Path,
    most: u32,
    write: &mut dyn FnMut(RgbPixels) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let mut written = Ok(());
    let mut reader = ClipReader::open(path)?;
    reader.read_even(reader.info().fps, &mut |number, picture| {
        if number < most {
            written = write(picture);
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
        ClipOptions, OutpaintFill, OutpaintRequest, clip_info, extend_picture, mask_of_picture,
        open_clip, write_clip,
    };

    #[test]
    fn every_frame_of_a_clip_gets_gray_margins_and_all_share_one_mask() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my boat.webp");
        let frames: Vec<RgbPixels> = (0..6_u8)
            .map(|index| RgbPixels::from_fn(16, 8, |x, _| [index * 40, x as u8, 9]).unwrap())
            .collect();
        write_clip(&path, &frames, ClipOptions::default()).unwrap();
        let info = clip_info(&path).unwrap();
        let source = InputMedia::Clip(SourceClip { path, info });
        let first = first_of(&source).unwrap();
        let wish: OutpaintRequest = "right=8,top=8,overlap=0".parse().unwrap();
        let mask = extend_picture(&first, None, wish, OutpaintFill::Gray)
            .unwrap()
            .mask;
        let made = write_extended_clip(folder.path(), &source, 5, wish.margins, &mask).unwrap();
        let (InputMedia::Clip(clip), mask_file) = made else {
            panic!("five frames are a clip");
        };
        assert_eq!((clip.info.width, clip.info.height), (24, 16));
        assert_eq!((clip.info.num_frames, clip.info.fps), (5, info.fps));
        assert_eq!(clip_info(&clip.path).unwrap().num_frames, 5);
        let given = open_clip(source.path()).unwrap().frames;
        for (frame, given) in open_clip(&clip.path).unwrap().frames.iter().zip(&given) {
            assert_eq!(frame.pixel(23, 15), [127; 3]);
            assert_eq!(frame.pixel(3, 0), [127; 3]);
            assert_eq!(frame.pixel(3, 8), given.pixel(3, 0));
        }
        let written = mask_of_picture(&open_picture(&mask_file.path).unwrap());
        assert_eq!(written.values(), mask.values());
        assert_eq!(
            (mask.value(23, 15), mask.value(3, 0), mask.value(3, 9)),
            (255, 255, 0)
        );
        for file in [&clip.path, &mask_file.path] {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0);
        }
    }
}
