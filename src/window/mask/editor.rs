//! Editor of one mask: its state in the window, and its orders to the painter thread.
//!
//! [`crate::window::mask::Masking`] opens it and saves it to a file.

use std::collections::VecDeque;

use crossbeam_channel::Sender;
use egui::{Rect, Vec2};
use safelight_core::media::{MaskBrush, OutpaintMargins};

use crate::window::inputs::InputSlots;
use crate::window::mask::painter::PaintCommand;
use crate::window::mask::tiles::{ShownTile, VisibleTiles};
use crate::window::mask::{MaskEvent, OpenedMask};
use crate::window::prelude::*;

#[derive(Default)]
pub struct PaintedMask {
    /// Width and height of the image with its room.
    pub size: (u32, u32),
    /// Size without the outpainted margins.
    pub own_size: (u32, u32),
    pub margins: OutpaintMargins,
    /// Visible tiles, from back to front.
    pub shown: Vec<ShownTile>,
    pub can_undo: bool,
    pub can_redo: bool,
}

/// Tasks during which painting is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskTask {
    Filtering,
    Extending,
    Keeping,
}

/// Drawing while the pointer is down.
struct MaskStroke {
    tool: MaskTool,
    erases: bool,
    /// Last position of the brush, two corners of a rectangle, all places of a lasso.
    points: Vec<[f32; 2]>,
}

pub struct MaskEditor {
    /// Of this editor among those of the window.
    pub number: u64,
    /// Image of the mask, its file, and the mask that it started from or was saved as.
    pub(super) of: MaskOf,
    image: PathBuf,
    mask_file: Option<PathBuf>,
    /// Mean colour of the image, from which the overlay has to differ.
    pub mean_rgb: [u8; 3],
    /// True if the image can be outpainted.
    pub can_extend: bool,
    /// The control that gets it, before, and how many of its frames.
    pub(super) extending: Option<(InputMedia, u32)>,
    pub painted: PaintedMask,
    pub busy: Option<MaskTask>,
    /// True if it was painted on since it was opened or saved.
    pub(super) is_changed: bool,
    /// Jobs are submitted as soon as the mask is in its slot.
    pub(super) is_submit_due: bool,
    /// True while a mask that was not painted on for a moment is saved.
    pub(super) is_saving: bool,
    /// Since when nothing was painted, on the window's clock.
    pub(super) idle_since: Option<f64>,
    /// Mask that the slot had when the editor opened.
    pub(super) mask_before: Option<InputMedia>,
    stroke: Option<MaskStroke>,
    pub(super) waiting: VecDeque<PaintCommand>,
    orders: Sender<PaintCommand>,
    pub(super) said: BackgroundTask<MaskEvent>,
    /// Visible area that the page wants.
    pub view: Option<VisibleTiles>,
    sent_view: Option<VisibleTiles>,
}

impl MaskEditor {
    pub(super) fn new(number: u64, opened: &OpenedMask, orders: Sender<PaintCommand>) -> Self {
        Self {
            number,
            of: opened.of,
            image: opened.source.path().to_path_buf(),
            mask_file: opened.mask_file.clone(),
            mean_rgb: opened.levels.mean_rgb(),
            can_extend: false,
            extending: None,
            painted: PaintedMask {
                size: (opened.mask.width(), opened.mask.height()),
                ..PaintedMask::default()
            },
            busy: None,
            is_changed: false,
            is_submit_due: false,
            is_saving: false,
            idle_since: None,
            mask_before: None,
            stroke: None,
            waiting: VecDeque::new(),
            orders,
            said: BackgroundTask::default(),
            view: None,
            sent_view: None,
        }
    }

    pub fn size(&self) -> Vec2 {
        let (width, height) = self.painted.size;
        Vec2::new(width as f32, height as f32)
    }

    pub fn name(&self) -> String {
        file_name(&self.image)
    }

    /// Returns whether this is what is to be painted on, with this mask.
    pub(super) fn goes_on(&self, of: MaskOf, source: &InputMedia, mask: Option<&Path>) -> bool {
        let is_own = self.mask_file.as_deref() == mask || (mask.is_none() && self.is_changed);
        self.of == of && self.image == source.path() && is_own
    }

    pub fn is_painting(&self) -> bool {
        self.stroke.is_some()
    }

    /// Corners of the outline that is being drawn, in pixels of the image, and whether it erases.
    pub fn outline(&self) -> Option<(Vec<[f32; 2]>, bool)> {
        let stroke = self.stroke.as_ref()?;
        let corners = match (stroke.tool, stroke.points.as_slice()) {
            (MaskTool::Rectangle, &[[x, y], [to_x, to_y]]) => {
                vec![[x, y], [to_x, y], [to_x, to_y], [x, to_y]]
            }
            (MaskTool::Lasso, points) if points.len() > 1 => points.to_vec(),
            _ => return None,
        };
        Some((corners, stroke.erases))
    }

    /// Drops the outline that is being drawn. Returns whether there was one.
    pub(super) fn cancel_outline(&mut self) -> bool {
        let is_outline = |stroke: &mut MaskStroke| stroke.tool != MaskTool::Brush;
        self.stroke.take_if(is_outline).is_some()
    }

    /// New visible area where this part of the image is shown, at `dots_a_pixel` screen dots per pixel; `None` if it is
    /// unchanged.
    pub fn changed_view(&self, seen: Rect, dots_a_pixel: f32) -> Option<VisibleTiles> {
        let view = VisibleTiles::from_view(self.painted.size, seen, dots_a_pixel);
        (self.view.as_ref() != Some(&view)).then_some(view)
    }

    /// A part of a stroke. Where the pointer tells of more places than a large brush needs, they become one part; no
    /// place of a part is far from where that begins, so a way there and back stays two parts.
    fn draw(&mut self, from: [f32; 2], to: [f32; 2], brush: MaskBrush) {
        let is_near =
            |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) < brush.radius / 16.0;
        match self.waiting.back_mut() {
            Some(PaintCommand::Stroke(begin, end, with))
                if *end == from
                    && *with == brush
                    && is_near(*begin, from)
                    && is_near(*begin, to) =>
            {
                *end = to;
            }
            _ => self.change(PaintCommand::Stroke(from, to, brush)),
        }
    }

    fn change(&mut self, order: PaintCommand) {
        self.is_changed = true;
        self.idle_since = None;
        self.waiting.push_back(order);
    }

    /// Gives the painter what waits, as far as there is room. It says when it has done something, and then there is
    /// room again.
    pub(super) fn hand_over(&mut self) {
        // Strokes that wait do not hold it up.
        if let Some(view) = self.view.clone().filter(|_| self.view != self.sent_view)
            && self.orders.try_send(PaintCommand::Look(view)).is_ok()
        {
            self.sent_view.clone_from(&self.view);
        }
        while let Some(order) = self.waiting.pop_front() {
            if let Err(err) = self.orders.try_send(order) {
                self.waiting.push_front(err.into_inner());
                return;
            }
        }
    }

    pub(super) fn run(&mut self, command: &MaskCommand) {
        match *command {
            MaskCommand::Begin(at, brush, tool) => {
                self.stroke = Some(MaskStroke {
                    tool,
                    erases: brush.erases,
                    points: vec![at],
                });
                if tool == MaskTool::Brush {
                    self.change(PaintCommand::Begin);
                    self.draw(at, at, brush);
                }
            }
            MaskCommand::Move(to, brush) => {
                let Some(MaskStroke {
                    tool,
                    erases,
                    points,
                }) = &mut self.stroke
                else {
                    return;
                };
                match tool {
                    MaskTool::Lasso => points.push(to),
                    MaskTool::Rectangle => *points = vec![points[0], to],
                    MaskTool::Brush => {
                        let (from, erases) = (std::mem::replace(&mut points[0], to), *erases);
                        self.draw(from, to, MaskBrush { erases, ..brush });
                    }
                }
            }
            MaskCommand::End => {
                if let Some((corners, erases)) = self.outline() {
                    self.change(PaintCommand::Begin);
                    self.change(PaintCommand::Outline(corners, erases));
                }
                self.stroke = None;
            }
            MaskCommand::Fill => self.change(PaintCommand::Fill(255)),
            MaskCommand::Clear => self.change(PaintCommand::Fill(0)),
            MaskCommand::Invert => self.change(PaintCommand::Invert),
            MaskCommand::Filter(filter) => {
                self.busy = Some(MaskTask::Filtering);
                self.change(PaintCommand::Filter(filter));
            }
            MaskCommand::Extend(outpaint) if self.can_extend => {
                self.busy = Some(MaskTask::Extending);
                self.stroke = None;
                self.change(PaintCommand::Extend(outpaint));
            }
            MaskCommand::Undo => self.change(PaintCommand::Undo),
            MaskCommand::Redo => self.change(PaintCommand::Redo),
            MaskCommand::Open(_)
            | MaskCommand::Extend(_)
            | MaskCommand::Use
            | MaskCommand::Discard => {}
        }
    }

    pub(super) fn poll(&mut self, cx: &mut AppContext) {
        while let Some(said) = self.said.take() {
            match said {
                MaskEvent::Opened(_) => {}
                MaskEvent::Painted(painted) => self.painted = painted,
                MaskEvent::Done(done) => {
                    // It may be on its way to its file already.
                    self.busy = self.busy.filter(|busy| *busy == MaskTask::Keeping);
                    if let Err(err) = done {
                        cx.notify(NoticeSeverity::Warning, err);
                    }
                }
                MaskEvent::Kept(Ok(kept)) if std::mem::take(&mut self.is_saving) => {
                    self.mask_file = Some(kept.path);
                }
                MaskEvent::Kept(Ok(kept)) => {
                    self.busy = None;
                    self.mask_file = Some(kept.path);
                    if let Some((image, size)) = kept.extended {
                        self.image = image;
                        self.follow_extended(size, cx);
                    }
                    self.is_changed = false;
                    if cx.page == MainPage::Mask {
                        cx.show(MainPage::Watch);
                    }
                    cx.say("The mask is in the form");
                }
                MaskEvent::Kept(Err(err)) => {
                    self.busy = None;
                    (self.is_submit_due, self.is_saving) = (false, false);
                    // Not again before something else is painted.
                    (self.is_changed, self.idle_since) = (true, Some(f64::INFINITY));
                    cx.notify(NoticeSeverity::Error, err);
                }
                MaskEvent::Empty => {
                    if !std::mem::take(&mut self.is_saving) {
                        (self.busy, self.is_changed) = (None, false);
                    }
                    if self.mask_file.take().is_some() {
                        // The mask in the slot is an earlier state of this one.
                        cx.push(match self.of {
                            MaskOf::Start => InputsCommand::Remove(InputSlot::Mask),
                            MaskOf::Control(index) => InputsCommand::RemoveControlMask(index),
                        });
                    }
                }
            }
        }
    }

    fn follow_extended(&mut self, size: (u32, u32), cx: &mut AppContext) {
        match (self.of, cx.model().cloned()) {
            (MaskOf::Start, Some(spec)) => cx.form.set_outpaint(&spec, size),
            (MaskOf::Control(_), _) => {
                if let Some((control, num_frames)) = self.extending.take() {
                    cx.form.set_control_outpaint(&control, size, num_frames);
                }
            }
            (MaskOf::Start, None) => {}
        }
    }

    /// Returns whether it was painted over the form's image and is in no slot yet.
    pub(super) fn is_pending(&self, inputs: &InputSlots) -> bool {
        let Some((source, mask)) = inputs.masked(self.of) else {
            return false;
        };
        let mask = mask.map(InputMedia::path);
        let is_own = mask.is_none() || mask == self.mask_file.as_deref();
        let is_due = self.is_changed || self.is_saving || self.busy == Some(MaskTask::Keeping);
        is_due && is_own && source.path() == self.image
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::mask::tiles::ImagePyramid;
    use crossbeam_channel::{Receiver, bounded};
    use safelight_core::job::StartImage;
    use safelight_core::media::{ImageMask, RgbPixels};

    /// An editor whose painter takes nothing but what the test takes.
    fn editor() -> (MaskEditor, Receiver<PaintCommand>) {
        let image = RgbPixels::from_fn(8, 8, |_, _| [0; 3]).unwrap();
        let opened = OpenedMask {
            of: MaskOf::Start,
            source: InputMedia::Image(StartImage {
                path: PathBuf::from("photo.png"),
                width: 8,
                height: 8,
            }),
            mask_file: None,
            mask: ImageMask::new(8, 8),
            levels: ImagePyramid::from_image(image).unwrap(),
        };
        let (orders, taken) = bounded(1);
        (MaskEditor::new(1, &opened, orders), taken)
    }

    const BRUSH: MaskBrush = MaskBrush {
        radius: 4.0,
        softness: 0.3,
        erases: false,
    };

    fn at(radii: f32) -> [f32; 2] {
        [radii * BRUSH.radius, 0.0]
    }

    fn all_orders(editor: &mut MaskEditor, taken: &Receiver<PaintCommand>) -> Vec<String> {
        words(std::iter::from_fn(|| {
            editor.hand_over();
            taken.try_recv().ok()
        }))
    }

    fn words(orders: impl Iterator<Item = PaintCommand>) -> Vec<String> {
        orders.map(|order| format!("{order:?}")).collect()
    }

    #[test]
    fn paint_commands_faster_than_the_painter_are_queued_in_order() {
        let (mut editor, taken) = editor();
        editor.run(&MaskCommand::Begin(at(0.0), BRUSH, MaskTool::Brush));
        for x in 1..=300_u16 {
            editor.run(&MaskCommand::Move(at(f32::from(x)), BRUSH));
            // A frame, in which nobody waits for the painter.
            editor.hand_over();
        }
        for command in [MaskCommand::End, MaskCommand::Fill, MaskCommand::Undo] {
            editor.run(&command);
        }
        let strokes = (0..=300_u16).map(|to| {
            let from = to.saturating_sub(1);
            PaintCommand::Stroke(at(f32::from(from)), at(f32::from(to)), BRUSH)
        });
        let expected = [PaintCommand::Begin].into_iter().chain(strokes);
        let expected = expected.chain([PaintCommand::Fill(255), PaintCommand::Undo]);
        assert_eq!(all_orders(&mut editor, &taken), words(expected));
    }

    #[test]
    fn short_moves_are_merged_into_one_stroke_and_reversals_are_kept() {
        let (mut editor, taken) = editor();
        editor.run(&MaskCommand::Begin(at(0.0), BRUSH, MaskTool::Brush));
        for to in [0.01, 0.02, 0.03, 9.0, 0.03, 9.0, 9.01, 9.02] {
            editor.run(&MaskCommand::Move(at(to), BRUSH));
        }
        let places = [0.0, 0.03, 9.0, 0.03, 9.0, 9.02];
        let parts = places.windows(2);
        let parts = parts.map(|it| PaintCommand::Stroke(at(it[0]), at(it[1]), BRUSH));
        let expected = [PaintCommand::Begin].into_iter().chain(parts);
        assert_eq!(all_orders(&mut editor, &taken), words(expected));
    }
}
