//! Files that are held over the window and let go there, pasted pictures, and where opened files go.
//!
//! What stands where is decided by [`crate::app::inputs`]; files are opened on the file thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::{Context, Event, HoveredFile, pos2};
use safelight_core::job::{JobError, JobErrorKind};

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::commands::AppCommand;
use crate::app::form::SizeChoice;
use crate::app::form::thing_of;
use crate::app::inputs::opening::{OpenedInputs, continue_file, opened_one};
use crate::app::inputs::wayland_drop::FileDrag;
use crate::app::inputs::{Input, Placing, Slot, second_slot};
use crate::app::loras::LorasCommand;
use crate::app::notices::Notice;
use crate::app::restore::is_settings_file;
use crate::app::state::{Held, Models, Severity, color_image};

impl App {
    /// Takes in what was dropped and pasted since the last frame.
    pub(in crate::app) fn take_files(&mut self, ctx: &Context) {
        let (dropped, pasted, pos) = ctx.input(|input| {
            let pasted = input.events.iter().find_map(|event| match event {
                Event::PasteImage(image) => Some(Arc::clone(image)),
                _ => None,
            });
            let dropped = input.raw.dropped_files.iter();
            let paths: Vec<PathBuf> = dropped.map(|file| file.path().to_path_buf()).collect();
            (paths, pasted, input.pointer.latest_pos())
        });
        let slot = pos.and_then(|pos| self.session.inputs.slot_at(pos));
        self.drop_files(dropped, slot);
        self.take_drags(ctx);
        if let (Some(image), Some(paths)) = (pasted, &self.paths) {
            let task = Task::KeepPasted(image, paths.data.join("pasted"));
            self.open(task);
        }
    }

    fn take_drags(&mut self, ctx: &Context) {
        let Some(drags) = &self.drags else {
            let stale = &mut self.session.num_stale_hovers;
            self.session.held = ctx.input(|input| {
                let files = &input.raw.hovered_files;
                if input.events.iter().any(is_of_free_pointer) {
                    *stale = files.len();
                }
                *stale = (*stale).min(files.len());
                Held::of(&files[*stale..])
            });
            return;
        };
        let drags: Vec<FileDrag> = drags.try_iter().collect();
        for drag in drags {
            self.session.held = (drag == FileDrag::Held).then_some(Held::UNKNOWN);
            if let FileDrag::Dropped(paths, (x, y)) = drag {
                let pos = pos2(x as f32, y as f32) / ctx.zoom_factor();
                let slot = self.session.inputs.slot_at(pos);
                self.drop_files(paths, slot);
            }
        }
    }

    pub(in crate::app) fn drop_files(&mut self, paths: Vec<PathBuf>, slot: Option<Slot>) {
        // Those that are settings and nothing else: of several the first counts.
        let is_alone = paths.len() == 1;
        let (settings, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths
            .into_iter()
            .partition(|path| is_settings_file(path, is_alone));
        let settings = settings.into_iter().next();
        self.commands
            .extend(settings.map(AppCommand::UseSettingsOfFile));
        if !paths.is_empty() {
            self.look_for_settings(&paths);
            let placing = Placing {
                slot,
                keeps_size: false,
            };
            self.commands.push(AppCommand::OpenInputs(paths, placing));
        }
    }

    /// Has files opened, unless there are more than places: then what they are for is asked. LoRAs go where they belong.
    /// All of that depends on the model: what comes before the models are known waits for them.
    pub(in crate::app) fn open_inputs(&mut self, mut paths: Vec<PathBuf>, placing: Placing) {
        if matches!(self.session.models, Models::Loading) {
            self.session.early_files.push((paths, placing));
            return;
        }
        for path in paths.extract_if(.., |path| is_weight_file(path)) {
            self.commands
                .push(AppCommand::Loras(LorasCommand::Add(path)));
        }
        if !paths.is_empty() && !self.ask_about(&paths, placing) {
            self.open_paths(paths, placing);
        }
    }

    /// Has files opened: two when the model goes by two, else one.
    pub(in crate::app) fn open_paths(&mut self, paths: Vec<PathBuf>, placing: Placing) {
        let room = 1 + usize::from(self.second_slot().is_some() && paths.len() > 1);
        self.open(Task::OpenInputs {
            paths,
            placing,
            room,
            edit: self.session.queue.edited(),
        });
    }

    /// The clip becomes the one to go on from.
    pub(in crate::app) fn continue_from_file(&mut self, path: PathBuf) {
        let placing = Placing {
            slot: Some(Slot::Start),
            keeps_size: false,
        };
        self.open(Task::Work(Box::new(move || {
            let opened = continue_file(&path);
            Some(Answer::Inputs(opened_one(opened, placing)))
        })));
    }

    pub(in crate::app) fn open(&mut self, task: Task) {
        if self.background.run(task) {
            self.session.inputs.num_opening += 1;
        }
    }

    fn second_slot(&self) -> Option<Slot> {
        second_slot(self.session.model(&self.state.form)?)
    }

    /// Gives opened files their places.
    pub(in crate::app) fn take_inputs(&mut self, ctx: &Context, found: OpenedInputs) {
        let second = self.second_slot();
        let inputs = &mut self.session.inputs;
        inputs.num_opening = inputs.num_opening.saturating_sub(1);
        if found.edit.is_some() && found.edit != self.session.queue.edited() {
            // The form has its own pictures again.
            return;
        }
        let is_pair = found.opened.len() > 1;
        let names: Vec<String> = found
            .opened
            .iter()
            .map(|input| input.source.file_name())
            .collect();
        let num_left = found.num_files - found.opened.len() - found.problems.len();
        if !found.opened.is_empty() {
            self.session.forget_refused_inputs();
        }
        for problem in found.problems {
            self.session.show_notice(Notice::of_input(problem));
        }
        if num_left > 0 && !names.is_empty() {
            self.say_left_out(found.num_files, &names);
        }
        let mut is_shape_new = false;
        for (index, opened) in found.opened.into_iter().enumerate() {
            let wish = match (is_pair, index) {
                (false, _) => found.placing.slot,
                (true, 0) => Some(Slot::Start),
                (true, _) => second,
            };
            let name = opened.source.file_name();
            let thumb = ctx.load_texture(&name, color_image(&opened.thumb), Default::default());
            let input = Input {
                source: opened.source,
                thumb,
            };
            let slot = self.session.inputs.place(input, wish, second);
            is_shape_new |= slot != Slot::Mask;
            if wish.is_some_and(|wish| wish != slot) {
                let text = format!("{name} is a clip: it is gone on from at the start");
                let what = if wish == Some(Slot::Mask) {
                    "A mask"
                } else {
                    "An end picture"
                };
                let notice = JobError::new(JobErrorKind::InvalidRequest, text)
                    .advise(format!("{what} is a picture"));
                self.session.notify(Severity::Info, notice);
            }
        }
        if is_shape_new && !found.placing.keeps_size {
            // The picture says which shape the clip has.
            self.state.form.size = SizeChoice::Auto;
        }
    }

    fn say_left_out(&mut self, num_files: usize, taken: &[String]) {
        let model = self.session.model(&self.state.form);
        let thing = thing_of(model);
        let reason = match self.second_slot() {
            Some(Slot::Mask) => "There is one picture and one mask".to_owned(),
            Some(_) => "A clip has one start and one end picture".to_owned(),
            None => format!("A {thing} starts from one picture"),
        };
        let text = match taken {
            [one] => format!("only one of {num_files} files was taken: {one}"),
            _ => format!(
                "only {} of {num_files} files were taken",
                taken.join(" and ")
            ),
        };
        let notice = JobError::new(JobErrorKind::InvalidRequest, text).advise(format!(
            "{reason}. Press Generate, then drop the next one: it waits in the queue"
        ));
        self.session.notify(Severity::Info, notice);
    }
}

impl Held {
    fn of(files: &[HoveredFile]) -> Option<Self> {
        let mut paths: Vec<_> = files.iter().map(|file| file.path.as_deref()).collect();
        let is_clip = paths.first()?.is_some_and(has_clip_name);
        // Some window systems tell of each file again whenever it moves.
        paths.sort_unstable();
        paths.dedup();
        Some(Self {
            num_files: paths.len(),
            is_clip,
        })
    }
}

/// While something is dragged the pointer is another program's: if it moves here, what was last said of files came too
/// late, after they had been let go.
fn is_of_free_pointer(event: &Event) -> bool {
    matches!(event, Event::PointerMoved(_) | Event::PointerButton { .. })
}

/// For what is said before a file is let go; what it is, its contents tell.
fn has_clip_name(path: &Path) -> bool {
    const ENDINGS: [&str; 5] = ["mp4", "m4v", "mov", "webm", "mkv"];
    path.extension().is_some_and(|kind| {
        ENDINGS
            .iter()
            .any(|ending| kind.eq_ignore_ascii_case(ending))
    })
}

/// A file of weights is a LoRA, or is told not to be one.
fn is_weight_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("safetensors"))
}
