//! Control pictures: how they come into the form, what is said of each, and what is sent of them.

use safelight::app::commands::RestoreCommand;
use safelight_core::job::{ControlBy, ControlKind, ControlSettings, ControlUse, Edges};
use safelight_core::library::{ControlNetwork, FoundControl};

use crate::app_window::mask::{CANVAS, paint};
use crate::app_window::pictures::request_of;
use crate::app_window::prelude::*;

/// As FLUX.1 Canny: it makes nothing without a picture of edges.
fn canny_spec() -> ModelSpec {
    let mut spec = flux_spec();
    (spec.id, spec.name) = ("canny".into(), "Canny".into());
    spec.mask = InputUse::No;
    spec.limits.controls = ControlUse {
        by: ControlBy::Channels,
        most: 1,
        is_required: true,
        kind: Some(ControlKind::Edges),
        ..ControlUse::NONE
    };
    spec
}

/// As Wan VACE: it is shown a clip frame by frame.
pub(crate) fn clips_spec() -> ModelSpec {
    let mut spec = spec();
    (spec.id, spec.name) = ("vace".into(), "VACE".into());
    spec.limits.controls = ControlUse {
        by: ControlBy::Layers,
        most: 1,
        takes_clips: true,
        takes_masks: true,
        ..ControlUse::NONE
    };
    spec
}

/// A ControlNet for the family of [`networks_spec`] that was found under this name.
fn found(name: &str) -> FoundControl {
    FoundControl {
        path: format!("/nets/{name}.safetensors").into(),
        name: name.to_owned(),
        config: ControlNetwork {
            family: networks_spec().family,
            label: "ControlNet",
            kinds: &[],
            takes_masks: false,
        },
    }
}

/// Puts a picture among the controls, and waits for it.
pub(crate) fn add_control(bench: &mut Bench, file: &Path) {
    let placing = safelight::app::choices::SlotTarget::onto(Some(Slot::Control));
    let open = InputsCommand::OpenHere(vec![file.to_path_buf()], placing);
    bench.push(open);
    let name = file
        .file_name()
        .expect("it has a name")
        .to_string_lossy()
        .into_owned();
    bench.wait_for(&name);
}

/// Has the search for ControlNets end as if it had found these.
fn put_networks(bench: &mut Bench, networks: &[FoundControl]) {
    bench.until("the search is done", |bench| {
        !bench.app().inputs.control_networks.is_looking()
    });
    bench.app().inputs.control_networks.found = networks.to_vec();
    bench.settle();
}

/// A model with ControlNets.
fn networks_spec() -> ModelSpec {
    let mut spec = flux_spec();
    spec.limits.controls = ControlUse::NETWORKS;
    spec
}

#[test]
fn a_model_that_needs_a_control_picture_takes_the_first_one_and_draws_its_edges_if_wanted() {
    let mut bench = Bench::of(canny_spec());
    bench.assert_shows("Canny needs a picture of edges");
    let room = bench.picture_file("room.png", 96, 48);
    let boat = "tests/fixtures/edges/boat.png";
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(boat), &room).unwrap();
    bench.drop_until(&room, "Control picture 1: room.png");
    assert!(!bench.has("Canny needs a picture of edges"));
    let request = request_of(&mut bench);
    assert_eq!((request.controls.len(), &request.image), (1, &None));
    assert_eq!(request.controls[0].file, room);
    assert_eq!(request.controls[0].settings, ControlSettings::default());
    assert!(request.width > request.height, "as the picture is shaped");

    let edges = "Draw its edges of control picture 1";
    bench.click(Role::CheckBox, edges);
    bench.until("edges are drawn", |bench| !bench.app().cx.thumbs.is_busy());
    bench.harness.snapshot("control_edges");
    let request = request_of(&mut bench);
    assert_eq!(request.controls[0].settings.made, Some(Edges::default()));
    // The next one stands where the model begins.
    let other = bench.picture_file("other.png", 64, 64);
    bench.drop_file(&other);
    bench.until("it is there", |bench| {
        bench.app().inputs.get(Slot::Start).is_some()
    });
    bench.press("Remove control picture 1");
    bench.assert_shows("Canny needs a picture of edges");
}

#[test]
fn each_control_of_a_network_has_its_own_strength_and_steps_and_settings_bring_them_back() {
    let mut bench = Bench::of(networks_spec());
    assert!(bench.has("Add a control picture"));
    let files = ["depth.png", "pose.png"].map(|name| bench.picture_file(name, 64, 48));
    for file in &files {
        add_control(&mut bench, file);
    }
    bench.assert_shows("2 of 4");
    bench.assert_shows("needs a ControlNet: choose its file");
    put_networks(&mut bench, &[]);
    bench.assert_shows("No ControlNet for Flux was found");
    let settings = |strength: f64| ControlSettings {
        kind: Some(ControlKind::Depth),
        strength,
        until: 0.8,
        network: Some("/nets/union.safetensors".into()),
        ..ControlSettings::default()
    };
    for (index, strength) in [(0, 0.6), (1, 1.2)] {
        let set = InputsCommand::SetControl(index, settings(strength));
        bench.push(set);
    }
    bench.settle();
    let sliders = bench
        .harness
        .query_by_role_and_label(Role::Slider, "Strength of control picture 2");
    assert!(sliders.is_some());
    let request = request_of(&mut bench);
    let sent: Vec<_> = request.controls.iter().map(|it| &it.settings).collect();
    assert_eq!(sent, [&settings(0.6), &settings(1.2)]);

    bench.push(InputsCommand::Remove(Slot::Control));
    bench.settle();
    assert!(request_of(&mut bench).controls.is_empty());
    let take = InputsCommand::TakeOver(Box::new(request.clone()));
    bench.push(take);
    bench.wait_for("2 of 4");
    assert_eq!(request_of(&mut bench).controls, request.controls);
}

#[test]
fn a_model_without_controls_keeps_them_and_sends_none() {
    let mut bench = Bench::of_models(vec![canny_spec(), spec()]);
    bench.form().model = Some("canny".into());
    bench.settle();
    bench.drop_picture("room.png", 64, 48, "Control picture 1: room.png");
    bench.form().model = Some(spec().id);
    bench.settle();
    bench.assert_shows("This model does not use control pictures. They are kept.");
    assert!(request_of(&mut bench).controls.is_empty());
}

#[test]
fn a_second_picture_takes_the_place_of_the_one_that_a_model_takes() {
    let mut bench = Bench::of(canny_spec());
    for name in ["room.png", "boat.png"] {
        let file = bench.picture_file(name, 64, 48);
        add_control(&mut bench, &file);
    }
    bench.assert_shows("Control picture 1: boat.png");
    assert!(!bench.has("takes one control picture"));
    let controls = request_of(&mut bench).controls;
    assert_eq!(controls.len(), 1);
    assert!(controls[0].file.ends_with("boat.png"));
}

#[test]
fn the_only_network_for_a_model_is_chosen_and_its_long_name_stays_in_the_form() {
    let mut bench = Bench::of(networks_spec());
    let file = bench.picture_file("depth.png", 64, 48);
    add_control(&mut bench, &file);
    put_networks(&mut bench, &[]);
    bench.assert_shows("No ControlNet for Flux was found");
    let long = found(&"a-network-with-quite-a-long-name-".repeat(4));
    let path = Some(long.path.clone());
    put_networks(&mut bench, &[long]);
    bench.settle();
    assert!(!bench.has("Choose the ControlNet for this picture"));
    let right = |bench: &Bench, role, name: &str| {
        let node = bench.node(role, name);
        node.rect().right()
    };
    let edge = right(&bench, Role::Button, "Generate") + 1.0;
    let list = "ControlNet of control picture 1";
    assert!(right(&bench, Role::ComboBox, list) <= edge);
    let slider = "Strength of control picture 1";
    assert!(right(&bench, Role::Slider, slider) <= edge);
    let remove = "Remove control picture 1";
    assert!(right(&bench, Role::Button, remove) <= edge);
    assert_eq!(request_of(&mut bench).controls[0].settings.network, path);
}

#[test]
fn of_several_networks_one_is_asked_for_where_it_is_chosen() {
    let mut bench = Bench::of(networks_spec());
    let file = bench.picture_file("depth.png", 64, 48);
    add_control(&mut bench, &file);
    put_networks(&mut bench, &[found("union"), found("union-2.1")]);
    bench.assert_shows("Choose the ControlNet for this picture");
    let settings = ControlSettings {
        network: Some("/nets/union.safetensors".into()),
        ..ControlSettings::default()
    };
    let set = InputsCommand::SetControl(0, settings);
    bench.push(set);
    bench.settle();
    assert!(!bench.has("Choose the ControlNet for this picture"));
    let list = "ControlNet of control picture 1";
    let list = bench.node(Role::ComboBox, list);
    assert_eq!(list.value().as_deref(), Some("union"));
}

#[test]
fn a_model_that_is_shown_clips_says_so_and_draws_no_edges_of_them() {
    let mut bench = Bench::of(clips_spec());
    bench.assert_shows("Control clip");
    let clip = bench.clip_file("dance.mp4", 64, 48, 5);
    add_control(&mut bench, &clip);
    // They may have been wanted with another model.
    let settings = ControlSettings {
        made: Some(Edges::default()),
        ..ControlSettings::default()
    };
    let set = InputsCommand::SetControl(0, settings);
    bench.push(set);
    bench.settle();
    bench.assert_shows("5 frames");
    assert!(bench.has("Strength of control picture 1"));
    assert!(!bench.has("Draw its edges of control picture 1"));
    let control = request_of(&mut bench).controls.remove(0);
    assert_eq!((control.file, control.settings.made), (clip, None));
}

#[test]
fn a_clip_becomes_the_control_clip_of_a_model_that_is_shown_clips() {
    let mut bench = Bench::of_models(vec![clips_spec(), networks_spec()]);
    bench.form().model = Some(clips_spec().id);
    let clip = bench.clip_file("dance.mp4", 64, 48, 5);
    let show = |bench: &mut Bench| {
        let play = PlayerCommand::PlayFile(clip.clone());
        bench.push(play);
        bench.until("it is shown", |bench| {
            let watch = &bench.app().watch;
            watch.mode == ViewerMode::File && watch.texture.handle().is_some()
        });
    };
    show(&mut bench);
    bench.press_more("Use as control clip");
    bench.wait_for("Control picture 1: dance.mp4");
    assert_eq!(request_of(&mut bench).controls[0].file, clip);
    bench.form().model = Some(networks_spec().id);
    bench.settle();
    show(&mut bench);
    bench.press("More");
    assert!(bench.has("Extend clip"));
    assert!(!bench.has("Use as control clip"), "it sees pictures alone");
}

/// Has the pointer over a button, lets go a file there, and waits for it.
pub(crate) fn drop_onto(bench: &mut Bench, place: &str, file: &Path, expected: &str) {
    bench.scroll_to(place);
    let place = bench.node(Role::Button, place);
    let place = place.rect().center();
    bench.harness.hover_at(place);
    bench.settle();
    bench.drop_until(file, expected);
}

#[test]
fn a_mask_that_a_network_needs_is_painted_or_dropped_and_comes_back() {
    let mut spec = networks_spec();
    spec.limits.controls.takes_masks = true;
    let mut bench = Bench::of(spec);
    let file = bench.picture_file("room.png", 64, 48);
    add_control(&mut bench, &file);
    let [mut fills, plain] = [found("fills"), found("plain")];
    fills.config.takes_masks = true;
    put_networks(&mut bench, &[fills.clone(), plain.clone()]);
    use_network(&mut bench, &plain);
    assert!(!bench.has("Choose a mask for control picture 1"));
    use_network(&mut bench, &fills);
    bench.assert_shows("fills a part of its picture: paint which, or drop a mask");

    bench.scroll_to("Paint a mask for control picture 1");
    bench.press("Paint a mask for control picture 1");
    bench.wait_for(CANVAS);
    assert!(!bench.has("Extend left"), "only a control clip gets room");
    paint(&mut bench, egui::vec2(64.0, 48.0), 32.0, 24.0);
    bench.assert_shows("What you painted is used");
    let request = request_of(&mut bench);
    let painted = request.controls[0].mask.clone().expect("it was painted");
    let painted = safelight_core::media::open_picture(&painted).unwrap();
    assert_eq!((painted.width, painted.height), (64, 48));
    assert_eq!(painted.pixel(32, 24)[0], 255);
    assert_eq!((request.mask, request.image), (None, None));

    bench.press("Remove the mask of control picture 1");
    let mask = bench.picture_file("hole.png", 64, 48);
    let place = "Choose a mask for control picture 1";
    drop_onto(&mut bench, place, &mask, "hole.png");
    let request = request_of(&mut bench);
    assert_eq!(request.controls[0].mask.as_ref(), Some(&mask));
    bench.push(InputsCommand::Remove(Slot::Control));
    bench.settle();
    let take = InputsCommand::TakeOver(Box::new(request.clone()));
    bench.push(take);
    bench.wait_for("hole.png");
    assert_eq!(request_of(&mut bench).controls, request.controls);
}

#[test]
fn a_mask_that_is_a_clip_goes_with_a_control_clip_and_is_not_painted_on() {
    let mut bench = Bench::of(clips_spec());
    let clip = bench.clip_file("dance.mp4", 64, 48, 5);
    add_control(&mut bench, &clip);
    let mask = bench.clip_file("mask.mp4", 64, 48, 5);
    let place = "Choose a mask for control picture 1";
    drop_onto(&mut bench, place, &mask, "mask.mp4");
    let edit = "Edit the mask of control picture 1";
    let edit = bench.node(Role::Button, edit);
    assert!(edit.accesskit_node().is_disabled());
    let request = request_of(&mut bench);
    assert_eq!(
        (&request.controls[0].file, request.controls[0].mask.as_ref()),
        (&clip, Some(&mask))
    );
    assert_eq!((request.extend, request.mask), (None, None));
}

#[test]
fn a_search_for_models_looks_for_control_networks_again() {
    let mut bench = Bench::with(|startup| {
        let found = FoundModels {
            specs: vec![networks_spec()],
            ..FoundModels::default()
        };
        startup.models = Some(found.clone());
        startup.library.load = Arc::new(move |_| found.clone());
    });
    let file = bench.picture_file("depth.png", 64, 48);
    add_control(&mut bench, &file);
    put_networks(&mut bench, &[found("gone"), found("gone-too")]);
    bench.assert_shows("Choose the ControlNet for this picture");
    bench.push(LibraryCommand::Reload);
    bench.wait_for("No ControlNet for Flux was found");
}

#[test]
fn while_control_networks_are_looked_for_none_is_called_missing() {
    let mut bench = Bench::of(networks_spec());
    // One thread searches, one thing after the other.
    let (go_on, held) = crossbeam_channel::bounded::<()>(0);
    let before = bench.app().cx.background.search(move || held.recv().ok());
    assert!(before.is_some());
    let file = bench.picture_file("depth.png", 64, 48);
    add_control(&mut bench, &file);
    bench.assert_shows("Looking for ControlNets");
    assert!(!bench.has("No ControlNet for Flux was found"));
    drop(go_on);
    bench.wait_for("No ControlNet for Flux was found");
}

/// A window with a control picture of a model with ControlNets that take masks; the two that are found, of which the
/// first needs one.
fn with_mask_networks() -> (Bench, [FoundControl; 2]) {
    let mut spec = networks_spec();
    spec.limits.controls.takes_masks = true;
    let mut bench = Bench::of(spec);
    let file = bench.picture_file("room.png", 64, 48);
    add_control(&mut bench, &file);
    let [mut fills, plain] = [found("fills"), found("plain")];
    fills.config.takes_masks = true;
    let networks = [fills, plain];
    put_networks(&mut bench, &networks);
    (bench, networks)
}

/// Has the first control brought in by this network.
fn use_network(bench: &mut Bench, network: &FoundControl) {
    let settings = ControlSettings {
        network: Some(network.path.clone()),
        ..ControlSettings::default()
    };
    let set = InputsCommand::SetControl(0, settings);
    bench.push(set);
    bench.settle();
}

#[test]
fn nothing_is_made_while_a_network_lacks_the_mask_that_it_needs() {
    let (mut bench, [fills, _]) = with_mask_networks();
    use_network(&mut bench, &fills);
    let needed = "The ControlNet of control picture 1 regenerates a part of it and needs a mask";
    assert_eq!(bench.harness.query_all_by_label_contains(needed).count(), 1);
    let generate = |bench: &Bench| {
        let button = bench.node(Role::Button, "Generate");
        button.accesskit_node().is_disabled()
    };
    assert!(generate(&bench));
    bench.push(QueueCommand::Submit);
    bench.assert_no_job();
    bench.press("Paint…");
    bench.wait_for(CANVAS);
    paint(&mut bench, egui::vec2(64.0, 48.0), 32.0, 24.0);
    assert!(!bench.has(needed) && !generate(&bench));
    assert!(request_of(&mut bench).controls[0].mask.is_some());
}

#[test]
fn a_mask_that_the_chosen_network_does_not_take_is_kept_and_told() {
    let (mut bench, [fills, plain]) = with_mask_networks();
    use_network(&mut bench, &fills);
    let mask = bench.picture_file("hole.png", 64, 48);
    let place = "Choose a mask for control picture 1";
    drop_onto(&mut bench, place, &mask, "hole.png");
    let told = "This ControlNet takes no mask. The mask of the control picture is kept.";
    assert!(!bench.has(told));
    use_network(&mut bench, &plain);
    bench.assert_shows(told);
    assert_eq!(request_of(&mut bench).controls[0].mask, None);
    use_network(&mut bench, &fills);
    assert_eq!(request_of(&mut bench).controls[0].mask, Some(mask));
    use_network(&mut bench, &plain);
    bench.press("Remove");
    assert!(!bench.has("hole.png") && !bench.has(told));
}

#[test]
fn what_stands_above_generate_is_read_to_its_end() {
    let mut spec = networks_spec();
    spec.name = "Qwen-Image-2512".into();
    let mut bench = Bench::of(spec);
    let file = bench.picture_file("depth.png", 64, 48);
    add_control(&mut bench, &file);
    let text = "A control picture of Qwen-Image-2512 needs a ControlNet: choose its file";
    let line = bench.labelled(text).rect();
    let button = bench.node(Role::Button, "Generate");
    let button = button.rect();
    assert!(line.height() > 20.0, "more than one line: {line:?}");
    assert!(line.bottom() <= button.top() && line.right() <= button.right() + 1.0);
}

#[test]
fn the_next_control_image_gets_the_settings_that_a_file_names() {
    let mut bench = Bench::of(networks_spec());
    let text = "a fox\nSteps: 9, CFG scale: 1, Seed: 77, Model: flux1-dev, ControlNet 0: \"Module: depth, Model: union [abc], Weight: 0.6, Guidance Start: 0, Guidance End: 0.8\"";
    let path = bench.home.path().join("fox.txt");
    fs::write(&path, text).expect("it is written");
    bench.push(RestoreCommand::Use(path));
    bench.until("it is taken over", |bench| {
        bench.form().sampling.num_steps == Some(9)
    });
    let pose = bench.picture_file("pose.png", 64, 48);
    add_control(&mut bench, &pose);
    let control = bench.app().inputs.of(Slot::Control)[0].control.clone();
    assert_eq!((control.strength, control.until), (0.6, 0.8));
}
