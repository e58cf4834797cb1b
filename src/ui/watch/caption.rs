//! The line that says what is shown: size, length, seed, time and name of a result or a file.

use safelight_core::units::duration_text;

use crate::app::player::{PlayedFile, Viewing};
use crate::app::queue::ResultItem;
use crate::ui::View;
use crate::ui::watch::{listed_text, live};

/// Length of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Picture,
    /// Position in the batch, from 1, and batch size.
    OfBatch(usize, usize),
    Frames(usize),
}

/// What is told of what is shown: a line, and more on hover.
pub(super) struct Told {
    pub line: String,
    pub more: String,
}

/// Nothing of a comparison, which has lines of its own.
pub(super) fn told(view: &View<'_>) -> Option<Told> {
    let watch = &view.app.watch;
    let shown = watch.shown_of_batch();
    match watch.viewing {
        Viewing::Live => view.app.queue.running.as_ref().map(live::told),
        Viewing::Result(id) => {
            let item = view.app.queue.result(id)?;
            of_result(item, shown)
        }
        Viewing::File => {
            let num_frames = watch.player.as_ref().map_or(0, |player| player.len());
            Some(of_file(watch.file.as_ref()?, shown, num_frames))
        }
        Viewing::Compare => None,
    }
}

/// In a batch, of the picture that is looked at. What the job was asked for may be more or less than what it made.
fn of_result(item: &ResultItem, shown: usize) -> Option<Told> {
    let request = item.generated(shown)?;
    let path = item.path_of(shown);
    let frames = &item.output.clip.frames;
    let length = if item.is_batch() {
        Length::OfBatch(shown + 1, frames.len())
    } else if item.is_pictures() {
        Length::Picture
    } else {
        Length::Frames(frames.len())
    };
    let line = caption_text(
        (request.width, request.height),
        length,
        Some(request.seed),
        Some(item.output.secs),
        &path.file_name().unwrap_or_default().to_string_lossy(),
    );
    Some(Told {
        line,
        more: format!("{}\n{}", request.prompt, path.display()),
    })
}

/// `832 × 480  ·  81 frames  ·  seed 12  ·  1 min 5 s  ·  boat.mp4`: what is not known is left out.
fn caption_text(
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
    listed_text(&facts)
}

fn of_file(file: &PlayedFile, shown: usize, num_frames: usize) -> Told {
    let length = match file.paths.len() {
        _ if file.is_clip => Length::Frames(num_frames),
        0 | 1 => Length::Picture,
        count => Length::OfBatch(shown + 1, count),
    };
    let request = file.request_of(shown);
    let seed = request.and_then(|request| request["seed"].as_u64());
    let name = file.name_of(shown);
    let path = file.path_of(shown).display().to_string();
    Told {
        line: caption_text((file.width, file.height), length, seed, None, &name),
        more: match file.prompt(shown) {
            Some(prompt) => format!("{prompt}\n{path}"),
            None => path,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_says_what_is_known_and_no_more() {
        let clip = caption_text(
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
        let picture = caption_text((64, 32), Length::OfBatch(2, 4), None, None, "a.png");
        assert_eq!(picture, "64 × 32  ·  picture 2 of 4  ·  a.png");
    }
}
