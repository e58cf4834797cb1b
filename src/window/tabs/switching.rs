//! Switching between tabs: the shown form is put aside, and another one takes its place.

use egui::TextEdit;

use crate::window::app::SafelightApp;
use crate::window::create::undo::UndoAction;
use crate::window::prelude::*;
use crate::window::prompt;
use crate::window::tabs::{FormTab, WaitingForm};

impl SafelightApp {
    /// Files may still arrive for forms that are not shown.
    pub(crate) fn poll_tabs(&mut self) {
        let tabs = self.tabs.list.iter_mut();
        for WaitingForm { form, inputs, .. } in tabs.filter_map(|tab| tab.waiting.as_deref_mut()) {
            inputs.poll_for(form, false, &mut self.cx);
        }
        if let Some(command) = self.tabs.delayed.take() {
            self.run_tabs(command);
        }
    }

    /// Not while the form is a job's, and only once jobs and a painted mask have left it.
    pub(crate) fn run_tabs(&mut self, command: TabsCommand) {
        let is_painted = self.masking.pending(&self.inputs, &self.cx).is_some();
        if self.queue.editing.is_some() {
            let err = JobError::invalid("the form holds the settings of a job in the queue");
            let advice = "Save or cancel the changes of the job, then use the tabs";
            self.cx.notify(NoticeSeverity::Info, err.advise(advice));
            return;
        }
        if is_painted || self.queue.submits_when_opened {
            // The painted mask goes into its slot when its page is left.
            self.leave_mask();
            self.tabs.delayed = Some(command);
            self.cx.wake_in(0.05);
            return;
        }
        let (active, count) = (self.tabs.active(), self.tabs.list.len());
        match command {
            TabsCommand::New => {
                let mut waiting = WaitingForm::default();
                if let Some(spec) = self.cx.model() {
                    waiting.form.clear_to(spec);
                }
                self.tabs.insert(active + 1, String::new(), Some(waiting));
                self.show_tab(active + 1);
                self.cx.typing.is_focus_wanted = true;
            }
            TabsCommand::Show(index) => self.show_tab(index),
            TabsCommand::Next => self.show_tab((active + 1) % count),
            TabsCommand::Previous => self.show_tab((active + count - 1) % count),
            TabsCommand::Rename(index, name) => {
                if let Some(tab) = self.tabs.list.get_mut(index) {
                    name.trim().clone_into(&mut tab.name);
                }
            }
            TabsCommand::Close(index) => self.close_tab(index.unwrap_or(active)),
        }
    }

    /// Returns whether the tab with this id is open, and shown now.
    pub(crate) fn shows_tab(&mut self, id: u64) -> bool {
        if let Some(index) = self.tabs.list.iter().position(|tab| tab.id == id) {
            self.run_tabs(TabsCommand::Show(index));
        }
        self.tabs.active_id() == id
    }

    pub(crate) fn reopen_tab(&mut self, index: usize, tab: FormTab) {
        let index = index.min(self.tabs.list.len());
        self.tabs.list.insert(index, tab);
        self.run_tabs(TabsCommand::Show(index));
    }

    fn close_tab(&mut self, index: usize) {
        let count = self.tabs.list.len();
        if index >= count || count == 1 {
            return;
        }
        if index == self.tabs.active() {
            let is_last = index + 1 == count;
            self.show_tab(if is_last { index - 1 } else { index + 1 });
        }
        let tab = self.tabs.list.remove(index);
        let done = format!("Tab closed: {}", tab.title(&self.cx.form));
        let action = UndoAction::Tab(index, Box::new(tab));
        self.cx.offer_undo("close a tab", done, action);
    }

    /// Puts the shown form aside, and this one in its place.
    fn show_tab(&mut self, index: usize) {
        let active = self.tabs.active();
        let Some(tab) = self.tabs.list.get_mut(index) else {
            return;
        };
        let Some(next) = tab.waiting.take() else {
            return;
        };
        self.cx.undo.tab = tab.id;
        self.tabs.list[active].waiting = Some(Box::new(WaitingForm {
            form: self.library.own_form(&self.cx.form).clone(),
            inputs: std::mem::replace(&mut self.inputs, next.inputs),
            is_seed_used: self.cx.is_seed_used,
        }));
        self.cx.replace_form(next.form);
        self.cx.is_seed_used = next.is_seed_used;
        self.cx.typing = Default::default();
        // The field's own history is of the other prompt.
        TextEdit::store_state(&self.cx.ctx, prompt::field_id(), Default::default());
        self.library.settle_form(&mut self.cx);
        self.inputs.settle_offers(&mut self.cx);
        self.leave_mask();
    }

    fn leave_mask(&mut self) {
        if self.cx.page == MainPage::Mask {
            self.cx.page = MainPage::Watch;
        }
    }
}
