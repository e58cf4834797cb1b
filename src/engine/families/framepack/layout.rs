//! Inputs of a section: its history, the tokens of both and their positions in time and space.
//!
//! Distant history is packed more: one of its tokens covers 1, 2 or 4 frames and as many times two latents along each
//! edge.
//! Contains no weights.

use safelight_core::job::{GenerateRequest, SectionOrder, VideoSections};
use safelight_core::networks::FramePackTransformerConfig;
use safelight_core::networks::framepack_transformer::PATCH;
use tch::{Device, Kind, Tensor};

use super::stages::GivenImages;
use crate::EngineError;
use crate::nn::{self, PatchOrder};
use crate::pixels::check_multiples;
use crate::stages::video_latents::VideoLatentShape;

/// Frames, rows and columns of latents that make one token of packed history.
pub(super) const PACKED_2X: [i64; 3] = [2, 4, 4];
pub(super) const PACKED_4X: [i64; 3] = [4, 8, 8];

/// Positions in time of a section's latents and of its history, in latent frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionLayout {
    pub latents: Vec<i64>,
    pub clean: Vec<i64>,
    pub history_2x: Vec<i64>,
    pub history_4x: Vec<i64>,
}

/// History of a section: each `(1, 16, frames, h, w)`, with as many frames as the [`SectionLayout`] has positions.
#[derive(Debug)]
pub struct SectionHistory {
    /// The start and the nearest of the frames made so far.
    pub clean: Tensor,
    pub history_2x: Tensor,
    pub history_4x: Tensor,
}

/// Cosines and sines of tokens at `frames` times all positions of `rows` and `columns`, each `(tokens, D / 2)` in f32.
/// `packed`: tokens along each axis that are merged into one, whose rotation is the mean of theirs.
pub(super) fn turns_of(
    frames: &[i64],
    [rows, columns]: [i64; 2],
    packed: i64,
    config: &FramePackTransformerConfig,
) -> [Tensor; 2] {
    let numbers = |len: i64| (0..len).map(|n| n as f32).collect::<Vec<_>>();
    let frames: Vec<f32> = frames.iter().map(|&n| n as f32).collect();
    let places = [frames, numbers(rows), numbers(columns)];
    let [t, h, w] = places.each_ref().map(|places| places.len() as i64);
    [Tensor::cos, Tensor::sin].map(|turn: fn(&Tensor) -> Tensor| {
        let axes = places.iter().enumerate().map(|(axis, places)| {
            let angles = angles(places, config.rope_axes_dim[axis], config.rope_theta);
            let mut shape = [1, 1, 1, angles.size()[1]];
            shape[axis] = places.len() as i64;
            turn(&angles).view(shape).expand([t, h, w, -1], false)
        });
        let table = Tensor::cat(&axes.collect::<Vec<_>>(), 3); // t h w d
        if packed == 1 {
            return table.flatten(0, 2);
        }
        // t h w d -> 1 d t h w and back
        let table = table.permute([3, 0, 1, 2]).unsqueeze(0);
        let kernel = [packed; 3];
        let table = padded(&table, kernel);
        let means = table.avg_pool3d(kernel, kernel, [0, 0, 0], false, true, None::<i64>);
        means.flatten(2, 4).squeeze_dim(0).tr()
    })
}

/// `(places, dim / 2)`, in f32 as the models' authors and diffusers have them.
fn angles(places: &[f32], dim: i64, theta: f64) -> Tensor {
    let exponents = Tensor::arange_start_step(0, dim, 2, (Kind::Float, tch::Device::Cpu)) / dim;
    let freqs = Tensor::from(theta).pow(&exponents).reciprocal();
    Tensor::from_slice(places).outer(&freqs)
}

/// `(1, C, t, h, w)`, its last frames, rows and columns repeated until each axis is a multiple of `kernel`.
fn padded(xs: &Tensor, kernel: [i64; 3]) -> Tensor {
    let size = xs.size();
    let missing = [2, 3, 4].map(|dim: usize| {
        let step = kernel[dim - 2];
        (step - size[dim] % step) % step
    });
    if missing == [0, 0, 0] {
        return xs.shallow_clone();
    }
    let [frames, rows, columns] = missing;
    xs.replication_pad3d([0, columns, 0, rows, 0, frames])
}

/// Latents as tokens of `kernel` latents each, the last ones repeated where they do not fill a token:
/// `(1, C, t, h, w)` -> `(1, tokens, C * kernel)`
pub(super) fn patches(latents: &Tensor, kernel: [i64; 3]) -> Tensor {
    nn::patches(&padded(latents, kernel), kernel, PatchOrder::ChannelsFirst)
}

/// Pixels that make one latent, along each edge.
const PIXELS: u32 = 8;

/// Latent frames of history at 1, 2 and 4 times the patch, in addition to the start.
const NEAR: i64 = 1;
const MIDDLE: i64 = 2;
const FAR: i64 = 16;

/// Size of a section's latents.
pub fn section_shape(
    channels: i64,
    request: &GenerateRequest,
) -> Result<VideoLatentShape, EngineError> {
    let (width, height) = (request.width, request.height);
    check_multiples(width, height, PIXELS * PATCH as u32)?;
    Ok(VideoLatentShape {
        channels,
        frames: i64::from(sections(request)?.window),
        height: i64::from(height / PIXELS),
        width: i64::from(width / PIXELS),
    })
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
    shape: VideoLatentShape,
) -> SectionHistory {
    let past = shape.with_frames(NEAR + MIDDLE + FAR);
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

    const SHAPE: VideoLatentShape = VideoLatentShape {
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
    fn original_framepack_conditions_on_later_sections_and_initially_on_the_end_image() {
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
    fn framepack_f1_conditions_on_the_start_image_and_earlier_sections() {
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
    fn framepack_f1_conditions_on_the_extended_video_before_new_sections() {
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
        // Latents decoded before the first section.
        assert_eq!(numbers(&of_video(4).lead(3)), [2, 3, 4]);
        assert_eq!(numbers(&images().lead(1)), [100]);
    }

    #[test]
    fn number_of_decoded_latents_matches_the_section_layout() {
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
