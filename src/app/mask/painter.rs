//! The thread on which one mask is painted, from its opening to its closing: it carries out orders one after the other
//! and keeps the squares in sight up to date.
//!
//! A large brush and a whole mask take far longer than a frame. Here that is no matter: the window never waits, and
//! the order of the orders is that of the clicks.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use egui::Context;
use safelight_core::media::{Area, Brush, Mask, softened};

use super::opening::{self, Opened};
use super::tiles::{Sight, Tiles};
use super::{Painted, Said};
use crate::app::background::guard::survived;
use crate::app::inputs::opening::{OpenedInputs, open_input, opened_one};
use crate::app::inputs::slots::{Placing, Slot};
use crate::app::pending::Postbox;

/// Orders that lie ready: more than the parts of strokes of one frame.
pub(super) const ORDER_ROOM: usize = 32;
/// How long is painted, and how long squares are renewed, before the window is told.
const STINT: Duration = Duration::from_millis(8);

/// What is asked of the painter.
#[derive(Debug)]
pub(super) enum Order {
    /// The strokes that follow are one step for undo.
    Begin,
    /// From, to, and with what; in pixels of the picture.
    Stroke([f32; 2], [f32; 2], Brush),
    Fill(u8),
    Invert,
    /// Soften all edges by so many pixels.
    Soften(u32),
    Undo,
    Redo,
    /// Write it into a file of this folder, which becomes the Mask input; where nothing is painted and that is no
    /// mask, nothing is written.
    Keep {
        folder: PathBuf,
        place: Postbox<OpenedInputs>,
        may_be_empty: bool,
    },
    Look(Sight),
}

pub(super) struct Painter<'a> {
    picture: PathBuf,
    mask: Mask,
    tiles: Tiles,
    ctx: Context,
    postbox: &'a Postbox<Said>,
}

impl<'a> Painter<'a> {
    pub(super) fn new(opened: Opened, ctx: Context, postbox: &'a Postbox<Said>) -> Self {
        Self {
            picture: opened.picture,
            mask: opened.mask,
            tiles: Tiles::new(opened.levels),
            ctx,
            postbox,
        }
    }

    /// Works until the editor is gone and all its orders are carried out.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            self.carry_out(order);
            let mut is_shown = false;
            while !is_shown {
                let until = Instant::now() + STINT;
                while Instant::now() < until
                    && let Ok(order) = orders.try_recv()
                {
                    self.carry_out(order);
                }
                is_shown = self.show(Instant::now() + STINT);
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        let touched = match order {
            Order::Begin => {
                self.mask.begin_step();
                Area::default()
            }
            Order::Stroke(from, to, brush) => self.mask.stroke(from, to, brush),
            Order::Fill(value) => self.mask.fill(value),
            Order::Invert => self.mask.invert(),
            Order::Soften(radius) => self.soften(radius),
            Order::Undo => self.mask.undo(),
            Order::Redo => self.mask.redo(),
            Order::Keep {
                folder,
                place,
                may_be_empty,
            } => {
                if may_be_empty || self.mask.values().iter().any(|value| *value > 0) {
                    self.keep(&folder, &place);
                } else {
                    self.postbox.post(Said::Empty);
                }
                Area::default()
            }
            Order::Look(sight) => {
                self.tiles.look_at(sight);
                Area::default()
            }
        };
        if !touched.is_empty() {
            self.tiles.touch(touched);
        }
    }

    /// Tells what there is; whether it is all that there should be.
    fn show(&mut self, until: Instant) -> bool {
        let is_whole = self.tiles.renew(&self.ctx, &self.mask, until);
        let painted = Painted {
            shown: self.tiles.shown(),
            can_undo: self.mask.can_undo(),
            can_redo: self.mask.can_redo(),
        };
        self.postbox.post(Said::Painted(painted));
        is_whole
    }

    fn soften(&mut self, radius: u32) -> Area {
        let mask = &self.mask;
        let soft = survived(|| Ok(softened(mask.width(), mask.height(), mask.values(), radius)));
        let touched = soft.map(|values| self.mask.replace(&values));
        let area = touched.as_ref().copied().unwrap_or_default();
        self.postbox.post(Said::Softened(touched.map(drop)));
        area
    }

    fn keep(&self, folder: &Path, place: &Postbox<OpenedInputs>) {
        let kept = survived(|| opening::keep(folder, &self.picture, &self.mask));
        if let Ok(path) = &kept {
            let placing = Placing {
                slot: Some(Slot::Mask),
                keeps_size: true,
                ..Placing::default()
            };
            place.post(opened_one(open_input(path), placing));
        }
        self.postbox.post(Said::Kept(kept));
    }
}
