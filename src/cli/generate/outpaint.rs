//! Extending what is given: a start picture, or a control clip, which becomes one with gray margins and a mask of them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use safelight_core::files::{make_private, make_private_folder};
use safelight_core::job::{
    FieldError, FormControl, GenerateForm, JobError, JobId, Source, SourceClip, StartPicture,
    margins_for,
};
use safelight_core::media::{self, ClipInfo, ClipReader, Margins, MediaError, Outpaint, Picture};
use safelight_core::model::ModelSpec;
use safelight_core::naming;

use super::args::unusable;
use super::jobs::invalid;

/// Neither light nor dark: what a model takes for nothing.
const GRAY: [u8; 3] = [127; 3];

fn refused(message: String) -> JobError {
    invalid(&[FieldError {
        field: "outpaint",
        message,
    }])
}

/// Puts what is extended and its mask into the form; both become files in this folder.
pub(super) fn extend(
    form: &mut GenerateForm,
    wanted: Outpaint,
    spec: &ModelSpec,
    folder: &Path,
) -> Result<(), JobError> {
    let takes = spec.limits.controls;
    if takes.takes_clips && takes.takes_masks {
        return extend_control(form, wanted, spec, folder);
    }
    let Some(start) = &form.image else {
        return Err(refused(
            "give the picture to extend with --image".to_owned(),
        ));
    };
    let size = (start.width, start.height);
    let outpaint = Outpaint {
        margins: margins_for(spec, size, wanted.margins).map_err(refused)?,
        ..wanted
    };
    let made = media::open_picture(&start.path).and_then(|picture| {
        let painted = form.mask.as_ref();
        let painted = painted.map(|mask| media::open_mask(&mask.path, size.0, size.1));
        let painted = painted.transpose()?;
        let extended = media::extend_picture(&picture, painted.as_ref(), outpaint)?;
        let stem = start.path.file_stem().unwrap_or_default().to_string_lossy();
        let files = media::write_extended(folder, &stem, &extended)?;
        Ok((files, outpaint.margins.around(size)))
    });
    let ((picture, mask), size) = made.map_err(|err| unusable(&err))?;
    form.outpaint(spec, sized(picture, size), sized(mask, size));
    Ok(())
}

fn sized(path: PathBuf, (width, height): (u32, u32)) -> StartPicture {
    StartPicture {
        path,
        width,
        height,
    }
}

/// The same of the control clip, of which as many frames are made as there are where nobody says otherwise.
fn extend_control(
    form: &mut GenerateForm,
    wanted: Outpaint,
    spec: &ModelSpec,
    folder: &Path,
) -> Result<(), JobError> {
    let [control] = &mut form.controls[..] else {
        return Err(refused(
            "give the picture or clip to extend with --control".to_owned(),
        ));
    };
    if control.mask.is_some() {
        return Err(refused(
            "it makes the mask of the control clip itself: leave out mask=".to_owned(),
        ));
    }
    let size = control.source.size();
    let limits = &spec.limits;
    let margins = wanted.margins.fitted(size, limits.size_multiple);
    let around = margins.around(size);
    let pixels = u64::from(around.0) * u64::from(around.1);
    if pixels > limits.max_pixels || around.0.max(around.1) > limits.max_edge {
        return Err(refused(format!(
            "the extended clip would be {}×{}, which is more than {} makes: extend it by less",
            around.0, around.1, spec.name
        )));
    }
    let most = form.num_frames.unwrap_or_else(|| match &control.source {
        Source::Clip(clip) => whole(clip.info.num_frames.min(limits.max_frames), spec),
        Source::Picture(_) => spec.defaults.num_frames,
    });
    form.num_frames = Some(most);
    let outpaint = Outpaint { margins, ..wanted };
    let made = extended_clip(control, outpaint, most, folder).map_err(|err| unusable(&err))?;
    (control.source, control.mask) = (made.0, Some(Source::Picture(sized(made.1, around))));
    form.set_size(around);
    Ok(())
}

/// The largest number of frames of at most `most` that the model makes.
fn whole(most: u32, spec: &ModelSpec) -> u32 {
    let stride = spec.limits.frame_stride.max(1);
    (most.max(1) - 1) / stride * stride + 1
}

/// Writes at most so many frames of a control with gray margins, as numbered pictures, and the mask of them.
fn extended_clip(
    control: &FormControl,
    outpaint: Outpaint,
    most: u32,
    folder: &Path,
) -> Result<(Source, PathBuf), MediaError> {
    let path = control.source.path();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = folder.join(format!(
        "{}-extended-{}",
        naming::slug(&stem),
        JobId::next()
    ));
    let disk = |err: std::io::Error| {
        let place = folder.display();
        MediaError::Other(format!("the frames cannot be saved ({err}): {place}"))
    };
    make_private_folder(&folder).map_err(disk)?;
    let frame = folder.join("frame.png");
    let mut num_frames = 0;
    let mut first = None;
    let mut write = |number: u32, picture: Picture| {
        num_frames = number + 1;
        let file = media::numbered_path(&frame, num_frames as usize);
        media::write_png(&file, &with_margins(&picture, outpaint.margins)?)?;
        make_private(&file).map_err(disk)?;
        first.get_or_insert(picture);
        Ok(())
    };
    let fps = match &control.source {
        Source::Picture(_) => {
            write(0, media::open_picture(path)?)?;
            0.0
        }
        Source::Clip(clip) => {
            each_frame(path, most, &mut write)?;
            clip.info.fps
        }
    };
    let first = first.ok_or_else(|| MediaError::Other("the clip has no frames".to_owned()))?;
    let mask = media::extend_picture(&first, None, outpaint)?.mask;
    let file = folder.join("mask.png");
    media::write_mask(&file, mask.width(), mask.height(), mask.values())?;
    make_private(&file).map_err(disk)?;
    let (width, height) = outpaint.margins.around((first.width, first.height));
    let path = media::numbered_path(&frame, 1);
    let source = if num_frames > 1 {
        let info = ClipInfo {
            width,
            height,
            fps,
            num_frames,
        };
        Source::Clip(SourceClip { path, info })
    } else {
        Source::Picture(sized(path, (width, height)))
    };
    Ok((source, file))
}

fn each_frame(
    path: &Path,
    most: u32,
    write: &mut dyn FnMut(u32, Picture) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let mut written = Ok(());
    ClipReader::open(path)?.read(0, &mut |number, picture| {
        if number >= most {
            return ControlFlow::Break(());
        }
        written = write(number, picture);
        if written.is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    written
}

fn with_margins(picture: &Picture, margins: Margins) -> Result<Picture, MediaError> {
    let (width, height) = margins.around((picture.width, picture.height));
    let (pixels, _) = picture.rgb.as_chunks::<3>();
    Picture::from_fn(width, height, |x, y| {
        let inside = x.checked_sub(margins.left).zip(y.checked_sub(margins.top));
        let inside = inside.filter(|(x, y)| *x < picture.width && *y < picture.height);
        inside.map_or(GRAY, |(x, y)| pixels[(y * picture.width + x) as usize])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_stands_as_it_is_within_gray_margins() {
        let picture = Picture::from_fn(3, 2, |x, y| [x as u8, y as u8, 9]).unwrap();
        let margins = Margins {
            left: 2,
            bottom: 1,
            ..Margins::default()
        };
        let found = with_margins(&picture, margins).unwrap();
        assert_eq!((found.width, found.height), (5, 3));
        let (pixels, _) = found.rgb.as_chunks::<3>();
        assert_eq!(pixels[..5], [GRAY, GRAY, [0, 0, 9], [1, 0, 9], [2, 0, 9]]);
        assert_eq!(pixels[9], [2, 1, 9]);
        assert!(pixels[10..].iter().all(|pixel| *pixel == GRAY));
    }
}
