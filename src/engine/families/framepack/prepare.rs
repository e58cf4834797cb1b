//! Inputs of a section: noise, history, and their positions.

use safelight_core::job::{GenerateRequest, SectionOrder, VideoSections};
use safelight_core::networks::framepack_transformer::PATCH;
use tch::{Device, Kind, Tensor};

use super::condition::GivenImages;
use super::layout::{SectionHistory, SectionLayout};
use crate::error::EngineError;
use crate::pixels::check_multiples;

/// Pixels that make one latent, along each edge.
const PIXELS: u32 = 8;

/// Latent frames of history at 1, 2 and 4 times the patch, in addition to the start.
const NEAR: i64 = 1;
const MIDDLE: i64 = 2;
const FAR: i64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePackShape {
    pub channels: i64,
    pub frames: i64,
    pub height: i64,
    pub width: i64,
}

impl FramePackShape {
    pub fn new(channels: i64, request: &GenerateRequest) -> Result<Self, EngineError> {
        let (width, height) = (request.width, request.height);
        let step = PIXELS * PATCH as u32;
        check_multiples(width, height, step)?;
        Ok(Self {
            channels,
            frames: i64::from(sections(request)?.window),
            height: i64::from(height / PIXELS),
            width: i64::from(width / PIXELS),
        })
    }

    /// `(1, C, f, h, w)`
    pub fn size(&self) -> [i64; 5] {
        [1, self.channels, self.frames, self.height, self.width]
    }

    /// Like [`Self::size`], for one image.
    pub fn image(&self) -> [i64; 5] {
        [1, self.channels, 1, self.height, self.width]
    }

    /// As many tokens as a section has, by which the schedule is shifted.
    pub fn tokens(&self) -> i64 {
        self.frames * (self.height / PATCH) * (self.width / PATCH)
    }
}

pub fn sections(request: &GenerateRequest) -> Result<VideoSections, EngineError> {
    let sections = request.sections.filter(|it| it.count > 0 && it.window > 0);
    sections.ok_or_else(|| {
        EngineError::request("this model makes its videos in sections, and none were asked for")
    })
}

/// Positions in time of a section and its history, in latent frames.
///
/// Original FramePack: the start, a gap, the section, then the later frames made before. F1: the start, the frames made
/// before, then the section.
pub fn layout(sections: &VideoSections, section: u32) -> SectionLayout {
    let window = i64::from(sections.window);
    let mut next = 0;
    let mut take = |count: i64| -> Vec<i64> {
        next += count;
        (next - count..next).collect()
    };
    let start = take(1);
    let (latents, near, history_2x, history_4x) = match sections.order {
        SectionOrder::Original => {
            take(i64::from(sections.padding(section)) * window);
            let latents = take(window);
            (latents, take(NEAR), take(MIDDLE), take(FAR))
        }
        SectionOrder::F1 => {
            let [far, middle, near] = [FAR, MIDDLE, NEAR].map(&mut take);
            (take(window), near, middle, far)
        }
    };
    SectionLayout {
        latents,
        clean: [start, near].concat(),
        history_2x,
        history_4x,
    }
}

/// History of a section. `earlier`: latents of the sections before it, in the order of generation, each `(1, C, f, h,
/// w)`;
/// missing frames are zero.
pub fn history(
    order: SectionOrder,
    images: &GivenImages,
    earlier: &[Tensor],
    shape: FramePackShape,
) -> SectionHistory {
    let past = FramePackShape {
        frames: NEAR + MIDDLE + FAR,
        ..shape
    };
    let missing = Tensor::zeros(past.size(), (Kind::Float, Device::Cpu));
    let all: Vec<&Tensor> = match order {
        // The newest section is the first of the video.
        SectionOrder::Original => earlier.iter().rev().chain([&missing]).collect(),
        SectionOrder::F1 => {
            // A video that is gone on from has the start image in its last latent.
            let before = images.video.as_ref().unwrap_or(&images.start);
            [&missing, before].into_iter().chain(earlier).collect()
        }
    };
    let all = Tensor::cat(&all, 2);
    let mut at = match order {
        SectionOrder::Original => 0,
        SectionOrder::F1 => all.size()[2] - past.frames,
    };
    let mut take = |count: i64| {
        at += count;
        all.narrow(2, at - count, count)
    };
    let (near, history_2x, history_4x) = match order {
        SectionOrder::Original => (take(NEAR), take(MIDDLE), take(FAR)),
        SectionOrder::F1 => {
            let [far, middle, near] = [FAR, MIDDLE, NEAR].map(take);
            (near, middle, far)
        }
    };
    // An end image is what the section made first is shown in the place of its successor.
    let end = images.end.as_ref().filter(|_| earlier.is_empty());
    let near = match (order, end) {
        (SectionOrder::Original, Some(end)) => end.shallow_clone(),
        _ => near,
    };
    SectionHistory {
        clean: Tensor::cat(&[&images.start, &near], 2),
        history_2x,
        history_4x,
    }
}

/// Latents of a section's decoding, in the order of the video. `latents`: of the section and of the one made before it,
/// if any. `lead`: latents before the video's first section.
pub fn decoded_latents(
    sections: &VideoSections,
    section: u32,
    lead: &Tensor,
    own: &Tensor,
    before: Option<&Tensor>,
) -> Tensor {
    let parts: Vec<&Tensor> = match sections.order {
        SectionOrder::Original => {
            let lead = sections.is_last(section).then_some(lead);
            [lead, Some(own), before].into_iter().flatten().collect()
        }
        SectionOrder::F1 => vec![before.unwrap_or(lead), own],
    };
    Tensor::cat(&parts, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(count: u32, window: u32, order: SectionOrder) -> VideoSections {
        VideoSections {
            count,
            window,
            order,
            lead: 1,
        }
    }

    fn range(from: i64, to: i64) -> Vec<i64> {
        (from..to).collect()
    }

    #[test]
    fn places_are_those_of_the_reference_in_both_orders() {
        // The last but one of two sections: a gap of one section.
        let found = layout(&sections(2, 9, SectionOrder::Original), 0);
        assert_eq!(found.latents, range(10, 19));
        assert_eq!(found.clean, [0, 19]);
        assert_eq!(found.history_2x, [20, 21]);
        assert_eq!(found.history_4x, range(22, 38));
        let found = layout(&sections(2, 9, SectionOrder::Original), 1);
        assert_eq!((found.latents, found.clean), (range(1, 10), vec![0, 10]));
        // The trick for long videos: no gap is larger than three sections.
        let long = layout(&sections(8, 4, SectionOrder::Original), 0);
        assert_eq!(long.latents, range(13, 17));
        let found = layout(&sections(3, 5, SectionOrder::F1), 1);
        assert_eq!(found.history_4x, range(1, 17));
        assert_eq!(found.history_2x, [17, 18]);
        assert_eq!(found.clean, [0, 19]);
        assert_eq!(found.latents, range(20, 25));
    }

    const SHAPE: FramePackShape = FramePackShape {
        channels: 1,
        frames: 3,
        height: 1,
        width: 1,
    };

    /// Latent frames that are these numbers.
    fn frames(numbers: &[i64]) -> Tensor {
        Tensor::from_slice(numbers)
            .to_kind(Kind::Float)
            .view([1, 1, -1, 1, 1])
    }

    fn numbers(frames: &Tensor) -> Vec<i64> {
        let numbers = frames.to_kind(Kind::Int64).view([-1]);
        numbers.try_into().unwrap()
    }

    fn images() -> GivenImages {
        GivenImages {
            start: frames(&[100]),
            end: Some(frames(&[200])),
            video: None,
        }
    }

    #[test]
    fn the_first_framepack_is_shown_what_follows_and_at_first_the_end_image() {
        let order = SectionOrder::Original;
        let found = history(order, &images(), &[], SHAPE);
        assert_eq!(numbers(&found.clean), [100, 200]);
        assert_eq!(numbers(&found.history_4x), [0; 16]);
        let earlier = [frames(&[7, 8, 9]), frames(&[4, 5, 6])];
        let found = history(order, &images(), &earlier, SHAPE);
        assert_eq!(numbers(&found.clean), [100, 4]);
        assert_eq!(numbers(&found.history_2x), [5, 6]);
        assert_eq!(numbers(&found.history_4x)[..4], [7, 8, 9, 0]);
    }

    #[test]
    fn f1_is_shown_what_came_before_with_the_start_image_at_its_beginning() {
        let found = history(SectionOrder::F1, &images(), &[], SHAPE);
        assert_eq!(numbers(&found.clean), [100, 100]);
        assert_eq!(numbers(&found.history_2x), [0, 0]);
        let earlier = [frames(&[1, 2, 3]), frames(&[4, 5, 6])];
        let found = history(SectionOrder::F1, &images(), &earlier, SHAPE);
        assert_eq!(numbers(&found.clean), [100, 6]);
        assert_eq!(numbers(&found.history_2x), [4, 5]);
        assert_eq!(numbers(&found.history_4x)[12..], [100, 1, 2, 3]);
    }

    #[test]
    fn f1_is_shown_the_video_that_it_goes_on_from_in_the_place_of_earlier_sections() {
        let of_video = |len: i64| GivenImages {
            video: Some(frames(&range(1, len + 1))),
            ..images()
        };
        let found = history(SectionOrder::F1, &of_video(19), &[], SHAPE);
        assert_eq!(numbers(&found.clean), [100, 19]);
        assert_eq!(numbers(&found.history_2x), [17, 18]);
        assert_eq!(numbers(&found.history_4x), range(1, 17));
        // As much as there is of a short one; and it moves on as sections come.
        let found = history(SectionOrder::F1, &of_video(2), &[], SHAPE);
        assert_eq!(numbers(&found.clean), [100, 2]);
        assert_eq!(numbers(&found.history_2x), [0, 1]);
        let earlier = [frames(&[31, 32, 33])];
        let found = history(SectionOrder::F1, &of_video(4), &earlier, SHAPE);
        assert_eq!(numbers(&found.clean), [100, 33]);
        assert_eq!(numbers(&found.history_2x), [31, 32]);
        assert_eq!(numbers(&found.history_4x)[11..], [0, 1, 2, 3, 4]);
        // What is decoded in front of the first section.
        assert_eq!(numbers(&of_video(4).lead(3)), [2, 3, 4]);
        assert_eq!(numbers(&images().lead(1)), [100]);
    }

    #[test]
    fn as_many_latents_are_decoded_as_the_sections_say() {
        let (own, before, start) = (frames(&[1, 2]), frames(&[3, 4]), frames(&[9]));
        for order in SectionOrder::ALL {
            for count in 1..4 {
                let all = sections(count, 2, order);
                for section in 0..count {
                    let before = (section > 0).then_some(&before);
                    let found = decoded_latents(&all, section, &start, &own, before);
                    let expected = all.decoded(section).num_latents;
                    assert_eq!(found.size()[2], i64::from(expected), "{all:?} {section}");
                }
            }
        }
        let last = decoded_latents(
            &sections(2, 2, SectionOrder::Original),
            1,
            &start,
            &own,
            Some(&before),
        );
        assert_eq!(numbers(&last), [9, 1, 2, 3, 4]);
        let next = decoded_latents(
            &sections(2, 2, SectionOrder::F1),
            1,
            &start,
            &own,
            Some(&before),
        );
        assert_eq!(numbers(&next), [3, 4, 1, 2]);
    }
}
