//! How strictly the prompt is followed: one guidance, one for each of two experts, or a distilled model's own and the
//! classifier-free one beside it.

use egui::{Slider, SliderClamping, Ui};
use safelight_core::model::{Guidance, ModelSpec};

use crate::app::form::{FormState, has_two_experts};
use crate::ui::widgets::{
    Own, field_hint, group_label, own_row, reset_button, row, typed_number, wide_slider,
};

pub(super) fn guidance_ui(ui: &mut Ui, form: &mut FormState, spec: &ModelSpec) {
    match spec.guidance {
        Guidance::Cfg if has_two_experts(spec) => experts_ui(ui, form, spec),
        Guidance::Cfg => own_ui(
            ui,
            form,
            spec,
            "How strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh",
        ),
        Guidance::Distilled => {
            own_ui(
                ui,
                form,
                spec,
                "How strictly the prompt is followed. The model was trained to be told this number, so it costs no time; too high looks harsh",
            );
            real_ui(ui, form);
        }
        Guidance::None => real_ui(ui, form),
    }
}

fn own_ui(ui: &mut Ui, form: &mut FormState, spec: &ModelSpec, explanation: &str) {
    let default = spec.defaults.guidance_scale;
    let own = Own::of(
        "guidance",
        &form.guidance_scale,
        &default,
        default.to_string(),
    );
    let reset = own_row(ui, "Guidance", explanation, &own, |ui, label| {
        let slider = guidance_slider(&mut form.guidance_scale);
        wide_slider(ui, slider, explanation).labelled_by(label);
    });
    if reset {
        form.guidance_scale = default;
    }
}

/// Classifier-free guidance beside a guidance that is something else.
fn real_ui(ui: &mut Ui, form: &mut FormState) {
    const NAME: &str = "Real guidance (CFG)";
    let explanation = "Steers away from the negative prompt by a second look at each step. Above 1 each step takes twice as long; 1 turns it off";
    let own = Own::of("real guidance", &form.true_cfg_scale, &1.0, "off");
    if group_ui(ui, NAME, explanation, &own) {
        form.true_cfg_scale = 1.0;
    }
    row(ui, "", explanation, |ui, _| {
        let slider = Slider::new(&mut form.true_cfg_scale, 1.0..=10.0)
            .step_by(0.1)
            .max_decimals(2)
            .custom_parser(typed_number)
            .clamping(SliderClamping::Never);
        wide_slider(ui, slider, explanation).accessible_name(NAME);
    });
    if form.true_cfg_scale <= 1.0 {
        field_hint(ui, "Off. Above 1 a negative prompt acts");
    }
}

fn experts_ui(ui: &mut Ui, form: &mut FormState, spec: &ModelSpec) {
    let high = spec.defaults.guidance_scale;
    let low = spec.defaults.guidance_scale_2.unwrap_or(high);
    let scales = (form.guidance_scale, form.guidance_scale_2);
    let own = Own::of(
        "guidance",
        &scales,
        &(high, low),
        format!("{high} and {low}"),
    );
    let explanation = "How strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
    if group_ui(ui, "Guidance", explanation, &own) {
        (form.guidance_scale, form.guidance_scale_2) = (high, low);
    }
    let experts = [
        (
            "High noise",
            "Guidance, high noise",
            "How strictly the expert for the composition and the motion follows the prompt",
            &mut form.guidance_scale,
        ),
        (
            "Low noise",
            "Guidance, low noise",
            "How strictly the expert for the details follows the prompt",
            &mut form.guidance_scale_2,
        ),
    ];
    for (label, name, explanation, scale) in experts {
        row(ui, label, explanation, |ui, _| {
            wide_slider(ui, guidance_slider(scale), explanation).accessible_name(name);
        });
    }
}

/// The heading of a group that can be put back.
fn group_ui(ui: &mut Ui, text: &str, explanation: &str, own: &Own) -> bool {
    ui.horizontal(|ui| {
        group_label(ui, text, explanation);
        reset_button(ui, own)
    })
    .inner
}

fn guidance_slider(scale: &mut f64) -> Slider<'_> {
    Slider::new(scale, 0.0..=15.0)
        .step_by(0.1)
        .max_decimals(2)
        .custom_parser(typed_number)
        .clamping(SliderClamping::Never)
}
