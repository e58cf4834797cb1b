//! Which variables an engine gets on which machine.

use super::*;

fn target(kind: &'static str, class: DeviceClass, gfx: &[&str]) -> EngineTarget {
    EngineTarget {
        kind,
        class,
        gfx: gfx.iter().map(ToString::to_string).collect(),
        rocm_order: None,
        miopen: MiopenMode::default(),
    }
}

fn halo() -> EngineTarget {
    target("rocm", DeviceClass::Unified, &["gfx1151"])
}

/// The value and origin that a variable gets.
fn of(
    target: &EngineTarget,
    settings: &RuntimeSettings,
    inherited: &[(&str, &str)],
    name: &str,
) -> Option<(Option<String>, VariableOrigin)> {
    let inherited = inherited
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let all = variables(target, settings, &inherited);
    let variable = all.into_iter().find(|variable| variable.name == name)?;
    Some((variable.value, variable.origin))
}

fn set(value: &str, origin: VariableOrigin) -> (Option<String>, VariableOrigin) {
    (Some(value.to_owned()), origin)
}

#[test]
fn each_class_gets_its_own_variables_and_the_allocator_none() {
    let plain = RuntimeSettings::default();
    let names = |target: &EngineTarget| -> Vec<String> {
        let all = variables(target, &plain, &BTreeMap::new());
        all.into_iter().map(|variable| variable.name).collect()
    };
    let rocm = [
        "GOMP_SPINCOUNT",
        MIOPEN_FIND_MODE,
        MIOPEN_LAYOUT,
        "TORCH_BLAS_PREFER_HIPBLASLT",
        "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",
    ];
    assert_eq!(names(&halo()), rocm);
    let navi = target("rocm", DeviceClass::Discrete, &["gfx1100"]);
    assert_eq!(names(&navi), [rocm[0], rocm[1], rocm[2], rocm[4]]);
    let nvidia = target("cuda", DeviceClass::Discrete, &[]);
    assert_eq!(names(&nvidia), [rocm[0]]);
    assert_eq!(names(&target("cpu", DeviceClass::Cpu, &[])), [rocm[0]]);
}

#[test]
fn an_override_of_the_target_is_taken_from_gfx1151_and_left_to_others_who_need_it() {
    let plain = RuntimeSettings::default();
    let inherited = [("HSA_OVERRIDE_GFX_VERSION", "11.0.0")];
    let name = "HSA_OVERRIDE_GFX_VERSION";
    let removed = Some((None, VariableOrigin::Removed));
    assert_eq!(of(&halo(), &plain, &inherited, name), removed);
    let phoenix = target("rocm", DeviceClass::Unified, &["gfx1103"]);
    let left = Some(set("11.0.0", VariableOrigin::Inherited));
    assert_eq!(of(&phoenix, &plain, &inherited, name), left);
}

#[test]
fn inherited_ways_of_the_allocator_stop_before_a_gpu_and_the_setting_goes_through() {
    let inherited = [
        ("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ];
    let mut settings = RuntimeSettings::default();
    let removed = Some((None, VariableOrigin::Removed));
    for (name, _) in inherited {
        assert_eq!(of(&halo(), &settings, &inherited, name), removed);
    }
    assert_eq!(
        of(&halo(), &settings, &inherited, "PYTORCH_ALLOC_CONF"),
        None
    );
    settings.allocator = AllocatorChoice::Expandable;
    assert_eq!(
        of(&halo(), &settings, &inherited, "PYTORCH_ALLOC_CONF"),
        Some(set("expandable_segments:True", VariableOrigin::Settings))
    );
    settings.verbose_miopen = true;
    assert_eq!(
        of(&halo(), &settings, &[], "MIOPEN_LOG_LEVEL"),
        Some(set("5", VariableOrigin::Settings))
    );
}

#[test]
fn a_search_for_convolutions_that_a_shell_asked_for_gives_way_and_the_settings_do_not() {
    let mut settings = RuntimeSettings::default();
    let inherited = [("MIOPEN_FIND_MODE", "NORMAL"), ("MIOPEN_FIND_ENFORCE", "3")];
    let ours = Some(set("2", VariableOrigin::Safelight));
    assert_eq!(of(&halo(), &settings, &inherited, "MIOPEN_FIND_MODE"), ours);
    let removed = Some((None, VariableOrigin::Removed));
    assert_eq!(
        of(&halo(), &settings, &inherited, "MIOPEN_FIND_ENFORCE"),
        removed
    );
    let mut say = |name: &str, value: &str| {
        let said = settings
            .environment
            .insert(name.to_owned(), value.to_owned());
        assert_eq!(said, None);
    };
    say("MIOPEN_FIND_MODE", "1");
    say("GOMP_SPINCOUNT", "");
    say("MINE", "yes");
    let all = |name| of(&halo(), &settings, &inherited, name);
    assert_eq!(
        all("MIOPEN_FIND_MODE"),
        Some(set("1", VariableOrigin::Settings))
    );
    assert_eq!(
        all("GOMP_SPINCOUNT"),
        Some((None, VariableOrigin::Settings))
    );
    assert_eq!(all("MINE"), Some(set("yes", VariableOrigin::Settings)));
}

#[test]
fn the_layout_of_convolutions_is_the_safe_one_on_amd_unless_the_user_set_another() {
    let mut settings = RuntimeSettings::default();
    let ours = Some(set("0", VariableOrigin::Safelight));
    assert_eq!(of(&halo(), &settings, &[], MIOPEN_LAYOUT), ours);
    // Passed on as it is.
    let shell = [(MIOPEN_LAYOUT, "1")];
    assert_eq!(of(&halo(), &settings, &shell, MIOPEN_LAYOUT), None);
    let said = settings
        .environment
        .insert(MIOPEN_LAYOUT.to_owned(), "1".to_owned());
    assert_eq!(said, None);
    let theirs = Some(set("1", VariableOrigin::Settings));
    assert_eq!(of(&halo(), &settings, &[], MIOPEN_LAYOUT), theirs);
    let nvidia = target("cuda", DeviceClass::Discrete, &[]);
    let plain = RuntimeSettings::default();
    assert_eq!(of(&nvidia, &plain, &[], MIOPEN_LAYOUT), None);
}

#[test]
fn what_a_probe_found_of_miopen_reaches_the_engine_unless_the_settings_say_otherwise() {
    let mut settings = RuntimeSettings::default();
    let found = EngineTarget {
        miopen: MiopenMode::SearchingInnermost,
        ..halo()
    };
    let shell = [(MIOPEN_FIND_MODE, "1")];
    let searches = of(&found, &settings, &shell, MIOPEN_FIND_MODE);
    assert_eq!(searches, Some((None, VariableOrigin::Safelight)));
    let layout = of(&found, &settings, &[], MIOPEN_LAYOUT);
    assert_eq!(layout, Some(set("1", VariableOrigin::Safelight)));
    let said = settings
        .environment
        .insert(MIOPEN_FIND_MODE.to_owned(), "3".to_owned());
    assert_eq!(said, None);
    let searches = of(&found, &settings, &shell, MIOPEN_FIND_MODE);
    assert_eq!(searches, Some(set("3", VariableOrigin::Settings)));
}

#[test]
fn the_display_gpu_is_left_out_unless_the_shell_chose_gpus() {
    let plain = RuntimeSettings::default();
    let two = EngineTarget {
        rocm_order: Some("1".to_owned()),
        ..target("rocm", DeviceClass::Discrete, &["gfx1036", "gfx1100"])
    };
    let name = "ROCR_VISIBLE_DEVICES";
    assert_eq!(
        of(&two, &plain, &[], name),
        Some(set("1", VariableOrigin::Safelight))
    );
    let chose = [("HIP_VISIBLE_DEVICES", "0")];
    assert_eq!(of(&two, &plain, &chose, name), None);
}
