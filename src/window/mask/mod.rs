//! Mask page: opening a mask over the start image, a video or a control, and saving it as their mask.
//!
//! Painting: the `painter` thread, which gets the commands of pointer and buttons in order.

mod editor;
mod painter;
pub mod panel;
pub mod tiles;

use std::collections::VecDeque;
use std::rc::Rc;

use crossbeam_channel::bounded;
use safelight_core::files::{make_private, make_private_folder};
use safelight_core::job::{self, margins_for};
use safelight_core::media::{self, ImageMask, OutpaintRequest};
use safelight_core::naming;

use crate::window::background::survived;
use crate::window::inputs::{InputSlots, sized};
use crate::window::mask::tiles::ImagePyramid;
use crate::window::prelude::*;

pub use editor::{MaskEditor, MaskTask, PaintedMask};
use painter::{MaskPainter, ORDER_ROOM, PaintCommand};

/// Pause in painting after which the mask is saved, in seconds.
const SAVE_AFTER_SECS: f64 = 4.0;
/// Memory limit of all undoable canvas sizes.
const MAX_BYTES: usize = 512 << 20;

enum MaskEvent {
    Opened(Result<Box<MaskEditor>, JobError>),
    Painted(PaintedMask),
    /// The whole mask was changed, or its image extended.
    Done(Result<(), JobError>),
    Kept(Result<KeptMask, JobError>),
    /// Nothing is painted, so there was nothing to keep.
    Empty,
}

/// Painted masks, and the images and videos that outpainting extended.
pub fn masks_folder(paths: &AppPaths) -> PathBuf {
    paths.data.join("masks")
}

struct KeptMask {
    path: PathBuf,
    /// The extended image or video that it is for, and its size.
    extended: Option<(PathBuf, (u32, u32))>,
}

/// The command as the model can do it: room for whole multiples, and no more than it makes.
fn fitted(
    command: MaskCommand,
    editor: &MaskEditor,
    cx: &AppContext,
) -> Result<MaskCommand, JobError> {
    let MaskCommand::Extend(mut wanted) = command else {
        return Ok(command);
    };
    let no_model = "choose a model first, which says what sizes can be made";
    let spec = cx.model().ok_or_else(|| JobError::invalid(no_model))?;
    if !wanted.margins.are_none() {
        let margins = margins_for(spec, editor.painted.own_size, wanted.margins);
        wanted.margins = margins.map_err(JobError::invalid)?;
    }
    Ok(MaskCommand::Extend(wanted))
}

fn takes_mask(of: MaskOf, inputs: &InputSlots, form: &GenerateForm, spec: &ModelSpec) -> bool {
    match of {
        MaskOf::Start if inputs.video().is_some() => form.changes_video(spec),
        MaskOf::Start => spec.mask.is_possible(),
        MaskOf::Control(index) => inputs.may_mask_control(index, spec),
    }
}

fn can_extend(of: MaskOf, source: &InputMedia, spec: &ModelSpec) -> bool {
    match of {
        MaskOf::Start => matches!(source, InputMedia::Image(_)),
        MaskOf::Control(_) => spec.limits.controls.can_extend(),
    }
}

#[derive(Default)]
pub struct MaskPage {
    pub editor: Option<MaskEditor>,
    /// Events of the mask that is being opened.
    opening: BackgroundTask<MaskEvent>,
    /// Number of opened editors so far; the last one has this number.
    num_opened: u64,
    was_shown: bool,
    /// The page was left: what is painted goes into its slot.
    is_keep_due: bool,
}

impl MaskPage {
    pub fn is_opening(&self) -> bool {
        self.opening.is_busy()
    }

    pub(super) fn cancel_outline(&mut self) -> bool {
        let editor = self.editor.as_mut();
        editor.is_some_and(MaskEditor::cancel_outline)
    }

    /// Another image can be opened: none is, and no mask is on its way to its file.
    pub fn is_free(&self) -> bool {
        let editor = self.editor.as_ref();
        !self.is_opening() && editor.is_none_or(|editor| editor.busy != Some(MaskTask::Keeping))
    }

    pub fn update(&mut self, command: MaskCommand, inputs: &mut InputSlots, cx: &mut AppContext) {
        match command {
            MaskCommand::Open(of) => self.open(of, inputs, cx),
            MaskCommand::Discard => {
                if let Some(editor) = self.editor.take() {
                    inputs.discard_mask(editor.of, editor.mask_before);
                }
                self.is_keep_due = false;
                cx.show(MainPage::Watch);
            }
            MaskCommand::Use => {
                if self.editor.as_ref().is_some_and(|it| it.busy.is_none()) {
                    self.keep(true, inputs, cx);
                }
            }

            other => {
                let editor = self.editor.as_mut();
                if let Some(editor) = editor.filter(|editor| editor.busy.is_none()) {
                    match fitted(other, editor, cx) {
                        Ok(command) => editor.run(&command),
                        Err(err) => cx.notify(NoticeSeverity::Warning, err),
                    }
                }
            }
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        match self.opening.take() {
            Some(MaskEvent::Opened(Ok(mut editor))) => {
                editor.said = std::mem::take(&mut self.opening);
                self.editor = Some(*editor);
                cx.show(MainPage::Mask);
            }
            Some(MaskEvent::Opened(Err(err))) => cx.notify(NoticeSeverity::Error, err),
            _ => {}
        }
        if let Some(editor) = &mut self.editor {
            editor.poll(cx);
        }
    }

    /// Once a frame, so that places of one frame can become one part of a stroke. Saves the mask in its slot after a
    /// pause in painting and when its page is left.
    pub(super) fn follow(&mut self, inputs: &mut InputSlots, cx: &mut AppContext) {
        let is_shown = cx.page == MainPage::Mask;
        self.is_keep_due |= self.was_shown && !is_shown;
        self.was_shown = is_shown;
        let is_pending = self.pending(inputs, cx).is_some();
        let Some(editor) = &mut self.editor else {
            return;
        };
        if editor.busy.is_none() && !editor.is_saving {
            if std::mem::take(&mut self.is_keep_due) && is_pending {
                self.keep(false, inputs, cx);
            } else if is_pending
                && is_shown
                && editor.is_changed
                && !editor.is_painting()
                // The mask alone can be saved while it is painted.
                && editor.painted.margins.are_none()
            {
                let since = *editor.idle_since.get_or_insert(cx.now_secs);
                if cx.is_due(since + SAVE_AFTER_SECS) {
                    editor.is_saving = true;
                    self.keep(false, inputs, cx);
                }
            }
        }
        if let Some(editor) = &mut self.editor {
            editor.hand_over();
        }
    }

    /// Returns whether there is an image to paint on, for a model that accepts a mask of it; a mask video cannot be
    /// painted.
    pub fn can_open(&self, of: MaskOf, inputs: &InputSlots, cx: &AppContext) -> bool {
        let takes = |spec: &ModelSpec| takes_mask(of, inputs, &cx.form, spec);
        let is_still =
            |(_, mask): (_, Option<&InputMedia>)| !matches!(mask, Some(InputMedia::Video(_)));
        inputs.masked(of).is_some_and(is_still) && cx.model().is_some_and(takes)
    }

    /// Continues the mask of this image; otherwise opens the image and its existing mask.
    fn open(&mut self, of: MaskOf, inputs: &InputSlots, cx: &mut AppContext) {
        let Some((source, mask)) = inputs.masked(of).filter(|_| self.can_open(of, inputs, cx))
        else {
            return;
        };
        let mask_before = mask.cloned();
        let mask = mask.map(|mask| mask.path().to_path_buf());
        if let Some(editor) = &self.editor
            && editor.goes_on(of, source, mask.as_deref())
        {
            cx.show(MainPage::Mask);
            return;
        }
        if !self.is_free() {
            return;
        }
        self.num_opened += 1;
        let (number, ctx, source) = (self.num_opened, cx.ctx.clone(), source.clone());
        let can_extend = cx.model().is_some_and(|spec| can_extend(of, &source, spec));
        self.opening = cx.background.stream("mask", move |postbox| {
            match survived(|| open(of, source, mask)) {
                Ok(opened) => {
                    let (orders, taken) = bounded(ORDER_ROOM);
                    let mut editor = MaskEditor::new(number, &opened, orders);
                    editor.can_extend = can_extend;
                    editor.mask_before = mask_before;
                    postbox.post(MaskEvent::Opened(Ok(Box::new(editor))));
                    MaskPainter::new(opened, ctx, postbox).run(&taken);
                }
                Err(err) => {
                    postbox.post(MaskEvent::Opened(Err(err)));
                }
            }
        });
    }

    /// Unsaved mask in no slot yet, for the checks of the form: its image, and its shape.
    pub(super) fn pending(
        &self,
        inputs: &InputSlots,
        cx: &AppContext,
    ) -> Option<(MaskOf, StartImage)> {
        let editor = self.editor.as_ref()?;
        let of = editor.of;
        let takes = |spec: &ModelSpec| takes_mask(of, inputs, &cx.form, spec);
        if !editor.is_pending(inputs) || !cx.model().is_some_and(takes) {
            return None;
        }
        // Of its shape, also where it comes with an extended one.
        Some((of, sized(inputs.masked(of)?.0)))
    }

    /// Jobs are wanted: whether what is painted comes into its place first, after which [`Self::is_submit_due`].
    pub(super) fn holds_up_jobs(&mut self, inputs: &mut InputSlots, cx: &mut AppContext) -> bool {
        if self.pending(inputs, cx).is_none() {
            return false;
        }
        if let Some(editor) = &mut self.editor
            && !std::mem::replace(&mut editor.is_submit_due, true)
            && editor.busy != Some(MaskTask::Keeping)
        {
            self.keep(false, inputs, cx);
        }
        true
    }

    /// Returns whether what was painted is in its place now, and jobs wait for that.
    pub(super) fn is_submit_due(&mut self, inputs: &InputSlots) -> bool {
        self.editor.as_mut().is_some_and(|editor| {
            let is_kept = editor.busy != Some(MaskTask::Keeping) && !inputs.is_opening();
            is_kept && std::mem::take(&mut editor.is_submit_due)
        })
    }

    fn keep(&mut self, may_be_empty: bool, inputs: &mut InputSlots, cx: &mut AppContext) {
        let Some(editor) = &mut self.editor else {
            return;
        };
        let Some(paths) = &cx.paths else {
            (editor.is_submit_due, editor.is_saving) = (false, false);
            editor.idle_since = Some(f64::INFINITY);
            let err = JobError::new(JobErrorKind::Disk, "there is no folder to save a mask in");
            cx.notify(NoticeSeverity::Error, err);
            return;
        };
        if editor.is_saving {
            // Painting continues meanwhile.
            editor.is_changed = false;
        } else {
            editor.busy = Some(MaskTask::Keeping);
        }
        let masked = inputs.masked(editor.of).zip(cx.model());
        editor.extending = masked
            .map(|((source, _), spec)| (source.clone(), cx.form.frames_to_extend(spec, source)));
        let keep = PaintCommand::Keep {
            num_frames: editor.extending.as_ref().map_or(1, |(_, number)| *number),
            folder: masks_folder(paths),
            image_place: inputs.expect(cx),
            place: inputs.expect(cx),
            may_be_empty,
        };
        // Behind all that was painted.
        editor.waiting.push_back(keep);
    }
}

struct MaskCanvas {
    pub mask: ImageMask,
    pub levels: ImagePyramid,
    /// The image as it was opened, and what was painted on it, where it has room at its sides.
    pub own: Option<(Rc<RgbPixels>, ImageMask)>,
    pub outpaint: OutpaintRequest,
    /// True if it was painted on since it got this size.
    pub is_painted: bool,
}

impl MaskCanvas {
    /// Without the image as it was opened, which all of them share.
    fn bytes(&self) -> usize {
        self.mask.values().len() + self.levels.bytes()
    }
}

#[derive(Default)]
struct CanvasHistory {
    done: VecDeque<MaskCanvas>,
    undone: Vec<MaskCanvas>,
}

impl CanvasHistory {
    fn push(&mut self, before: MaskCanvas) {
        self.undone.clear();
        self.done.push_back(before);
        let mut bytes: usize = self.done.iter().map(MaskCanvas::bytes).sum();
        while bytes > MAX_BYTES
            && self.done.len() > 1
            && let Some(oldest) = self.done.pop_front()
        {
            bytes -= oldest.bytes();
        }
    }

    /// Takes the canvas before the last step back or forth, in whose place comes what `swap` gives for it; whether there
    /// is one.
    fn step(&mut self, is_back: bool, swap: impl FnOnce(MaskCanvas) -> MaskCanvas) -> bool {
        let canvas = if is_back {
            self.done.pop_back()
        } else {
            self.undone.pop()
        };
        let other = canvas.map(swap);
        let is_any = other.is_some();
        if is_back {
            self.undone.extend(other);
        } else {
            self.done.extend(other);
        }
        is_any
    }
}

struct OpenedMask {
    of: MaskOf,
    source: InputMedia,
    mask_file: Option<PathBuf>,
    mask: ImageMask,
    levels: ImagePyramid,
}

fn open(
    of: MaskOf,
    source: InputMedia,
    mask_file: Option<PathBuf>,
) -> Result<OpenedMask, JobError> {
    let image = job::first_of(&source).map_err(|err| opening_error(&err))?;
    let (width, height) = (image.width, image.height);
    let mask = match &mask_file {
        Some(path) => media::open_mask(path, width, height).map_err(|err| opening_error(&err))?,
        None => ImageMask::new(width, height),
    };
    Ok(OpenedMask {
        of,
        source,
        mask_file,
        mask,
        levels: ImagePyramid::from_image(image).map_err(|err| opening_error(&err))?,
    })
}

/// Writes a mask under a new name: waiting jobs may use an earlier one.
fn keep(folder: &Path, image: &Path, mask: &ImageMask) -> Result<PathBuf, JobError> {
    let stem = image.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{}-mask-{}.png", naming::slug(&stem), JobId::next());
    let path = folder.join(name);
    kept(make_private_folder(folder), folder)?;
    let written = media::write_mask(&path, mask.width(), mask.height(), mask.values());
    kept(written, folder)?;
    kept(make_private(&path), folder)?;
    Ok(path)
}

fn kept<T>(result: Result<T, impl std::error::Error>, folder: &Path) -> Result<T, JobError> {
    result.map_err(|err| {
        JobError::from_error(JobErrorKind::Disk, &err).advise(format!(
            "What you painted is still here. Free some space or make this folder writable, then use the mask again: {}",
            folder.display()
        ))
    })
}

fn opening_error(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose the image or the mask again")
}
