//! Control images: whether a model can do with them, and how they are to act.
//!
//! Looks at no file: what a network is for is found where it is opened.

use serde::{Deserialize, Serialize};

use super::{FormProblems, GenerateForm, InputMedia};
use crate::job::{ControlInput, ControlSettings};
use crate::model::{ControlBy, ControlKind, ControlUse, ModelSpec};
use crate::units::range_problem;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormControl {
    pub source: InputMedia,
    /// Mask of the regenerated part: white is regenerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<InputMedia>,
    #[serde(flatten)]
    pub settings: ControlSettings,
}

impl From<InputMedia> for FormControl {
    fn from(source: InputMedia) -> Self {
        Self {
            source,
            mask: None,
            settings: ControlSettings::default(),
        }
    }
}

impl From<&FormControl> for ControlInput {
    fn from(control: &FormControl) -> Self {
        Self {
            file: control.source.path().to_owned(),
            mask: control.mask.as_ref().map(|mask| mask.path().to_owned()),
            settings: control.settings.clone(),
        }
    }
}

/// The controls of the request: what means nothing to the model is left out of them, with a notice.
pub(super) fn settle(
    form: &GenerateForm,
    spec: &ModelSpec,
    found: &mut FormProblems,
) -> Vec<ControlInput> {
    check_number(form, spec, found);
    if !spec.limits.controls.is_possible() {
        return Vec::new();
    }
    let acts = |control: &&FormControl| {
        let is_idle = control.settings.strength == 0.0;
        if is_idle && spec.limits.controls.by == ControlBy::Networks {
            let text = "A control with a strength of 0 is left out";
            found.note("control", text);
            return false;
        }
        true
    };
    let acting: Vec<&FormControl> = form.inputs.controls.iter().filter(acts).collect();
    let each = acting.into_iter().map(|control| {
        check_files(control, spec, found);
        check_settings(&control.settings, spec, found);
        let mut control = ControlInput::from(control);
        drop_idle(&mut control.settings, spec, found);
        control
    });
    each.collect()
}

fn check_number(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let (takes, given, name) = (spec.limits.controls, form.inputs.controls.len(), &spec.name);
    let most = takes.most as usize;
    if !takes.is_possible() {
        if given > 0 {
            found.fail("control", format!("{name} does not use control images"));
        }
    } else if given > most {
        let text = match most {
            1 => format!("{name} takes one control image, not {given}"),
            _ => format!("{name} takes at most {most} control images, not {given}"),
        };
        found.fail("control", text);
    } else if given == 0 && takes.is_required {
        let what = takes.kind.map_or("a control image", ControlKind::described);
        let or_made = match takes.kind {
            Some(ControlKind::Edges) => ", or an image whose edges are computed here",
            _ => "",
        };
        found.fail("control", format!("{name} needs {what}{or_made}"));
    }
}

fn check_files(control: &super::FormControl, spec: &ModelSpec, found: &mut FormProblems) {
    let (takes, name) = (spec.limits.controls, &spec.name);
    let given = [Some(&control.source), control.mask.as_ref()];
    for source in given.into_iter().flatten() {
        if matches!(source, InputMedia::Video(_)) && !takes.takes_videos {
            let file = source.path().display();
            let text = format!("{name} takes control images, not videos: {file}");
            found.fail("control", text);
        }
    }
    if control.mask.is_some() && !takes.takes_masks {
        let text = format!("{name} takes no mask with a control image");
        found.fail("control", text);
    }
}

fn check_settings(settings: &ControlSettings, spec: &ModelSpec, found: &mut FormProblems) {
    let (takes, name) = (spec.limits.controls, &spec.name);
    match (takes.by, &settings.network) {
        (ControlBy::Networks, None) => {
            let text = format!("a control image of {name} needs a ControlNet: choose its file");
            found.fail("control", text);
        }
        (ControlBy::Channels | ControlBy::Layers, Some(network)) => {
            let text = format!(
                "{name} takes control images without a ControlNet: leave out {}",
                network.display()
            );
            found.fail("control", text);
        }
        _ => {}
    }
    if let Some((own, asked)) = takes.kind.zip(settings.kind)
        && own != asked
    {
        let text = format!(
            "{name} takes {}, not {}",
            own.described(),
            asked.described()
        );
        found.fail("control", text);
    }
    if takes.takes_videos && settings.made.is_some() {
        let text = format!(
            "{name} is shown a control video as it is: leave out the edges, or give a video of edges"
        );
        found.fail("control", text);
    }
    let is_other = |kind| kind != ControlKind::Edges;
    if settings.made.is_some() && takes.kind.or(settings.kind).is_some_and(is_other) {
        let text = format!("edges mean nothing where {name} is shown another kind of image");
        found.fail("control", text);
    }
    found.check("control", problem(settings));
}

fn problem(settings: &ControlSettings) -> Option<String> {
    let (strengths, strength) = (ControlSettings::STRENGTHS, settings.strength);
    if let Some(text) = range_problem("the strength of a control", &strengths, "", strength) {
        return Some(text);
    }
    let (from, until) = (settings.from, settings.until);
    if !(from >= 0.0 && from < until && until <= 1.0) {
        return Some(format!(
            "the part of the steps in which a control acts must be two numbers between 0 and 1, the first below the second, not {from}..{until}"
        ));
    }
    settings.made.and_then(crate::job::CannyThresholds::problem)
}

/// A model that sees the image itself sees it in every step and whole.
fn drop_idle(settings: &mut ControlSettings, spec: &ModelSpec, found: &mut FormProblems) {
    if spec.limits.controls.by != ControlBy::Channels {
        return;
    }
    let whole = ControlSettings::default();
    let asked = (settings.strength, settings.from, settings.until);
    if asked != (whole.strength, whole.from, whole.until) {
        let text = format!(
            "The strength and the steps of the control are not used: {} always follows its image",
            spec.name
        );
        found.note("control", text);
    }
    (settings.strength, settings.from, settings.until) = (whole.strength, whole.from, whole.until);
}

impl GenerateForm {
    /// Takes out what the model does not take of the controls' settings, as [`Self::as_shown`] does for the rest.
    pub(super) fn show_controls(&mut self, takes: ControlUse) {
        for control in &mut self.inputs.controls {
            if !takes.takes_masks {
                control.mask = None;
            }
            let settings = &mut control.settings;
            if takes.by != ControlBy::Networks {
                settings.network = None;
            }
            if takes.by == ControlBy::Channels {
                let whole = ControlSettings::default();
                (settings.strength, settings.from, settings.until) =
                    (whole.strength, whole.from, whole.until);
            }
            if takes.kind.is_some() {
                settings.kind = None;
            }
            if takes.kind.is_some_and(|kind| kind != ControlKind::Edges) || takes.takes_videos {
                settings.made = None;
            }
        }
    }
}
