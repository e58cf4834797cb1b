//! What the middle of the window says: names, explanations and captions, each a whole sentence or name.

use std::fmt::Display;

use safelight_core::units::duration_text;

use crate::app::player::Repeat;

pub const OPEN_CELL: &str = "Open this result of the grid";
pub const PLAY: &str = "Play";
pub const PAUSE: &str = "Pause";
pub const PLAY_MORE: &str = "Play or pause (Space)";
pub const PREVIOUS_FRAME: &str = "Previous frame";
pub const PREVIOUS_FRAME_MORE: &str = "One frame back (Left; Home goes to the first)";
pub const NEXT_FRAME: &str = "Next frame";
pub const NEXT_FRAME_MORE: &str = "One frame forward (Right; End goes to the last)";
pub const PREVIOUS_PICTURE: &str = "Previous picture";
pub const NEXT_PICTURE: &str = "Next picture";
pub const OF_BATCH_MORE: &str = "Of the same batch (Left and Right)";
pub const POSITION: &str = "Position";
pub const POSITION_MORE: &str = "Drag to go to a frame";
pub const SPEED_MORE: &str = "Playback speed";
pub const FULL_SCREEN: &str = "Full screen";
pub const FULL_SCREEN_MORE: &str = "Show only the picture (F or F11)";
pub const LEAVE_FULL_SCREEN: &str = "Leave full screen";
pub const LEAVE_FULL_SCREEN_MORE: &str = "Show the whole window again (F, F11 or Escape)";
pub const OWN_SIZE: &str = "100 %";
pub const OWN_SIZE_MORE: &str =
    "One pixel of the picture for each of the screen (1). The wheel zooms, dragging moves";
pub const FIT: &str = "Fit";
pub const FIT_MORE: &str = "Show the whole picture (0)";
pub const MORE: &str = "More";
pub const MORE_MORE: &str = "Everything else that can be done with this result";

pub const SAVE_FRAME: &str = "Save this frame";
pub const SAVE_FRAME_MORE: &str =
    "Write it as a PNG beside the clip, with the clip's settings inside (S)";
pub const COPY_FRAME: &str = "Copy this frame";
pub const COPY_FRAME_MORE: &str = "Put the picture on the clipboard (C)";
pub const USE_FRAME_AS_START: &str = "Use frame as start picture";
pub const USE_FRAME_AS_START_MORE: &str = "The next result starts from this frame";
pub const USE_FRAME_AS_END: &str = "Use frame as end picture";
pub const USE_FRAME_AS_END_MORE: &str = "The next clip ends on this frame";
pub const USE_FRAME_AS_REFERENCE: &str = "Use frame as reference";
pub const USE_FRAME_AS_REFERENCE_MORE: &str = "The model sees this frame beside the next prompt";
pub const NO_PICTURE_INPUT: &str = "The selected model does not take such a picture";

pub const COMPARE_WITH: &str = "Compare with";
pub const NOTHING_TO_COMPARE: &str = "There is no other result yet";
pub const SIDE_BY_SIDE: &str = "Side by side";
pub const SIDE_BY_SIDE_MORE: &str = "A on the left, B on the right";
pub const WIPE: &str = "Wipe";
pub const WIPE_MORE: &str = "B over A: drag the line between them, or use the keys [ and ]";
pub const DIFFERENCE: &str = "Difference";
pub const DIFFERENCE_MORE: &str =
    "How much each pixel of B differs from A: black where they are the same";
pub const SWAP: &str = "Swap A and B";
pub const SWAP_MORE: &str = "A and B change places";
pub const CLOSE_COMPARISON: &str = "Close";
pub const CLOSE_COMPARISON_MORE: &str = "Back to what was shown before (Escape)";
pub const DIVIDER: &str = "Divider";
pub const DIVIDER_MORE: &str = "Where A ends and B begins (keys [ and ])";
pub const DIFFERENCE_NAME: &str = "Difference of A and B";

pub const BACK_TO_LIVE: &str = "Back to the live preview";
pub const BACK_TO_LIVE_MORE: &str = "Another job is running now";
pub const LIVE: &str = "Live preview";
pub const FINISHED_PICTURE: &str = "Finished picture";
pub const FINISHED_CLIP: &str = "Finished clip";
pub const COMPARISON: &str = "Comparison";
pub const STARTING: &str = "The first preview appears in a moment…";
pub const OPENING: &str = "Opening…";
pub const JOB_BEGINS: &str = "The job is starting…";

pub const NOTHING_YET: &str = "Nothing here yet";
pub const NOTHING_NEW_YET: &str = "Nothing new yet";
pub const MODELS_LOADING: &str = "Looking for models…";
pub const NO_MODEL: &str = "Get a model first";
pub const BEGIN: &str = "Press Generate";
pub const BEGIN_OR_WRITE: &str = "Press Generate, or write a prompt first";

pub const ZONES_TITLE: &str = "What is this file for?";
pub const ZONE_SETTINGS: &str = "Use settings";
pub const ZONE_SETTINGS_MORE: &str = "Its prompt, seed and settings go into the form";
pub const ZONE_EXTEND: &str = "Extend clip";
pub const ZONE_EXTEND_MORE: &str = "New frames are added behind its last one";
pub const ZONE_CHANGE: &str = "Change clip";
pub const ZONE_CHANGE_MORE: &str = "The next clip is made from it, as far as the strength says";
pub const ZONE_START: &str = "Use as start picture";
pub const ZONE_START_MORE: &str = "The next result is made from it";
pub const ZONE_EITHER: &str = "Use the file itself";
pub const ZONE_EITHER_MORE: &str = "A picture starts the next result, a clip is extended";
pub const ELSEWHERE_CLIP: &str = "Dropped anywhere else, the clip plays";
pub const ELSEWHERE_PICTURE: &str = "Dropped anywhere else, the picture goes into the form";

pub fn opening(name: &str) -> String {
    format!("Opening {name}…")
}

pub fn file_name(name: &str) -> String {
    format!("The file {name}")
}

pub fn speed(speed: f64) -> String {
    format!("{speed}×")
}

pub fn speed_name(now: f64) -> String {
    format!("Speed {now}×")
}

pub fn at_the_end(repeat: Repeat) -> String {
    format!("At the end: {}", repeat.label())
}

pub fn at_the_end_more(repeat: Repeat) -> String {
    let (now, next) = (repeat.label(), repeat.next().label());
    format!("At the end: {now}. Press for “{next}” (L)")
}

pub fn gain(gain: u8) -> String {
    format!("{gain}×")
}

pub fn gain_more(gain: u8) -> String {
    match gain {
        1 => "Differences are shown as they are".to_owned(),
        _ => format!("Differences are shown {gain} times as strong as they are"),
    }
}

pub fn side(letter: &str, title: &str) -> String {
    format!("{letter}: {title}")
}

pub fn sides(a: &str, b: &str) -> String {
    format!("A: {a}, B: {b}")
}

/// One of the results that can be compared; numbers count from 1.
pub fn other_result(number: usize, title: &str, seed: Option<u64>) -> String {
    match seed {
        Some(seed) => format!("{number}: {title}, seed {seed}"),
        None => format!("{number}: {title}"),
    }
}

/// `title`: its prompt, or what was done with what.
pub fn result_name(number: usize, title: &str) -> String {
    format!("Result {number}: {title}")
}

pub fn result_more(title: &str, seed: Option<u64>) -> String {
    match seed {
        Some(seed) => {
            format!("{title}\nSeed {seed}. Ctrl-click compares, right-click shows a menu")
        }
        None => format!("{title}\nCtrl-click compares, right-click shows a menu"),
    }
}

pub fn of_batch(number: usize, count: usize) -> String {
    format!("Picture {number} of {count}")
}

pub fn of_batch_more(seed: u64) -> String {
    format!("Seed {seed} (Left and Right go through the batch)")
}

pub fn show_all(count: usize) -> String {
    match count {
        1 => "Show the result in the gallery".to_owned(),
        count => format!("Show all {count} results in the gallery"),
    }
}

pub fn show_earlier(name: &str) -> String {
    format!("Show {name}")
}

pub fn step_of(step: impl Display, num_steps: impl Display) -> String {
    format!("step {step} of {num_steps}")
}

pub fn part_of(part: impl Display, num_parts: impl Display) -> String {
    format!("part {part} of {num_parts}")
}

pub fn frame_of(frame: impl Display, num_frames: impl Display) -> String {
    format!("frame {frame} of {num_frames}")
}

pub fn section_of(section: impl Display, num_sections: impl Display) -> String {
    format!("section {section} of {num_sections}")
}

pub fn time_left(secs: f64) -> String {
    format!("about {} left", duration_text(secs.max(1.0)))
}

/// Facts beside each other.
pub fn listed(facts: &[String]) -> String {
    facts.join("  ·  ")
}

/// How much there is of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Picture,
    /// Which one of how many, from 1.
    OfBatch(usize, usize),
    Frames(usize),
}

/// `832 × 480  ·  81 frames  ·  seed 12  ·  1 min 5 s  ·  boat.mp4`: what is not known is left out.
pub fn caption(
    (width, height): (u32, u32),
    length: Length,
    seed: Option<u64>,
    secs: Option<f64>,
    file: &str,
) -> String {
    let length = match length {
        Length::Picture => "picture".to_owned(),
        Length::OfBatch(number, count) => format!("picture {number} of {count}"),
        Length::Frames(1) => "1 frame".to_owned(),
        Length::Frames(count) => format!("{count} frames"),
    };
    let mut facts = vec![format!("{width} × {height}"), length];
    facts.extend(seed.map(|seed| format!("seed {seed}")));
    facts.extend(secs.map(duration_text));
    facts.push(file.to_owned());
    listed(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_says_what_is_known_and_no_more() {
        let clip = caption(
            (832, 480),
            Length::Frames(81),
            Some(12),
            Some(65.0),
            "boat.mp4",
        );
        assert_eq!(
            clip,
            "832 × 480  ·  81 frames  ·  seed 12  ·  1 min 5 s  ·  boat.mp4"
        );
        let picture = caption((64, 32), Length::OfBatch(2, 4), None, None, "a.png");
        assert_eq!(picture, "64 × 32  ·  picture 2 of 4  ·  a.png");
    }
}
