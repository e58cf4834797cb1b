//! Painting a mask over the start picture: what is open, which brush, and how it becomes the Mask input.
//!
//! Pictures are opened, softened and written on threads of their own. The pixels are
//! [`safelight_core::media::Mask`]'s, what is seen of them is [`tiles`]'s.

mod opening;
pub mod tiles;

use std::collections::VecDeque;
use std::path::PathBuf;

use egui::{Context, Vec2};
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{Area, Brush, Mask, softened};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::background::guard::survived;
use crate::app::inputs::opening::{open_input, opened_one};
use crate::app::inputs::{Placing, Slot};
use crate::app::state::{Page, Severity};
pub use opening::Opened;
use tiles::Tiles;

/// The brush's diameter in pixels of the picture.
pub const MIN_BRUSH: f32 = 1.0;
pub const MAX_BRUSH: f32 = 2000.0;
/// How far edges may be softened, in pixels of the picture.
pub const MAX_SOFTEN: u32 = 200;

/// Pixels that strokes may look at in one frame; what is left waits for the next one.
const PIXELS_A_FRAME: u64 = 6 << 20;

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

/// What threads say of it.
pub enum MaskAnswer {
    Opened(Result<Box<Opened>, JobError>),
    /// Of the editor with this number.
    Softened(u64, Vec<u8>),
    /// It is in this file, or why not.
    Kept(u64, Result<PathBuf, JobError>),
}

/// What a thread does for the editor at this moment.
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
    pub mask: Mask,
    pub tiles: Tiles,
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
    /// Parts of strokes that are not painted yet: from, to, and with what.
    waiting: VecDeque<([f32; 2], [f32; 2], Brush)>,
}

impl Editor {
    fn new(number: u64, opened: Opened) -> Self {
        let Opened {
            picture,
            mask_file,
            mask,
            levels,
        } = opened;
        let side = mask.width().max(mask.height()) as f32;
        Self {
            number,
            picture,
            mask_file,
            tiles: Tiles::new(levels),
            mask,
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
        }
    }

    /// Width and height of the picture.
    pub fn size(&self) -> Vec2 {
        Vec2::new(self.mask.width() as f32, self.mask.height() as f32)
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

    /// A part of a stroke, to be painted soon. Where the pointer tells of more places than a large brush needs, they
    /// become one part.
    fn draw(&mut self, from: [f32; 2], to: [f32; 2], erases: bool) {
        let brush = self.brush(erases);
        let is_near =
            |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) < brush.radius / 16.0;
        match self.waiting.back_mut() {
            Some(last) if last.1 == from && last.2 == brush && is_near(last.0, to) => last.1 = to,
            _ => self.waiting.push_back((from, to, brush)),
        }
    }

    /// Paints parts of strokes until about so many pixels were looked at.
    fn paint_waiting(&mut self, mut pixels: u64) {
        while pixels > 0
            && let Some((from, to, brush)) = self.waiting.pop_front()
        {
            let touched = self.mask.stroke(from, to, brush);
            pixels = pixels.saturating_sub(touched.pixels());
            self.touch(touched);
        }
    }

    fn touch(&mut self, touched: Area) {
        if !touched.is_empty() {
            self.tiles.touch(touched);
            self.is_changed = true;
        }
    }

    /// Carries out what needs no thread.
    fn run(&mut self, command: &MaskCommand) {
        if !matches!(command, MaskCommand::Move(_) | MaskCommand::End) {
            self.paint_waiting(u64::MAX);
        }
        match *command {
            MaskCommand::Begin(at, erases) => {
                self.mask.begin_step();
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
            MaskCommand::Fill => {
                let touched = self.mask.fill(255);
                self.touch(touched);
            }
            MaskCommand::Clear => {
                let touched = self.mask.fill(0);
                self.touch(touched);
            }
            MaskCommand::Invert => {
                let touched = self.mask.invert();
                self.touch(touched);
            }
            MaskCommand::Undo => {
                let touched = self.mask.undo();
                self.touch(touched);
            }
            MaskCommand::Redo => {
                let touched = self.mask.redo();
                self.touch(touched);
            }
            MaskCommand::Open | MaskCommand::Soften | MaskCommand::Use | MaskCommand::Discard => {}
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
    pub(in crate::app) fn run_mask_command(&mut self, command: &MaskCommand) {
        match command {
            MaskCommand::Open => self.open_mask(),
            MaskCommand::Discard => {
                self.session.masking.editor = None;
                self.show_page(Page::Watch);
            }
            MaskCommand::Soften => self.soften_mask(),
            MaskCommand::Use => self.keep_mask(),
            other => {
                let editor = self.session.masking.editor.as_mut();
                if let Some(editor) = editor.filter(|editor| editor.busy.is_none()) {
                    editor.run(other);
                }
            }
        }
    }

    /// Paints what was stroked, as far as a frame has time for it.
    pub(in crate::app) fn paint_mask(&mut self, ctx: &Context) {
        if let Some(editor) = &mut self.session.masking.editor {
            editor.paint_waiting(PIXELS_A_FRAME);
            if !editor.waiting.is_empty() {
                ctx.request_repaint();
            }
        }
    }

    /// What was painted on this picture goes on; else the picture is opened, and the mask that there is.
    fn open_mask(&mut self) {
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
        if !masking.is_opening {
            masking.is_opening = true;
            self.background.spawn("open-mask", move |postbox| {
                let opened = survived(|| opening::open(&start, mask).map(Box::new));
                postbox.post(Answer::Mask(MaskAnswer::Opened(opened)));
            });
        }
    }

    fn soften_mask(&mut self) {
        let editor = self.session.masking.editor.as_mut();
        let Some(editor) = editor.filter(|editor| editor.busy.is_none()) else {
            return;
        };
        editor.paint_waiting(u64::MAX);
        editor.busy = Some(Busy::Softening);
        let (number, radius) = (editor.number, editor.soften_by);
        let (width, height) = (editor.mask.width(), editor.mask.height());
        let values = editor.mask.values().to_vec();
        self.background.spawn("soften-mask", move |postbox| {
            let soft = survived(|| Ok(softened(width, height, &values, radius)));
            let soft = soft.unwrap_or_else(|err| {
                postbox.post(Answer::Problem(err));
                // Without any, the mask stays as it is.
                Vec::new()
            });
            postbox.post(Answer::Mask(MaskAnswer::Softened(number, soft)));
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
        editor.paint_waiting(u64::MAX);
        editor.busy = Some(Busy::Keeping);
        let number = editor.number;
        let folder = paths.data.join("masks");
        let ticket = self.session.inputs.ticket();
        let picture = editor.picture.clone();
        let (width, height) = (editor.mask.width(), editor.mask.height());
        let values = editor.mask.values().to_vec();
        self.background.spawn("keep-mask", move |postbox| {
            let kept = survived(|| opening::keep(&folder, &picture, width, height, &values));
            if let Ok(path) = &kept {
                let placing = Placing {
                    slot: Some(Slot::Mask),
                    keeps_size: true,
                    ..Placing::default()
                };
                let opened = opened_one(open_input(path), placing, ticket);
                postbox.post(Answer::Inputs(opened));
            }
            postbox.post(Answer::Mask(MaskAnswer::Kept(number, kept)));
        });
    }

    pub(in crate::app) fn take_mask_answer(&mut self, answer: MaskAnswer) {
        let masking = &mut self.session.masking;
        match answer {
            MaskAnswer::Opened(opened) => {
                masking.is_opening = false;
                match opened {
                    Ok(opened) => {
                        masking.last_number += 1;
                        masking.editor = Some(Editor::new(masking.last_number, *opened));
                        self.show_page(Page::Mask);
                    }
                    Err(err) => self.session.notify(Severity::Error, err),
                }
            }
            MaskAnswer::Softened(number, values) => {
                if let Some(editor) = masking.of_number(number) {
                    editor.busy = None;
                    let touched = editor.mask.replace(&values);
                    editor.touch(touched);
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
    fn of_number(&mut self, number: u64) -> Option<&mut Editor> {
        let editor = self.editor.as_mut();
        editor.filter(|editor| editor.number == number)
    }
}
