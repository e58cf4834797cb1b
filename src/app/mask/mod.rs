//! Painting a mask over the start picture: what is open, and how it becomes the Mask input.
//!
//! Paints nothing itself: what pointer and buttons ask for goes in order to the mask's own thread, the `painter`.

mod opening;
mod painter;
pub mod tiles;
mod words;

use std::collections::VecDeque;
use std::path::PathBuf;

use crossbeam_channel::{Sender, bounded};
use egui::{Rect, Vec2};
use safelight_core::job::{JobError, JobErrorKind, StartPicture, margins_for};
use safelight_core::media::{Brush, Margins, Outpaint};

use crate::app::background::guard::survived;
use crate::app::commands::MaskCommand;
use crate::app::cx::Cx;
use crate::app::inputs::{Inputs, Slot};
use crate::app::notices::Severity;
use crate::app::pending::Stream;
use crate::app::state::Page;
use opening::Opened;
use painter::{ORDER_ROOM, Order, Painter};
use tiles::{Shown, Sight};

/// What the mask's thread says.
enum Said {
    /// First of all.
    Opened(Result<Box<Editor>, JobError>),
    /// It looks like this now.
    Painted(Painted),
    Softened(Result<(), JobError>),
    /// The picture has room at its sides now, or why not.
    Extended(Result<(), JobError>),
    /// It is in this file, or why not.
    Kept(Result<KeptMask, JobError>),
    /// Nothing is painted, so there was nothing to keep.
    Empty,
}

/// A mask in its file.
struct KeptMask {
    path: PathBuf,
    /// The extended picture that it is for, and its size.
    extended: Option<(PathBuf, (u32, u32))>,
}

/// What there is of a mask after some orders.
#[derive(Default)]
pub struct Painted {
    /// Width and height of the picture with its room.
    pub size: Option<(u32, u32)>,
    /// The same without the room at its sides.
    pub own_size: (u32, u32),
    pub margins: Margins,
    /// What is seen of it, from the back to the front.
    pub shown: Vec<Shown>,
    pub can_undo: bool,
    pub can_redo: bool,
}

/// What takes so long that nothing can be painted meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    Softening,
    Extending,
    Keeping,
}

/// One mask that is painted.
pub struct Editor {
    /// Of this editor among those of the window.
    pub number: u64,
    /// What it lies on, and the mask that it began with or was kept as.
    picture: PathBuf,
    mask_file: Option<PathBuf>,
    width: u32,
    height: u32,
    /// It is a picture, and no clip's last frame.
    pub can_extend: bool,
    pub painted: Painted,
    pub busy: Option<Busy>,
    /// Something was painted since it was opened or kept.
    is_changed: bool,
    /// Jobs are made as soon as it is in its place.
    is_submit_due: bool,
    /// Where the pointer was in the stroke that goes on, and whether that erases.
    stroke: Option<([f32; 2], bool)>,
    /// What the painter has no room for yet.
    waiting: VecDeque<Order>,
    orders: Sender<Order>,
    said: Stream<Said>,
    /// What is in sight, and what the painter was told of it.
    sight: Option<Sight>,
    told_sight: Option<Sight>,
}

impl Editor {
    fn new(number: u64, opened: &Opened, orders: Sender<Order>) -> Self {
        Self {
            number,
            picture: opened.picture.clone(),
            mask_file: opened.mask_file.clone(),
            width: opened.mask.width(),
            height: opened.mask.height(),
            can_extend: opened.is_picture,
            painted: Painted::default(),
            busy: None,
            is_changed: false,
            is_submit_due: false,
            stroke: None,
            waiting: VecDeque::new(),
            orders,
            said: Stream::default(),
            sight: None,
            told_sight: None,
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

    /// What is to be seen of it where this part of the picture is in sight, with so many dots of the screen a pixel;
    /// nothing where that is known.
    pub fn news_of_sight(&self, seen: Rect, dots_a_pixel: f32) -> Option<Sight> {
        let sight = Sight::of(self.width, self.height, seen, dots_a_pixel);
        (self.sight.as_ref() != Some(&sight)).then_some(sight)
    }

    /// A part of a stroke. Where the pointer tells of more places than a large brush needs, they become one part.
    fn draw(&mut self, from: [f32; 2], to: [f32; 2], brush: Brush) {
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
        // Strokes that wait do not hold it up.
        if let Some(sight) = self.sight.clone().filter(|_| self.sight != self.told_sight)
            && self.orders.try_send(Order::Look(sight)).is_ok()
        {
            self.told_sight.clone_from(&self.sight);
        }
        while let Some(order) = self.waiting.pop_front() {
            if let Err(err) = self.orders.try_send(order) {
                self.waiting.push_front(err.into_inner());
                return;
            }
        }
    }

    fn run(&mut self, command: &MaskCommand) {
        match *command {
            MaskCommand::Begin(at, brush) => {
                self.change(Order::Begin);
                self.stroke = Some((at, brush.erases));
                self.draw(at, at, brush);
            }
            MaskCommand::Move(to, brush) => {
                if let Some((from, erases)) = self.stroke {
                    self.draw(from, to, Brush { erases, ..brush });
                    self.stroke = Some((to, erases));
                }
            }
            MaskCommand::End => self.stroke = None,
            MaskCommand::Fill => self.change(Order::Fill(255)),
            MaskCommand::Clear => self.change(Order::Fill(0)),
            MaskCommand::Invert => self.change(Order::Invert),
            MaskCommand::Soften(by) => {
                self.busy = Some(Busy::Softening);
                self.change(Order::Soften(by));
            }
            MaskCommand::Extend(outpaint) if self.can_extend => {
                self.busy = Some(Busy::Extending);
                self.stroke = None;
                self.change(Order::Extend(outpaint));
            }
            MaskCommand::Undo => self.change(Order::Undo),
            MaskCommand::Redo => self.change(Order::Redo),
            MaskCommand::Open
            | MaskCommand::See(_)
            | MaskCommand::Extend(_)
            | MaskCommand::Use
            | MaskCommand::Discard => {}
        }
    }

    fn poll(&mut self, cx: &mut Cx) {
        while let Some(said) = self.said.take() {
            match said {
                Said::Opened(_) => {}
                Said::Painted(painted) => {
                    if let Some((width, height)) = painted.size {
                        (self.width, self.height) = (width, height);
                    }
                    self.painted = painted;
                }
                Said::Extended(extended) => {
                    self.busy = self.busy.filter(|busy| *busy == Busy::Keeping);
                    if let Err(err) = extended {
                        cx.tell(Severity::Warning, err);
                    }
                }
                Said::Softened(softened) => {
                    // It may be on its way to its file already.
                    self.busy = self.busy.filter(|busy| *busy == Busy::Keeping);
                    if let Err(err) = softened {
                        cx.tell(Severity::Warning, err);
                    }
                }
                Said::Kept(Ok(kept)) => {
                    self.busy = None;
                    self.mask_file = Some(kept.path);
                    if let Some((picture, size)) = kept.extended {
                        self.picture = picture;
                        if let Some(spec) = cx.model().cloned() {
                            cx.form.set_outpaint(&spec, size);
                        }
                    }
                    self.is_changed = false;
                    if cx.page == Page::Mask {
                        cx.show(Page::Watch);
                    }
                    cx.say(words::IN_PLACE);
                }
                Said::Kept(Err(err)) => {
                    self.busy = None;
                    self.is_submit_due = false;
                    cx.tell(Severity::Error, err);
                }
                Said::Empty => {
                    self.busy = None;
                    self.is_changed = false;
                }
            }
        }
    }

    /// Whether it was painted over the start picture and is in no place yet.
    fn is_pending(&self, inputs: &Inputs) -> bool {
        let start = inputs.sources().image;
        let mask = inputs.get(Slot::Mask).map(|input| input.source.path());
        let is_own = mask.is_none() || mask == self.mask_file.as_deref();
        (self.is_changed || self.busy == Some(Busy::Keeping))
            && is_own
            && start.is_some_and(|start| start.path == self.picture)
    }
}

/// The command as the model can do it: room for whole multiples, and no more than it makes.
fn fitted(command: MaskCommand, editor: &Editor, cx: &Cx) -> Result<MaskCommand, JobError> {
    let MaskCommand::Extend(wanted) = command else {
        return Ok(command);
    };
    let refused = |what: String| JobError::new(JobErrorKind::InvalidRequest, what);
    let Some(spec) = cx.model() else {
        return Err(refused(words::NO_MODEL.to_owned()));
    };
    if wanted.margins.are_none() {
        return Ok(MaskCommand::Extend(wanted));
    }
    let margins = margins_for(spec, editor.painted.own_size, wanted.margins).map_err(refused)?;
    Ok(MaskCommand::Extend(Outpaint { margins, ..wanted }))
}

/// Everything of masks in one window.
#[derive(Default)]
pub struct Masking {
    pub editor: Option<Editor>,
    /// Of the mask that is being opened.
    opening: Stream<Said>,
    /// How many were opened: the last one's number.
    num_opened: u64,
}

impl Masking {
    pub fn is_opening(&self) -> bool {
        self.opening.is_busy()
    }

    /// Another picture can be opened: none is, and no mask is on its way to its file.
    pub fn is_free(&self) -> bool {
        let editor = self.editor.as_ref();
        !self.is_opening() && editor.is_none_or(|editor| editor.busy != Some(Busy::Keeping))
    }

    pub fn update(&mut self, command: MaskCommand, inputs: &mut Inputs, cx: &mut Cx) {
        match command {
            MaskCommand::Open => self.open(inputs, cx),
            MaskCommand::Discard => {
                self.editor = None;
                cx.show(Page::Watch);
            }
            MaskCommand::Use => {
                if self.editor.as_ref().is_some_and(|it| it.busy.is_none()) {
                    self.keep(true, inputs, cx);
                }
            }
            MaskCommand::See(sight) => {
                if let Some(editor) = &mut self.editor {
                    editor.sight = Some(sight);
                }
            }
            other => {
                let editor = self.editor.as_mut();
                if let Some(editor) = editor.filter(|editor| editor.busy.is_none()) {
                    match fitted(other, editor, cx) {
                        Ok(command) => editor.run(&command),
                        Err(err) => cx.tell(Severity::Warning, err),
                    }
                }
            }
        }
    }

    pub fn poll(&mut self, cx: &mut Cx) {
        match self.opening.take() {
            Some(Said::Opened(Ok(mut editor))) => {
                editor.said = std::mem::take(&mut self.opening);
                self.editor = Some(*editor);
                cx.show(Page::Mask);
            }
            Some(Said::Opened(Err(err))) => cx.tell(Severity::Error, err),
            _ => {}
        }
        if let Some(editor) = &mut self.editor {
            editor.poll(cx);
        }
    }

    /// Once a frame, so that places of one frame can become one part of a stroke.
    pub(super) fn follow(&mut self) {
        if let Some(editor) = &mut self.editor {
            editor.hand_over();
        }
    }

    /// What was painted on this picture goes on; else the picture is opened, and the mask that there is.
    fn open(&mut self, inputs: &Inputs, cx: &mut Cx) {
        let Some(start) = inputs.get(Slot::Start).cloned() else {
            return;
        };
        let mask = inputs.get(Slot::Mask);
        let mask = mask.map(|input| input.source.path().to_path_buf());
        if let Some(editor) = &self.editor
            && editor.picture == start.source.path()
            && (editor.mask_file == mask || (mask.is_none() && editor.is_changed))
        {
            cx.show(Page::Mask);
            return;
        }
        if !self.is_free() {
            return;
        }
        self.num_opened += 1;
        let (number, ctx) = (self.num_opened, cx.ctx.clone());
        self.opening = cx.background.stream("mask", move |postbox| {
            match survived(|| opening::open(&start.source, mask)) {
                Ok(opened) => {
                    let (orders, taken) = bounded(ORDER_ROOM);
                    let editor = Editor::new(number, &opened, orders);
                    postbox.post(Said::Opened(Ok(Box::new(editor))));
                    Painter::new(opened, ctx, postbox).run(&taken);
                }
                Err(err) => {
                    postbox.post(Said::Opened(Err(err)));
                }
            }
        });
    }

    /// What is painted over the start picture and in no place yet, as the form is checked with it.
    pub(super) fn pending(&self, inputs: &Inputs) -> Option<StartPicture> {
        let editor = self.editor.as_ref()?;
        // Of its shape, also where it comes with an extended one.
        let start = inputs.sources().image.cloned();
        start.filter(|_| editor.is_pending(inputs))
    }

    /// Jobs are wanted: whether what is painted comes into its place first, after which [`Self::is_submit_due`].
    pub(super) fn holds_up_jobs(&mut self, inputs: &mut Inputs, cx: &mut Cx) -> bool {
        let takes_masks = cx.model().is_some_and(|spec| spec.mask.is_possible());
        if !takes_masks || self.pending(inputs).is_none() {
            return false;
        }
        if let Some(editor) = &mut self.editor
            && !std::mem::replace(&mut editor.is_submit_due, true)
            && editor.busy != Some(Busy::Keeping)
        {
            self.keep(false, inputs, cx);
        }
        true
    }

    /// Whether what was painted is in its place now, and jobs wait for that.
    pub(super) fn is_submit_due(&mut self, inputs: &Inputs) -> bool {
        self.editor.as_mut().is_some_and(|editor| {
            let is_kept = editor.busy != Some(Busy::Keeping) && !inputs.is_opening();
            is_kept && std::mem::take(&mut editor.is_submit_due)
        })
    }

    /// Writes the mask into the data folder and opens it as the Mask input.
    fn keep(&mut self, may_be_empty: bool, inputs: &mut Inputs, cx: &mut Cx) {
        let Some(editor) = &mut self.editor else {
            return;
        };
        let Some(paths) = &cx.paths else {
            editor.is_submit_due = false;
            let err = JobError::new(JobErrorKind::Disk, words::NO_FOLDER);
            cx.tell(Severity::Error, err);
            return;
        };
        editor.busy = Some(Busy::Keeping);
        let keep = Order::Keep {
            folder: paths.data.join("masks"),
            picture_place: inputs.expect(cx),
            place: inputs.expect(cx),
            may_be_empty,
        };
        // Behind all that was painted.
        editor.waiting.push_back(keep);
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
            is_picture: true,
            levels: Levels::of(picture).unwrap(),
        };
        let (orders, taken) = bounded(1);
        let mut editor = Editor::new(1, &opened, orders);
        let brush = Brush {
            radius: 4.0,
            softness: 0.3,
            erases: false,
        };
        let at = |x: u32| [x as f32 * brush.radius, 0.0];
        editor.run(&MaskCommand::Begin(at(0), brush));
        for x in 1..=300 {
            editor.run(&MaskCommand::Move(at(x), brush));
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
