//! Small pictures for the rows of the queue: opened on a thread of their own, for rows that are seen, and the oldest
//! forgotten.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use egui::{Context, TextureHandle};
use safelight_core::media::{Picture, thumbnail};

use crate::app::cx::Cx;
use crate::app::inputs::opening::open_input;
use crate::app::pending::Stream;
use crate::app::state::color_image;

/// The longer side, sharp on a screen of double density.
const THUMB_PX: u32 = 112;
/// Far more than rows fit onto a screen.
const MAX_THUMBS: usize = 160;

/// What is known of pictures by their files.
#[derive(Default)]
pub struct Thumbs {
    /// `None` while it is on its way, and where there is none to be had.
    known: HashMap<PathBuf, Option<TextureHandle>>,
    /// Oldest first.
    order: VecDeque<PathBuf>,
    wanted: Vec<PathBuf>,
    opening: Stream<(PathBuf, Picture)>,
}

impl Thumbs {
    pub fn get(&self, path: &Path) -> Option<&TextureHandle> {
        self.known.get(path)?.as_ref()
    }

    /// Whether nobody has asked for it yet.
    pub fn is_unknown(&self, path: &Path) -> bool {
        !self.known.contains_key(path)
    }

    pub fn want(&mut self, path: PathBuf) {
        if self.is_unknown(&path) {
            self.remember(path.clone(), None);
            self.wanted.push(path);
        }
    }

    pub fn put(&mut self, ctx: &Context, path: &Path, picture: &Picture) {
        let Ok(small) = thumbnail(picture, THUMB_PX, THUMB_PX) else {
            return;
        };
        let texture = ctx.load_texture("queued", color_image(&small), Default::default());
        self.remember(path.to_owned(), Some(texture));
    }

    fn remember(&mut self, path: PathBuf, thumb: Option<TextureHandle>) {
        if self.known.insert(path.clone(), thumb).is_none() {
            self.order.push_back(path);
        }
        while self.order.len() > MAX_THUMBS {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    pub(super) fn poll(&mut self, cx: &Cx) {
        while let Some((path, picture)) = self.opening.take() {
            self.put(&cx.ctx, &path, &picture);
        }
    }

    /// Has the pictures opened that rows asked for; one thread at a time.
    pub(super) fn open(&mut self, cx: &Cx) {
        if self.opening.is_busy() || self.wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.wanted);
        self.opening = cx.background.stream("thumbnails", move |postbox| {
            for path in wanted {
                // A row without a picture has its model's sign; why is told when the job runs.
                if let Ok(opened) = open_input(&path) {
                    postbox.post((path, opened.thumb));
                }
            }
        });
    }
}
