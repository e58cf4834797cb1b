//! Extending what is given: a start image, or a control video, which becomes one with gray margins and a mask of them.

use std::path::{Path, PathBuf};

use safelight_core::job::{
    self, FieldError, FormNotice, GenerateForm, InputMedia, JobError, StartImage, margins_for,
};
use safelight_core::media::{self, OutpaintFill, OutpaintRequest};
use safelight_core::model::ModelSpec;

use super::jobs::invalid;

fn refused(message: String) -> JobError {
    invalid(&[FieldError {
        field: "outpaint",
        message,
    }])
}

/// Puts what is extended and its mask into the form; both become files in this folder. Returns a notice if the margins
/// had to be enlarged.
pub(super) fn extend(
    form: &mut GenerateForm,
    wanted: OutpaintRequest,
    spec: &ModelSpec,
    folder: &Path,
) -> Result<Option<FormNotice>, JobError> {
    if spec.limits.controls.can_extend() {
        return extend_control(form, wanted, spec, folder);
    }
    let Some(start) = &form.inputs.image else {
        return Err(refused("give the image to extend with --image".to_owned()));
    };
    let own_size = (start.width, start.height);
    let outpaint = OutpaintRequest {
        margins: margins_for(spec, own_size, wanted.margins).map_err(refused)?,
        ..wanted
    };
    let image = media::open_rgb(&start.path)?;
    let painted = form.inputs.mask.as_ref();
    let painted = painted.map(|mask| media::open_mask(&mask.path, own_size.0, own_size.1));
    let fill = OutpaintFill::BlurredEdge;
    let extended = media::extend_image(&image, painted.transpose()?.as_ref(), outpaint, fill)?;
    let stem = start.path.file_stem().unwrap_or_default().to_string_lossy();
    let (image, mask) = media::write_extended(folder, &stem, &extended)?;
    let size = outpaint.margins.around(own_size);
    form.outpaint(spec, sized(image, size), sized(mask, size));
    Ok(enlarged(spec, wanted.margins.around(own_size), size))
}

fn enlarged(spec: &ModelSpec, wanted: (u32, u32), made: (u32, u32)) -> Option<FormNotice> {
    let multiple = spec.limits.size_multiple;
    (wanted != made).then(|| FormNotice {
        field: "outpaint",
        message: format!(
            "The extended size was changed from {}×{} to {}×{}: {} makes multiples of {multiple}",
            wanted.0, wanted.1, made.0, made.1, spec.name
        ),
    })
}

fn sized(path: PathBuf, (width, height): (u32, u32)) -> StartImage {
    StartImage {
        path,
        width,
        height,
    }
}

/// Like `extend`, for the control video, with the default number of frames.
fn extend_control(
    form: &mut GenerateForm,
    wanted: OutpaintRequest,
    spec: &ModelSpec,
    folder: &Path,
) -> Result<Option<FormNotice>, JobError> {
    let [control] = &form.inputs.controls[..] else {
        return Err(refused(
            "give the image or video to extend with --control".to_owned(),
        ));
    };
    if control.mask.is_some() {
        return Err(refused(
            "it makes the mask of the control video itself: leave out mask=".to_owned(),
        ));
    }
    let source = &control.source;
    let margins = margins_for(spec, source.size(), wanted.margins).map_err(refused)?;
    let outpaint = OutpaintRequest { margins, ..wanted };
    let most = form.frames_to_extend(spec, source);
    let first = job::first_of(source)?;
    let mask = media::extend_image(&first, None, outpaint, OutpaintFill::Gray)?.mask;
    let (extended, mask) = job::write_extended_video(folder, source, most, margins, &mask)?;
    let size = extended.size();
    let control = &mut form.inputs.controls[0];
    let own = std::mem::replace(&mut control.source, extended);
    control.mask = Some(InputMedia::Image(mask));
    form.set_control_outpaint(&own, size, most);
    Ok(enlarged(spec, wanted.margins.around(own.size()), size))
}
