//! The prompt: its history, wildcards, and the token count.

pub mod panel;
pub mod prompt_cursor;
pub mod token_count;

use safelight_core::files::make_private_folder;
use safelight_core::fitting::{FoundEmbedding, installed_embeddings};
use safelight_core::job::prompt::{BracketUse, WildcardFile};
use safelight_core::prompts::{self, PromptEntry};

use crate::window::prelude::*;

use prompt_cursor::EmbeddingNames;
use token_count::PromptCounting;

/// Interval of reading wildcards again while the user types one.
const GLANCE_SECS: f64 = 2.0;

/// Id of the prompt field, by which the rest of the window recognises typing.
pub fn field_id() -> egui::Id {
    egui::Id::unique("prompt-field")
}

#[derive(Default)]
pub struct PromptDesk {
    pub history: PromptHistory,
    /// `None` until the first search.
    pub wildcards: Option<Arc<Vec<WildcardFile>>>,
    /// Those on this computer, for models that read any.
    pub embeddings: Arc<Vec<FoundEmbedding>>,
    pub counting: PromptCounting,
    has_begun: bool,
    /// All prompts that are remembered, newest first, or why none can be.
    keeping: BackgroundTask<Result<Vec<PromptEntry>, JobError>>,
    /// That the history cannot be kept was said.
    is_broken: bool,
    looked_at: Option<f64>,
    looking: BackgroundTask<(Vec<WildcardFile>, Vec<FoundEmbedding>)>,
    making: BackgroundTask<Result<PathBuf, JobError>>,
}

impl PromptDesk {
    pub fn update(&mut self, command: PromptCommand, cx: &mut AppContext) {
        match command {
            PromptCommand::Focus => {
                cx.is_view_shown = false;
                cx.typing.is_focus_wanted = true;
            }
            PromptCommand::Remember(entry) => self.remember(entry, cx),
            PromptCommand::Use(entry) => {
                self.history.at = None;
                self.put(&entry, cx);
            }
            PromptCommand::Older => self.step(PromptHistory::older, cx),
            PromptCommand::Newer => self.step(PromptHistory::newer, cx),
            PromptCommand::Forget(entry) => {
                self.change_history(move |entries| entries.retain(|known| *known != entry), cx);
            }
            PromptCommand::Insert(text) => {
                cx.typing.insert(&mut cx.form.prompt, &text);
                self.counting.has_begun = true;
            }
            PromptCommand::OpenWildcardFolder => self.open_wildcard_folder(cx),
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        while let Some(kept) = self.keeping.take() {
            match kept {
                Ok(entries) => {
                    self.is_broken = false;
                    cx.notices.end(&NoticeCause::PromptsFile);
                    self.history.take(entries);
                }
                // Told once, not with every prompt.
                Err(err) if !std::mem::replace(&mut self.is_broken, true) => {
                    cx.tell_about(NoticeCause::PromptsFile, NoticeSeverity::Warning, err);
                }
                Err(_) => {}
            }
        }
        if let Some((wildcards, embeddings)) = self.looking.take() {
            self.wildcards = Some(Arc::new(wildcards));
            self.embeddings = Arc::new(embeddings);
            cx.typing.is_stale = true;
            // One that was missing may be there now.
            self.counting.prompts = None;
        }
        match self.making.take() {
            Some(Ok(folder)) => cx.background.open_folder(folder),
            Some(Err(err)) => cx.notify(NoticeSeverity::Warning, err),
            None => {}
        }
        self.counting.poll();
    }

    fn remember(&mut self, entry: PromptEntry, cx: &mut AppContext) {
        if !entry.prompt.is_empty() {
            // The next text is a draft.
            self.history.at = None;
            self.change_history(move |entries| prompts::remember(entries, entry), cx);
        }
    }

    /// Puts an example into the field. The previous text stays in the history.
    fn use_example(&mut self, example: String, cx: &mut AppContext) {
        let written = cx.form.prompt.trim();
        let mut specs = cx.models.all().iter();
        let is_example = specs.any(|spec| spec.example_prompts.iter().any(|it| it == written));
        if let Some(spec) = cx.model().filter(|_| !is_example) {
            self.remember(PromptEntry::from_form(&cx.form, spec), cx);
        }
        cx.form.prompt = example;
    }

    fn begin(&mut self, cx: &mut AppContext) {
        self.counting.has_begun = true;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.change_history(|_| {}, cx);
        }
    }

    /// Changes the file of prompts, which other windows may have changed meanwhile, and shows what is in it then.
    fn change_history(
        &mut self,
        change: impl FnOnce(&mut Vec<PromptEntry>) + Send + 'static,
        cx: &mut AppContext,
    ) {
        let Some(paths) = &cx.paths else {
            let mut entries = self.history.entries.clone();
            change(&mut entries);
            return self.history.take(entries);
        };
        let path = paths.data.join("prompts.jsonl");
        let keeping = cx.on_files("the list of earlier prompts was not changed", move || {
            prompts::change(&path, change).map_err(|err| {
                let text = "the prompt could not be added to the earlier prompts";
                JobError::new(JobErrorKind::Disk, text)
                    .advise(format!("Make this file writable: {}", path.display()))
                    .detail(err.to_string())
            })
        });
        self.keeping.add(keeping);
    }

    fn step(
        &mut self,
        step: fn(&mut PromptHistory, &PromptEntry) -> Option<PromptEntry>,
        cx: &mut AppContext,
    ) {
        self.begin(cx);
        let current = PromptEntry::from(&cx.form);
        if let Some(entry) = step(&mut self.history, &current) {
            self.put(&entry, cx);
        }
    }

    fn put(&mut self, entry: &PromptEntry, cx: &mut AppContext) {
        entry.put(&mut cx.form);
        cx.typing.leave();
        cx.typing.wanted_cursor = Some(cx.form.prompt.chars().count());
        self.counting.has_begun = true;
    }

    /// Unless they were just read.
    fn glance_at_wildcards(&mut self, cx: &AppContext) {
        let looked = self.looked_at;
        let is_fresh = looked.is_some_and(|at| cx.now_secs - at < GLANCE_SECS);
        if !is_fresh && !self.looking.is_busy() {
            self.look_at_wildcards(cx);
        }
    }

    fn look_at_wildcards(&mut self, cx: &AppContext) {
        self.looked_at = Some(cx.now_secs);
        let folders = cx.wildcard_folders();
        let places = cx.paths.clone();
        let settings = cx.settings.clone();
        self.looking = cx.background.run("wildcards", move || {
            let embeddings = places.map(|paths| installed_embeddings(&paths, &settings));
            (folders.list(), embeddings.unwrap_or_default())
        });
    }

    /// Counts the tokens of what the form says; embeddings are looked for first, where the model reads any.
    pub fn count_tokens(&mut self, cx: &AppContext) {
        if self.looked_at.is_none() && reads_embeddings(cx) {
            self.look_at_wildcards(cx);
        }
        self.counting.follow(&self.embeddings, cx);
    }

    /// Embeddings for the form's model.
    fn embedding_names(&self, cx: &AppContext) -> EmbeddingNames<'_> {
        let names = self.embeddings.iter().filter(|_| reads_embeddings(cx));
        let options = cx.settings.options_over(cx.form.options.clone());
        let brackets = cx.model().map(|spec| options.bracket_use(spec.family));
        EmbeddingNames {
            names: names.map(|it| it.name.as_str()).collect(),
            are_bare: brackets == Some(BracketUse::A1111),
        }
    }

    fn open_wildcard_folder(&mut self, cx: &mut AppContext) {
        let Some(folder) = cx.wildcard_folders().first().map(PathBuf::from) else {
            let text = "there is no folder for wildcard files";
            let notice = UserNotice::warning(text, "Choose one in the settings");
            return cx.notices.show(notice);
        };
        self.making = cx.background.on_files(move || {
            let made = make_private_folder(&folder).map_err(|err| {
                let place = folder.display();
                let text = format!("the folder for wildcard files could not be made: {place}");
                JobError::new(JobErrorKind::Disk, text)
                    .advise("Choose another folder in the settings")
                    .detail(err.to_string())
            });
            made.map(|()| folder)
        });
    }
}

/// Returns whether the form's model reads embeddings.
fn reads_embeddings(cx: &AppContext) -> bool {
    cx.model().is_some_and(|spec| spec.family.has_prompt_chunks)
}

#[derive(Default)]
pub struct PromptHistory {
    pub entries: Vec<PromptEntry>,
    /// Index of the prompt in the field; `None` for a draft.
    at: Option<usize>,
    /// Prompt that was being written before the first step back.
    draft: PromptEntry,
    /// True once the file has been read.
    pub is_known: bool,
}

impl PromptHistory {
    fn take(&mut self, entries: Vec<PromptEntry>) {
        let shown = self.at.and_then(|at| self.entries.get(at).cloned());
        self.at = shown.and_then(|shown| entries.iter().position(|entry| *entry == shown));
        self.entries = entries;
        self.is_known = true;
    }

    /// The prompt before the one in the field; `None` when there is none.
    fn older(&mut self, current: &PromptEntry) -> Option<PromptEntry> {
        self.settle(current);
        let next = match self.at {
            None => {
                self.draft = current.clone();
                // The newest often still is in the field.
                usize::from(self.is_shown(0, current))
            }
            Some(at) => at + 1,
        };
        let entry = self.entries.get(next)?.clone();
        self.at = Some(next);
        Some(entry)
    }

    /// Prompt after the one in the field, and after the newest the draft.
    fn newer(&mut self, current: &PromptEntry) -> Option<PromptEntry> {
        self.settle(current);
        let at = self.at?;
        let newer = at.checked_sub(1);
        let is_draft = |at: usize| self.is_shown(at, &self.draft);
        self.at = newer.filter(|newer| !is_draft(*newer));
        let entry = self.at.and_then(|at| self.entries.get(at));
        Some(entry.unwrap_or(&self.draft).clone())
    }

    /// A changed prompt becomes a separate draft.
    fn settle(&mut self, current: &PromptEntry) {
        self.at = self.at.filter(|at| self.is_shown(*at, current));
    }

    fn is_shown(&self, at: usize, current: &PromptEntry) -> bool {
        let entry = self.entries.get(at);
        entry.is_some_and(|entry| entry.prompt == current.prompt.trim())
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::prompts::{PromptEntry, change, remember};

    use super::*;

    fn entry(prompt: &str) -> PromptEntry {
        PromptEntry {
            prompt: prompt.to_owned(),
            ..PromptEntry::default()
        }
    }

    #[test]
    fn two_threads_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        std::thread::scope(|scope| {
            for side in ["a", "b"] {
                let path = &path;
                scope.spawn(move || {
                    for i in 0..20 {
                        change(path, |all| remember(all, entry(&format!("{side}{i}")))).unwrap();
                    }
                });
            }
        });
        assert_eq!(change(&path, |_| {}).unwrap().len(), 40);
    }

    fn history(prompts: &[&str]) -> PromptHistory {
        let mut history = PromptHistory::default();
        history.take(prompts.iter().map(|prompt| entry(prompt)).collect());
        history
    }

    #[test]
    fn newest_history_entry_is_skipped_while_it_is_in_the_field() {
        let mut history = history(&["c", "b"]);
        assert_eq!(history.older(&entry("c")), Some(entry("b")));
        assert_eq!(history.newer(&entry("b")), Some(entry("c")));
        assert_eq!(history.newer(&entry("c")), None);
    }

    #[test]
    fn edited_history_prompt_becomes_the_new_draft() {
        let mut history = history(&["c", "b"]);
        history.older(&entry("x"));
        let expected = Some(entry("c"));
        assert_eq!(history.older(&entry("c, changed")), expected);
        let expected = Some(entry("c, changed"));
        assert_eq!(history.newer(&entry("c")), expected);
    }
}
