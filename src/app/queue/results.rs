//! The finished jobs of this session: how many are kept, and their small pictures.
//!
//! Small pictures are made, and what is forgotten is dropped, on threads of their own: the frame in which a job ends
//! has enough to do.

use egui::ColorImage;
use safelight_core::job::JobId;
use safelight_core::media::{Picture, thumbnail};

use crate::app::cx::Cx;
use crate::app::queue::JobQueue;
use crate::app::queue::jobs::ResultItem;
use crate::app::state::color_image;

/// Finished clips beyond this many bytes of pixels are forgotten, oldest first. Their files stay.
const MAX_RESULT_BYTES: usize = 512 << 20;
/// More than anybody looks for in the strip; the gallery has them all.
const MAX_RESULTS: usize = 200;
/// The longer side of a small picture, sharp on a screen of double density.
const THUMB_PX: u32 = 160;

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

    /// Keeps a result, and has its small pictures made.
    pub(super) fn keep_item(&mut self, item: ResultItem, cx: &Cx) {
        let (id, pictures) = (item.id, item.pictured());
        cx.background.free(self.keep(item));
        let thumbs = cx.background.stream("thumbnails", move |postbox| {
            for picture in pictures {
                postbox.post((id, thumb_of(&picture)));
            }
        });
        self.result_thumbs.push(thumbs);
    }

    pub(super) fn take_result_thumbs(&mut self, cx: &Cx) {
        for thumbs in &mut self.result_thumbs {
            while let Some((id, image)) = thumbs.take() {
                // It may be forgotten already.
                if let Some(item) = self.results.iter_mut().find(|item| item.id == id) {
                    let thumb = cx.ctx.load_texture("result", image, Default::default());
                    item.thumbs.push(thumb);
                }
            }
        }
        self.result_thumbs.retain(|thumbs| thumbs.is_busy());
    }
}

fn thumb_of(picture: &Picture) -> ColorImage {
    thumbnail(picture, THUMB_PX, THUMB_PX)
        .map_or_else(|_| color_image(picture), |small| color_image(&small))
}
