//! Sizes and frame counts of the model, the image or the user, rounded to what the model can make.
//!
//! Small deviations become the nearest valid value with a notice; zero and values far beyond the limits are an error.

use super::{FormProblems, GenerateForm, images};
use crate::job::ResizeMode;
use crate::media::VideoFormat;
use crate::model::{ModelSpec, SizeLimits, nearest_multiple, usable_aspect};

/// Width and height. Given edges snap; those that are not given come from the aspect of the image or video where the
/// model can make that, else from the model's defaults.
pub(super) fn size(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) -> (u32, u32) {
    let requested = requested_size(form, spec);
    let before = found.errors.len();
    for (field, edge) in [("width", requested.0), ("height", requested.1)] {
        if let Some(message) = edge_problem(spec, field, edge) {
            found.fail(field, message);
        }
    }
    if found.errors.len() > before {
        return requested;
    }
    let limits = &spec.limits;
    if pixels(requested) > limits.max_pixels {
        let text = format!(
            "the size must be at most {} pixels for {}, not {}×{}",
            limits.max_pixels, spec.name, requested.0, requested.1
        );
        found.fail("width", text);
        return requested;
    }
    let snapped = snapped(
        requested,
        (spec.defaults.width, spec.defaults.height),
        limits,
    );
    for (field, from, to) in [
        ("width", requested.0, snapped.0),
        ("height", requested.1, snapped.1),
    ] {
        if from != to {
            let multiple = limits.size_multiple.max(1);
            let text = format!(
                "The {field} was changed from {from} to {to}: {} makes multiples of {multiple}",
                spec.name
            );
            found.note(field, text);
        }
    }
    note_resized(form, spec, snapped, found);
    snapped
}

/// Default fit of an image to the size: cropped to a bucket that was chosen for it, otherwise stretched.
pub(super) fn own_fit(form: &GenerateForm, spec: &ModelSpec) -> ResizeMode {
    let is_open = form.edges(spec) == (None, None);
    if is_open && spec.has_buckets() {
        ResizeMode::Crop
    } else {
        ResizeMode::default()
    }
}

/// The frames of a video that is extended or made anew must be of the new frames' size.
fn note_resized(form: &GenerateForm, spec: &ModelSpec, size: (u32, u32), found: &mut FormProblems) {
    let Some(video) = form.inputs.video() else {
        return;
    };
    let old = (video.info.width, video.info.height);
    let (field, does) = match form.inputs.extend {
        Some(_) => ("extend", "continues"),
        None => ("source-video", "changes"),
    };
    if old != size {
        let what = match video.info.num_frames {
            1 => "The image is",
            _ => "The video's frames are",
        };
        let text = format!(
            "{what} resized from {}×{} to {}×{}, the size in which {} {does} it",
            old.0, old.1, size.0, size.1, spec.name
        );
        found.note(field, text);
    }
}

/// Requested size, before the model's rules.
fn requested_size(form: &GenerateForm, spec: &ModelSpec) -> (u32, u32) {
    let source = form.inputs.size();
    let default = (spec.defaults.width, spec.defaults.height);
    let aspect = source.map(|(width, height)| f64::from(width) / f64::from(height.max(1)));
    let (width, height) = form.edges(spec);
    match (width, height, aspect) {
        (Some(width), Some(height), _) => (width, height),
        (None, None, Some(aspect)) => within(spec.size_for_aspect(aspect), &spec.limits),
        (Some(width), None, Some(aspect)) if !spec.limits.fixed_size => (
            width,
            beside(width, 1.0 / usable_aspect(aspect), &spec.limits),
        ),
        (None, Some(height), Some(aspect)) if !spec.limits.fixed_size => {
            (beside(height, usable_aspect(aspect), &spec.limits), height)
        }
        (width, height, _) => (width.unwrap_or(default.0), height.unwrap_or(default.1)),
    }
}

/// Missing edge next to a given one, `ratio` times as long, within the limits.
fn beside(given: u32, ratio: f64, limits: &SizeLimits) -> u32 {
    let multiple = limits.size_multiple.max(1);
    let edge = nearest_multiple(f64::from(given) * ratio, multiple);
    let most = limits.max_pixels / u64::from(given.max(1));
    let most = u32::try_from(most).unwrap_or(u32::MAX) / multiple * multiple;
    edge.min(largest_edge(limits)).min(most).max(multiple)
}

/// Default size, clamped to the limits instead of refused.
fn within((width, height): (u32, u32), limits: &SizeLimits) -> (u32, u32) {
    let largest = largest_edge(limits);
    let (mut width, mut height) = (width.min(largest), height.min(largest));
    let multiple = limits.size_multiple.max(1);
    while pixels((width, height)) > limits.max_pixels && width.max(height) > multiple {
        let longer = if width > height {
            &mut width
        } else {
            &mut height
        };
        *longer -= multiple;
    }
    (width, height)
}

fn pixels((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

fn largest_edge(limits: &SizeLimits) -> u32 {
    let multiple = limits.size_multiple.max(1);
    limits.max_edge / multiple * multiple
}

fn edge_problem(spec: &ModelSpec, field: &str, edge: u32) -> Option<String> {
    let multiple = spec.limits.size_multiple.max(1);
    let largest = largest_edge(&spec.limits);
    if edge == 0 {
        return Some(format!(
            "the {field} must be a multiple of {multiple} for {}, not 0",
            spec.name
        ));
    }
    // Less than one multiple beyond is still rounded.
    (edge >= largest.saturating_add(multiple)).then(|| {
        format!(
            "the {field} must be at most {largest} for {}, not {edge}",
            spec.name
        )
    })
}

/// The nearest size within the limits: of the two multiples on either side of each edge the nearer one, and never more
/// pixels than permitted. Of pairs that are as near, the model's default size in either orientation, then the one that
/// keeps the aspect, then the smaller one.
fn snapped(requested: (u32, u32), default: (u32, u32), limits: &SizeLimits) -> (u32, u32) {
    let candidates = |edge: u32| {
        let multiple = limits.size_multiple.max(1);
        let largest = largest_edge(limits).max(multiple);
        let below = (edge / multiple * multiple).clamp(multiple, largest);
        let above = edge
            .checked_next_multiple_of(multiple)
            .unwrap_or(largest)
            .clamp(multiple, largest);
        [below, above]
    };
    let aspect = |size: (u32, u32)| f64::from(size.0) / f64::from(size.1.max(1));
    let distance = |size: (u32, u32)| {
        let moved = requested.0.abs_diff(size.0) + requested.1.abs_diff(size.1);
        let is_default = size == default || (size.1, size.0) == default;
        // In twentieths: smaller differences between aspect ratios are invisible.
        let stretched = ((aspect(size) / aspect(requested)).ln().abs() * 20.0).round();
        (moved, !is_default, stretched, pixels(size))
    };
    let mut best = None;
    for width in candidates(requested.0) {
        for height in candidates(requested.1) {
            let size = (width, height);
            let is_better = best.is_none_or(|best| distance(size) < distance(best));
            if pixels(size) <= limits.max_pixels && is_better {
                best = Some(size);
            }
        }
    }
    best.unwrap_or(requested)
}

/// The number of frames: as given, else one for a `.png` or `.jpg`, else the model's default; of the form that
/// the model makes.
pub(super) fn frames(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) -> u32 {
    if spec.family.makes_images {
        return images::one_frame(form, spec, found);
    }
    let is_image = VideoFormat::from_path(&form.out).is_ok_and(VideoFormat::is_still)
        && form.inputs.extend.is_none()
        && form.inputs.last_image.is_none();
    let source = form.inputs.source_video.as_ref();
    let source = source.map(|video| form.info_for(video, spec).num_frames.max(1));
    let default = match source {
        _ if is_image => 1,
        Some(frames) => frames.min(spec.defaults.num_frames),
        None => spec.defaults.num_frames,
    };
    let requested = form.num_frames.unwrap_or(default);
    let stride = spec.limits.frame_stride.max(1);
    let largest = spec.limits.max_frames.saturating_sub(1) / stride * stride + 1;
    if requested == 0 || requested >= largest.saturating_add(stride) {
        let text = format!(
            "the number of frames must be {stride}n+1 and at most {largest} for {}, not {requested}",
            spec.name
        );
        found.fail("frames", text);
        return requested;
    }
    let times = (requested - 1).saturating_add(stride / 2) / stride;
    let nearest = (times * stride + 1).min(largest);
    if let Some(frames) = source {
        return of_source(frames, (requested, nearest), spec, found);
    }
    if nearest != requested {
        let text = format!(
            "The number of frames was changed from {requested} to {nearest}: {} makes {stride}n+1 of them, up to {largest}",
            spec.name
        );
        found.note("frames", text);
    }
    nearest
}

/// Number of frames of a regenerated video, at most those of its source. `wanted`: requested number, `nearest`: the
/// nearest one that the model makes.
fn of_source(
    frames: u32,
    (wanted, nearest): (u32, u32),
    spec: &ModelSpec,
    found: &mut FormProblems,
) -> u32 {
    let stride = spec.limits.frame_stride.max(1);
    let made = nearest.min((frames - 1) / stride * stride + 1);
    if made != wanted {
        let text = format!(
            "The number of frames was changed from {wanted} to {made}: the video has {frames}, and {} makes {stride}n+1 of them",
            spec.name
        );
        found.note("frames", text);
    } else if made < frames {
        let text = format!(
            "Only the first {made} frames of the video are used: it has {frames}, and a number of frames can be chosen"
        );
        found.note("source-video", text);
    }
    made
}
