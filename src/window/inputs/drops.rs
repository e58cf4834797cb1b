//! Files dragged over and dropped onto the window, and pasted images.
//!
//! [`crate::window::inputs`] chooses their slots.

use crossbeam_channel::Receiver;
use egui::{Event, HoveredFile, Pos2, RawInput, Rect, pos2};
use safelight_core::files::has_ending;
use safelight_core::media::has_video_name;
use safelight_core::restore;

use crate::window::create::choices::ControlPart;
use crate::window::inputs::InputSlots;
use crate::window::inputs::wayland_drop::FileDrag;
use crate::window::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoveredFiles {
    pub num_files: usize,
    /// True if the first file has the name of a video.
    pub is_video: bool,
}

impl HoveredFiles {
    /// If the window system only reports that there are some.
    const UNKNOWN: Self = Self {
        num_files: 1,
        is_video: false,
    };

    fn from_files(files: &[HoveredFile]) -> Option<Self> {
        let mut paths: Vec<_> = files.iter().map(|file| file.path.as_deref()).collect();
        let is_video = paths.first()?.is_some_and(has_video_name);
        // Some window systems tell of each file again whenever it moves.
        paths.sort_unstable();
        paths.dedup();
        Some(Self {
            num_files: paths.len(),
            is_video,
        })
    }
}

#[derive(Default)]
pub struct DroppedFiles {
    pub held: Option<HoveredFiles>,
    /// Number of dragged files that the window system reported and never withdrew.
    num_stale: usize,
    /// Drags, where the window library does not report them.
    drags: Option<Receiver<FileDrag>>,
    /// The one file that is held, and whether it says how it was made, once that is known.
    held_file: Option<PathBuf>,
    has_settings: bool,
    looking: BackgroundTask<bool>,
    zones: DropZones,
}

/// The zones for settings and for the file itself, and when they were last seen. Some window systems take a held file
/// away a moment before it is dropped.
#[derive(Clone, Copy, Default)]
struct DropZones {
    places: [Option<Rect>; 2],
    seen_at: f64,
}

impl DropZones {
    /// So long they count when they are not seen any more.
    const STAY_SECS: f64 = 2.0;

    fn follow(&mut self, cx: &AppContext) {
        if cx.drawn.drop_zones != [None; 2] {
            *self = Self {
                places: cx.drawn.drop_zones,
                seen_at: cx.now_secs,
            };
        } else if cx.now_secs - self.seen_at > Self::STAY_SECS {
            *self = Self::default();
        }
    }

    /// True if a file dropped here is used for its settings; for itself.
    fn at(&self, pos: Pos2) -> [bool; 2] {
        self.places
            .map(|place| place.is_some_and(|place| place.contains(pos)))
    }
}

impl DroppedFiles {
    pub fn new(drags: Option<Receiver<FileDrag>>) -> Self {
        Self {
            drags,
            ..Self::default()
        }
    }

    pub fn is_on_wayland(&self) -> bool {
        self.drags.is_some()
    }

    pub fn has_zones(&self) -> bool {
        // Wayland tells nothing of a file before it is dropped.
        let may_have = self.has_settings || self.is_on_wayland();
        may_have && self.held.is_some_and(|held| held.num_files == 1)
    }

    fn look_at_held(&mut self, cx: &AppContext) {
        let path = cx.ctx.input(|input| {
            let held = &input.raw.hovered_files;
            let path = held.first().and_then(|file| file.path.clone());
            // Of several, of which some systems tell again and again.
            path.filter(|path| held.iter().all(|file| file.path.as_ref() == Some(path)))
        });
        let path = path.filter(|path| !is_settings_file(path, true));
        if path != self.held_file {
            self.held_file.clone_from(&path);
            (self.has_settings, self.looking) = (false, BackgroundTask::default());
            if let Some(path) = path {
                self.looking = cx.background.run("look-for-settings", move || {
                    restore::read(&path).is_ok_and(|found| found.is_some())
                });
            }
        }
        if let Some(has_settings) = self.looking.take() {
            self.has_settings = has_settings;
        }
    }

    pub fn poll(&mut self, inputs: &mut InputSlots, cx: &mut AppContext) {
        let (dropped, pasted, pos) = cx.ctx.input(|input| {
            let pasted = input.events.iter().find_map(|event| match event {
                Event::PasteImage(image) => Some(Arc::clone(image)),
                _ => None,
            });
            let dropped = input.raw.dropped_files.iter();
            let paths: Vec<PathBuf> = dropped.map(|file| file.path().to_path_buf()).collect();
            (paths, pasted, input.pointer.latest_pos())
        });
        self.zones.follow(cx);
        self.drop_at(dropped, pos, cx);
        self.take_drags(cx);
        self.look_at_held(cx);
        if let (Some(image), Some(paths)) = (pasted, &cx.paths) {
            inputs.paste(image, paths.data.join("pasted"), cx);
        }
    }

    /// Takes away what was said of held files and never taken back: egui paints without end while there are some.
    pub fn forget_stale(&mut self, input: &mut RawInput) {
        let files = &mut input.hovered_files;
        if input.events.iter().any(is_of_free_pointer) {
            self.num_stale = files.len();
        }
        self.num_stale = self.num_stale.min(files.len());
        files.drain(..self.num_stale);
    }

    fn take_drags(&mut self, cx: &mut AppContext) {
        let Some(drags) = &self.drags else {
            self.held = cx
                .ctx
                .input(|input| HoveredFiles::from_files(&input.raw.hovered_files));
            return;
        };
        let drags: Vec<FileDrag> = drags.try_iter().collect();
        for drag in drags {
            self.held = (drag == FileDrag::Held).then_some(HoveredFiles::UNKNOWN);
            if let FileDrag::Dropped(paths, (x, y)) = drag {
                let pos = pos2(x as f32, y as f32) / cx.ctx.zoom_factor();
                self.drop_at(paths, Some(pos), cx);
            }
        }
    }

    fn drop_at(&mut self, mut paths: Vec<PathBuf>, pos: Option<Pos2>, cx: &mut AppContext) {
        if paths.is_empty() {
            return;
        }
        let zones = std::mem::take(&mut self.zones);
        let is_one = paths.len() == 1;
        match pos.map(|pos| zones.at(pos)) {
            Some([true, _]) if is_one => cx.push(RestoreCommand::Use(paths.remove(0))),
            Some([_, true]) if is_one => {
                let placing = SlotTarget::onto(Some(InputSlot::Start));
                cx.push(InputsCommand::Open(paths, placing));
            }
            _ => {
                let placing = pos.map(|pos| place_at(pos, cx)).unwrap_or_default();
                drop_files(paths, placing, cx);
            }
        }
    }
}

pub fn drop_files(paths: Vec<PathBuf>, placing: SlotTarget, cx: &mut AppContext) {
    // Those that are settings and nothing else: of several the first counts.
    let is_alone = paths.len() == 1;
    let (settings, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths
        .into_iter()
        .partition(|path| is_settings_file(path, is_alone));
    if let Some(path) = settings.into_iter().next() {
        cx.push(RestoreCommand::Use(path));
    }
    if !paths.is_empty() {
        cx.push(RestoreCommand::LookAt(
            paths.clone(),
            placing.slot.is_some(),
        ));
        cx.push(InputsCommand::Open(paths, placing));
    }
}

/// Returns whether a dropped file can only contain settings, by its name. A text among other files is more likely a
/// mistake, which is reported.
fn is_settings_file(path: &std::path::Path, is_alone: bool) -> bool {
    has_ending(path, &["json"]) || (is_alone && has_ending(path, &["txt"]))
}

/// Slot drawn at this position. The slots of the controls' masks are inside that of the controls.
fn place_at(pos: Pos2, cx: &AppContext) -> SlotTarget {
    let is_here = |rect: &Option<Rect>| rect.is_some_and(|rect| rect.contains(pos));
    if let Some(index) = cx.drawn.control_masks.iter().position(is_here) {
        return ControlPart::Mask(index).into();
    }
    let mut places = InputSlot::ALL.into_iter().zip(cx.drawn.slots);
    SlotTarget::onto(places.find(|(_, rect)| is_here(rect)).map(|(slot, _)| slot))
}

/// While something is dragged the pointer is another program's: if it moves here, what was last said of files came too
/// late, after they had been let go.
fn is_of_free_pointer(event: &Event) -> bool {
    matches!(event, Event::PointerMoved(_) | Event::PointerButton { .. })
}
