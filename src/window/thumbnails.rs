//! Thumbnails of files and results: requested while drawing, created on separate threads, and cached as textures in a
//! bounded amount of memory.
//!
//! Requests of one frame are valid until the next one is drawn.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::{ColorImage, Context, TextureHandle};
use safelight_core::gallery::{FileStamp, GalleryItem, THUMB_SIDE, ThumbFolder, ThumbKey};
use safelight_core::job::{CannyThresholds, JobId};
use safelight_core::media::{RgbPixels, canny, open_rgb, thumbnail};

use crate::window::background::{BackgroundTask, BackgroundThreads, NOT_SURVIVED, guarded};
use crate::window::inputs::opening::open_input;
use crate::window::state::color_image;

/// Thumbnails made at once: one large file does not delay the others, and those scrolled past meanwhile are not made.
const MAX_IN_WORK: usize = 4;
/// Memory limit of all textures. Visible ones stay regardless.
const MAX_BYTES: usize = 192 << 20;

#[derive(Clone, Debug)]
pub enum ThumbSource {
    /// A result's file: its first frame, which is kept on the disk, too.
    Result(Arc<GalleryItem>),
    /// Input of a job: for a video its last frame.
    Input(PathBuf),
    /// The edges of a control image, or of a video's first frame.
    Edges(PathBuf, CannyThresholds),
    /// One of the images that a job of this session made, or a frame of its video.
    Made(JobId, usize, Arc<RgbPixels>),
}

/// Tells one small image from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ThumbId {
    Result(ThumbKey),
    Input(ThumbKey),
    Edges(ThumbKey, u16, u16),
    Made(JobId, usize),
}

impl ThumbSource {
    /// A file that has changed is another one to the gallery.
    fn id(&self) -> ThumbId {
        match self {
            Self::Result(entry) => ThumbId::Result(entry.thumb),
            Self::Input(path) => ThumbId::Input(ThumbKey::new(path, FileStamp::default())),
            Self::Edges(path, CannyThresholds { low, high }) => {
                ThumbId::Edges(ThumbKey::new(path, FileStamp::default()), *low, *high)
            }
            Self::Made(job, index, _) => ThumbId::Made(*job, *index),
        }
    }

    /// Opened on a thread; `folder` has those of results.
    fn image(self, folder: Option<&ThumbFolder>, side: u32) -> Result<ColorImage, String> {
        let image = match self {
            Self::Result(entry) => {
                let kept = folder.map(|folder| folder.get(&entry.path, entry.thumb));
                let opened = kept.unwrap_or_else(|| open_rgb(&entry.path));
                Arc::new(opened.map_err(|err| err.to_string())?)
            }
            Self::Input(path) => Arc::new(open_input(&path).map_err(|err| err.summary)?.thumb),
            Self::Edges(path, edges) => Arc::new(edges_of(&path, edges)?),
            Self::Made(_, _, image) => image,
        };
        let is_small = image.width.max(image.height) <= side;
        let small = (!is_small).then(|| thumbnail(&image, side, side).ok());
        Ok(color_image(small.flatten().as_ref().unwrap_or(&image)))
    }
}

/// Size at which lines can be distinguished, in pixels.
pub const EDGES_SIDE: u32 = 512;

fn edges_of(path: &Path, edges: CannyThresholds) -> Result<RgbPixels, String> {
    let drawn = open_rgb(path).and_then(|image| {
        let small = thumbnail(&image, EDGES_SIDE, EDGES_SIDE)?;
        canny(&small, edges.low, edges.high)
    });
    drawn.map_err(|err| err.to_string())
}

type MadeThumb = (ThumbId, u32, Result<ColorImage, String>);

struct ThumbState {
    /// Texture, or a sentence on why there is none.
    texture: Result<TextureHandle, String>,
    bytes: usize,
    /// Requested size in pixels.
    side: u32,
    /// In which round it was drawn last.
    drawn: Cell<u64>,
}

#[derive(Default)]
pub struct ThumbCache {
    folder: Option<ThumbFolder>,
    thumbs: HashMap<ThumbId, ThumbState>,
    bytes: usize,
    max_bytes: usize,
    round: Cell<u64>,
    /// To be made, each with its longer side in pixels.
    requests: RefCell<Vec<(ThumbSource, u32)>>,
    in_work: HashSet<(ThumbId, u32)>,
    made: BackgroundTask<MadeThumb>,
}

impl ThumbCache {
    /// `folder` is where those of results are kept between runs.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder: folder.map(ThumbFolder::new),
            max_bytes: MAX_BYTES,
            ..Self::default()
        }
    }

    /// Starts a new frame: earlier requests are dropped.
    pub fn begin_round(&self) {
        self.round.set(self.round.get() + 1);
        self.requests.borrow_mut().clear();
    }

    /// Texture, or the reason why there is none. A missing one, or one smaller than `side` pixels at its longer side,
    /// is requested.
    pub fn get(&self, what: ThumbSource, side: u32) -> Option<Result<&TextureHandle, &str>> {
        let id = what.id();
        self.want(what, side);
        let thumb = self.thumbs.get(&id)?;
        thumb.drawn.set(self.round.get());
        Some(thumb.texture.as_ref().map_err(String::as_str))
    }

    pub fn want(&self, what: ThumbSource, side: u32) {
        if !self.has(&what, side) {
            self.requests.borrow_mut().push((what, side));
        }
    }

    /// Returns whether there is one of this size, or a word on why there is none.
    pub fn has(&self, what: &ThumbSource, side: u32) -> bool {
        self.is_there(what.id(), side)
    }

    pub fn is_busy(&self) -> bool {
        !self.in_work.is_empty() || !self.requests.borrow().is_empty()
    }

    /// Shows an image that was opened just now, in place of what its file looked like before.
    pub fn put(&mut self, ctx: &Context, what: &ThumbSource, image: &RgbPixels) {
        let id = what.id();
        if let Some(old) = self.thumbs.remove(&id) {
            self.bytes -= old.bytes;
        }
        self.keep(ctx, (id, THUMB_SIDE, Ok(color_image(image))));
    }

    pub(super) fn poll(&mut self, ctx: &Context, background: &BackgroundThreads) {
        while let Some(made) = self.made.take() {
            self.in_work.remove(&(made.0, made.1));
            self.keep(ctx, made);
        }
        if !self.made.is_busy() {
            // Also of those whose thread could not start.
            self.in_work.clear();
        }
        let mut left = Vec::new();
        for (what, side) in self.requests.take() {
            let id = what.id();
            if self.is_there(id, side) || self.in_work.contains(&(id, side)) {
                continue;
            }
            if self.in_work.len() >= MAX_IN_WORK {
                left.push((what, side));
                continue;
            }
            self.in_work.insert((id, side));
            let folder = self.folder.clone();
            self.made.add(background.run("thumbnail", move || {
                // Files are untrusted, and decoders may panic.
                let made = guarded(|| what.image(folder.as_ref(), side));
                (id, side, made.unwrap_or_else(|| Err(NOT_SURVIVED.into())))
            }));
        }
        self.requests.replace(left);
    }

    fn is_there(&self, id: ThumbId, side: u32) -> bool {
        let thumb = self.thumbs.get(&id);
        thumb.is_some_and(|thumb| thumb.side >= side)
    }

    fn keep(&mut self, ctx: &Context, (id, side, made): MadeThumb) {
        if self.is_there(id, side) {
            // A smaller one that took longer.
            return;
        }
        let bytes = made.as_ref().map_or(0, |image| image.pixels.len() * 4);
        let thumb = ThumbState {
            texture: made.map(|image| ctx.load_texture("thumbnail", image, Default::default())),
            bytes,
            side,
            drawn: self.round.clone(),
        };
        self.bytes += bytes;
        if let Some(old) = self.thumbs.insert(id, thumb) {
            self.bytes -= old.bytes;
        }
        if self.bytes > self.max_bytes {
            self.make_room();
        }
    }

    /// Drops those that were not drawn for the longest time, to nine tenths.
    fn make_room(&mut self) {
        let old = self
            .thumbs
            .iter()
            .filter(|(_, thumb)| thumb.drawn < self.round);
        let old = old.map(|(id, thumb)| (thumb.drawn.get(), *id));
        let mut old: Vec<(u64, ThumbId)> = old.collect();
        old.sort_unstable();
        for (_, id) in old {
            if self.bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            if let Some(thumb) = self.thumbs.remove(&id) {
                self.bytes -= thumb.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::window::context::AppContext;

    fn image(side: u32) -> Arc<RgbPixels> {
        Arc::new(RgbPixels::from_fn(side, side, |_, _| [9, 9, 9]).unwrap())
    }

    #[test]
    fn textures_that_were_not_drawn_lately_go_first() {
        let (ctx, image) = (Context::default(), image(16));
        let of = |index| ThumbSource::Made(JobId(1), index, Arc::clone(&image));
        let image = || Ok(ColorImage::filled([16, 16], egui::Color32::RED));
        let mut thumbs = ThumbCache {
            max_bytes: 10 * 16 * 16 * 4,
            ..ThumbCache::new(None)
        };
        for index in 0..10 {
            thumbs.begin_round();
            thumbs.keep(&ctx, (of(index).id(), 16, image()));
        }
        thumbs.begin_round();
        assert!(matches!(thumbs.get(of(0), 16), Some(Ok(_))));
        thumbs.keep(&ctx, (of(10).id(), 16, image()));
        assert!(thumbs.has(&of(0), 16) && thumbs.has(&of(10), 16));
        assert!(!thumbs.has(&of(1), 16) && !thumbs.has(&of(0), 17));
        assert!(thumbs.bytes <= thumbs.max_bytes);
        thumbs.keep(&ctx, (of(10).id(), 8, image()));
        assert!(thumbs.has(&of(10), 16), "a smaller one came later");
        thumbs.keep(&ctx, (of(11).id(), 16, Err("it is broken".to_owned())));
        let shown = thumbs.get(of(11), 16);
        assert!(matches!(shown, Some(Err("it is broken"))));
        assert!(thumbs.get(of(1), 16).is_none());
    }

    #[test]
    fn thumbnails_are_drawn_once_per_size_and_only_while_visible() {
        let (mut cx, image) = (AppContext::alone(), image(64));
        let of = |index| ThumbSource::Made(JobId(1), index, Arc::clone(&image));
        // What the frame before asked for.
        cx.thumbs.want(of(8), 16);
        cx.thumbs.begin_round();
        for side in [16, 32, 16] {
            assert!(cx.thumbs.get(of(0), side).is_none());
        }
        cx.poll_thumbs();
        assert_eq!(cx.thumbs.in_work.len(), 2);
        while cx.thumbs.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
            cx.poll_thumbs();
        }
        assert!(cx.thumbs.has(&of(0), 32) && !cx.thumbs.has(&of(8), 16));
        let Some(Ok(texture)) = cx.thumbs.get(of(0), 32) else {
            panic!("it is there");
        };
        assert_eq!(texture.size(), [32, 32]);
    }

    #[test]
    fn reopened_input_updates_its_thumbnail_and_a_broken_input_shows_its_error() {
        let mut cx = AppContext::alone();
        let boat = || ThumbSource::Input(PathBuf::from("/nowhere/boat.png"));
        assert!(cx.thumbs.get(boat(), 16).is_none());
        cx.poll_thumbs();
        while cx.thumbs.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
            cx.poll_thumbs();
        }
        let shown = cx.thumbs.get(boat(), 16);
        assert!(matches!(shown, Some(Err(why)) if why.contains("boat.png")));
        let ctx = cx.ctx.clone();
        cx.thumbs.put(&ctx, &boat(), &image(8));
        let shown = cx.thumbs.get(boat(), 16);
        assert!(matches!(shown, Some(Ok(_))));
    }
}
