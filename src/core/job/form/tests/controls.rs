//! Control pictures: what a model takes, and how they are to act.

use super::pictures::{asked, dev};
use super::*;
use crate::job::{Control, ControlSettings, Edges};
use crate::model::{ControlBy, ControlKind, ControlUse};

fn with(controls: ControlUse) -> ModelSpec {
    let mut spec = dev();
    spec.limits.controls = controls;
    spec
}

fn networks() -> ModelSpec {
    with(ControlUse::NETWORKS)
}

/// As a model that sees one beside the noise.
fn channels(kind: ControlKind) -> ModelSpec {
    with(ControlUse {
        by: ControlBy::Channels,
        most: 1,
        is_required: true,
        kind: Some(kind),
        ..ControlUse::NONE
    })
}

fn control(change: impl FnOnce(&mut FormControl)) -> FormControl {
    let mut control = FormControl::from(Source::Picture(picture(640, 480)));
    change(&mut control);
    control
}

fn given(spec: &ModelSpec, controls: Vec<FormControl>) -> Result<Validated, String> {
    asked(spec, |form| form.controls = controls)
}

/// What is told of one control of a model that takes networks.
fn problem(change: impl FnOnce(&mut FormControl)) -> String {
    let one = control(|it| {
        it.settings.network = Some("union.safetensors".into());
        change(it);
    });
    given(&networks(), vec![one]).unwrap_err()
}

#[test]
fn a_control_of_a_network_that_does_nothing_is_left_out() {
    let one = control(|it| {
        it.settings.network = Some("union.safetensors".into());
        it.settings.strength = 0.0;
    });
    let found = given(&networks(), vec![one]).unwrap();
    assert!(found.request.controls.is_empty());
    assert!(
        found
            .notices
            .iter()
            .any(|it| it.message.contains("strength of 0"))
    );
}

#[test]
fn a_control_of_a_network_goes_into_the_request_as_it_was_said() {
    let one = control(|it| {
        it.settings = ControlSettings {
            kind: Some(ControlKind::Depth),
            strength: 0.7,
            from: 0.1,
            until: 0.9,
            network: Some("union.safetensors".into()),
            made: None,
        };
    });
    let two = control(|it| it.settings.network = Some("edges.safetensors".into()));
    let checked = given(&networks(), vec![one.clone(), two]).unwrap();
    assert_eq!(checked.notices, []);
    let request = checked.request;
    assert_eq!(request.controls[0], Control::from(&one));
    assert_eq!(request.controls[0].settings.strength, 0.7);
    let inputs: Vec<_> = request.inputs().map(|it| it.to_str().unwrap()).collect();
    assert_eq!(
        inputs,
        ["a.jpg", "union.safetensors", "a.jpg", "edges.safetensors"]
    );
    // The first of them says which shape the result has.
    assert!(request.width > request.height);
    let again: GenerateRequest =
        serde_json::from_value(serde_json::to_value(&request).unwrap()).unwrap();
    assert_eq!(again, request);
    let form = GenerateForm {
        controls: vec![one],
        ..form()
    };
    let again: GenerateForm = serde_json::from_value(serde_json::to_value(&form).unwrap()).unwrap();
    assert_eq!(again, form);
    let plain = asked(&networks(), |_| {}).unwrap().request;
    assert!(
        serde_json::to_value(&plain)
            .unwrap()
            .get("controls")
            .is_none()
    );
}

#[test]
fn a_model_says_how_many_controls_it_takes_and_of_which_kind() {
    let one = || vec![control(|_| {})];
    let two = || vec![control(|_| {}), control(|_| {})];
    let named = |kind| vec![control(|it| it.settings.kind = Some(kind))];
    let made = || vec![control(|it| it.settings.made = Some(Edges::default()))];
    let (depth, edges) = (channels(ControlKind::Depth), channels(ControlKind::Edges));
    for (spec, controls, why) in [
        (&dev(), one(), "Test model does not use control pictures"),
        (&depth, Vec::new(), "Test model needs a depth map"),
        (
            &edges,
            Vec::new(),
            "or a picture whose edges are computed here",
        ),
        (&depth, two(), "takes one control picture, not 2"),
        (
            &depth,
            named(ControlKind::Pose),
            "takes a depth map, not a picture of a pose",
        ),
        (
            &depth,
            made(),
            "edges mean nothing where Test model is shown",
        ),
        (
            &networks(),
            vec![control(|_| {}); 5],
            "takes at most 4 control pictures, not 5",
        ),
    ] {
        let err = given(spec, controls).unwrap_err();
        assert!(err.starts_with("control: ") && err.contains(why), "{err}");
    }
    assert!(given(&depth, named(ControlKind::Depth)).is_ok());
    assert!(given(&edges, made()).is_ok());
    let network = vec![control(|it| {
        it.settings.network = Some("n.safetensors".into());
    })];
    let err = given(&depth, network).unwrap_err();
    assert!(
        err.contains("without a ControlNet: leave out n.safetensors"),
        "{err}"
    );
}

#[test]
fn what_is_wrong_with_a_control_is_told_in_a_sentence() {
    let err = problem(|it| it.settings.network = None);
    assert!(err.contains("needs a ControlNet: choose its file"), "{err}");
    for strength in [-0.1, 2.1, f64::NAN] {
        let err = problem(|it| it.settings.strength = strength);
        assert!(err.contains("must be between 0 and 2"), "{err}");
    }
    for (from, until) in [(0.5, 0.5), (-0.1, 1.0), (0.0, 1.1), (f64::NAN, 1.0)] {
        let err = problem(|it| (it.settings.from, it.settings.until) = (from, until));
        assert!(err.contains("two numbers between 0 and 1"), "{err}");
    }
    for (low, high) in [(0, 100), (200, 100), (1, 1001)] {
        let err = problem(|it| it.settings.made = Some(Edges { low, high }));
        assert!(err.contains("two whole numbers from 1 to 1000"), "{err}");
    }
    let err = problem(|it| it.source = Source::Clip(clip(64, 64, 8.0)));
    assert!(
        err.contains("takes control pictures, not clips: a.mp4"),
        "{err}"
    );
    let err = problem(|it| it.mask = Some(Source::Picture(picture(64, 64))));
    assert!(
        err.contains("takes no mask with a control picture"),
        "{err}"
    );
}

#[test]
fn a_model_that_sees_the_picture_itself_follows_it_always() {
    let half = control(|it| (it.settings.strength, it.settings.until) = (0.5, 0.8));
    let checked = given(&channels(ControlKind::Depth), vec![half]).unwrap();
    assert_eq!(
        checked.request.controls[0].settings,
        ControlSettings::default()
    );
    let text = told(&checked).join("\n");
    assert!(text.starts_with("The strength and the steps of the control are not used"));
}
