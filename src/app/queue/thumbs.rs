//! Small pictures for the rows of the queue: opened on a thread of their own, for rows that are seen, and the oldest
//! forgotten.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use egui::{Context, TextureHandle};
use safelight_core::media::{Picture, thumbnail};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::inputs::opening::open_input;
use crate::app::queue::desk::QueueAnswer;
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
    is_opening: bool,
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

    pub fn end(&mut self) {
        self.is_opening = false;
    }
}

impl App {
    /// Has the pictures opened that rows asked for; one thread at a time.
    pub(in crate::app) fn open_thumbs(&mut self) {
        let thumbs = &mut self.session.queue.thumbs;
        if thumbs.is_opening || thumbs.wanted.is_empty() {
            return;
        }
        thumbs.is_opening = true;
        let wanted = std::mem::take(&mut thumbs.wanted);
        self.background.spawn("thumbnails", move |postbox| {
            for path in wanted {
                // A row without a picture has its model's sign; why is told when the job runs.
                if let Ok(opened) = open_input(&path) {
                    let thumb = QueueAnswer::Thumb(path, opened.thumb);
                    postbox.post(Answer::Queue(thumb));
                }
            }
            postbox.post(Answer::Queue(QueueAnswer::ThumbsEnded));
        });
    }
}
