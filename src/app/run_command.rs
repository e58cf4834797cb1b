//! The one place where commands are carried out.

use std::sync::Arc;

use egui::Context;
use safelight_core::job::JobId;

use crate::app::App;
use crate::app::background::Task;
use crate::app::commands::AppCommand;
use crate::app::fetching::Work;
use crate::app::inputs::opening::Continued;
use crate::app::state::Page;

impl App {
    pub(super) fn run_command(&mut self, ctx: &Context, command: AppCommand) {
        match command {
            AppCommand::Submit => {
                if self.queue.running.is_none() && self.queue.waiting.is_empty() {
                    // What is made now is what is waited for.
                    self.session.watch.is_chosen = false;
                }
                self.submit();
            }
            AppCommand::Cancel => {
                if let Some(job) = &self.queue.running {
                    job.cancel.cancel();
                }
            }
            AppCommand::Queue(command) => self.run_queue_command(command),
            AppCommand::ChooseModel(id) => {
                if let Some(spec) = self.session.models.all().iter().find(|spec| spec.id == id) {
                    self.state.form.reset_to(spec);
                    self.session.arriving = None;
                    self.session.aside = None;
                    self.show_missing(None);
                    self.remember_model(&id);
                }
            }
            AppCommand::ResetForm => {
                if let Some(spec) = self.session.model(&self.state.form).cloned() {
                    self.state.form.reset_to(&spec);
                }
            }
            AppCommand::UseExample(prompt) => self.use_example(prompt),
            AppCommand::Prompt(command) => self.run_prompt_command(command),
            AppCommand::Loras(command) => self.run_loras_command(command),
            AppCommand::RollSeed => self.roll_seed(),
            AppCommand::Presets(command) => self.run_presets_command(command),
            AppCommand::PickInput(slot) => {
                self.session.is_picking = true;
                self.background.pick_input(slot);
            }
            AppCommand::OpenInputs(paths, placing) => self.open_inputs(paths, placing),
            AppCommand::ContinueFromFile(path) => self.continue_from_file(path),
            AppCommand::RemoveInput(slot) => {
                self.session.inputs.remove(slot);
                self.settle_offers();
            }
            AppCommand::SwapInputs => self.session.inputs.swap(),
            AppCommand::Library(command) => self.run_library_command(command),
            AppCommand::Mask(command) => self.run_mask_command(ctx, &command),
            AppCommand::PickFolder(purpose) => {
                self.session.is_picking = true;
                self.background.pick_folder(purpose);
            }
            AppCommand::ApplyChange(change) => self.apply_change(ctx, &change),
            AppCommand::ChangeSettings(settings) => self.change_settings(ctx, *settings),
            AppCommand::Settings(command) => self.run_settings_command(ctx, command),
            AppCommand::Desktop(command) => self.run_desktop_command(ctx, command),
            AppCommand::Choose(entry) => self.run_entry(ctx, *entry),
            AppCommand::ShowPage(page) => self.show_page(page),
            AppCommand::Examine => self.examine(),
            AppCommand::ClearMiopen => self.clear_miopen(),
            AppCommand::ReloadModels => self.load_models(),
            AppCommand::ShowMissing(id) => self.show_missing(id.as_deref()),
            AppCommand::AskFetch => self.send_fetch(Work::Quote),
            AppCommand::BeginFetch => self.send_fetch(Work::Fetch),
            AppCommand::PauseFetch => self.pause_fetch(),
            AppCommand::Gallery(command) => self.run_gallery_command(command),
            AppCommand::CopyText(text) => ctx.copy_text(text),
            AppCommand::DismissNotice(id) => self.session.notices.retain(|notice| notice.id != id),
            AppCommand::DismissNotices => self.session.notices.clear(),
            AppCommand::UseSettingsOfFile(path) => self.use_settings_of_file(path),
            AppCommand::Restore(command) => self.run_restore_command(command),
            AppCommand::PlayFile(path) => self.play_file(ctx, path),
            AppCommand::CompareFiles(a, b) => self.compare_files(ctx, a, b),
            other => self.run_result_command(ctx, &other),
        }
    }

    pub(super) fn show_page(&mut self, page: Page) {
        self.session.page = page;
        self.session.uncover_page();
        match page {
            Page::Watch | Page::Mask | Page::Settings | Page::Gallery => {}
            Page::Models => self.open_library(),
            Page::Welcome => self.survey(),
            Page::Doctor => self.open_doctor(),
        }
    }

    /// The commands about finished clips and their playback.
    fn run_result_command(&mut self, ctx: &Context, command: &AppCommand) {
        match *command {
            AppCommand::ShowResult(id) => self.choose(|app| app.show_result(id)),
            AppCommand::ShowLive => self.choose(Self::show_live),
            AppCommand::UseSettingsOf(id) => self.use_settings_of(id),
            AppCommand::ContinueFrom(id) => self.continue_from(id),
            AppCommand::ExportTelemetry(id) => {
                if let Some(paths) = &self.paths {
                    self.background.export_telemetry(paths.telemetry(), id);
                }
            }
            AppCommand::OpenFolderOf(id) => {
                let folder = self
                    .queue
                    .result(id)
                    .and_then(|item| item.output.path().parent());
                if let Some(folder) = folder {
                    self.background.open_folder(folder.to_path_buf());
                }
            }
            AppCommand::CopyPathOf(id) => {
                let shown = self.session.shown_of_batch();
                if let Some(item) = self.queue.result(id) {
                    ctx.copy_text(item.path_of(shown).display().to_string());
                    "Path copied".clone_into(&mut self.session.last_word);
                }
            }
            AppCommand::Player(ref command) => self.run_player_command(ctx, command),
            AppCommand::TogglePlay => self.toggle_play(),
            AppCommand::StepFrame(by) => self.playhead(|playhead| playhead.step(by)),
            AppCommand::ShowFrame(index) => self.playhead(|playhead| playhead.show(index)),
            _ => {}
        }
    }

    fn use_settings_of(&mut self, id: JobId) {
        if let Some(item) = self.queue.result(id) {
            let request = item.request.of_one(self.session.shown_of_batch());
            self.take_over_request(&request);
        }
    }

    /// The finished clip becomes the one to go on from, the picture that is looked at the start picture.
    fn continue_from(&self, id: JobId) {
        let Some(item) = self.queue.result(id) else {
            return;
        };
        let frames = &item.output.clip.frames;
        let is_clip = !item.is_pictures() && frames.len() > 1;
        let shown = if is_clip {
            frames.len() - 1
        } else {
            self.session.shown_of_batch()
        };
        let Some(frame) = frames.get(shown) else {
            return;
        };
        let path = item.path_of(shown).to_path_buf();
        let folder = match &self.paths {
            Some(paths) => paths.data.join("pasted"),
            None => path.with_file_name(""),
        };
        let result = Continued {
            path,
            frame: Arc::clone(frame),
            is_clip,
            folder,
        };
        let ticket = self.session.inputs.ticket();
        self.background.run(Task::Continue(result, ticket));
    }
}
