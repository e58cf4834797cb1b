//! Painting a mask over the start picture: what is open, which brush, and how it becomes the Mask input.
//!
//! Paints nothing itself: what pointer and buttons ask for goes in order to the mask's own thread, the `painter`.

mod opening;
mod painter;
pub mod tiles;

use std::collections::VecDeque;
use std::path::PathBuf;

use crossbeam_channel::{Sender, bounded};
use egui::{Context, Rect, Vec2};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::Brush;

use crate::app::App;
use crate::app::background::Answer;
use crate::app::background::guard::survived;
use crate::app::inputs::Slot;
use crate::app::state::{Page, Severity};
use opening::Opened;
use painter::{ORDER_ROOM, Order, Painter};
use tiles::{Shown, Sight};

/// The brush's diameter in pixels of the picture.
pub const MIN_BRUSH: f32 = 1.0;
pub const MAX_BRUSH: f32 = 2000.0;
/// How far edges may be softened, in pixels of the picture.
pub const MAX_SOFTEN: u32 = 200;

/// What the page of the mask asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum MaskCommand {
    /// Paint over the start picture, from the mask that there is.
    Open,
    /// The pointer went down here; pixels of the picture.
    Begin([f32; 2], bool),
    /// And on to here.
    Move([f32; 2]),
    /// And up.
    End,
    Fill,
    Clear,
    Invert,
    /// Soften all edges by the chosen width.
    Soften,
    Undo,
    Redo,
    /// Keep it as a file and as the Mask input.
    Use,
    /// Go back without it.
    Discard,
}

/// What the mask's thread says; the numbers are those of editors.
pub enum MaskAnswer {
    Opened(Result<Box<Editor>, JobError>),
    /// It looks like this now.
    Painted(u64, Painted),
    Softened(u64),
    /// It is in this file, or why not.
    Kept(u64, Result<PathBuf, JobError>),
}

/// What there is of a mask after some orders.
pub struct Painted {
    /// What is seen of it, from the back to the front.
    pub shown: Vec<Shown>,
    pub can_undo: bool,
    pub can_redo: bool,
}

/// What takes so long that nothing can be painted meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    Softening,
    Keeping,
}

/// The part of the picture that is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Points of the screen a pixel of the picture; `None`: the whole picture fits.
    pub scale: Option<f32>,
    /// From the middle of the place to that of the picture, in points.
    pub offset: Vec2,
}

/// One mask that is painted.
pub struct Editor {
    /// Of this editor among those of the window.
    number: u64,
    /// What it lies on, and the mask that it began with or was kept as.
    picture: PathBuf,
    mask_file: Option<PathBuf>,
    width: u32,
    height: u32,
    pub painted: Painted,
    /// In pixels of the picture.
    pub diameter: f32,
    /// The part of the brush's radius over which it fades, in percent.
    pub softness: f32,
    pub is_erasing: bool,
    /// Of the colour over the picture.
    pub opacity: f32,
    /// How far [`MaskCommand::Soften`] softens, in pixels.
    pub soften_by: u32,
    pub look: Look,
    pub busy: Option<Busy>,
    /// Something was painted since it was opened or kept.
    pub is_changed: bool,
    /// Where the pointer was in the stroke that goes on, and whether that erases.
    stroke: Option<([f32; 2], bool)>,
    /// What the painter has no room for yet.
    waiting: VecDeque<Order>,
    orders: Sender<Order>,
    /// What the painter was told to show.
    sight: Option<Sight>,
}

impl Editor {
    fn new(number: u64, opened: &Opened, orders: Sender<Order>) -> Self {
        let (width, height) = (opened.mask.width(), opened.mask.height());
        let side = width.max(height) as f32;
        Self {
            number,
            picture: opened.picture.clone(),
            mask_file: opened.mask_file.clone(),
            width,
            height,
            painted: Painted {
                shown: Vec::new(),
                can_undo: false,
                can_redo: false,
            },
            diameter: (side / 12.0).clamp(8.0, MAX_BRUSH / 4.0).round(),
            softness: 30.0,
            is_erasing: false,
            opacity: 0.55,
            soften_by: ((side / 100.0) as u32).clamp(2, MAX_SOFTEN),
            look: Look {
                scale: None,
                offset: Vec2::ZERO,
            },
            busy: None,
            is_changed: false,
            stroke: None,
            waiting: VecDeque::new(),
            orders,
            sight: None,
        }
    }

    /// Width and height of the picture.
    pub fn size(&self) -> Vec2 {
        Vec2::new(self.width as f32, self.height as f32)
    }

    /// The name of the picture's file.
    pub fn name(&self) -> String {
        let name = self.picture.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// A stroke goes on.
    pub fn is_painting(&self) -> bool {
        self.stroke.is_some()
    }

    /// A brush one step larger or smaller, with the same feeling at all sizes.
    pub fn resize_brush(&mut self, steps: f32) {
        let wanted = self.diameter * 1.15_f32.powf(steps);
        // Small brushes would stay where they are for ever.
        let least = if steps > 0.0 { 1.0 } else { -1.0 };
        let by = wanted - self.diameter;
        let by = if by.abs() < 1.0 { least } else { by };
        self.diameter = (self.diameter + by).round().clamp(MIN_BRUSH, MAX_BRUSH);
    }

    fn brush(&self, erases: bool) -> Brush {
        Brush {
            radius: self.diameter / 2.0,
            softness: self.softness / 100.0,
            erases,
        }
    }

    /// This part of the picture is in sight, with so many dots of the screen a pixel.
    pub fn see(&mut self, seen: Rect, dots_a_pixel: f32) {
        let sight = Sight::of(self.width, self.height, seen, dots_a_pixel);
        // Strokes that wait do not hold it up. Where there is no room for it either, the painter will soon ask for
        // another frame, and that sees again.
        if self.sight.as_ref() != Some(&sight)
            && self.orders.try_send(Order::Look(sight.clone())).is_ok()
        {
            self.sight = Some(sight);
        }
    }

    /// A part of a stroke. Where the pointer tells of more places than a large brush needs, they become one part.
    fn draw(&mut self, from: [f32; 2], to: [f32; 2], erases: bool) {
        let brush = self.brush(erases);
        let is_near =
            |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) < brush.radius / 16.0;
        match self.waiting.back_mut() {
            Some(Order::Stroke(begin, end, with))
                if *end == from && *with == brush && is_near(*begin, to) =>
            {
                *end = to;
            }
            _ => self.change(Order::Stroke(from, to, brush)),
        }
    }

    fn change(&mut self, order: Order) {
        self.is_changed = true;
        self.waiting.push_back(order);
    }

    /// Gives the painter what waits, as far as there is room. It says when it has done something, and then there is
    /// room again.
    fn hand_over(&mut self) {
        while let Some(order) = self.waiting.pop_front() {
            if let Err(err) = self.orders.try_send(order) {
                self.waiting.push_front(err.into_inner());
                return;
            }
        }
    }

    fn run(&mut self, command: &MaskCommand) {
        match *command {
            MaskCommand::Begin(at, erases) => {
                self.change(Order::Begin);
                self.stroke = Some((at, erases));
                self.draw(at, at, erases);
            }
            MaskCommand::Move(to) => {
                if let Some((from, erases)) = self.stroke {
                    self.draw(from, to, erases);
                    self.stroke = Some((to, erases));
                }
            }
            MaskCommand::End => self.stroke = None,
            MaskCommand::Fill => self.change(Order::Fill(255)),
            MaskCommand::Clear => self.change(Order::Fill(0)),
            MaskCommand::Invert => self.change(Order::Invert),
            MaskCommand::Soften => {
                self.busy = Some(Busy::Softening);
                self.change(Order::Soften(self.soften_by));
            }
            MaskCommand::Undo => self.change(Order::Undo),
            MaskCommand::Redo => self.change(Order::Redo),
            MaskCommand::Open | MaskCommand::Use | MaskCommand::Discard => {}
        }
    }
}

/// Everything of masks in one window.
#[derive(Default)]
pub struct Masking {
    pub editor: Option<Editor>,
    pub is_opening: bool,
    last_number: u64,
}

impl App {
    pub(in crate::app) fn run_mask_command(&mut self, ctx: &Context, command: &MaskCommand) {
        match command {
            MaskCommand::Open => self.open_mask(ctx),
            MaskCommand::Discard => {
                self.session.masking.editor = None;
                self.show_page(Page::Watch);
            }
            MaskCommand::Use => self.keep_mask(),
            other => {
                let editor = self.session.masking.editor.as_mut();
                if let Some(editor) = editor.filter(|editor| editor.busy.is_none()) {
                    editor.run(other);
                }
            }
        }
    }

    /// Once a frame, so that places of one frame can become one part of a stroke.
    pub(in crate::app) fn paint_mask(&mut self) {
        if let Some(editor) = &mut self.session.masking.editor {
            editor.hand_over();
        }
    }

    /// What was painted on this picture goes on; else the picture is opened, and the mask that there is.
    fn open_mask(&mut self, ctx: &Context) {
        let inputs = &self.session.inputs;
        let Some(start) = inputs.get(Slot::Start).map(|input| input.source.clone()) else {
            return;
        };
        let mask = inputs.get(Slot::Mask);
        let mask = mask.map(|input| input.source.path().to_path_buf());
        let masking = &mut self.session.masking;
        if let Some(editor) = &masking.editor
            && editor.picture == start.path()
            && (editor.mask_file == mask || (mask.is_none() && editor.is_changed))
        {
            self.show_page(Page::Mask);
            return;
        }
        if !masking.is_free() {
            return;
        }
        masking.is_opening = true;
        masking.last_number += 1;
        let number = masking.last_number;
        let ctx = ctx.clone();
        self.background.spawn("mask", move |postbox| {
            let answer = |answer| postbox.post(Answer::Mask(answer));
            match survived(|| opening::open(&start, mask)) {
                Ok(opened) => {
                    let (orders, taken) = bounded(ORDER_ROOM);
                    let editor = Editor::new(number, &opened, orders);
                    answer(MaskAnswer::Opened(Ok(Box::new(editor))));
                    Painter::new(number, opened, ctx, postbox).run(&taken);
                }
                Err(err) => answer(MaskAnswer::Opened(Err(err))),
            }
        });
    }

    /// Writes the mask into the data folder and opens it as the Mask input.
    fn keep_mask(&mut self) {
        let editor = self.session.masking.editor.as_mut();
        let Some(editor) = editor.filter(|editor| editor.busy.is_none()) else {
            return;
        };
        let Some(paths) = &self.paths else {
            let err = JobError::new(JobErrorKind::Disk, "there is no folder to keep a mask in");
            self.session.notify(Severity::Error, err);
            return;
        };
        editor.busy = Some(Busy::Keeping);
        let ticket = self.session.inputs.ticket();
        // Behind all that was painted.
        editor
            .waiting
            .push_back(Order::Keep(paths.data.join("masks"), ticket));
    }

    pub(in crate::app) fn take_mask_answer(&mut self, answer: MaskAnswer) {
        let masking = &mut self.session.masking;
        match answer {
            MaskAnswer::Opened(opened) => {
                masking.is_opening = false;
                match opened {
                    Ok(editor) => {
                        masking.editor = Some(*editor);
                        self.show_page(Page::Mask);
                    }
                    Err(err) => self.session.notify(Severity::Error, err),
                }
            }
            MaskAnswer::Painted(number, painted) => {
                if let Some(editor) = masking.of_number(number) {
                    editor.painted = painted;
                }
            }
            MaskAnswer::Softened(number) => {
                if let Some(editor) = masking.of_number(number) {
                    editor.busy = None;
                }
            }
            MaskAnswer::Kept(number, kept) => {
                let Some(editor) = masking.of_number(number) else {
                    return;
                };
                editor.busy = None;
                match kept {
                    Ok(path) => {
                        editor.mask_file = Some(path);
                        editor.is_changed = false;
                        if self.session.page == Page::Mask {
                            self.show_page(Page::Watch);
                        }
                        "The mask is in place".clone_into(&mut self.session.last_word);
                    }
                    Err(err) => self.session.notify(Severity::Error, err),
                }
            }
        }
    }
}

impl Masking {
    /// Another picture can be opened: none is, and no mask is on its way to its file.
    pub fn is_free(&self) -> bool {
        let editor = self.editor.as_ref();
        !self.is_opening && editor.is_none_or(|editor| editor.busy != Some(Busy::Keeping))
    }

    fn of_number(&mut self, number: u64) -> Option<&mut Editor> {
        let editor = self.editor.as_mut();
        editor.filter(|editor| editor.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::mask::tiles::Levels;
    use safelight_core::media::{Mask, Picture};

    #[test]
    fn what_comes_faster_than_it_is_painted_waits_in_its_order() {
        let picture = Picture::from_fn(8, 8, |_, _| [0; 3]).unwrap();
        let opened = Opened {
            picture: PathBuf::from("photo.png"),
            mask_file: None,
            mask: Mask::new(8, 8),
            levels: Levels::of(picture).unwrap(),
        };
        let (orders, taken) = bounded(1);
        let mut editor = Editor::new(1, &opened, orders);
        let brush = editor.brush(false);
        let at = |x: u32| [x as f32 * brush.radius, 0.0];
        editor.run(&MaskCommand::Begin(at(0), false));
        for x in 1..=300 {
            editor.run(&MaskCommand::Move(at(x)));
            // A frame, in which nobody waits for the painter.
            editor.hand_over();
        }
        for command in [MaskCommand::End, MaskCommand::Fill, MaskCommand::Undo] {
            editor.run(&command);
        }
        let strokes =
            (0..=300_u32).map(|to| Order::Stroke(at(to.saturating_sub(1)), at(to), brush));
        let expected = [Order::Begin].into_iter().chain(strokes);
        for expected in expected.chain([Order::Fill(255), Order::Undo]) {
            editor.hand_over();
            let order = taken.try_recv().unwrap();
            assert_eq!(format!("{order:?}"), format!("{expected:?}"));
        }
        assert!(editor.waiting.is_empty() && taken.is_empty());
    }
}
