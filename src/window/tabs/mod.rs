//! Tabs: several forms, each with its images, masks and history. The queue is shared.
//!
//! The form of the active tab is the window's; those of the others wait here, and are exchanged with it.

pub mod panel;
mod switching;

use safelight_core::job::{GenerateForm, SeedMode, random_seed};

use crate::window::commands::TabsCommand;
use crate::window::create::choices::SavedTabs;
use crate::window::inputs::InputSlots;

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
