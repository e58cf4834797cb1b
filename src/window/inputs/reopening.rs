//! Files of a request or of an earlier run, put back in the places of inputs.

use std::path::PathBuf;

use crate::window::create::choices::SavedInput;
use crate::window::inputs::InputSlots;
use crate::window::prelude::*;

impl InputSlots {
    pub(in crate::window) fn take_over(&mut self, request: &GenerateRequest, cx: &mut AppContext) {
        cx.replace_form(GenerateForm::from(request));
        self.reopen(saved_inputs(request), cx);
        self.name_size(&mut cx.form, &cx.models);
    }

    /// Puts these files in place of all inputs.
    pub(super) fn reopen(&mut self, inputs: Vec<SavedInput>, cx: &AppContext) {
        self.is_reopen_due = false;
        self.reopened = Some(inputs.clone());
        // Pending files belong to the previous form.
        (self.opening, self.given) = (BackgroundTask::default(), BackgroundTask::default());
        for slot in InputSlot::ALL {
            let wanted = inputs.iter().filter(|it| it.slot == slot);
            let paths: Vec<PathBuf> = wanted.map(|it| it.path.clone()).collect();
            let shown = self.inputs_in(slot).iter().map(|it| it.source.path());
            let has_settings = matches!(slot, InputSlot::Control | InputSlot::Prompt);
            if !has_settings && shown.eq(paths.iter().map(PathBuf::as_path)) {
                continue;
            }
            // Also where the others cannot be opened.
            self.remove(slot);
            if !paths.is_empty() {
                let placing = SlotTarget {
                    keeps_size: true,
                    ..SlotTarget::onto(Some(slot))
                };
                self.open_here(paths, placing, cx);
            }
        }
        self.awaited = inputs;
    }
}

/// Files that a request was made from.
fn saved_inputs(request: &GenerateRequest) -> Vec<SavedInput> {
    let video = request.extend.as_ref().or(request.source_video.as_ref());
    let plain = [
        (InputSlot::Start, video.or(request.image.as_ref())),
        (InputSlot::End, request.last_image.as_ref()),
        (InputSlot::Mask, request.mask.as_ref()),
    ];
    let plain = plain
        .into_iter()
        .filter_map(|(slot, path)| Some((slot, path?)));
    let references = request.references.iter();
    let plain = plain.chain(references.map(|path| (InputSlot::Reference, path)));
    let plain = plain.map(|(slot, path)| SavedInput::new(slot, path.clone()));
    let prompts = request.prompt_images.iter().map(|it| SavedInput {
        strength: it.strength,
        ..SavedInput::new(InputSlot::Prompt, it.path.clone())
    });
    let controls = request.controls.iter().map(|it| SavedInput {
        control: it.settings.clone(),
        mask: it.mask.clone(),
        ..SavedInput::new(InputSlot::Control, it.file.clone())
    });
    plain.chain(prompts).chain(controls).collect()
}
