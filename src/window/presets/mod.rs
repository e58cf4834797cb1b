//! Presets: those of all models, of the selected model and of the user.

pub mod panel;

use safelight_core::presets::{
    self, LoadedPresets, OwnPreset, PresetContent, PresetEdit, PresetValues, PresetsError,
    QualityPreset,
};

use crate::window::create::choices::PresetKey;
use crate::window::inputs::InputSlots;
use crate::window::prelude::*;

#[derive(Debug, Default)]
pub struct OwnPresets {
    pub list: Vec<OwnPreset>,
    /// Prompts and LoRAs before and after a preset was applied.
    content: Option<(PresetContent, PresetContent)>,
    /// Says what was replaced, which is offered to be undone.
    pub(super) done: Option<String>,
    /// Content of the file, and the new path of a broken one; or the reason why it was not changed.
    coming: BackgroundTask<Result<(LoadedPresets, Option<PathBuf>), PresetsError>>,
}

impl OwnPresets {
    pub(super) fn open(cx: &AppContext) -> Self {
        let mut own = Self::default();
        own.load(cx);
        own
    }

    /// All that can be chosen for a model: those of every model, the model's, the user's.
    pub fn choices(&self, spec: &ModelSpec) -> Vec<PresetChoice> {
        let qualities = QualityPreset::ALL.into_iter().map(|quality| PresetChoice {
            key: PresetKey::Quality(quality),
            name: quality.label().to_owned(),
            note: quality.note().to_owned(),
            values: quality.values(spec),
            content: PresetContent::default(),
        });
        let models = spec.presets.iter().map(|preset| PresetChoice {
            key: PresetKey::Model(preset.id.clone()),
            name: preset.name.clone(),
            note: preset.note.clone(),
            values: PresetValues::of_model(preset, spec),
            content: PresetContent::default(),
        });
        let own = self.list.iter().map(|preset| PresetChoice {
            key: PresetKey::Own(preset.name.clone()),
            name: preset.name.clone(),
            note: match &preset.model {
                Some(model) if *model != spec.id => format!("Saved with {model}"),
                _ => String::new(),
            },
            values: preset.values.clone(),
            content: preset.content.clone(),
        });
        qualities.chain(models).chain(own).collect()
    }

    pub fn update(&mut self, command: PresetsCommand, inputs: &InputSlots, cx: &mut AppContext) {
        // Without a model there is nothing to set or to take back.
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        match command {
            PresetsCommand::Apply(key) => {
                let mut choices = self.choices(&spec).into_iter();
                if let Some(choice) = choices.find(|choice| choice.key == key) {
                    let source = inputs.inputs_for(&cx.form, &spec).size();
                    cx.form.apply_preset(&choice.values, &spec, source);
                    let (name, values) = (&choice.name, choice.described());
                    cx.say(format!("Preset {name} sets {values}"));
                    self.replace(choice.content, &choice.name, cx);
                }
            }
            PresetsCommand::Undo => {
                cx.form.undo_preset(&spec);
                if let Some((before, after)) = self.content.take()
                    && after.of_same_kinds(&cx.form) == after
                {
                    before.put(&mut cx.form);
                }
            }
        }
    }

    /// Keeps the values of the form, with its prompts and its LoRAs where that is true.
    fn save(&mut self, name: String, with: (bool, bool), cx: &mut AppContext) {
        if let Some(spec) = cx.model() {
            let preset = OwnPreset {
                name,
                model: Some(spec.id.clone()),
                values: cx.form.values(spec),
                content: PresetContent::from_form(&cx.form, with),
            };
            self.edit(PresetEdit::Save(Box::new(preset)), cx);
        }
    }

    fn replace(&mut self, content: PresetContent, name: &str, cx: &mut AppContext) {
        let before = content.of_same_kinds(&cx.form);
        if before != content {
            content.put(&mut cx.form);
            let with = content.described();
            self.done = Some(format!("Preset {name} is applied, with {with}"));
        }
        self.content = Some((before, content));
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        while let Some(come) = self.coming.take() {
            match come {
                Ok((loaded, aside)) => {
                    self.take(loaded, cx);
                    if let Some(aside) = aside {
                        let text = "the presets file was damaged, and a new one was started";
                        let advice = format!("The old one is kept as {}", aside.display());
                        cx.notices.show(UserNotice::warning(text, advice));
                    }
                }
                Err(err) => {
                    let card = JobError::from_error(JobErrorKind::Disk, &err)
                        .advise("The presets are unchanged");
                    cx.tell_about(NoticeCause::PresetsFile, NoticeSeverity::Error, card);
                }
            }
        }
    }

    fn load(&mut self, cx: &AppContext) {
        if let Some(path) = cx.paths.as_ref().map(|paths| paths.presets_file()) {
            let load = move || Ok((presets::load(&path), None));
            self.coming.add(cx.background.on_files(load));
        }
    }

    fn edit(&mut self, edit: PresetEdit, cx: &mut AppContext) {
        let Some(path) = cx.paths.as_ref().map(|paths| paths.presets_file()) else {
            return;
        };
        let edited = cx.on_files("the presets were not changed", move || {
            let aside = presets::edit(&path, &edit)?;
            Ok((presets::load(&path), aside))
        });
        self.coming.add(edited);
    }

    fn take(&mut self, loaded: LoadedPresets, cx: &mut AppContext) {
        self.list = loaded.presets;
        cx.notices.end(&NoticeCause::PresetsFile);
        let broken = loaded.error.iter();
        let broken = broken.map(|err| JobError::from_error(JobErrorKind::InvalidRequest, err));
        let has_problems = !loaded.problems.is_empty();
        let problems = has_problems.then(|| JobError::invalid(loaded.problems.join("; ")));
        for card in broken.chain(problems) {
            let card = card.advise(
                "Correct the file, then open the preset menu. Safelight does not change the file \
                until then",
            );
            cx.tell_about(NoticeCause::PresetsFile, NoticeSeverity::Warning, card);
        }
    }
}

pub struct PresetChoice {
    pub key: PresetKey,
    pub name: String,
    pub note: String,
    pub values: PresetValues,
    pub content: PresetContent,
}

impl PresetChoice {
    /// `the prompts and 2 LoRAs, 12 steps`.
    pub fn described(&self) -> String {
        let parts = [self.content.described(), self.values.described()];
        let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        parts.join(", ")
    }
}
