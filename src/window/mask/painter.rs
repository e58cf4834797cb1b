//! The thread on which one mask is painted, from its opening to its closing: it carries out orders one after the other
//! and keeps the squares in view up to date.
//!
//! A large brush and a whole mask take far longer than a frame. Here that is no matter: the window never waits, and
//! the order of the orders is that of the clicks.

use std::rc::Rc;

use crossbeam_channel::Receiver;
use safelight_core::job;
use safelight_core::media::{
    self, ExtendedImage, ImageMask, MaskBrush, MaskFilter, OutpaintFill, OutpaintMargins,
    OutpaintRequest, PixelArea, extend_image,
};

use crate::window::background::survived;
use crate::window::create::choices::ControlPart;
use crate::window::inputs::opening::{OpenedInputs, continue_file, open_input, opened_one};
use crate::window::mask::tiles::{ImagePyramid, TileCache, VisibleTiles};
use crate::window::mask::{
    CanvasHistory, KeptMask, MaskCanvas, MaskEvent, OpenedMask, PaintedMask, keep, kept,
    opening_error,
};
use crate::window::prelude::*;

/// Capacity of the order queue: more than the stroke segments of one frame.
pub(super) const ORDER_ROOM: usize = 32;
/// Duration of painting and of renewing tiles before the window is updated.
const STINT: Duration = Duration::from_millis(8);

#[derive(Debug)]
pub(super) enum PaintCommand {
    /// The strokes that follow are one step for undo.
    Begin,
    /// From, to, and with this brush; in pixels of the image.
    Stroke([f32; 2], [f32; 2], MaskBrush),
    /// Corners in pixels of the image; true erases what is inside.
    Outline(Vec<[f32; 2]>, bool),
    Fill(u8),
    Invert,
    Filter(MaskFilter),
    Extend(OutpaintRequest),
    Undo,
    Redo,
    /// Writes the mask into a file of this folder, and uses it as the mask of its image; an empty mask that is not
    /// allowed to be empty is not written.
    Keep {
        folder: PathBuf,
        place: TaskChannel<OpenedInputs>,
        /// Destination of the outpainted image.
        image_place: TaskChannel<OpenedInputs>,
        may_be_empty: bool,
        /// Number of frames of an outpainted control video.
        num_frames: u32,
    },
    Look(VisibleTiles),
}

pub(super) struct MaskPainter<'a> {
    of: MaskOf,
    source: InputMedia,
    mask: ImageMask,
    tiles: TileCache,
    /// The image as it was opened, and what was painted on it, where it has room at its sides.
    own: Option<(Rc<RgbPixels>, ImageMask)>,
    outpaint: OutpaintRequest,
    is_painted: bool,
    sizes: CanvasHistory,
    ctx: Context,
    postbox: &'a TaskChannel<MaskEvent>,
}

impl<'a> MaskPainter<'a> {
    pub(super) fn new(
        opened: OpenedMask,
        ctx: Context,
        postbox: &'a TaskChannel<MaskEvent>,
    ) -> Self {
        Self {
            of: opened.of,
            source: opened.source,
            mask: opened.mask,
            tiles: TileCache::new(opened.levels),
            own: None,
            outpaint: OutpaintRequest::default(),
            is_painted: false,
            sizes: CanvasHistory::default(),
            ctx,
            postbox,
        }
    }

    /// Works until the editor is gone and all its orders are carried out.
    pub(super) fn run(mut self, orders: &Receiver<PaintCommand>) {
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

    fn carry_out(&mut self, order: PaintCommand) {
        if let PaintCommand::Begin
        | PaintCommand::Fill(_)
        | PaintCommand::Invert
        | PaintCommand::Filter(_) = order
        {
            self.sizes.undone.clear();
        }
        let touched = match order {
            PaintCommand::Begin => {
                self.mask.begin_step();
                PixelArea::default()
            }
            PaintCommand::Stroke(from, to, brush) => self.mask.stroke(from, to, brush),
            PaintCommand::Outline(corners, erases) => self.mask.fill_polygon(&corners, erases),
            PaintCommand::Fill(value) => self.mask.fill(value),
            PaintCommand::Invert => self.mask.invert(),
            PaintCommand::Filter(filter) => self.filter(filter),
            PaintCommand::Extend(outpaint) => {
                let extended = survived(|| self.extend(outpaint));
                // Its size is known before any other request.
                self.show(Instant::now());
                self.postbox.post(MaskEvent::Done(extended));
                PixelArea::default()
            }
            PaintCommand::Undo => self.step(true),
            PaintCommand::Redo => self.step(false),
            PaintCommand::Keep {
                folder,
                place,
                image_place,
                may_be_empty,
                num_frames,
            } => {
                if self.own.is_some() {
                    self.keep_extended(&folder, num_frames, &place, &image_place);
                } else if may_be_empty || self.mask.values().iter().any(|value| *value > 0) {
                    self.keep(&folder, &place);
                } else {
                    self.postbox.post(MaskEvent::Empty);
                }
                PixelArea::default()
            }
            PaintCommand::Look(view) => {
                self.tiles.look_at(view);
                PixelArea::default()
            }
        };
        if !touched.is_empty() {
            self.is_painted = true;
            self.tiles.touch(touched);
        }
    }

    /// Tells what there is; whether it is all that there should be.
    fn show(&mut self, until: Instant) -> bool {
        let is_whole = self.tiles.renew(&self.ctx, &self.mask, until);
        let size = (self.mask.width(), self.mask.height());
        let own = self.own.as_ref();
        let painted = PaintedMask {
            size,
            own_size: own.map_or(size, |(image, _)| (image.width, image.height)),
            margins: self.outpaint.margins,
            shown: self.tiles.visible_tiles(),
            can_undo: self.mask.can_undo() || !self.sizes.done.is_empty(),
            can_redo: self.mask.can_redo() || !self.sizes.undone.is_empty(),
        };
        self.postbox.post(MaskEvent::Painted(painted));
        is_whole
    }

    fn filter(&mut self, filter: MaskFilter) -> PixelArea {
        let values = survived(|| Ok(self.mask.filtered(filter)));
        let touched = values.map(|values| self.mask.replace(&values));
        let area = touched.as_ref().copied().unwrap_or_default();
        self.postbox.post(MaskEvent::Done(touched.map(drop)));
        area
    }

    /// Takes one step back or forth: a change of the mask, or the extension before its first one.
    fn step(&mut self, is_back: bool) -> PixelArea {
        if is_back && self.mask.can_undo() {
            return self.mask.undo();
        }
        if !is_back && self.mask.can_redo() {
            return self.mask.redo();
        }
        let mut sizes = std::mem::take(&mut self.sizes);
        let is_resized = sizes.step(is_back, |canvas| self.swap(canvas));
        self.sizes = sizes;
        if is_resized {
            // Its size is known before any other request.
            self.show(Instant::now());
        }
        PixelArea::default()
    }

    /// Paints on this from now on; gives what was painted on.
    fn swap(&mut self, canvas: MaskCanvas) -> MaskCanvas {
        MaskCanvas {
            mask: std::mem::replace(&mut self.mask, canvas.mask),
            levels: self.tiles.replace(canvas.levels),
            own: std::mem::replace(&mut self.own, canvas.own),
            outpaint: std::mem::replace(&mut self.outpaint, canvas.outpaint),
            is_painted: std::mem::replace(&mut self.is_painted, canvas.is_painted),
        }
    }

    /// Gives the image as it was opened this room, instead of what it has. What was painted on the image stays, and
    /// what was painted on earlier room goes with that; undo brings it back.
    fn extend(&mut self, outpaint: OutpaintRequest) -> Result<(), JobError> {
        let mask = &self.mask;
        let (image, painted) = match &self.own {
            Some((image, _)) if self.is_painted => {
                let painted = part_of(mask, image, self.outpaint.margins);
                (Rc::clone(image), painted)
            }
            Some((image, painted)) => (Rc::clone(image), painted.clone()),
            None => {
                let values = mask.values().to_vec();
                let painted = ImageMask::from_values(mask.width(), mask.height(), values);
                (Rc::new(self.tiles.image().clone()), painted)
            }
        };
        let filling = match self.of {
            MaskOf::Start => OutpaintFill::BlurredEdge,
            MaskOf::Control(_) => OutpaintFill::Gray,
        };
        let made = extend_image(&image, Some(&painted), outpaint, filling)
            .and_then(|made| Ok((made.mask, ImagePyramid::from_image(made.image)?)));
        let (mask, levels) = made.map_err(|err| opening_error(&err))?;
        // Undone steps before this cannot be redone.
        self.mask.begin_step();
        let before = self.swap(MaskCanvas {
            mask,
            levels,
            own: (!outpaint.margins.are_none()).then_some((image, painted)),
            outpaint,
            is_painted: false,
        });
        self.sizes.push(before);
        Ok(())
    }

    /// Saves both to files and puts them into their slots; from then on the outpainted image is painted on.
    fn keep_extended(
        &mut self,
        folder: &Path,
        num_frames: u32,
        place: &TaskChannel<OpenedInputs>,
        image_place: &TaskChannel<OpenedInputs>,
    ) {
        let kept = survived(|| match self.of {
            MaskOf::Start => {
                let extended = ExtendedImage {
                    image: self.tiles.image().clone(),
                    mask: self.mask.clone(),
                };
                let stem = self.source.path().file_stem().unwrap_or_default();
                let stem = stem.to_string_lossy();
                let written = media::write_extended(folder, &stem, &extended);
                let (image, mask) = kept(written, folder)?;

                let (width, height) = (self.mask.width(), self.mask.height());
                let image = StartImage {
                    path: image,
                    width,
                    height,
                };
                Ok((InputMedia::Image(image), mask))
            }
            MaskOf::Control(_) => {
                let (margins, mask) = (self.outpaint.margins, &self.mask);
                let source = &self.source;
                let made = job::write_extended_video(folder, source, num_frames, margins, mask);
                let (source, mask) = kept(made, folder)?;
                Ok((source, mask.path))
            }
        });
        let kept = kept.map(|(source, mask)| {
            let (of_source, of_mask) = places_of(self.of);
            let path = source.path().to_path_buf();
            let opened = match &source {
                InputMedia::Image(_) => open_input(&path),
                InputMedia::Video(_) => continue_file(&path),
            };
            image_place.post(opened_one(opened, of_source));
            place.post(opened_one(open_input(&mask), of_mask));
            self.source = source;
            self.own = None;
            // Earlier sizes are those of another image now.
            self.sizes = CanvasHistory::default();
            self.outpaint.margins = OutpaintMargins::default();
            KeptMask {
                path: mask,
                extended: Some((path, (self.mask.width(), self.mask.height()))),
            }
        });
        self.postbox.post(MaskEvent::Kept(kept));
    }

    fn keep(&self, folder: &Path, place: &TaskChannel<OpenedInputs>) {
        let kept = survived(|| keep(folder, self.source.path(), &self.mask));
        if let Ok(path) = &kept {
            place.post(opened_one(open_input(path), places_of(self.of).1));
        }
        let kept = kept.map(|path| KeptMask {
            path,
            extended: None,
        });
        self.postbox.post(MaskEvent::Kept(kept));
    }
}

fn places_of(of: MaskOf) -> (SlotTarget, SlotTarget) {
    let onto = |slot| SlotTarget {
        keeps_size: true,
        ..SlotTarget::onto(Some(slot))
    };
    match of {
        MaskOf::Start => (onto(InputSlot::Start), onto(InputSlot::Mask)),
        MaskOf::Control(index) => {
            let parts = (ControlPart::Source(index), ControlPart::Mask(index));
            (parts.0.into(), parts.1.into())
        }
    }
}

/// Part of a mask that covers an image with these margins.
fn part_of(mask: &ImageMask, image: &RgbPixels, margins: OutpaintMargins) -> ImageMask {
    let (width, height) = (image.width, image.height);
    let area = PixelArea {
        left: margins.left,
        top: margins.top,
        right: margins.left + width,
        bottom: margins.top + height,
    };
    ImageMask::from_values(width, height, mask.means(area, 0))
}
