//! Control images: how they come into the form, what is said of each, and what is sent of them.

use safelight_core::job::{CannyThresholds, ControlBy, ControlKind, ControlSettings, ControlUse};
use safelight_core::library::{ControlNetwork, FoundControl};

use crate::app_window::mask::{CANVAS, paint};
use crate::app_window::prelude::{found as found_models, *};

/// As FLUX.1 Canny: it makes nothing without an image of edges.
fn canny_spec() -> ModelSpec {
    let mut spec = flux_spec();
    (spec.id, spec.name) = ("canny".into(), "Canny".into());
    spec.mask = InputUse::No;
    let controls = &mut spec.limits.controls;
    (controls.by, controls.most) = (ControlBy::Channels, 1);
    (controls.is_required, controls.kind) = (true, Some(ControlKind::Edges));
    spec
}

/// As Wan VACE: it is shown a video frame by frame.
pub(crate) fn videos_spec() -> ModelSpec {
    let mut spec = spec();
    (spec.id, spec.name) = ("vace".into(), "VACE".into());
    let controls = &mut spec.limits.controls;
    (controls.by, controls.most) = (ControlBy::Layers, 1);
    (controls.takes_videos, controls.takes_masks) = (true, true);
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

const MASK: &str = "Choose a mask for control image 1";

pub(crate) fn add_control(bench: &mut Bench, file: &Path) {
    let placing = safelight::window::create::choices::SlotTarget::onto(Some(InputSlot::Control));
    bench.push(InputsCommand::OpenHere(vec![file.to_path_buf()], placing));
    let name = file.file_name().expect("it has a name").to_string_lossy();
    bench.wait_for(&name);
}

fn add_images<const N: usize>(bench: &mut Bench, names: [&str; N]) {
    for name in names {
        let file = bench.image_file(name, 64, 48);
        add_control(bench, &file);
    }
}

fn with_control(spec: ModelSpec) -> Bench {
    let mut bench = Bench::of(spec);
    add_images(&mut bench, ["depth.png"]);
    bench
}

fn put_networks(bench: &mut Bench, networks: &[FoundControl]) {
    bench.until("the search is done", |bench| {
        !bench.app().inputs.control_networks.is_looking()
    });
    bench.app().inputs.control_networks.networks.found = networks.to_vec();
    bench.settle();
}

fn networks_spec() -> ModelSpec {
    let mut spec = flux_spec();
    spec.limits.controls = ControlUse::NETWORKS;
    spec
}

fn use_network(bench: &mut Bench, path: &Path) {
    let settings = ControlSettings {
        network: Some(path.to_owned()),
        ..ControlSettings::default()
    };
    set_control(bench, 0, settings);
}

fn set_control(bench: &mut Bench, index: usize, settings: ControlSettings) {
    let inputs = &mut bench.app().inputs;
    inputs.change(InputSlot::Control, index, |image| image.control = settings);
    bench.settle();
}

fn take_over(bench: &mut Bench, request: &GenerateRequest, shown: &str) {
    bench.run(InputsCommand::Remove(InputSlot::Control));
    assert!(bench.request().controls.is_empty());
    bench.push(InputsCommand::TakeOver(Box::new(request.clone())));
    bench.wait_for(shown);
    assert_eq!(bench.request().controls, request.controls);
}

#[test]
fn a_model_that_needs_a_control_image_takes_the_first_one_and_draws_its_edges_if_wanted() {
    let mut bench = Bench::of(canny_spec());
    bench.assert_shows("Canny needs an image of edges");
    let room = bench.image_file("room.png", 96, 48);
    let boat = "tests/fixtures/edges/boat.png";
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(boat), &room).unwrap();
    bench.drop_until(&room, "Control image 1: room.png");
    bench.assert_hides("Canny needs an image of edges");
    let mut request = bench.request();
    assert_eq!((request.controls.len(), &request.image), (1, &None));
    let control = request.controls.remove(0);
    assert_eq!(
        (control.file, control.settings),
        (room, ControlSettings::default())
    );
    assert!(request.width > request.height, "as the image is shaped");

    bench.click(Role::CheckBox, "Detect edges (Canny) of control image 1");
    bench.until_image_is_shown();
    bench.snapshot("control_edges");
    let control = bench.request().controls.remove(0);
    assert_eq!(control.settings.made, Some(CannyThresholds::default()));
    // The next one stands where the model begins.
    let other = bench.image_file("other.png", 64, 64);
    bench.drop_file(&other);
    bench.until_input(InputSlot::Start);
    bench.press_until("Remove control image 1", "Canny needs an image of edges");
}

#[test]
fn each_control_of_a_network_has_its_own_strength_and_steps_and_settings_bring_them_back() {
    let mut bench = Bench::of(networks_spec());
    assert!(bench.has("Add a control image"));
    add_images(&mut bench, ["depth.png", "pose.png"]);
    bench.assert_shows("2 of 4|needs a ControlNet: choose its file");
    put_networks(&mut bench, &[]);
    bench.assert_shows("No ControlNet for Flux was found|ControlNet file of control image 1");
    bench.assert_shows("Get FLUX.1 dev ControlNet Union Pro 2.0…");
    let settings = |strength: f64| ControlSettings {
        kind: Some(ControlKind::Depth),
        strength,
        until: 0.8,
        network: Some("/nets/union.safetensors".into()),
        ..ControlSettings::default()
    };
    for (index, strength) in [(0, 0.6), (1, 1.2)] {
        set_control(&mut bench, index, settings(strength));
    }
    assert!(bench.has_node(Role::Slider, "Strength of control image 2"));
    let request = bench.request();
    let sent: Vec<_> = request.controls.iter().map(|it| &it.settings).collect();
    assert_eq!(sent, [&settings(0.6), &settings(1.2)]);
    take_over(&mut bench, &request, "2 of 4");
}

#[test]
fn a_second_image_takes_the_place_of_the_one_that_a_model_takes_and_waits_for_such_a_model() {
    let mut bench = Bench::of_models(vec![canny_spec(), spec()]);
    bench.set_model("canny");
    add_images(&mut bench, ["room.png", "boat.png"]);
    bench.assert_shows("Control image 1: boat.png");
    bench.assert_hides("takes one control image");
    let controls = bench.request().controls;
    assert_eq!(controls.len(), 1);
    assert!(controls[0].file.ends_with("boat.png"));
    bench.set_model(&spec().id);
    bench.assert_shows("This model does not use control images. They are kept.");
    assert!(bench.request().controls.is_empty());
}

#[test]
fn the_only_network_for_a_model_is_chosen_and_its_long_name_stays_in_the_form() {
    let mut bench = with_control(networks_spec());
    put_networks(&mut bench, &[]);
    bench.assert_shows("No ControlNet for Flux was found");
    let long = found(&"a-network-with-quite-a-long-name-".repeat(4));
    let path = Some(long.path.clone());
    put_networks(&mut bench, &[long]);
    bench.assert_hides("Choose the ControlNet for this image");
    let edge = bench.rect(Role::Button, "Generate").right() + 1.0;
    for (role, name) in [
        (Role::ComboBox, "ControlNet of control image 1"),
        (Role::Slider, "Strength of control image 1"),
        (Role::Button, "Remove control image 1"),
    ] {
        assert!(bench.rect(role, name).right() <= edge, "{name}");
    }
    assert_eq!(bench.request().controls[0].settings.network, path);
}

#[test]
fn controlnet_must_be_chosen_when_several_are_installed() {
    let mut bench = with_control(networks_spec());
    let networks = ["union", "union-2.1"].map(found);
    put_networks(&mut bench, &networks);
    bench.assert_shows("Choose the ControlNet for this image");
    use_network(&mut bench, &networks[0].path);
    bench.assert_hides("Choose the ControlNet for this image");
    let list = bench.node(Role::ComboBox, "ControlNet of control image 1");
    assert_eq!(list.value().as_deref(), Some("union"));
}

#[test]
fn control_video_is_labelled_takes_a_video_as_mask_and_offers_no_edge_detection() {
    let mut bench = Bench::of(videos_spec());
    bench.assert_shows("Control video");
    let video = bench.video_file("dance.mp4", 64, 48, 5);
    add_control(&mut bench, &video);
    // They may have been wanted with another model.
    let settings = ControlSettings {
        made: Some(CannyThresholds::default()),
        ..ControlSettings::default()
    };
    set_control(&mut bench, 0, settings);
    bench.assert_shows("5 frames");
    assert!(bench.has("Strength of control image 1"));
    bench.assert_hides("Detect edges (Canny) of control image 1");
    // A mask that is a video goes with it and is not painted on.
    let mask = bench.video_file("mask.mp4", 64, 48, 5);
    bench.scroll_to(MASK);
    bench.drop_onto(MASK, &mask, "mask.mp4");
    assert!(bench.is_disabled("Edit the mask of control image 1"));
    let mut request = bench.request();
    let control = request.controls.remove(0);
    assert_eq!((control.file, control.settings.made), (video, None));
    assert_eq!(control.mask, Some(mask));
    assert_eq!((request.extend, request.mask), (None, None));
}

#[test]
fn a_video_becomes_the_control_video_of_a_model_that_is_shown_videos() {
    let mut bench = Bench::of_models(vec![videos_spec(), networks_spec()]);
    bench.set_model(&videos_spec().id);
    let video = bench.video_file("dance.mp4", 64, 48, 5);
    let show = |bench: &mut Bench| {
        bench.push(PlayerCommand::PlayFile(video.clone()));
        bench.until_file(&video);
    };
    show(&mut bench);
    bench.press_more_until("Use as control video", "Control image 1: dance.mp4");
    assert_eq!(bench.request().controls[0].file, video);
    bench.set_model(&networks_spec().id);
    show(&mut bench);
    bench.press("More");
    assert!(bench.has("Extend video"));
    assert!(!bench.has("Use as control video"), "it sees images alone");
}

#[test]
fn a_mask_that_a_network_needs_is_asked_for_painted_or_dropped_and_comes_back() {
    let (mut bench, [fills, plain]) = with_mask_networks();
    use_network(&mut bench, &plain.path);
    assert!(!bench.has(MASK));
    use_network(&mut bench, &fills.path);
    bench.assert_shows("fills a part of its image: paint which, or drop a mask");
    let needed = "The ControlNet of control image 1 regenerates a part of it and needs a mask";
    assert_eq!(bench.count(needed), 1);
    assert!(bench.is_disabled("Generate"));
    bench.push(QueueCommand::Submit);
    bench.assert_no_job();
    bench.node(Role::Button, "Paint a mask for control image 1");

    bench.press_until("Paint…", CANVAS);
    assert!(!bench.has("Extend left"), "only a control video gets room");
    paint(&mut bench, egui::vec2(64.0, 48.0), 32.0, 24.0);
    assert!(!bench.has(needed) && !bench.is_disabled("Generate"));
    bench.assert_shows("What you painted is used");
    let request = bench.request();
    let painted = request.controls[0].mask.clone().expect("it was painted");
    let painted = safelight_core::media::open_rgb(&painted).unwrap();
    assert_eq!((painted.width, painted.height), (64, 48));
    assert_eq!(painted.pixel(32, 24)[0], 255);
    assert_eq!((request.mask, request.image), (None, None));

    bench.press("Remove the mask of control image 1");
    let mask = bench.image_file("hole.png", 64, 48);
    bench.scroll_to(MASK);
    bench.drop_onto(MASK, &mask, "hole.png");
    let request = bench.request();
    assert_eq!(request.controls[0].mask.as_ref(), Some(&mask));
    take_over(&mut bench, &request, "hole.png");
}

#[test]
fn a_search_for_models_looks_for_control_networks_again() {
    let mut bench = Bench::with(|startup| {
        let models = found_models(vec![networks_spec()]);
        startup.models = Some(models.clone());
        startup.library.load = Arc::new(move |_| models.clone());
    });
    add_images(&mut bench, ["depth.png"]);
    put_networks(&mut bench, &[found("gone"), found("gone-too")]);
    bench.assert_shows("Choose the ControlNet for this image");
    bench.push(LibraryCommand::Reload);
    bench.wait_for("No ControlNet for Flux was found");
}

#[test]
fn while_control_networks_are_looked_for_none_is_called_missing() {
    let mut bench = Bench::of(networks_spec());
    // One thread searches, one thing after the other.
    let (go_on, held) = crossbeam_channel::bounded::<()>(0);
    let before = bench.app().cx.background.search(move || held.recv().ok());
    assert!(before.is_busy());
    add_images(&mut bench, ["depth.png"]);
    bench.assert_shows("Looking for ControlNets");
    bench.assert_hides("No ControlNet for Flux was found");
    drop(go_on);
    bench.wait_for("No ControlNet for Flux was found");
}

/// A window with a control image of a model with ControlNets that take masks; the two that are found, of which the
/// first needs one.
fn with_mask_networks() -> (Bench, [FoundControl; 2]) {
    let mut spec = networks_spec();
    spec.limits.controls.takes_masks = true;
    let mut bench = with_control(spec);
    let [mut fills, plain] = [found("fills"), found("plain")];
    fills.config.takes_masks = true;
    let networks = [fills, plain];
    put_networks(&mut bench, &networks);
    (bench, networks)
}

#[test]
fn mask_unsupported_by_the_chosen_controlnet_is_kept_and_reported() {
    let (mut bench, [fills, plain]) = with_mask_networks();
    use_network(&mut bench, &fills.path);
    let mask = bench.image_file("hole.png", 64, 48);
    bench.scroll_to(MASK);
    bench.drop_onto(MASK, &mask, "hole.png");
    let told = "This ControlNet takes no mask. The mask of the control image is kept.";
    assert!(!bench.has(told));
    use_network(&mut bench, &plain.path);
    bench.assert_shows(told);
    assert_eq!(bench.request().controls[0].mask, None);
    use_network(&mut bench, &fills.path);
    assert_eq!(bench.request().controls[0].mask, Some(mask));
    use_network(&mut bench, &plain.path);
    bench.press("Remove");
    assert!(!bench.has("hole.png") && !bench.has(told));
}

#[test]
fn submit_hint_above_generate_wraps_and_is_fully_visible() {
    let mut spec = networks_spec();
    spec.name = "Qwen-Image-2512".into();
    let bench = with_control(spec);
    let text = "A control image of Qwen-Image-2512 needs a ControlNet: choose its file";
    let line = bench.labelled(text).rect();
    let button = bench.rect(Role::Button, "Generate");
    assert!(line.height() > 20.0, "more than one line: {line:?}");
    assert!(line.bottom() <= button.top() && line.right() <= button.right() + 1.0);
}
