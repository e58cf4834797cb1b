//! What the widgets and arguments hold, and how it becomes a request.
//!
//! Checks everything that can be known without opening a file; pictures and folders are checked
//! where they are opened.

use std::path::PathBuf;

use super::{DtypeChoice, Fit, GenerateRequest, Sampler};
use crate::catalog::ModelSpec;

/// A wish, not yet checked. `None` means the model's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateForm {
    pub prompt: String,
    pub negative_prompt: Option<String>,
    pub image: Option<StartPicture>,
    pub fit: Fit,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub num_frames: Option<u32>,
    pub fps: Option<f64>,
    pub num_steps: Option<u32>,
    pub guidance_scale: Option<f64>,
    pub shift: Option<f64>,
    pub sampler: Option<Sampler>,
    pub seed: u64,
    pub dtype: DtypeChoice,
    pub capture: Option<PathBuf>,
    pub out: PathBuf,
    pub sidecar: bool,
}

/// A start picture and its size as the user sees it (after EXIF rotation).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPicture {
    pub path: PathBuf,
    pub width: u32,
    pub height: u32,
}

/// One thing that is wrong with a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The argument's name without dashes, also the field's in the app.
    pub field: &'static str,
    /// One sentence with what was expected and found.
    pub message: String,
}

impl GenerateForm {
    /// The request that this form asks of this model, or all that is wrong with it.
    pub fn validate(&self, spec: &ModelSpec) -> Result<GenerateRequest, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut fail = |field, message| errors.push(FieldError { field, message });

        let (width, height) = self.size(spec);
        let multiple = spec.limits.size_multiple;
        for (field, value) in [("width", width), ("height", height)] {
            if value == 0 || !value.is_multiple_of(multiple) {
                fail(
                    field,
                    format!(
                        "expected a {field} that is a multiple of {multiple} for {}, found {value}; the nearest is {}",
                        spec.name,
                        nearest_multiple(f64::from(value), multiple)
                    ),
                );
            } else if value > spec.limits.max_edge {
                fail(
                    field,
                    format!(
                        "expected a {field} of at most {} for {}, found {value}",
                        spec.limits.max_edge, spec.name
                    ),
                );
            }
        }
        if u64::from(width) * u64::from(height) > spec.limits.max_pixels {
            fail(
                "width",
                format!(
                    "expected at most {} pixels a frame for {}, found {width}×{height}",
                    spec.limits.max_pixels, spec.name
                ),
            );
        }
        let num_frames = self.frames(spec);
        let stride = spec.limits.frame_stride;
        if num_frames == 0
            || num_frames > spec.limits.max_frames
            || !(num_frames - 1).is_multiple_of(stride)
        {
            let below = num_frames.saturating_sub(1) / stride * stride + 1;
            fail(
                "frames",
                format!(
                    "expected a number of frames of the form {stride}n+1 up to {} for {}, found {num_frames}; the nearest are {below} and {}",
                    spec.limits.max_frames,
                    spec.name,
                    below + stride
                ),
            );
        }
        let fps = self.fps.unwrap_or(spec.defaults.fps);
        if !(fps >= 1.0 && fps <= 240.0) {
            fail(
                "fps",
                format!("expected between 1 and 240 frames a second, found {fps}"),
            );
        }
        let num_steps = self.num_steps.unwrap_or(spec.defaults.num_steps);
        if !(1..=1000).contains(&num_steps) {
            fail(
                "steps",
                format!("expected between 1 and 1000 steps, found {num_steps}"),
            );
        }
        let guidance_scale = self.guidance_scale.unwrap_or(spec.defaults.guidance_scale);
        if !(guidance_scale >= 0.0 && guidance_scale <= 100.0) {
            fail(
                "guidance",
                format!("expected a guidance between 0 and 100, found {guidance_scale}"),
            );
        }
        if let Some(shift) = self.shift
            && !(shift > 0.0 && shift <= 100.0)
        {
            fail(
                "shift",
                format!("expected a shift above 0 and up to 100, found {shift}"),
            );
        }
        if self.image.is_some() && !spec.takes_image {
            fail(
                "image",
                format!(
                    "{} makes clips from text alone, found a start picture",
                    spec.name
                ),
            );
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(GenerateRequest {
            model: spec.id.clone(),
            family: spec.family,
            model_folder: spec.folder.clone(),
            prompt: self.prompt.clone(),
            negative_prompt: self
                .negative_prompt
                .clone()
                .unwrap_or_else(|| spec.defaults.negative_prompt.clone()),
            image: self.image.as_ref().map(|image| image.path.clone()),
            fit: self.fit,
            width,
            height,
            num_frames,
            fps,
            num_steps,
            guidance_scale,
            shift: self.shift.or(spec.defaults.shift),
            sampler: self.sampler.unwrap_or(spec.defaults.sampler),
            seed: self.seed,
            dtype: self.dtype,
            capture: self.capture.clone(),
            out: self.out.clone(),
            sidecar: self.sidecar,
        })
    }

    /// Width and height: as given, else the model's default, turned to the start picture's aspect
    /// when the model can make that.
    fn size(&self, spec: &ModelSpec) -> (u32, u32) {
        let default = match &self.image {
            Some(image) if self.width.is_none() && self.height.is_none() => {
                spec.size_for_aspect(f64::from(image.width) / f64::from(image.height.max(1)))
            }
            _ => (spec.defaults.width, spec.defaults.height),
        };
        (
            self.width.unwrap_or(default.0),
            self.height.unwrap_or(default.1),
        )
    }

    /// The number of frames: as given, else one for a `.png`, else the model's default.
    fn frames(&self, spec: &ModelSpec) -> u32 {
        let is_picture = self
            .out
            .extension()
            .is_some_and(|kind| kind.eq_ignore_ascii_case("png"));
        self.num_frames.unwrap_or(if is_picture {
            1
        } else {
            spec.defaults.num_frames
        })
    }
}

/// The multiple of `multiple` nearest to `value`, at least one of it.
pub(crate) fn nearest_multiple(value: f64, multiple: u32) -> u32 {
    ((value / f64::from(multiple)).round().max(1.0) as u32).saturating_mul(multiple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::test_spec;

    fn form() -> GenerateForm {
        GenerateForm {
            prompt: "a red boat".into(),
            out: "clip.mp4".into(),
            ..Default::default()
        }
    }

    #[test]
    fn an_empty_form_takes_the_models_defaults() {
        let spec = test_spec();
        let request = form().validate(&spec).unwrap();
        assert_eq!(
            (request.width, request.height),
            (spec.defaults.width, spec.defaults.height)
        );
        assert_eq!(request.num_frames, spec.defaults.num_frames);
        assert_eq!(request.num_steps, spec.defaults.num_steps);
    }

    #[test]
    fn every_wrong_field_is_named_with_what_was_expected_and_found() {
        let wrong = GenerateForm {
            width: Some(250),
            num_frames: Some(16),
            num_steps: Some(0),
            fps: Some(f64::NAN),
            guidance_scale: Some(-1.0),
            shift: Some(0.0),
            ..form()
        };
        let errors = wrong.validate(&test_spec()).unwrap_err();
        let fields: Vec<_> = errors.iter().map(|err| err.field).collect();
        assert_eq!(
            fields,
            ["width", "frames", "fps", "steps", "guidance", "shift"]
        );
        assert!(errors[0].message.contains("multiple of 32") && errors[0].message.contains("250"));
        assert!(
            errors[1].message.contains("13 and 17"),
            "{}",
            errors[1].message
        );
    }

    #[test]
    fn a_png_is_one_picture_unless_frames_are_asked_for() {
        let picture = GenerateForm {
            out: "a.PNG".into(),
            ..form()
        };
        assert_eq!(picture.validate(&test_spec()).unwrap().num_frames, 1);
        let frames = GenerateForm {
            num_frames: Some(5),
            ..picture
        };
        assert_eq!(frames.validate(&test_spec()).unwrap().num_frames, 5);
    }

    #[test]
    fn a_wide_picture_makes_a_wide_clip_of_about_the_same_area() {
        let mut spec = test_spec();
        spec.limits.fixed_size = false;
        let image = StartPicture {
            path: "a.jpg".into(),
            width: 1600,
            height: 800,
        };
        let request = GenerateForm {
            image: Some(image),
            ..form()
        }
        .validate(&spec)
        .unwrap();
        assert_eq!((request.width, request.height), (352, 192));
    }
}
