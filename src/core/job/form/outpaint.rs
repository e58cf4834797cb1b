//! Outpainting: which margins a model can fill around an image, and what a form of such a job says.
//!
//! The image and its mask are made by [`crate::media::extend_image`], those of a control video by
//! [`crate::job::write_extended_video`].

use super::ranges::FPS;
use super::{GenerateForm, InputMedia, StartImage};
use crate::media::OutpaintMargins;
use crate::model::{ImageRole, ModelSpec};

/// These margins as the model takes them around an image or a control of this size, with edges that are whole multiples; the error
/// is a sentence.
pub fn margins_for(
    spec: &ModelSpec,
    size: (u32, u32),
    margins: OutpaintMargins,
) -> Result<OutpaintMargins, String> {
    let (name, limits) = (&spec.name, &spec.limits);
    let extends_controls = spec.limits.controls.can_extend();
    if !spec.mask.is_possible() && !extends_controls {
        return Err(format!(
            "{name} does not use masks and cannot extend an image"
        ));
    }
    if limits.fixed_size {
        return Err(format!(
            "{name} makes one size only and cannot extend an image"
        ));
    }
    let fitted = margins.fitted(size, limits.size_multiple);
    let (width, height) = fitted.around(size);
    let pixels = u64::from(width) * u64::from(height);
    if pixels > limits.max_pixels || width.max(height) > limits.max_edge {
        let megapixels = limits.max_pixels as f64 / 1e6;
        let what = if extends_controls { "video" } else { "image" };
        return Err(format!(
            "the extended {what} would be {width}×{height}, and {name} makes at most {megapixels:.1} megapixels and edges of {}: extend it by less, or begin with a smaller {what}",
            limits.max_edge
        ));
    }
    Ok(fitted)
}

impl GenerateForm {
    /// Prepares the form for outpainting an image: in its size, at full denoising strength unless set otherwise, and
    /// with the original pixels kept.
    pub fn set_outpaint(&mut self, spec: &ModelSpec, size: (u32, u32)) {
        self.set_size(size);
        self.keeps_unmasked = true;
        if spec.image_role == ImageRole::Base && spec.defaults.sampling.strength.is_some() {
            self.sampling.strength = self.sampling.strength.or(Some(1.0));
        }
    }

    /// Number of frames of a control video to extend: as many as are generated, unless the video's length is chosen.
    pub fn frames_to_extend(&self, spec: &ModelSpec, control: &InputMedia) -> u32 {
        let limits = &spec.limits;
        self.num_frames.unwrap_or_else(|| match control {
            InputMedia::Video(video) => {
                let most = video.info.num_frames.min(limits.max_frames).max(1);
                // Whole latents.
                most - (most - 1) % limits.frame_stride.max(1)
            }
            InputMedia::Image(_) => spec.defaults.num_frames,
        })
    }

    /// Sets the size and length of a control video that was extended, and its frame rate unless one is set.
    pub fn set_control_outpaint(
        &mut self,
        control: &InputMedia,
        size: (u32, u32),
        num_frames: u32,
    ) {
        self.set_size(size);
        self.num_frames = Some(num_frames);
        if let InputMedia::Video(video) = control
            && video.info.fps > 0.0
        {
            let fps = video.info.fps.clamp(*FPS.start(), *FPS.end());
            self.fps.get_or_insert(fps);
        }
    }

    /// Like [`Self::set_outpaint`], with the extended image and its mask.
    pub fn outpaint(&mut self, spec: &ModelSpec, image: StartImage, mask: StartImage) {
        self.set_outpaint(spec, (image.width, image.height));
        (self.inputs.image, self.inputs.mask) = (Some(image), Some(mask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ControlUse, PartialSampling, SourceVideo};
    use crate::media::VideoInfo;
    use crate::model::{InputUse, test_spec};

    fn spec() -> ModelSpec {
        let mut spec = test_spec();
        (spec.mask, spec.start_image) = (InputUse::Optional, InputUse::Optional);
        spec.image_role = ImageRole::Base;
        spec.defaults.sampling.strength = Some(0.6);
        spec.limits.fixed_size = false;
        (spec.limits.size_multiple, spec.limits.max_edge) = (16, 2048);
        spec.limits.max_pixels = 1 << 20;
        spec
    }

    #[test]
    fn frames_to_extend_defaults_to_whole_latents_of_the_control_video() {
        let mut spec = spec();
        (spec.limits.frame_stride, spec.limits.max_frames) = (4, 81);
        spec.defaults.num_frames = 49;
        let mut form = GenerateForm::default();
        let video = |num_frames| {
            let info = VideoInfo {
                width: 64,
                height: 48,
                fps: 16.0,
                num_frames,
                is_uneven: false,
            };
            let path = "boat.mp4".into();
            InputMedia::Video(SourceVideo { path, info })
        };
        for (given, expected) in [(1, 1), (4, 1), (5, 5), (40, 37), (81, 81), (400, 81)] {
            assert_eq!(form.frames_to_extend(&spec, &video(given)), expected);
        }
        let image = InputMedia::Image(StartImage {
            path: "a.png".into(),
            width: 64,
            height: 48,
        });
        assert_eq!(form.frames_to_extend(&spec, &image), 49);
        form.num_frames = Some(13);
        assert_eq!(form.frames_to_extend(&spec, &video(400)), 13);
        form.set_control_outpaint(&video(13), (96, 48), 13);
        assert_eq!((form.width, form.num_frames), (Some(96), Some(13)));
        assert_eq!(form.fps, Some(16.0));
        form.fps = Some(24.0);
        form.set_control_outpaint(&video(13), (96, 48), 13);
        assert_eq!(form.fps, Some(24.0), "what somebody chose stays");
    }

    #[test]
    fn outpainting_a_control_video_needs_no_mask_support() {
        let mut spec = spec();
        spec.mask = InputUse::No;
        spec.limits.controls = ControlUse {
            takes_videos: true,
            takes_masks: true,
            ..ControlUse::NONE
        };
        assert_eq!(margins_for(&spec, (512, 512), left(100)), Ok(left(112)));
        let large = margins_for(&spec, (512, 512), left(2000)).unwrap_err();
        assert!(large.contains("begin with a smaller video"), "{large}");
    }

    fn left(left: u32) -> OutpaintMargins {
        OutpaintMargins {
            left,
            ..OutpaintMargins::default()
        }
    }

    #[test]
    fn unsupported_outpainting_is_refused_with_a_reason() {
        assert_eq!(margins_for(&spec(), (512, 512), left(100)), Ok(left(112)));
        let problem = |change: &dyn Fn(&mut ModelSpec), margins| {
            let mut spec = spec();
            change(&mut spec);
            margins_for(&spec, (512, 512), margins).unwrap_err()
        };
        let masked = problem(&|spec| spec.mask = InputUse::No, left(64));
        assert!(masked.contains("does not use masks"), "{masked}");
        let fixed = problem(&|spec| spec.limits.fixed_size = true, left(64));
        assert!(fixed.contains("one size only"), "{fixed}");
        for far in [left(2000), left(u32::MAX)] {
            let large = problem(&|_| {}, far);
            assert!(large.contains("at most 1.0 megapixels"), "{large}");
        }
    }

    #[test]
    fn a_form_that_outpaints_makes_the_extended_size_and_keeps_the_rest() {
        let image = |name: &str| StartImage {
            path: name.into(),
            width: 624,
            height: 512,
        };
        let mut form = GenerateForm {
            prompt: "a wide room".to_owned(),
            out: "room.png".into(),
            num_frames: Some(1),
            ..GenerateForm::default()
        };
        form.outpaint(&spec(), image("room.png"), image("mask.png"));
        let request = form.validate(&spec()).unwrap().request;
        assert_eq!((request.width, request.height), (624, 512));
        assert_eq!(request.sampling.strength, Some(1.0));
        assert!(request.keeps_unmasked);
        // What somebody chose stays, and without a mask there is nothing to keep.
        form.sampling = PartialSampling {
            strength: Some(0.8),
            ..form.sampling
        };
        form.set_outpaint(&spec(), (624, 512));
        form.inputs.mask = None;
        let request = form.validate(&spec()).unwrap().request;
        assert_eq!(request.sampling.strength, Some(0.8));
        assert!(!request.keeps_unmasked);
    }
}
