//! Size, length, seed, and under "Advanced" everything else that a model can be told.

use egui::{CollapsingHeader, ComboBox, DragValue, RichText, Slider, TextEdit, Ui};
use safelight_core::catalog::ModelSpec;
use safelight_core::job::Sampler;

use super::widgets::{duration_text, field_error, icon_button, icon_toggle, palette, row};
use super::{View, icons};
use crate::app::commands::AppCommand;
use crate::app::form::{FormState, SizeChoice};

const ASPECTS: [(u32, u32, &str); 5] = [
    (16, 9, "Wide"),
    (4, 3, "Landscape"),
    (1, 1, "Square"),
    (3, 4, "Portrait"),
    (9, 16, "Tall"),
];

pub(super) fn parameters_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(spec) = view.session.model(&view.state.form).cloned() else {
        return;
    };
    size_ui(ui, view, &spec);
    length_ui(ui, view, &spec);
    seed_ui(ui, view);
    let header = CollapsingHeader::new("Advanced")
        .id_salt("advanced")
        .open(None)
        .default_open(view.state.is_advanced_open)
        .show_unindented(ui, |ui| advanced_ui(ui, view, &spec));
    view.state.is_advanced_open = header.fully_open();
}

fn size_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation =
        "Width and height of the clip in pixels. Larger takes longer and needs more memory";
    row(ui, "Size", explanation, |ui, label| {
        let has_picture = view.session.picture.is_some();
        let form = &mut view.state.form;
        let auto = auto_text(spec, has_picture);
        let selected = match form.size {
            SizeChoice::Auto => auto.clone(),
            SizeChoice::Custom => "Custom".to_owned(),
            SizeChoice::Aspect(across, down) => aspect_text(spec, across, down),
        };
        let before = form
            .size(spec)
            .unwrap_or((spec.defaults.width, spec.defaults.height));
        let response = ComboBox::from_id_salt("size")
            .selected_text(selected)
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut form.size, SizeChoice::Auto, auto);
                if !spec.limits.fixed_size {
                    for (across, down, _) in ASPECTS {
                        let text = aspect_text(spec, across, down);
                        ui.selectable_value(&mut form.size, SizeChoice::Aspect(across, down), text);
                    }
                }
                if ui
                    .selectable_label(form.size == SizeChoice::Custom, "Custom…")
                    .clicked()
                {
                    form.size = SizeChoice::Custom;
                    (form.width, form.height) = before;
                }
            });
        response
            .response
            .labelled_by(label)
            .on_hover_text(explanation);
    });
    if view.state.form.size == SizeChoice::Custom {
        custom_size_ui(ui, &mut view.state.form, spec);
    }
    for field in ["width", "height"] {
        if let Some(message) = view.error_of(field) {
            field_error(ui, &message);
        }
    }
}

fn custom_size_ui(ui: &mut Ui, form: &mut FormState, spec: &ModelSpec) {
    let multiple = spec.limits.size_multiple;
    let explanation = format!("In pixels, a multiple of {multiple}");
    row(ui, "", &explanation, |ui, _| {
        for (name, value) in [("Width", &mut form.width), ("Height", &mut form.height)] {
            if name == "Height" {
                ui.label("×");
            }
            ui.add(
                DragValue::new(value)
                    .range(0..=16_384)
                    .speed(f64::from(multiple) / 8.0)
                    .suffix(" px"),
            )
            .on_hover_text(&explanation)
            .accessible_name(name);
        }
    });
}

fn auto_text(spec: &ModelSpec, has_picture: bool) -> String {
    if has_picture && !spec.limits.fixed_size {
        "Like the picture".to_owned()
    } else {
        format!("{} × {}", spec.defaults.width, spec.defaults.height)
    }
}

fn aspect_text(spec: &ModelSpec, across: u32, down: u32) -> String {
    let (width, height) = spec.size_for_aspect(f64::from(across) / f64::from(down.max(1)));
    let name = ASPECTS
        .iter()
        .find(|aspect| (aspect.0, aspect.1) == (across, down))
        .map_or("", |aspect| aspect.2);
    format!("{name}  {width} × {height}")
}

fn length_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = "How long the clip is. One frame is a picture";
    row(ui, "Length", explanation, |ui, label| {
        let form = &mut view.state.form;
        let stride = spec.limits.frame_stride.max(1);
        let mut groups = form.num_frames.saturating_sub(1) / stride;
        let most = spec.limits.max_frames.saturating_sub(1) / stride;
        ui.spacing_mut().slider_width = (ui.available_width() - 106.0).max(40.0);
        let slider = Slider::new(&mut groups, 0..=most).show_value(false);
        if ui
            .add(slider)
            .on_hover_text(explanation)
            .labelled_by(label)
            .changed()
        {
            form.num_frames = groups * stride + 1;
        }
        ui.add(
            DragValue::new(&mut form.num_frames)
                .range(0..=100_000)
                .speed(f64::from(stride) / 8.0)
                .suffix(" frames"),
        )
        .on_hover_text(format!("A multiple of {stride}, plus one"))
        .accessible_name("Frames");
    });
    let form = &view.state.form;
    let text = if form.num_frames == 1 {
        "A single picture".to_owned()
    } else {
        format!(
            "{} at {} frames a second",
            seconds_text(f64::from(form.num_frames) / form.fps),
            form.fps
        )
    };
    let weak = palette(ui).weak;
    row(ui, "", explanation, |ui, _| {
        ui.label(RichText::new(text).small().color(weak))
    });
    if let Some(message) = view.error_of("frames") {
        field_error(ui, &message);
    }
}

/// Short times with a decimal.
fn seconds_text(secs: f64) -> String {
    if secs < 60.0 {
        format!("{secs:.1} s")
    } else {
        duration_text(secs)
    }
}

fn seed_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation =
        "The number that chance begins with. The same seed and settings make the same clip";
    row(ui, "Seed", explanation, |ui, label| {
        let width = ui.available_width() - 98.0;
        let edit = TextEdit::singleline(&mut view.state.form.seed)
            .id_salt("seed")
            .desired_width(width);
        let response = ui.add(edit).labelled_by(label).on_hover_text(explanation);
        if response.changed() {
            view.session.is_seed_used = false;
        }
        let is_locked = view.state.form.is_seed_locked;
        let (icon, name, meaning) = if is_locked {
            (
                icons::LOCK,
                "Unlock seed",
                "Locked: every clip uses this seed. Click for a new one each time",
            )
        } else {
            (
                icons::LOCK_OPEN,
                "Lock seed",
                "Unlocked: every new clip gets a new seed. Click to keep this one",
            )
        };
        if icon_toggle(ui, is_locked, icon, name, meaning).clicked() {
            view.state.form.is_seed_locked = !is_locked;
            // Locking is for the clip just made.
        }
        if icon_button(ui, icons::DICE, "Roll a new seed", "Another seed").clicked() {
            view.push(AppCommand::RollSeed);
        }
    });
    if let Some(message) = view.error_of("seed") {
        field_error(ui, &message);
    }
}

fn advanced_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let form = &mut view.state.form;
    let explanation = "How many times the picture is refined. More is slower and cleaner";
    row(ui, "Steps", explanation, |ui, label| {
        ui.spacing_mut().slider_width = (ui.available_width() - 70.0).max(40.0);
        let slider =
            Slider::new(&mut form.num_steps, 1..=100).clamping(egui::SliderClamping::Never);
        ui.add(slider).on_hover_text(explanation).labelled_by(label);
    });
    error_ui(ui, view, "steps");
    let form = &mut view.state.form;
    let explanation = "How strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
    row(ui, "Guidance", explanation, |ui, label| {
        ui.spacing_mut().slider_width = (ui.available_width() - 70.0).max(40.0);
        let slider = Slider::new(&mut form.guidance_scale, 0.0..=15.0)
            .step_by(0.1)
            .max_decimals(2)
            .clamping(egui::SliderClamping::Never);
        ui.add(slider).on_hover_text(explanation).labelled_by(label);
    });
    error_ui(ui, view, "guidance");
    sampler_ui(ui, &mut view.state.form);
    shift_ui(ui, &mut view.state.form, spec);
    error_ui(ui, view, "shift");
    let form = &mut view.state.form;
    let explanation =
        "Frames a second of the written clip. It changes how fast it plays, not what is made";
    row(ui, "Frame rate", explanation, |ui, label| {
        ui.add(
            DragValue::new(&mut form.fps)
                .range(0.0..=240.0)
                .speed(0.1)
                .max_decimals(3)
                .suffix(" fps"),
        )
        .on_hover_text(explanation)
        .labelled_by(label);
    });
    error_ui(ui, view, "fps");
    if ui
        .button("Reset to the model's defaults")
        .on_hover_text("Everything but the prompt and the seed")
        .clicked()
    {
        view.push(AppCommand::ResetForm);
    }
}

fn error_ui(ui: &mut Ui, view: &View<'_>, field: &str) {
    if let Some(message) = view.error_of(field) {
        field_error(ui, &message);
    }
}

fn sampler_ui(ui: &mut Ui, form: &mut FormState) {
    let explanation =
        "How noise becomes a picture. UniPC needs fewer steps; Euler is the plain way";
    row(ui, "Sampler", explanation, |ui, label| {
        ComboBox::from_id_salt("sampler")
            .selected_text(form.sampler.label())
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                for sampler in Sampler::ALL {
                    ui.selectable_value(&mut form.sampler, sampler, sampler.label());
                }
            })
            .response
            .labelled_by(label)
            .on_hover_text(explanation);
    });
}

fn shift_ui(ui: &mut Ui, form: &mut FormState, spec: &ModelSpec) {
    let explanation =
        "Where the steps are spent: higher on composition and motion, lower on detail";
    row(ui, "Shift", explanation, |ui, label| {
        let mut is_own = form.shift.is_some();
        let toggle = ui
            .checkbox(&mut is_own, "")
            .on_hover_text("Off: the model's own schedule")
            .accessible_name("Set the shift");
        if toggle.changed() {
            form.shift = is_own.then(|| spec.defaults.shift.unwrap_or(3.0));
        }
        match &mut form.shift {
            Some(shift) => {
                ui.add(
                    DragValue::new(shift)
                        .range(0.0..=100.0)
                        .speed(0.05)
                        .max_decimals(2),
                )
                .on_hover_text(explanation)
                .labelled_by(label);
            }
            None => {
                ui.label("the model's own");
            }
        }
    });
}
