//! How strictly the prompt is followed: one guidance, one for each of two experts, or a distilled model's own and the
//! classifier-free one beside it.

use egui::{Slider, SliderClamping, Ui};
use safelight_core::job::{GenerateForm, Sampling};
use safelight_core::model::{Guidance, ModelSpec};

use crate::ui::widgets::{
    Own, default_row, field_hint, group_label, reset_button, row, typed_number, wide_slider,
};

const GUIDANCE: &str = "Guidance";
const GUIDANCE_HOVER: &str = "CFG scale: how strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
const CFG: &str = "CFG scale";
const CFG_HOVER: &str = "True classifier-free guidance, which steers away from the negative prompt. Above 1 each step takes twice as long";

pub(super) fn guidance_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    match spec.guidance {
        Guidance::Cfg if spec.has_two_experts() => experts_ui(ui, form, spec),
        Guidance::Cfg => own_ui(ui, form, spec, GUIDANCE_HOVER),
        Guidance::Distilled => {
            let explanation = "How strictly the prompt is followed. The model was trained with \
                              this number, so it costs no time; too high looks harsh";
            own_ui(ui, form, spec, explanation);
            real_ui(ui, form);
        }
        Guidance::None => real_ui(ui, form),
    }
}

fn own_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec, explanation: &str) {
    let default = spec.defaults.sampling.guidance_scale;
    default_row(
        ui,
        (GUIDANCE, "guidance", explanation),
        &mut form.sampling.guidance_scale,
        (default, default.to_string()),
        |ui, label, scale| {
            wide_slider(ui, guidance_slider(scale), explanation).labelled_by(label);
        },
    );
}

/// Classifier-free guidance beside a guidance that is something else.
fn real_ui(ui: &mut Ui, form: &mut GenerateForm) {
    default_row(
        ui,
        (CFG, CFG, CFG_HOVER),
        &mut form.sampling.true_cfg_scale,
        (1.0, "1"),
        |ui, label, scale| {
            let slider = Slider::new(scale, 1.0..=10.0)
                .step_by(0.1)
                .max_decimals(2)
                .custom_parser(typed_number)
                .clamping(SliderClamping::Never);
            wide_slider(ui, slider, CFG_HOVER).labelled_by(label);
        },
    );
    field_hint(ui, "1 = off; higher values use the negative prompt");
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
    // The heading of both can put them back.
    let reset = ui.horizontal(|ui| {
        group_label(ui, GUIDANCE, GUIDANCE_HOVER);
        reset_button(ui, &own)
    });
    if reset.inner {
        form.sampling.guide_experts(None, None);
    }
    let before = scales_of(form.sampling_for(spec));
    let mut scales = before;
    let experts = [
        (
            "High noise",
            "Guidance, high noise",
            "How strictly the expert for composition and motion follows the prompt",
            &mut scales.0,
        ),
        (
            "Low noise",
            "Guidance, low noise",
            "How strictly the expert for details follows the prompt",
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

fn guidance_slider(scale: &mut f64) -> Slider<'_> {
    Slider::new(scale, 0.0..=15.0)
        .step_by(0.1)
        .max_decimals(2)
        .custom_parser(typed_number)
        .clamping(SliderClamping::Never)
}
