//! How strictly the prompt is followed: one guidance, one for each of two experts, or a distilled model's own and the
//! classifier-free one beside it.

use egui::{Slider, SliderClamping, Ui};
use safelight_core::job::{GenerateForm, Sampling};
use safelight_core::model::{Guidance, ModelSpec};

use crate::ui::widgets::{
    Own, default_row, field_hint, group_label, reset_button, row, typed_number, wide_slider,
};

pub(super) fn guidance_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    match spec.guidance {
        Guidance::Cfg if spec.has_two_experts() => experts_ui(ui, form, spec),
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

fn own_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec, explanation: &str) {
    let default = spec.defaults.sampling.guidance_scale;
    default_row(
        ui,
        ("Guidance", "guidance", explanation),
        &mut form.sampling.guidance_scale,
        (default, default.to_string()),
        |ui, label, scale| {
            wide_slider(ui, guidance_slider(scale), explanation).labelled_by(label);
        },
    );
}

/// Classifier-free guidance beside a guidance that is something else.
fn real_ui(ui: &mut Ui, form: &mut GenerateForm) {
    const NAME: &str = "Real guidance (CFG)";
    let explanation = "Steers away from the negative prompt by a second look at each step. Above 1 each step takes twice as long; 1 turns it off";
    let own_scale = form.sampling.true_cfg_scale.unwrap_or(1.0);
    let own = Own::of("real guidance", &own_scale, &1.0, "off");
    if group_ui(ui, NAME, explanation, &own) {
        form.sampling.true_cfg_scale = None;
    }
    let before = form.sampling.true_cfg_scale.unwrap_or(1.0);
    let mut scale = before;
    row(ui, "", explanation, |ui, _| {
        let slider = Slider::new(&mut scale, 1.0..=10.0)
            .step_by(0.1)
            .max_decimals(2)
            .custom_parser(typed_number)
            .clamping(SliderClamping::Never);
        wide_slider(ui, slider, explanation).accessible_name(NAME);
    });
    if scale != before {
        form.sampling.true_cfg_scale = Some(scale);
    }
    if scale <= 1.0 {
        field_hint(ui, "Off. Above 1 a negative prompt acts");
    }
}

fn experts_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let scales_of = |sampling: Sampling| (sampling.guidance_scale, sampling.low_guidance_scale());
    let (high, low) = scales_of(spec.defaults.sampling);
    let own = Own::of(
        "guidance",
        &scales_of(form.sampling_for(spec)),
        &(high, low),
        format!("{high} and {low}"),
    );
    let explanation = "How strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
    if group_ui(ui, "Guidance", explanation, &own) {
        form.sampling.guide_experts(None, None);
    }
    let before = scales_of(form.sampling_for(spec));
    let mut scales = before;
    let experts = [
        (
            "High noise",
            "Guidance, high noise",
            "How strictly the expert for the composition and the motion follows the prompt",
            &mut scales.0,
        ),
        (
            "Low noise",
            "Guidance, low noise",
            "How strictly the expert for the details follows the prompt",
            &mut scales.1,
        ),
    ];
    for (label, name, explanation, scale) in experts {
        row(ui, label, explanation, |ui, _| {
            wide_slider(ui, guidance_slider(scale), explanation).accessible_name(name);
        });
    }
    if scales != before {
        // One that is changed alone does not change the other.
        let (high, low) = scales;
        form.sampling.guide_experts(Some(high), Some(low));
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
