//! The line that says what is shown: size, length, seed, time and name of a result or a file.

use crate::app::player::{PlayedFile, Viewing};
use crate::app::queue::ResultItem;
use crate::ui::View;
use crate::ui::watch::live;
use crate::ui::watch::words::{self, Length};

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
    let line = words::caption(
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
        line: words::caption((file.width, file.height), length, seed, None, &name),
        more: match file.prompt(shown) {
            Some(prompt) => format!("{prompt}\n{path}"),
            None => path,
        },
    }
}
