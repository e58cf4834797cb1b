//! The finished jobs of this session: how many are kept, and their small pictures.
//!
//! Small pictures are made, and what is forgotten is dropped, on threads of their own: the frame in which a job ends
//! has enough to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::{ColorImage, Context, TextureHandle};
use safelight_core::job::{GenerateRequest, JobId, JobOutput};
use safelight_core::media::{Picture, thumbnail};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::queue::JobQueue;
use crate::app::queue::desk::QueueAnswer;
use crate::app::state::color_image;

/// Finished clips beyond this many bytes of pixels are forgotten, oldest first. Their files stay.
const MAX_RESULT_BYTES: usize = 512 << 20;
/// More than anybody looks for in the strip; the gallery has them all.
const MAX_RESULTS: usize = 200;
/// The longer side of a small picture, sharp on a screen of double density.
const THUMB_PX: u32 = 160;

/// A finished job and its small pictures.
#[derive(Clone)]
pub struct ResultItem {
    pub id: JobId,
    pub request: GenerateRequest,
    pub output: JobOutput,
    /// Of a batch one of each picture, in order; else one. They come a moment after the result.
    pub thumbs: Vec<TextureHandle>,
}

impl ResultItem {
    /// Whether its frames are pictures of a batch, or one, rather than a clip.
    pub fn is_pictures(&self) -> bool {
        self.request.makes_pictures()
    }

    pub fn is_batch(&self) -> bool {
        self.request.batch_size > 1
    }

    /// The file of one picture of a batch; the only file of others.
    pub fn path_of(&self, index: usize) -> &Path {
        let paths = &self.output.paths;
        let own = paths.get(index).filter(|_| self.is_batch());
        own.map_or_else(|| self.output.path(), PathBuf::as_path)
    }

    /// The small picture that stands for all of it, when it is there.
    pub fn thumb(&self) -> Option<&TextureHandle> {
        let of_batch = self.output.clip.frames.len() / 2;
        self.thumbs.get(if self.is_batch() { of_batch } else { 0 })
    }

    /// What small pictures are made of: all of a batch, the middle of a clip.
    fn pictured(&self) -> Vec<Arc<Picture>> {
        let frames = &self.output.clip.frames;
        if self.is_batch() {
            frames.clone()
        } else {
            frames.get(frames.len() / 2).cloned().into_iter().collect()
        }
    }
}

impl JobQueue {
    pub fn result(&self, id: JobId) -> Option<&ResultItem> {
        self.results.iter().find(|item| item.id == id)
    }

    /// Keeps a result. Gives the oldest ones, which are forgotten, when there are too many or too many pixels.
    #[must_use]
    pub fn keep(&mut self, item: ResultItem) -> Vec<ResultItem> {
        self.results.push(item);
        let bytes_of = |item: &ResultItem| -> usize {
            let frames = &item.output.clip.frames;
            frames.iter().map(|frame| frame.rgb.len()).sum()
        };
        let mut room = MAX_RESULT_BYTES;
        let newest = self.results.iter().rev().take(MAX_RESULTS);
        let kept = newest.take_while(|item| {
            let bytes = bytes_of(item);
            let has_room = bytes <= room;
            room = room.saturating_sub(bytes);
            has_room
        });
        // The newest one stays, whatever its size.
        let num_kept = kept.count().max(1);
        let num_forgotten = self.results.len() - num_kept;
        self.results.drain(..num_forgotten).collect()
    }
}

impl App {
    /// Keeps a result, and has its small pictures made.
    pub(in crate::app) fn keep_item(&mut self, item: ResultItem) {
        let (id, pictures) = (item.id, item.pictured());
        let forgotten = self.queue.keep(item);
        self.background.free(forgotten);
        self.background.spawn("thumbnails", move |postbox| {
            for picture in pictures {
                let thumb = QueueAnswer::ResultThumb(id, thumb_of(&picture));
                postbox.post(Answer::Queue(thumb));
            }
        });
    }

    pub(super) fn take_result_thumb(&mut self, ctx: &Context, id: JobId, image: ColorImage) {
        let mut items = self.queue.results.iter_mut();
        // It may be forgotten already.
        if let Some(item) = items.find(|item| item.id == id) {
            let thumb = ctx.load_texture("result", image, Default::default());
            item.thumbs.push(thumb);
        }
    }
}

fn thumb_of(picture: &Picture) -> ColorImage {
    thumbnail(picture, THUMB_PX, THUMB_PX)
        .map_or_else(|_| color_image(picture), |small| color_image(&small))
}
