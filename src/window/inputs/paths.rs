//! Files in the slots by their paths: saved with the form, and opened again at the next start or for a job's settings.

use std::path::PathBuf;

use safelight_core::job::ControlInput;

use crate::window::create::choices::InputPaths;
use crate::window::inputs::opening::open_inputs;
use crate::window::inputs::slot_choice::places_of;
use crate::window::inputs::{InputSlots, SlotContents};
use crate::window::prelude::*;

impl From<&GenerateRequest> for InputPaths {
    fn from(request: &GenerateRequest) -> Self {
        let video = request.extend.as_ref().or(request.source_video.as_ref());
        let prompts = request.prompt_images.iter();
        Self {
            start: video.or(request.image.as_ref()).cloned(),
            end: request.last_image.clone(),
            mask: request.mask.clone(),
            references: request.references.clone(),
            prompts: prompts.map(|it| (it.path.clone(), it.strength)).collect(),
            controls: request.controls.clone(),
        }
    }
}

impl From<&SlotContents> for InputPaths {
    fn from(placed: &SlotContents) -> Self {
        let path = |media: &InputMedia| media.path().to_path_buf();
        let first = |slot| placed.inputs_of(slot).first().map(|it| path(&it.source));
        let prompts = placed.inputs_of(InputSlot::Prompt).iter();
        let references = placed.inputs_of(InputSlot::Reference).iter();
        let controls = placed.inputs_of(InputSlot::Control).iter();
        let control = |it: &crate::window::inputs::ChosenInput| ControlInput {
            file: path(&it.source),
            mask: it.control_mask.as_ref().map(path),
            settings: it.control.clone(),
        };
        Self {
            start: first(InputSlot::Start),
            end: first(InputSlot::End),
            mask: first(InputSlot::Mask),
            references: references.map(|it| path(&it.source)).collect(),
            prompts: prompts.map(|it| (path(&it.source), it.strength)).collect(),
            controls: controls.map(control).collect(),
        }
    }
}

impl InputSlots {
    /// Files in the slots, or those that are still being opened for them after a restart.
    pub fn paths(&self) -> InputPaths {
        match &self.reopened {
            Some(paths) if self.is_opening() || self.is_reopen_due => paths.clone(),
            _ => InputPaths::from(&self.placed),
        }
    }

    pub fn reopen_later(&mut self, paths: InputPaths) {
        (self.reopened, self.is_reopen_due) = (Some(paths), true);
    }

    pub(in crate::window) fn take_over(&mut self, request: &GenerateRequest, cx: &mut AppContext) {
        cx.replace_form(GenerateForm::from(request));
        self.reopen(InputPaths::from(request), cx);
        self.name_size(&mut cx.form, &cx.models);
    }

    /// Puts these files in place of all inputs.
    pub(super) fn reopen(&mut self, paths: InputPaths, cx: &AppContext) {
        self.is_reopen_due = false;
        self.reopened = Some(paths.clone());
        let onto = |slot| SlotTarget {
            keeps_size: true,
            ..SlotTarget::onto(Some(slot))
        };
        // Pending files belong to the previous form.
        (self.opening, self.given) = (BackgroundTask::default(), BackgroundTask::default());
        for (slot, wanted) in [
            (InputSlot::Start, paths.start),
            (InputSlot::End, paths.end),
            (InputSlot::Mask, paths.mask),
        ] {
            if self.get(slot).map(|input| input.source.path()) == wanted.as_deref() {
                continue;
            }
            // Also where the other cannot be opened.
            self.remove(slot);
            if let Some(path) = wanted {
                self.open_here(vec![path], onto(slot), cx);
            }
        }
        let prompts = paths.prompts.iter().map(|(path, _)| path.clone()).collect();
        self.strengths = paths.prompts;
        for (slot, paths) in [
            (InputSlot::Reference, paths.references),
            (InputSlot::Prompt, prompts),
        ] {
            let shown = self.inputs_in(slot).iter().map(|it| it.source.path());
            if shown.eq(paths.iter().map(PathBuf::as_path)) && slot == InputSlot::Reference {
                continue;
            }
            self.remove(slot);
            if !paths.is_empty() {
                let placing = onto(slot);
                self.await_files(cx, move || open_inputs(&paths, placing, paths.len()));
            }
        }
        self.remove(InputSlot::Control);
        self.awaited = paths.controls;
        if !self.awaited.is_empty() {
            let placing = SlotTarget {
                joins_frames: places_of(&cx.form, &cx.models).takes_control_videos,
                ..onto(InputSlot::Control)
            };
            let paths: Vec<PathBuf> = self.awaited.iter().map(|it| it.file.clone()).collect();
            self.await_files(cx, move || open_inputs(&paths, placing, paths.len()));
        }
    }
}
