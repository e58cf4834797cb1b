//! What the widgets and arguments hold, and how it becomes a request.
//!
//! Checks everything that can be known without opening a file; pictures and folders are checked
//! where they are opened.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;

use super::{DtypeChoice, Fit, GenerateRequest, Sampler};
use crate::catalog::ModelSpec;

/// A wish, not yet checked. `None` means the model's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateForm {
    pub prompt: String,
    pub negative_prompt: Option<String>,
    pub image: Option<StartPicture>,
    pub last_image: Option<StartPicture>,
    /// A clip to go on from; its size is that of its frames.
    pub extend: Option<StartPicture>,
    pub fit: Fit,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub num_frames: Option<u32>,
    pub fps: Option<f64>,
    pub num_steps: Option<u32>,
    pub guidance_scale: Option<f64>,
    pub guidance_scale_2: Option<f64>,
    pub start_step: Option<u32>,
    pub end_step: Option<u32>,
    pub vae_tile: Option<u32>,
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
        for (field, edge, other) in [("width", width, height), ("height", height, width)] {
            if let Some(message) = edge_problem(spec, field, edge, other) {
                fail(field, message);
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
        if let Some(message) = frames_problem(spec, num_frames) {
            fail("frames", message);
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
        if self.image.is_some() && !spec.start_image.is_possible() {
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
            files: spec.files.clone(),
            latent_rgb: spec.latent_rgb.clone(),
            prompt: self.prompt.clone(),
            negative_prompt: self
                .negative_prompt
                .clone()
                .unwrap_or_else(|| spec.defaults.negative_prompt.clone()),
            image: self.image.as_ref().map(|image| image.path.clone()),
            last_image: self.last_image.as_ref().map(|image| image.path.clone()),
            extend: self.extend.as_ref().map(|clip| clip.path.clone()),
            fit: self.fit,
            width,
            height,
            num_frames,
            fps,
            num_steps,
            guidance_scale,
            guidance_scale_2: self.guidance_scale_2.or(spec.defaults.guidance_scale_2),
            start_step: self.start_step.unwrap_or(0),
            end_step: self.end_step,
            vae_tile: self.vae_tile,
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

/// What is wrong with a width or height, seen beside the other one.
fn edge_problem(spec: &ModelSpec, field: &str, edge: u32, other: u32) -> Option<String> {
    let limits = &spec.limits;
    let multiple = limits.size_multiple.max(1);
    let largest = limits.max_edge / multiple * multiple;
    if edge > largest {
        return Some(format!(
            "expected a {field} of at most {largest} for {}, found {edge}",
            spec.name
        ));
    }
    if edge != 0 && edge.is_multiple_of(multiple) {
        return None;
    }
    let mut nearest = nearest_multiple(f64::from(edge), multiple).min(largest);
    if u64::from(nearest) * u64::from(other) > limits.max_pixels {
        // Rounded up it would be refused for its pixels.
        nearest = (edge / multiple * multiple).max(multiple);
    }
    Some(format!(
        "expected a {field} that is a multiple of {multiple} for {}, found {edge}; the nearest is {nearest}",
        spec.name
    ))
}

/// What is wrong with a number of frames, with one or two that would do.
fn frames_problem(spec: &ModelSpec, num_frames: u32) -> Option<String> {
    let stride = spec.limits.frame_stride.max(1);
    let largest = spec.limits.max_frames.saturating_sub(1) / stride * stride + 1;
    let below = (num_frames.saturating_sub(1) / stride * stride).saturating_add(1);
    if num_frames == below && num_frames <= spec.limits.max_frames {
        return None;
    }
    let nearest = match below.checked_add(stride) {
        _ if num_frames == 0 => "the nearest is 1".to_owned(),
        Some(above) if above <= largest => format!("the nearest are {below} and {above}"),
        _ => format!("the nearest is {largest}"),
    };
    Some(format!(
        "expected a number of frames of the form {stride}n+1 up to {largest} for {}, found {num_frames}; {nearest}",
        spec.name
    ))
}

/// The multiple of `multiple` nearest to `value`, at least one of it.
pub(crate) fn nearest_multiple(value: f64, multiple: u32) -> u32 {
    let multiple = multiple.max(1);
    let times = (value / f64::from(multiple)).round().max(1.0) as u32;
    times.min(u32::MAX / multiple) * multiple
}

/// A seed that nobody chose; short enough to be read out and typed again.
pub fn random_seed() -> u64 {
    // Each `RandomState` has keys of its own: no crate is needed for one number.
    RandomState::new().build_hasher().finish() % 1_000_000_000
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

    /// All that is wrong with one changed field of a form for a model of up to 16 Mi pixels.
    fn problems(change: impl FnOnce(&mut GenerateForm)) -> String {
        let mut wrong = form();
        change(&mut wrong);
        let errors = wrong.validate(&test_spec()).unwrap_err();
        let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
        messages.join("\n")
    }

    #[test]
    fn frames_are_suggested_within_the_limit_only() {
        for (found, nearest) in [
            (0, "the nearest is 1"),
            (2, "the nearest are 1 and 5"),
            (256, "the nearest are 253 and 257"),
            (258, "the nearest is 257"),
            (259, "the nearest is 257"),
            (261, "the nearest is 257"),
            (u32::MAX - 2, "the nearest is 257"),
            (u32::MAX, "the nearest is 257"),
        ] {
            let text = problems(|form| form.num_frames = Some(found));
            assert!(
                text.ends_with(nearest) && text.contains("4n+1 up to 257"),
                "{found}: {text}"
            );
        }
        // A limit that is not itself a number of frames.
        let mut spec = test_spec();
        spec.limits.max_frames = 260;
        let wish = |num_frames| GenerateForm {
            num_frames: Some(num_frames),
            ..form()
        };
        assert!(wish(257).validate(&spec).is_ok());
        let errors = wish(260).validate(&spec).unwrap_err();
        assert!(errors[0].message.ends_with("nearest is 257"), "{errors:?}");
    }

    #[test]
    fn sizes_are_suggested_within_the_limits_only() {
        for field in ["width", "height"] {
            for (found, expected) in [
                (0, "the nearest is 32"),
                (1, "the nearest is 32"),
                (250, "the nearest is 256"),
                (32_767, "the nearest is 32768"),
                (32_769, "of at most 32768"),
                (32_800, "of at most 32768"),
                (99_999_999, "of at most 32768"),
                (u32::MAX, "of at most 32768"),
            ] {
                let text = problems(|form| match field {
                    "width" => form.width = Some(found),
                    _ => form.height = Some(found),
                });
                assert!(
                    text.contains(expected) && text.contains(field),
                    "{found}: {text}"
                );
                assert_eq!(text.matches("nearest").count(), usize::from(found < 32_768));
            }
        }
    }

    #[test]
    fn a_suggested_size_does_not_have_too_many_pixels() {
        let wish = |width| GenerateForm {
            width: Some(width),
            height: Some(16_384),
            ..form()
        };
        let errors = wish(1023).validate(&test_spec()).unwrap_err();
        assert!(errors[0].message.ends_with("nearest is 1024"), "{errors:?}");
        assert!(wish(1024).validate(&test_spec()).is_ok());
        let mut spec = test_spec();
        spec.limits.max_pixels -= 1;
        let errors = wish(1023).validate(&spec).unwrap_err();
        assert!(errors[0].message.ends_with("nearest is 992"), "{errors:?}");
    }

    #[test]
    fn the_nearest_multiple_is_a_multiple_whatever_the_value() {
        for value in [f64::from(u32::MAX), 1e300, f64::INFINITY] {
            assert_eq!(nearest_multiple(value, 32), u32::MAX - 31);
        }
        for value in [0.0, -5.0, f64::NAN] {
            assert_eq!(nearest_multiple(value, 32), 32);
        }
    }

    #[test]
    fn seeds_differ_and_are_short() {
        let seeds: std::collections::BTreeSet<u64> = (0..20).map(|_| random_seed()).collect();
        assert!(seeds.len() > 15 && seeds.iter().all(|seed| *seed < 1_000_000_000));
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
