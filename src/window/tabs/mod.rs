//! Tabs: several forms, each with its images, masks and history. The queue is shared.
//!
//! The form of the active tab is the window's; those of the others wait here, and are exchanged with it.

pub mod panel;

use egui::TextEdit;
use safelight_core::job::{SeedMode, random_seed};

use crate::window::app::SafelightApp;
use crate::window::create::choices::SavedTabs;
use crate::window::create::undo::UndoAction;
use crate::window::inputs::InputSlots;
use crate::window::prelude::*;
use crate::window::prompt;

/// Letters of a prompt that name a tab.
const MAX_TITLE: usize = 28;

pub struct FormTab {
    /// Tells it from others in the undo history.
    pub id: u64,
    /// Given by the user; empty: the beginning of the prompt is its title.
    pub name: String,
    /// `None` for the active one.
    waiting: Option<Box<WaitingForm>>,
}

#[derive(Default)]
struct WaitingForm {
    form: GenerateForm,
    inputs: InputSlots,
    is_seed_used: bool,
}

impl FormTab {
    /// `shown`: the form of the active tab.
    pub fn title(&self, shown: &GenerateForm) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let form = self.waiting.as_ref().map_or(shown, |it| &it.form);
        let words: Vec<&str> = form.prompt.split_whitespace().collect();
        match words.join(" ") {
            prompt if prompt.is_empty() => "New tab".to_owned(),
            prompt if prompt.chars().count() <= MAX_TITLE => prompt,
            prompt => prompt.chars().take(MAX_TITLE).chain(['…']).collect(),
        }
    }
}

#[derive(Default)]
pub struct FormTabs {
    /// Never empty; one of them is active.
    pub list: Vec<FormTab>,
    num_opened: u64,
    /// Done as soon as nothing is on its way from the active form.
    delayed: Option<TabsCommand>,
}

impl FormTabs {
    pub fn new(saved: SavedTabs) -> Self {
        let mut this = Self::default();
        for (name, form, paths) in saved.others {
            let mut waiting = WaitingForm {
                form,
                ..WaitingForm::default()
            };
            waiting.inputs.reopen_later(paths);
            if waiting.form.seed_mode == SeedMode::Random {
                waiting.form.set_seed(random_seed());
            }
            this.insert(this.list.len(), name, Some(waiting));
        }
        this.insert(saved.active.min(this.list.len()), saved.name, None);
        this
    }

    pub fn saved(&self) -> SavedTabs {
        let others = self.list.iter().filter_map(|tab| {
            let WaitingForm { form, inputs, .. } = tab.waiting.as_deref()?;
            Some((tab.name.clone(), form.clone(), inputs.saved()))
        });
        SavedTabs {
            active: self.active(),
            name: self.list[self.active()].name.clone(),
            others: others.collect(),
        }
    }

    pub fn active(&self) -> usize {
        let mut tabs = self.list.iter();
        tabs.position(|tab| tab.waiting.is_none()).unwrap_or(0)
    }

    pub fn active_id(&self) -> u64 {
        self.list[self.active()].id
    }

    fn insert(&mut self, index: usize, name: String, waiting: Option<WaitingForm>) {
        self.num_opened += 1;
        let tab = FormTab {
            id: self.num_opened,
            name,
            waiting: waiting.map(Box::new),
        };
        self.list.insert(index, tab);
    }
}

impl SafelightApp {
    /// Files may still arrive for forms that are not shown.
    pub(in crate::window) fn poll_tabs(&mut self) {
        for waiting in self
            .tabs
            .list
            .iter_mut()
            .filter_map(|tab| tab.waiting.as_mut())
        {
            waiting
                .inputs
                .poll_for(&mut waiting.form, false, &mut self.cx);
        }
        if let Some(command) = self.tabs.delayed.take() {
            self.run_tabs(command);
        }
    }

    /// Not while the form is a job's, and only once jobs and a painted mask have left it.
    pub(in crate::window) fn run_tabs(&mut self, command: TabsCommand) {
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
    pub(in crate::window) fn shows_tab(&mut self, id: u64) -> bool {
        if let Some(index) = self.tabs.list.iter().position(|tab| tab.id == id) {
            self.run_tabs(TabsCommand::Show(index));
        }
        self.tabs.active_id() == id
    }

    pub(in crate::window) fn reopen_tab(&mut self, index: usize, tab: FormTab) {
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
            self.show_tab(if index + 1 < count {
                index + 1
            } else {
                index - 1
            });
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
