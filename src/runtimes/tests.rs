//! What is advised on machines that these tests describe.

use std::fs;
use std::path::Path;

use safelight_core::settings::{ENGINES, LIBTORCH_VERSION, LibtorchRuntime};

use super::overview::advice;
use super::*;
use crate::telemetry::SystemRoots;
use crate::telemetry::fake_tree::{lay, lay_card, lay_node};
use crate::telemetry::nvidia::NvidiaReport;

const HALO: &str = "gfx_target_version 110501\nlocation_id 50176\nsimd_count 80\n";
const NAVI: &str = "gfx_target_version 110000\nlocation_id 768\nsimd_count 192\n";
const RAPHAEL: &str = "gfx_target_version 100306\nlocation_id 31232\nsimd_count 4\n";
const HALO_AT: &str = "0000:c4:00.0";
const NAVI_AT: &str = "0000:03:00.0";
const RAPHAEL_AT: &str = "0000:7a:00.0";

struct Case {
    root: tempfile::TempDir,
    roots: SystemRoots,
    nvidia: Result<NvidiaReport, String>,
    here: Vec<InstalledRuntime>,
    num_cards: u32,
    /// For which versions of libtorch an engine is here.
    engines: Vec<&'static str>,
}

impl Case {
    fn new(kernel: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay(&roots.proc, "sys/kernel/osrelease", kernel);
        Self {
            root,
            roots,
            nvidia: Err("libnvidia-ml.so.1 is not there".to_owned()),
            here: Vec::new(),
            num_cards: 0,
            engines: vec![LIBTORCH_VERSION],
        }
    }

    /// With a card that the compute driver lists and this user may open.
    fn card(mut self, pci: &str, node: &str) -> Self {
        let card = format!("card{}", self.num_cards);
        let memory = [("vram_total", 8 << 30), ("gtt_total", 8 << 30)];
        lay_card(&self.roots.sysfs, &card, "0x1002", pci, &memory);
        self.num_cards += 1;
        if !node.is_empty() {
            lay_node(&self.roots.sysfs, self.num_cards, node);
            fs::create_dir_all(self.roots.dev.join("dri")).unwrap();
            lay(&self.roots.dev, "kfd", "");
        }
        self
    }

    fn nvidia(mut self, driver: &str) -> Self {
        self.nvidia = Ok(NvidiaReport::of_card(
            "NVIDIA Some",
            driver,
            "13.0",
            [24 << 30, 0],
        ));
        self
    }

    /// With a libtorch for ROCm, whose files name this chip.
    fn runtime(mut self, id: &str, version: &str, chip: &str) -> Self {
        let torch = self.root.path().join(id);
        lay(&torch, "lib/libtorch_cpu.so", "");
        lay(&torch, "lib/libtorch_hip.so", "");
        lay(&torch, &format!(".kpack/torch_{chip}.kpack"), "");
        lay(&torch, "build-version", version);
        self.here.push(InstalledRuntime {
            id: id.to_owned(),
            runtime: LibtorchRuntime::in_folder(&torch, "a test").unwrap(),
            is_own: false,
            is_used: self.here.is_empty(),
            before: PreviousRuntime::No,
        });
        self
    }

    fn both_engines(mut self) -> Self {
        self.engines = ENGINES.iter().map(|it| it.libtorch).collect();
        self
    }

    fn machine(&self) -> MachineGpus {
        MachineGpus {
            engines: self.engines.clone(),
            ..MachineGpus::find(&self.roots, &self.nvidia)
        }
    }

    fn advice(&self) -> RuntimeAdvice {
        let machine = self.machine();
        let (builds, _) = builds(Path::new("/nonexistent"));
        advice(&machine, &self.here, &builds)
    }

    fn message(&self) -> String {
        match self.advice() {
            RuntimeAdvice::NoGpu | RuntimeAdvice::CpuChosen => "nothing".to_owned(),
            RuntimeAdvice::Served { gpu } => format!("{} is served", gpu.name),
            RuntimeAdvice::Use { gpu, id } => format!("use {id} for {}", gpu.name),
            RuntimeAdvice::Get { gpu, build } => format!("get {} for {}", build.id, gpu.name),
            RuntimeAdvice::Repair { refusal, .. } => {
                format!("repair: {} $ {}", refusal.what, refusal.command)
            }
        }
    }
}

fn halo() -> Case {
    Case::new("6.18.4-arch1").card(HALO_AT, HALO)
}

#[test]
fn each_machine_gets_the_build_for_its_chip() {
    assert_eq!(Case::new("6.1.0").message(), "nothing");
    assert_eq!(halo().message(), "get rocm7.14-gfx1151 for AMD gfx1151");
    let navi = Case::new("6.1.0").card(NAVI_AT, NAVI);
    assert_eq!(navi.message(), "get rocm7.2 for AMD gfx1100");
    // The processor's own comes first on the bus and draws the desktop.
    let desktop = Case::new("6.1.0")
        .card(RAPHAEL_AT, RAPHAEL)
        .card(NAVI_AT, NAVI);
    let cards = MachineGpus::find(&desktop.roots, &desktop.nvidia).gpus;
    let display: Vec<bool> = cards.iter().map(|gpu| gpu.is_display_only).collect();
    // Both are message; their classes are by their chips.
    assert_eq!(display, [false, true], "{cards:?}");
    assert_eq!(desktop.message(), "get rocm7.2 for AMD gfx1100");
    let new = Case::new("6.1.0").nvidia("580.65.06");
    assert_eq!(new.message(), "get cuda13.0 for NVIDIA Some");
    let older = Case::new("6.1.0").nvidia("550.54.14");
    assert_eq!(older.message(), "get cuda12.6 for NVIDIA Some");
}

#[test]
fn unsupported_gpus_and_drivers_are_refused_with_a_remedy() {
    let backported = format!("{HALO}cwsr_size 1\nctl_stack_size 2\n");
    let closed = halo();
    fs::remove_file(closed.roots.dev.join("kfd")).unwrap();
    let assert_message = |case: Case, expected: &str| {
        let message = case.message();
        assert!(message.contains(expected), "{message}");
    };
    assert_message(closed, "the GPU cannot be opened");
    let old = Case::new("6.1.0").nvidia("470.57");
    assert_message(old, "driver 580 or newer, and this is 470.57 $ nvidia-smi");
    let needed = "needs Linux 6.18.4 or a backport, and this is 6.17.1-1 $ uname";
    assert_message(Case::new("6.17.1-1").card(HALO_AT, HALO), needed);
    let backported = Case::new("6.17.1-1").card(HALO_AT, &backported);
    assert_message(backported, "get rocm7.14");
    let unlisted = "compute driver does not list AMD device 1586 (0000:c4:00.0) $ sudo dmesg";
    assert_message(Case::new("6.18.4").card(HALO_AT, ""), unlisted);
    let unknown = "no libtorch 2.11.0 is known that has code for AMD gfx1036";
    assert_message(Case::new("6.18.4").card(RAPHAEL_AT, RAPHAEL), unknown);
}

#[test]
fn a_build_that_is_named_is_refused_where_it_cannot_work_and_not_where_there_is_no_gpu_for_it() {
    let (builds, _) = builds(Path::new("/nonexistent"));
    let refused = |case: &Case, id: &str| {
        let machine = case.machine();
        let build = builds.iter().find(|build| build.id == id).unwrap();
        refusal(build, &machine).map(|refusal| refusal.what)
    };
    assert_eq!(refused(&halo(), "rocm7.14-gfx1151"), None);
    let old = Case::new("6.1.0").nvidia("550.54");
    assert_eq!(refused(&old, "cuda12.6"), None);
    assert_eq!(refused(&old, "rocm7.2"), None);
    let navi = Case::new("6.18.4").card(NAVI_AT, NAVI);
    for (case, id, expected) in [
        (&old, "cuda13.0", "driver 580 or newer, and this is 550.54"),
        (&navi, "rocm7.14-gfx1151", "has no code for AMD gfx1100"),
        (
            &navi,
            "rocm10-gfx1151",
            "needs the engine for libtorch 2.13.0",
        ),
    ] {
        let message = refused(case, id).unwrap();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(refused(&halo().both_engines(), "rocm10-gfx1151"), None);
}

#[test]
fn a_libtorch_serves_a_gpu_where_the_engine_for_its_version_is_here() {
    let ten = ("2.13.0+rocm10.0.0", "gfx1151");
    let with_ten = || halo().runtime("ten", ten.0, ten.1);
    let message = with_ten().message();
    assert!(message.starts_with("get rocm7.14-gfx1151"), "{message}");
    assert_eq!(with_ten().both_engines().message(), "AMD gfx1151 is served");
    // One for which no engine is built never does.
    let other = halo().runtime("other", "2.12.0+rocm7.14.1", ten.1);
    let message = other.both_engines().message();
    assert!(message.starts_with("get rocm7.14-gfx1151"), "{message}");
    let (mut builds, _) = builds(Path::new("/nonexistent"));
    builds[0].version = "2.12.0+rocm7.14.1".to_owned();
    let refused = refusal(&builds[0], &halo().both_engines().machine()).unwrap();
    let known =
        "is libtorch 2.12.0+rocm7.14.1, and Safelight has engines for 2.11.0 and 2.13.0 alone";
    assert!(refused.what.ends_with(known), "{refused:?}");
}

#[test]
fn a_card_of_nvidia_without_a_driver_is_seen_on_the_bus() {
    let case = Case::new("6.1.0");
    for (name, vendor, class) in [
        ("0000:01:00.0", "0x10de", "0x030000"),
        ("0000:01:00.1", "0x10de", "0x040300"),
        ("0000:00:02.0", "0x8086", "0x030000"),
    ] {
        let device = case.roots.sysfs.join("bus/pci/devices").join(name);
        for (file, text) in [("vendor", vendor), ("class", class), ("device", "0x2684")] {
            lay(&device, file, &format!("{text}\n"));
        }
    }
    let gpus = MachineGpus::find(&case.roots, &case.nvidia).gpus;
    assert_eq!(gpus.len(), 1, "{gpus:?}");
    assert_eq!(gpus[0].name, "NVIDIA device 2684");
    let expected = "driver does not work: libnvidia-ml.so.1 is not there";
    assert!(case.message().contains(expected), "{}", case.message());
}

#[test]
fn matching_installed_runtime_is_preferred_to_a_download() {
    let good = ("2.11.0+rocm7.14.1", "gfx1151");
    let served = halo().runtime("own", good.0, good.1);
    assert_eq!(served.message(), "AMD gfx1151 is served");
    let beside = halo()
        .runtime("other", good.0, "gfx1100")
        .runtime("own", good.0, good.1);
    assert_eq!(beside.message(), "use own for AMD gfx1151");
    for (version, chip) in [
        ("2.11.0+rocm7.14.1", "gfx1100"),
        ("2.11.0+rocm7.1", "gfx1151"),
        ("2.13.0+rocm10.0.0", "gfx1151"),
    ] {
        let message = halo().runtime("own", version, chip).message();
        assert!(message.starts_with("get rocm7.14-gfx1151"), "{message}");
    }
}

#[test]
fn one_is_chosen_in_the_settings_and_removed_when_no_job_would_get_it() {
    let (root, paths) = home_of_two();
    let comment = "# mine\n[runtime]\ndevice = 'cpu' # by choice\n";
    lay(&paths.config, "settings.toml", comment);
    let here = || here_in(&paths);
    let first = named("first", &here()).unwrap();
    choose(&first, &paths).unwrap();
    let text = fs::read_to_string(paths.settings_file()).unwrap();
    assert!(
        text.contains("# mine") && text.contains("# by choice"),
        "{text}"
    );
    let used = here().into_iter().filter(|it| it.is_used).map(|it| it.id);
    assert_eq!(used.collect::<Vec<_>>(), ["first"]);

    let err = remove(&named("first", &here()).unwrap()).unwrap_err();
    assert!(err.summary.contains("is the libtorch that jobs use"));
    // The way back, and then it may go.
    choose(&named("second", &here()).unwrap(), &paths).unwrap();
    finished_on(&paths, &folder(&paths).join("second/lib"));
    remove(&named("first", &here()).unwrap()).unwrap();
    assert_eq!(fs::read_dir(folder(&paths)).unwrap().count(), 1);

    let elsewhere = root.path().join("venv");
    lay(&elsewhere, "torch/lib/libtorch_cpu.so", "");
    let other = named(&elsewhere.display().to_string(), &here()).unwrap();
    let err = remove(&other).unwrap_err();
    assert!(err.summary.contains("is left alone"), "{err:?}");
    let err = named("third", &here()).unwrap_err();
    assert!(err.advice.contains("second"), "{err:?}");
}

fn here_in(paths: &AppPaths) -> Vec<InstalledRuntime> {
    let settings = Settings::load(&paths.settings_file()).settings;
    all(paths, &settings, &RuntimeSearch::default())
}

fn home_of_two() -> (tempfile::TempDir, AppPaths) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let paths = AppPaths::under(root.path());
    for id in ["first", "second"] {
        lay(&folder(&paths).join(id), "lib/libtorch_cpu.so", "");
    }
    (root, paths)
}

#[test]
fn previous_runtime_is_kept_until_a_job_finishes_with_the_new_one() {
    let (_root, paths) = home_of_two();
    let here = || here_in(&paths);
    let id = |id: &str| named(id, &here()).unwrap();
    choose(&id("first"), &paths).unwrap();
    choose(&id("second"), &paths).unwrap();
    assert_eq!(previous(&here()).unwrap().id, "first");
    let err = remove(&id("first")).unwrap_err();
    assert!(err.summary.contains("is kept until a job"), "{err:?}");
    assert!(err.advice.contains("--previous"), "{err:?}");

    // A job on another libtorch proves nothing.
    finished_on(&paths, &folder(&paths).join("first/lib"));
    assert!(remove(&id("first")).is_err());
    finished_on(&paths, &folder(&paths).join("second/lib"));
    assert!(id("first").can_be_removed());

    // Back, and back again.
    choose(&previous(&here()).unwrap(), &paths).unwrap();
    assert!(id("first").is_used && id("second").before == PreviousRuntime::Kept);
    assert_eq!(previous(&here()).unwrap().id, "second");
    choose(&previous(&here()).unwrap(), &paths).unwrap();
    finished_on(&paths, &folder(&paths).join("second/lib"));
    remove(&id("first")).unwrap();
    let err = previous(&here()).unwrap_err();
    assert!(err.summary.contains("no libtorch to go back to"), "{err:?}");
}

#[test]
fn device_of_a_runtime_is_remembered_and_a_damaged_note_is_ignored() {
    let (_root, paths) = home_of_two();
    let here = all(&paths, &Settings::default(), &RuntimeSearch::default());
    let first = named("first", &here).unwrap().runtime;
    computes_on(&paths, &first, "AMD gfx1151, 96 GiB");
    let device = |runtime: &LibtorchRuntime| {
        let notes = notes::RuntimeNotes::load(&paths);
        notes.device(runtime).map(str::to_owned)
    };
    assert_eq!(device(&first).as_deref(), Some("AMD gfx1151, 96 GiB"));
    fs::write(notes::file(&paths), b"{").unwrap();
    assert_eq!(device(&first), None);
}

#[test]
fn fitting_runtimes_that_are_not_installed_are_offered() {
    let (builds, _) = builds(Path::new("/nonexistent"));
    let offered = |case: &Case| -> Vec<String> {
        let machine = case.machine();
        let offers = overview::offers(&machine, &case.here, &builds);
        offers.into_iter().map(|build| build.id).collect()
    };
    assert_eq!(offered(&Case::new("6.1.0")), ["cpu"]);
    assert_eq!(offered(&halo()), ["rocm7.14-gfx1151", "rocm7.2", "cpu"]);
    let more = ["rocm7.14-gfx1151", "rocm10-gfx1151", "rocm7.2", "cpu"];
    assert_eq!(offered(&halo().both_engines()), more);
    let older = Case::new("6.1.0").nvidia("550.54.14");
    assert_eq!(offered(&older), ["cuda12.6", "cpu"]);
    let installed = halo().runtime("rocm7.2", "2.11.0+rocm7.2", "gfx1151");
    assert_eq!(offered(&installed), ["rocm7.14-gfx1151", "cpu"]);
}
