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

fn of(
    target: &EngineTarget,
    settings: &RuntimeSettings,
    inherited: &[(&str, &str)],
    name: &str,
) -> Given {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let inherited = inherited.iter().map(owned).collect();
    let all = variables(target, settings, &inherited);
    let variable = all.into_iter().find(|variable| variable.name == name);
    variable.map_or(LEFT_ALONE, |it| (it.value, Some(it.origin)))
}

type Given = (Option<String>, Option<VariableOrigin>);

const LEFT_ALONE: Given = (None, None);
const REMOVED: Given = (None, Some(VariableOrigin::Removed));

fn set(value: &str, origin: VariableOrigin) -> Given {
    (Some(value.to_owned()), Some(origin))
}

fn ours(value: &str) -> Given {
    set(value, VariableOrigin::Safelight)
}

fn chosen(value: &str) -> Given {
    set(value, VariableOrigin::Settings)
}

fn say(settings: &mut RuntimeSettings, name: &str, value: &str) {
    let environment = &mut settings.environment;
    environment.insert(name.to_owned(), value.to_owned());
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
    let name = "HSA_OVERRIDE_GFX_VERSION";
    let inherited = [(name, "11.0.0")];
    assert_eq!(of(&halo(), &plain, &inherited, name), REMOVED);
    let phoenix = target("rocm", DeviceClass::Unified, &["gfx1103"]);
    let left = set("11.0.0", VariableOrigin::Inherited);
    assert_eq!(of(&phoenix, &plain, &inherited, name), left);
}

#[test]
fn inherited_allocator_variables_are_removed_on_a_gpu_and_settings_apply() {
    let inherited = [
        ("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ];
    let mut settings = RuntimeSettings::default();
    for (name, _) in inherited {
        assert_eq!(of(&halo(), &settings, &inherited, name), REMOVED);
    }
    let name = "PYTORCH_ALLOC_CONF";
    assert_eq!(of(&halo(), &settings, &inherited, name), LEFT_ALONE);
    settings.allocator = AllocatorChoice::Expandable;
    let expandable = chosen("expandable_segments:True");
    assert_eq!(of(&halo(), &settings, &inherited, name), expandable);
    settings.verbose_miopen = true;
    let level = of(&halo(), &settings, &[], "MIOPEN_LOG_LEVEL");
    assert_eq!(level, chosen("5"));
}

#[test]
fn inherited_miopen_search_variables_are_overridden_but_settings_win() {
    let mut settings = RuntimeSettings::default();
    let enforce = "MIOPEN_FIND_ENFORCE";
    let inherited = [(MIOPEN_FIND_MODE, "NORMAL"), (enforce, "3")];
    let all = |settings: &RuntimeSettings, name| of(&halo(), settings, &inherited, name);
    assert_eq!(all(&settings, MIOPEN_FIND_MODE), ours("2"));
    assert_eq!(all(&settings, enforce), REMOVED);
    for (name, value) in [
        (MIOPEN_FIND_MODE, "1"),
        ("GOMP_SPINCOUNT", ""),
        ("MINE", "yes"),
    ] {
        say(&mut settings, name, value);
    }
    assert_eq!(all(&settings, MIOPEN_FIND_MODE), chosen("1"));
    let emptied = (None, Some(VariableOrigin::Settings));
    assert_eq!(all(&settings, "GOMP_SPINCOUNT"), emptied);
    assert_eq!(all(&settings, "MINE"), chosen("yes"));
}

#[test]
fn the_layout_of_convolutions_is_the_safe_one_on_amd_unless_the_user_set_another() {
    let mut settings = RuntimeSettings::default();
    let nvidia = target("cuda", DeviceClass::Discrete, &[]);
    assert_eq!(of(&nvidia, &settings, &[], MIOPEN_LAYOUT), LEFT_ALONE);
    assert_eq!(of(&halo(), &settings, &[], MIOPEN_LAYOUT), ours("0"));
    // Passed on as it is.
    let shell = [(MIOPEN_LAYOUT, "1")];
    assert_eq!(of(&halo(), &settings, &shell, MIOPEN_LAYOUT), LEFT_ALONE);
    say(&mut settings, MIOPEN_LAYOUT, "1");
    assert_eq!(of(&halo(), &settings, &[], MIOPEN_LAYOUT), chosen("1"));
}

#[test]
fn probed_miopen_mode_reaches_the_engine_unless_the_settings_override_it() {
    let mut settings = RuntimeSettings::default();
    let found = EngineTarget {
        miopen: MiopenMode::SearchingInnermost,
        ..halo()
    };
    let shell = [(MIOPEN_FIND_MODE, "1")];
    let searches = of(&found, &settings, &shell, MIOPEN_FIND_MODE);
    assert_eq!(searches, (None, Some(VariableOrigin::Safelight)));
    assert_eq!(of(&found, &settings, &[], MIOPEN_LAYOUT), ours("1"));
    say(&mut settings, MIOPEN_FIND_MODE, "3");
    let searches = of(&found, &settings, &shell, MIOPEN_FIND_MODE);
    assert_eq!(searches, chosen("3"));
}

#[test]
fn the_display_gpu_is_left_out_unless_the_shell_chose_gpus() {
    let plain = RuntimeSettings::default();
    let two = EngineTarget {
        rocm_order: Some("1".to_owned()),
        ..target("rocm", DeviceClass::Discrete, &["gfx1036", "gfx1100"])
    };
    let name = "ROCR_VISIBLE_DEVICES";
    assert_eq!(of(&two, &plain, &[], name), ours("1"));
    let chose = [("HIP_VISIBLE_DEVICES", "0")];
    assert_eq!(of(&two, &plain, &chose, name), LEFT_ALONE);
}
