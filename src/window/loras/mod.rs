//! LoRAs on this computer, searched on a thread, and what jobs reported of those in the form.

pub mod panel;

use std::collections::HashMap;

use safelight_core::fitting::{FoundLora, LoraFit, LoraMatcher, find};
use safelight_core::job::ChosenLora;
use safelight_core::lora::LoraCoverage;
use safelight_core::model::CatalogError;

use crate::window::prelude::*;

const AT_ONCE: usize = 24;

#[derive(Default)]
pub struct LoraLibrary {
    pub is_open: bool,
    /// Results of the last search so far: fitting ones first.
    pub found: Arc<Vec<Arc<FoundLora>>>,
    /// Reason why it is unknown which LoRAs fit.
    pub problem: Option<String>,
    /// More files, or at the end why it cannot be said what fits.
    search: BackgroundTask<Result<Vec<FoundLora>, String>>,
    /// Id of the model of the last search.
    model: Option<String>,
    /// Facts on chosen files, once they were read, and the model that they were matched to.
    chosen: HashMap<PathBuf, Option<FoundLora>>,
    chosen_for: Option<String>,
    looking: BackgroundTask<Vec<FoundLora>>,
    wanted: BackgroundTask<(String, Vec<FoundLora>)>,
    picking: BackgroundTask<Option<Vec<PathBuf>>>,
    /// Coverage of files in the last job with each.
    pub(super) coverage: HashMap<PathBuf, LoraCoverage>,
}

impl LoraLibrary {
    pub fn is_looking(&self) -> bool {
        self.search.is_busy()
    }

    pub fn chosen(&self, path: &Path) -> Option<&FoundLora> {
        self.chosen.get(path)?.as_ref()
    }

    /// Problems of chosen files that are enabled. A file for another model is kept unused instead.
    pub(crate) fn errors(&self, form: &GenerateForm) -> Vec<FieldError> {
        let gone = form.acting_loras().filter(|lora| self.is_gone(lora));
        gone.map(|lora| FieldError {
            field: "lora",
            message: format!("the file of the LoRA {} is gone", lora.name()),
        })
        .collect()
    }

    /// True if its file no longer exists.
    pub fn is_gone(&self, lora: &ChosenLora) -> bool {
        let known = self.chosen(&lora.path);
        known.is_some_and(|known| matches!(known.fit, LoraFit::Gone))
    }

    /// A chosen LoRA is for another model: it is kept, and not sent.
    pub fn is_parked(&self, lora: &ChosenLora) -> bool {
        let known = self.chosen(&lora.path);
        lora.is_on && known.is_some_and(|known| matches!(known.fit, LoraFit::No(_)))
    }

    /// The form without the LoRAs that do not fit the model.
    pub(crate) fn acting(&self, form: &GenerateForm) -> GenerateForm {
        let mut form = form.clone();
        form.loras.retain(|lora| !self.is_parked(lora));
        form
    }

    /// Reason why a chosen LoRA has no effect, in a sentence.
    pub fn objection(&self, lora: &ChosenLora) -> Option<String> {
        match &self.chosen(&lora.path)?.fit {
            LoraFit::Yes(_) => None,
            LoraFit::No(reason) => Some(reason.clone()),
            LoraFit::Gone => Some(format!("its file is gone: {}", lora.path.display())),
        }
    }

    pub fn update(&mut self, command: LorasCommand, cx: &mut AppContext) {
        match command {
            LorasCommand::Open => {
                self.is_open = true;
                self.search(cx);
            }
            LorasCommand::Add(paths) => self.want(paths, cx),
            LorasCommand::Remove(index) => {
                let loras = &mut cx.form.loras;
                if index < loras.len() {
                    loras.remove(index);
                }
            }
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        while let Some(found) = self.search.take() {
            match found {
                Ok(more) => {
                    let found = Arc::make_mut(&mut self.found);
                    found.extend(more.into_iter().map(Arc::new));
                    // Fitting ones come first; otherwise the order of names is kept.
                    found.sort_by_key(|lora| (!lora.fits(), lora.card.is_none()));
                }
                Err(problem) => self.problem = Some(problem),
            }
        }
        while let Some(found) = self.looking.take() {
            let found = found.into_iter();
            let known = found.map(|lora| (lora.path.clone(), Some(lora)));
            self.chosen.extend(known);
        }
        if let Some(Some(paths)) = self.picking.take() {
            self.want(paths, cx);
        }
        while let Some((model, found)) = self.wanted.take() {
            if cx.form.model.as_ref() == Some(&model) {
                for lora in found {
                    self.add(lora, cx);
                }
            } else {
                // Files matched to another model are matched again.
                self.want(found.into_iter().map(|lora| lora.path).collect(), cx);
            }
        }
    }

    fn add(&mut self, found: FoundLora, cx: &mut AppContext) {
        let reason = match &found.fit {
            LoraFit::Yes(_) => None,
            LoraFit::No(reason) => Some(reason.clone()),
            LoraFit::Gone => Some("there is no such file".to_owned()),
        };
        if let Some(reason) = reason {
            let is_model =
                reason.contains("is not a LoRA, but") && !reason.contains("no known model");
            let advice = format!("The file is {}", found.path.display());
            let err = JobError::invalid(reason).advise(advice);
            let mut notice = UserNotice::of_input(err);
            if is_model {
                notice = notice.offer_model(found.path);
            }
            return cx.notices.show(notice);
        }
        // One of few steps is as strong as its authors say.
        let preset = cx.model().and_then(|spec| spec.preset_for(&found.path));
        let strength = preset.and_then(|preset| preset.lora_strength);
        let loras = &mut cx.form.loras;
        if let Some(known) = loras.iter_mut().find(|lora| lora.path == found.path) {
            known.is_on = true;
        } else {
            let mut lora = ChosenLora::new(found.path.clone());
            lora.strength = strength.unwrap_or(1.0);
            loras.push(lora);
            cx.say(format!("Added the LoRA {}", found.name()));
        }
        self.chosen.insert(found.path.clone(), Some(found));
    }

    pub(crate) fn follow(&mut self, cx: &mut AppContext) {
        if self.chosen_for != cx.form.model {
            self.chosen_for.clone_from(&cx.form.model);
            self.chosen.clear();
            self.looking = BackgroundTask::default();
        }
        let control = self.control(&cx.form).map(Path::to_owned);
        cx.models.follow_control(&cx.form, control.as_deref());
        let paths = cx.form.loras.iter().map(|lora| &lora.path);
        let unknown = paths.filter(|path| !self.chosen.contains_key(*path));
        let unknown: Vec<PathBuf> = unknown.cloned().collect();
        let Some(spec) = cx.model().filter(|_| !unknown.is_empty()).cloned() else {
            return;
        };
        let requested = unknown.iter().map(|path| (path.clone(), None));
        self.chosen.extend(requested);
        let work = move || looked_at(matcher_of(&spec).as_ref(), &unknown);
        self.looking.add(cx.background.run("loras", work));
    }

    /// The first LoRA with which the form's model sees a control image.
    fn control<'a>(&self, form: &'a GenerateForm) -> Option<&'a Path> {
        let acting = form.acting_loras().filter(|lora| lora.strength != 0.0);
        let mut paths = acting.map(|lora| lora.path.as_path());
        paths.find(|path| self.chosen(path).is_some_and(|known| known.is_of_control))
    }

    fn search_again(&mut self, cx: &AppContext) {
        self.model = None;
        self.search(cx);
    }

    fn pick(&mut self, cx: &AppContext) {
        self.picking = cx.background.ask(|| {
            let dialog = rfd::FileDialog::new().set_title("Choose LoRA files");
            dialog.add_filter("LoRAs", &["safetensors"]).pick_files()
        });
    }

    fn want(&mut self, paths: Vec<PathBuf>, cx: &mut AppContext) {
        let Some(first) = paths.first() else {
            return;
        };
        let Some(spec) = cx.model().cloned() else {
            let path = first.display();
            let text = format!("a LoRA needs a model, and none is selected: {path}");
            let advice = "Choose a model, then add the LoRA again";
            return cx.notices.show(UserNotice::warning(text, advice));
        };
        self.wanted.add(cx.background.run("loras", move || {
            let found = looked_at(matcher_of(&spec).as_ref(), &paths);
            (spec.id, found)
        }));
    }

    fn search(&mut self, cx: &AppContext) {
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        if self.model.as_ref() == Some(&spec.id) {
            return;
        }
        self.model = Some(spec.id.clone());
        self.found = Arc::default();
        self.problem = None;
        // The chosen files may have changed, too.
        self.chosen_for = None;
        let Some(paths) = cx.paths.clone() else {
            return;
        };
        let settings = cx.settings.clone();
        self.search = cx.background.stream("loras", move |postbox| {
            let matcher = matcher_of(&spec);
            if let Some(Err(err)) = &matcher {
                postbox.post(Err(err.to_string()));
                return;
            }
            for some in find(&paths, &settings).chunks(AT_ONCE) {
                postbox.post(Ok(looked_at(matcher.as_ref(), some)));
            }
        });
    }
}

/// Reads how files fit a model; `None` for one of another computer, which says itself what does not fit.
fn matcher_of(spec: &ModelSpec) -> Option<Result<LoraMatcher, CatalogError>> {
    spec.computer.is_none().then(|| LoraMatcher::of(spec))
}

fn looked_at(
    matcher: Option<&Result<LoraMatcher, CatalogError>>,
    paths: &[PathBuf],
) -> Vec<FoundLora> {
    let unread = |path: &Path, fit| FoundLora::new(path, 0, None, fit);
    let look = |path: &PathBuf| match matcher {
        Some(Ok(matcher)) => matcher.look(path),
        // Nothing can be said of a file where the model itself cannot be read.
        Some(Err(err)) => unread(path, LoraFit::No(err.to_string())),
        None => unread(path, LoraFit::Yes(LoraCoverage::default())),
    };
    paths.iter().map(look).collect()
}
