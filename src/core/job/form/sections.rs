//! In how many sections a clip is made, in which order, and whether the times in its prompt can be read.
//!
//! Looks at no file.

use super::{Findings, GenerateForm};
use crate::catalog::ModelSpec;
use crate::job::prompt::Timeline;
use crate::job::{Sections, WINDOW};

/// Shortest and longest clip, in seconds.
const SECS: (f64, f64) = (1.0, 120.0);
/// Shortest and longest section, in latent frames: the published models know 9.
const WINDOWS: std::ops::RangeInclusive<u32> = 2..=32;

/// The sections of the clip; `None` for models that make it at once.
pub(super) fn choose(
    form: &GenerateForm,
    spec: &ModelSpec,
    found: &mut Findings,
) -> Option<Sections> {
    let Some(own) = spec.section_order else {
        note_unused(form, spec, found);
        return None;
    };
    let window = form.window.unwrap_or(WINDOW);
    if !WINDOWS.contains(&window) {
        found.fail(
            "window",
            format!(
                "expected a section of {} to {} latent frames, found {window}",
                WINDOWS.start(),
                WINDOWS.end()
            ),
        );
        return None;
    }
    let mut sections = Sections {
        count: 1,
        window,
        order: form.section_order.unwrap_or(own),
    };
    sections.count = count(form, spec, &sections, found)?;
    if let Err(problem) = Timeline::parse(&form.prompt) {
        found.fail("prompt", problem);
    }
    Some(sections)
}

/// As many as were asked for in one way or another.
fn count(
    form: &GenerateForm,
    spec: &ModelSpec,
    one: &Sections,
    found: &mut Findings,
) -> Option<u32> {
    let (shortest, longest) = SECS;
    let most = Sections::in_secs(longest, one.window);
    let fits = |count: u32| (1..=most).contains(&count);
    if let Some(count) = form.num_sections {
        if !fits(count) {
            let text = format!("expected between 1 and {most} sections, found {count}");
            found.fail("sections", text);
            return None;
        }
        return Some(count);
    }
    if form.secs.is_some() && form.num_frames.is_some() {
        found.fail(
            "seconds",
            "expected either seconds or frames, found both".to_owned(),
        );
        return None;
    }
    if let Some(frames) = form.num_frames {
        let count = Sections::for_frames(frames, one.window);
        let clip = Sections { count, ..*one };
        if frames == 0 || !fits(count) {
            let most = Sections {
                count: most,
                ..*one
            }
            .num_frames();
            let text = format!("expected between 1 and {most} frames, found {frames}");
            found.fail("frames", text);
            return None;
        }
        if clip.num_frames() != frames {
            found.note(
                "frames",
                format!(
                    "The number of frames was changed from {frames} to {}: {} makes {} sections of {} and one more",
                    clip.num_frames(),
                    spec.name,
                    count,
                    one.frames_a_section()
                ),
            );
        }
        return Some(count);
    }
    let Some(secs) = form.secs else {
        let secs = f64::from(spec.defaults.num_frames.saturating_sub(1)) / 30.0;
        return Some(Sections::in_secs(secs, one.window).min(most));
    };
    if !(secs >= shortest && secs <= longest) {
        found.fail(
            "seconds",
            format!("expected between {shortest} and {longest} seconds, found {secs}"),
        );
        return None;
    }
    Some(Sections::in_secs(secs, one.window))
}

/// What only models with sections have.
fn note_unused(form: &GenerateForm, spec: &ModelSpec, found: &mut Findings) {
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
            found.note(
                field,
                format!("{what} is not used: {} makes its clips at once", spec.name),
            );
        }
    }
}
