//! In how many sections a video is made, in which order, and whether the times in its prompt can be read.
//!
//! Looks at no file.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::{FormProblems, GenerateForm};
use crate::job::prompt::PromptTimeline;
use crate::job::{SectionOrder, StepCache, VideoSections, WINDOW};
use crate::model::ModelSpec;

/// Shortest and longest video, in seconds.
const SECS: RangeInclusive<f64> = 1.0..=120.0;
/// Shortest and longest section, in latent frames: the published models know 9.
const WINDOWS: RangeInclusive<u32> = 2..=32;

/// Model with the chosen section order: only a video whose end is made first can have an end image.
pub(super) fn in_order<'a>(form: &GenerateForm, spec: &'a ModelSpec) -> Cow<'a, ModelSpec> {
    match form.section_order {
        Some(order) if spec.section_order.is_some_and(|own| own != order) => {
            Cow::Owned(ModelSpec {
                section_order: Some(order),
                end_image: order.end_image(),
                ..spec.clone()
            })
        }
        _ => Cow::Borrowed(spec),
    }
}

pub(super) fn step_cache(
    form: &GenerateForm,
    spec: &ModelSpec,
    found: &mut FormProblems,
) -> Option<StepCache> {
    let wanted = form.options.step_cache?;
    let offered = (spec.family.step_caches)(&spec.variant);
    if !offered.contains(&wanted.kind) {
        let names: Vec<&str> = offered.iter().map(|kind| kind.label()).collect();
        let message = match &names[..] {
            [] => format!("The step cache is not used: {} runs every step", spec.name),
            _ => format!(
                "The step cache is not used: {} needs numbers that nobody has measured of {}; choose {}",
                wanted.kind.label(),
                spec.name,
                names.join(", ")
            ),
        };
        found.note("step-cache", message);
        return None;
    }
    found.check("step-cache", wanted.problem());
    Some(wanted)
}

/// The sections of the video; `None` for models that make it at once.
pub(super) fn choose(
    form: &GenerateForm,
    spec: &ModelSpec,
    found: &mut FormProblems,
) -> Option<VideoSections> {
    let Some(order) = spec.section_order else {
        note_unused(form, spec, found);
        return None;
    };
    let window = form.window.unwrap_or(WINDOW);
    let length = ("the section length", " latent frames");
    if !found.within("window", length, &WINDOWS, window) {
        return None;
    }
    let mut sections = VideoSections {
        count: 1,
        window,
        order,
        lead: 1,
    };
    if let (Some(video), SectionOrder::F1) = (&form.inputs.extend, order) {
        sections.lead = VideoSections::lead_of(form.info_for(video, spec).num_frames, window);
    }
    sections.count = count(form, spec, &sections, found)?;
    if form.inputs.extend.is_some() && order == SectionOrder::Original {
        let text = format!("{} cannot continue a video. Use FramePack F1", spec.name);
        found.fail("extend", text);
    }
    note_rate(form, spec, found);
    if let Err(problem) = PromptTimeline::parse(&form.prompt) {
        found.fail("prompt", problem);
    }
    Some(sections)
}

/// Motion is made for one rate; a video of another keeps its own.
fn note_rate(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let rate = form.inputs.extend.as_ref();
    let rate = rate.map(|video| form.info_for(video, spec).fps);
    let own = spec.defaults.fps;
    if let Some(rate) = rate.filter(|rate| form.fps.is_none() && (rate / own).ln().abs() > 0.05) {
        let pace = if rate < own { "slower" } else { "faster" };
        let text = format!(
            "{} makes {own} frames per second and the video has {rate:.2}: the new part moves {pace}",
            spec.name
        );
        found.note("fps", text);
    }
}

fn count(
    form: &GenerateForm,
    spec: &ModelSpec,
    one: &VideoSections,
    found: &mut FormProblems,
) -> Option<u32> {
    let most = VideoSections::in_secs(*SECS.end(), one.window);
    if let Some(count) = form.num_sections {
        let what = ("the number of sections", "");
        return found
            .within("sections", what, &(1..=most), count)
            .then_some(count);
    }
    if form.secs.is_some() && form.num_frames.is_some() {
        let text = "give either seconds or frames, not both";
        found.fail("seconds", text);
        return None;
    }
    if let Some(frames) = form.num_frames {
        let count = VideoSections::for_frames(frames, one.window);
        // The requested duration is that of the new frames.
        let video = VideoSections {
            count,
            lead: 1,
            ..*one
        };
        if frames == 0 || !(1..=most).contains(&count) {
            let most = VideoSections {
                count: most,
                ..video
            }
            .num_frames();
            let text = format!("the number of frames must be between 1 and {most}, not {frames}");
            found.fail("frames", text);
            return None;
        }
        if video.num_frames() != frames {
            let text = format!(
                "The number of frames was changed from {frames} to {}: {} makes {} sections of {} and one more",
                video.num_frames(),
                spec.name,
                count,
                one.frames_a_section()
            );
            found.note("frames", text);
        }
        return Some(count);
    }
    let Some(secs) = form.secs else {
        let secs = f64::from(spec.defaults.num_frames.saturating_sub(1)) / 30.0;
        return Some(VideoSections::in_secs(secs, one.window).min(most));
    };
    let is_right = found.within("seconds", ("the length", " seconds"), &SECS, secs);
    is_right.then(|| VideoSections::in_secs(secs, one.window))
}

fn note_unused(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let wishes = [
        ("seconds", form.secs.is_some(), "The number of seconds"),
        (
            "sections",
            form.num_sections.is_some(),
            "The number of sections",
        ),
        ("window", form.window.is_some(), "The window"),
        (
            "sampling",
            form.section_order.is_some(),
            "The order of sections",
        ),
    ];
    for (field, is_given, what) in wishes {
        if is_given {
            let text = format!(
                "{what} is not used: {} does not make videos in sections",
                spec.name
            );
            found.note(field, text);
        }
    }
}
