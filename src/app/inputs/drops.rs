//! Files that are held over the window and let go there, pasted pictures, and where opened files go.
//!
//! What stands where is decided by [`crate::app::inputs`]; files are opened on the file thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::{Context, Event, HoveredFile, RawInput, pos2};
use safelight_core::job::{GenerateForm, JobError, JobErrorKind, SizeChoice};
use safelight_core::media::has_clip_name;

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::commands::AppCommand;
use crate::app::form::thing_of;
use crate::app::inputs::folders::{Given, unfold};
use crate::app::inputs::opening::{OpenedInputs, continue_file, opened_one};
use crate::app::inputs::wayland_drop::FileDrag;
use crate::app::inputs::{Input, Inputs, Placing, Slot, Ticket, second_slot};
use crate::app::loras::LorasCommand;
use crate::app::notices::Notice;
use crate::app::queue::editing::Editing;
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
        self.drop_files(dropped, Placing::onto(slot));
        self.take_drags(ctx);
        if let (Some(image), Some(paths)) = (pasted, &self.paths) {
            let ticket = self.session.inputs.ticket();
            let folder = paths.data.join("pasted");
            self.background.run(Task::KeepPasted(image, folder, ticket));
        }
    }

    /// Takes away what was said of held files and never taken back: egui paints without end while there are some.
    pub(in crate::app) fn forget_stale_hovers(&mut self, input: &mut RawInput) {
        let stale = &mut self.session.num_stale_hovers;
        let files = &mut input.hovered_files;
        if input.events.iter().any(is_of_free_pointer) {
            *stale = files.len();
        }
        *stale = (*stale).min(files.len());
        files.drain(..*stale);
    }

    fn take_drags(&mut self, ctx: &Context) {
        let Some(drags) = &self.drags else {
            self.session.held = ctx.input(|input| Held::of(&input.raw.hovered_files));
            return;
        };
        let drags: Vec<FileDrag> = drags.try_iter().collect();
        for drag in drags {
            self.session.held = (drag == FileDrag::Held).then_some(Held::UNKNOWN);
            if let FileDrag::Dropped(paths, (x, y)) = drag {
                let pos = pos2(x as f32, y as f32) / ctx.zoom_factor();
                let slot = self.session.inputs.slot_at(pos);
                self.drop_files(paths, Placing::onto(slot));
            }
        }
    }

    pub(in crate::app) fn drop_files(&mut self, paths: Vec<PathBuf>, placing: Placing) {
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
            self.commands.push(AppCommand::OpenInputs(paths, placing));
        }
    }

    /// Takes files as an input: folders stand for the pictures in them, and LoRAs go where they belong. All of that
    /// depends on the model: what comes before the models are known waits for them.
    pub(in crate::app) fn open_inputs(&mut self, mut paths: Vec<PathBuf>, placing: Placing) {
        if matches!(self.session.models, Models::Loading) {
            self.session.early_files.push((paths, placing));
            return;
        }
        let loras: Vec<PathBuf> = paths.extract_if(.., |path| is_weight_file(path)).collect();
        if !loras.is_empty() {
            let add = LorasCommand::Add(loras);
            self.commands.push(AppCommand::Loras(add));
        }
        if !paths.is_empty() {
            let ticket = self.session.inputs.ticket();
            self.background.run(Task::Work(Box::new(move || {
                Some(Answer::Given(unfold(paths, placing, ticket)))
            })));
        }
    }

    /// Has files opened, unless there are more than places: then what they are for is asked.
    pub(in crate::app) fn take_given(&mut self, given: Given) {
        if self.awaiting(&given.ticket).is_none() {
            return;
        }
        for problem in given.problems {
            self.session.notify(Severity::Error, problem);
        }
        let (paths, placing) = (given.paths, given.placing);
        if paths.is_empty() {
            return;
        }
        // What is asked concerns the form that is shown.
        let is_asked = self.session.inputs.awaits(&given.ticket) && self.ask_about(&paths, placing);
        if !is_asked {
            self.open_for(paths, placing, given.ticket);
        }
    }

    /// Has files opened for the form that is shown: two when the model goes by two, else one.
    pub(in crate::app) fn open_paths(&self, paths: Vec<PathBuf>, placing: Placing) {
        let ticket = self.session.inputs.ticket();
        self.open_for(paths, placing, ticket);
    }

    fn open_for(&self, paths: Vec<PathBuf>, placing: Placing, ticket: Ticket) {
        let room = 1 + usize::from(self.second_slot().is_some() && paths.len() > 1);
        self.background.run(Task::OpenInputs {
            paths,
            placing,
            room,
            ticket,
        });
    }

    /// The clip becomes the one to go on from.
    pub(in crate::app) fn continue_from_file(&self, path: PathBuf) {
        let placing = Placing {
            slot: Some(Slot::Start),
            ..Placing::default()
        };
        let ticket = self.session.inputs.ticket();
        self.background.run(Task::Work(Box::new(move || {
            let opened = continue_file(&path);
            Some(Answer::Inputs(opened_one(opened, placing, ticket)))
        })));
    }

    fn second_slot(&self) -> Option<Slot> {
        second_slot(self.session.model(&self.state.form)?)
    }

    /// The form that a file was opened for, and its places: the shown one, or the user's own while a job is changed. None
    /// where nobody waits for it any more.
    fn awaiting(&mut self, ticket: &Ticket) -> Option<(&mut GenerateForm, &mut Inputs)> {
        let shown = (&mut self.state.form, &mut self.session.inputs);
        let editing = self.session.queue.editing.as_mut();
        let forms = [Some(shown), editing.map(Editing::own)];
        let mut forms = forms.into_iter().flatten();
        forms.find(|(_, inputs)| inputs.awaits(ticket))
    }

    /// Gives opened files their places.
    pub(in crate::app) fn take_inputs(&mut self, ctx: &Context, found: OpenedInputs) {
        let form = self.awaiting(&found.ticket).map(|(form, _)| form.clone());
        let Some(form) = form else {
            return;
        };
        let first = found.opened.first().filter(|_| found.placing.is_shown);
        if let Some(path) = first.map(|input| input.source.path().to_owned()) {
            self.play_file(ctx, path);
        }
        let second = self.session.model(&form).and_then(second_slot);
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
            self.say_left_out(&form, found.num_files, &names);
        }
        let Some((form, inputs)) = self.awaiting(&found.ticket) else {
            return;
        };
        let mut misplaced = Vec::new();
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
            let slot = inputs.place(input, wish, second);
            if slot != Slot::Mask && !found.placing.keeps_size {
                // The picture says which shape the clip has.
                form.size = SizeChoice::Auto;
            }
            if wish.is_some_and(|wish| wish != slot) {
                let text = format!("{name} is a clip: it is gone on from at the start");
                let what = if wish == Some(Slot::Mask) {
                    "A mask"
                } else {
                    "An end picture"
                };
                let notice = JobError::new(JobErrorKind::InvalidRequest, text);
                misplaced.push(notice.advise(format!("{what} is a picture")));
            }
        }
        for notice in misplaced {
            self.session.notify(Severity::Info, notice);
        }
        // These are on their way no more.
        drop(found.ticket);
        self.settle_offers();
    }

    fn say_left_out(&mut self, form: &GenerateForm, num_files: usize, taken: &[String]) {
        let model = self.session.model(form);
        let thing = thing_of(model);
        let reason = match model.and_then(second_slot) {
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

/// A file of weights is a LoRA, or is told not to be one.
fn is_weight_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("safetensors"))
}
