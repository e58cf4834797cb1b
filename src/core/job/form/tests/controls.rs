//! Control images: what a model takes, and how they are to act.

use super::images::dev;
use super::*;
use crate::job::{CannyThresholds, ControlInput, ControlSettings};
use crate::model::{ControlBy, ControlKind, ControlUse};

fn with(controls: ControlUse) -> ModelSpec {
    let mut spec = dev();
    spec.limits.controls = controls;
    spec
}

fn networks() -> ModelSpec {
    with(ControlUse::NETWORKS)
}

/// As a model that sees one next to the noise.
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
    let mut control = FormControl::from(InputMedia::Image(start_image(640, 480)));
    change(&mut control);
    control
}

fn given(spec: &ModelSpec, controls: Vec<FormControl>) -> Result<ValidatedForm, String> {
    checked(spec, |form| form.inputs.controls = controls)
}

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
    assert_contains(&found.notices[0].message, "strength of 0");
}

#[test]
fn controlnet_settings_reach_the_request_unchanged() {
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
    assert_eq!(request.controls[0], ControlInput::from(&one));
    assert_eq!(request.controls[0].settings.strength, 0.7);
    let inputs: Vec<_> = request.inputs().map(|it| it.to_str().unwrap()).collect();
    let expected = "a.jpg union.safetensors a.jpg edges.safetensors";
    assert_eq!(inputs.join(" "), expected);
    // The first of them says which shape the result has.
    assert!(request.width > request.height);
    assert_eq!(written_and_read(&request), request);
    let form = GenerateForm {
        inputs: FormInputs {
            controls: vec![one],
            ..FormInputs::default()
        },
        ..form()
    };
    assert_eq!(written_and_read(&form), form);
    let plain = request_of(&networks(), |_| {});
    let written = serde_json::to_value(&plain).unwrap();
    assert!(written.get("controls").is_none());
}

#[test]
fn number_and_kind_of_controls_must_match_the_model() {
    let of = |count| vec![control(|_| {}); count];
    let named = |kind| vec![control(|it| it.settings.kind = Some(kind))];
    let thresholds = Some(CannyThresholds::default());
    let made = || vec![control(|it| it.settings.made = thresholds)];
    let network = Some("n.safetensors".into());
    let network = vec![control(|it| it.settings.network = network)];
    let no_edges = "edges mean nothing where Test model is shown";
    let no_network = "without a ControlNet: leave out n.safetensors";
    let (depth, edges) = (channels(ControlKind::Depth), channels(ControlKind::Edges));
    let pose = named(ControlKind::Pose);
    for (spec, controls, expected) in [
        (&dev(), of(1), "Test model does not use control images"),
        (&depth, of(0), "Test model needs a depth map"),
        (&edges, of(0), "or an image whose edges are computed here"),
        (&depth, of(2), "takes one control image, not 2"),
        (&depth, pose, "takes a depth map, not an image of a pose"),
        (&depth, made(), no_edges),
        (&networks(), of(5), "takes at most 4 control images, not 5"),
        (&depth, network, no_network),
    ] {
        let err = given(spec, controls).unwrap_err();
        assert_starts(&err, "control: ");
        assert_contains(&err, expected);
    }
    assert!(given(&depth, named(ControlKind::Depth)).is_ok());
    assert!(given(&edges, made()).is_ok());
}

#[test]
fn invalid_control_settings_are_refused_with_a_reason() {
    let err = problem(|it| it.settings.network = None);
    assert_contains(&err, "needs a ControlNet: choose its file");
    for strength in [-0.1, 2.1, f64::NAN] {
        let err = problem(|it| it.settings.strength = strength);
        assert_contains(&err, "must be between 0 and 2");
    }
    for (from, until) in [(0.5, 0.5), (-0.1, 1.0), (0.0, 1.1), (f64::NAN, 1.0)] {
        let err = problem(|it| (it.settings.from, it.settings.until) = (from, until));
        assert_contains(&err, "two numbers between 0 and 1");
    }
    for (low, high) in [(0, 100), (200, 100), (1, 1001)] {
        let err = problem(|it| it.settings.made = Some(CannyThresholds { low, high }));
        assert_contains(&err, "two whole numbers from 1 to 1000");
    }
    let err = problem(|it| it.source = InputMedia::Video(source_video(64, 64, 8.0)));
    assert_contains(&err, "takes control images, not videos: a.mp4");
    let err = problem(|it| it.mask = Some(InputMedia::Image(start_image(64, 64))));
    assert_contains(&err, "takes no mask with a control image");
}

#[test]
fn a_model_that_sees_the_image_itself_follows_it_always() {
    let half = control(|it| (it.settings.strength, it.settings.until) = (0.5, 0.8));
    let checked = given(&channels(ControlKind::Depth), vec![half]).unwrap();
    let control = &checked.request.controls[0];
    assert_eq!(control.settings, ControlSettings::default());
    let expected = "The strength and the steps of the control are not used";
    assert_starts(&checked.notices[0].message, expected);
}
