//! What the system must have beside Rust: found out by looking, installed with apt as root, else named.
//!
//! A thing counts as there when it can be used (a tool on the path, a library that the loader knows), whoever
//! installed it; so this works on every distribution, and only the last step speaks of apt.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Doing as _, Failure, Result};
use crate::libtorch;

/// What the packages are wanted for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Everything,
    Window,
    CommandLine,
    Tests,
    Package,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing builds without it.
    Build,
    /// libtorch cannot be fetched without it.
    Fetch,
    /// The window is drawn with it; the tests draw it without a display.
    Drawing,
    /// The window opens with the ones of its display server.
    Window,
    /// A test opens the real window on a display without a screen.
    Display,
    /// It works without, slower.
    Speed,
    /// Packages of distributions are made with it.
    Packing,
}

enum Probe {
    /// Any of these programs on the path.
    Tool(&'static [&'static str]),
    /// A library that the loader finds.
    Library(&'static str),
    /// A Vulkan driver that draws on the CPU.
    SoftwareVulkan,
    Pip,
}

struct Package {
    apt: &'static str,
    need: Need,
    probe: Probe,
}

const fn package(apt: &'static str, need: Need, probe: Probe) -> Package {
    Package { apt, need, probe }
}

/// By the names of Debian and Ubuntu.
const PACKAGES: &[Package] = &[
    package("g++", Need::Build, Probe::Tool(&["c++", "g++"])),
    package("xvfb", Need::Display, Probe::Tool(&["Xvfb"])),
    package("dpkg", Need::Packing, Probe::Tool(&["dpkg-deb"])),
    package("rpm", Need::Packing, Probe::Tool(&["rpmbuild"])),
    package("sway", Need::Display, Probe::Tool(&["sway"])),
    package("wtype", Need::Display, Probe::Tool(&["wtype"])),
    package("wl-clipboard", Need::Display, Probe::Tool(&["wl-copy"])),
    package("nasm", Need::Speed, Probe::Tool(&["nasm"])),
    package("python3", Need::Fetch, Probe::Tool(&["python3"])),
    package("python3-pip", Need::Fetch, Probe::Pip),
    package("mesa-vulkan-drivers", Need::Drawing, Probe::SoftwareVulkan),
    package(
        "libvulkan1",
        Need::Drawing,
        Probe::Library("libvulkan.so.1"),
    ),
    package(
        "libfontconfig1",
        Need::Window,
        Probe::Library("libfontconfig.so.1"),
    ),
    package("libgl1", Need::Window, Probe::Library("libGL.so.1")),
    package("libegl1", Need::Window, Probe::Library("libEGL.so.1")),
    package("libx11-6", Need::Window, Probe::Library("libX11.so.6")),
    package(
        "libx11-xcb1",
        Need::Window,
        Probe::Library("libX11-xcb.so.1"),
    ),
    package(
        "libxcursor1",
        Need::Window,
        Probe::Library("libXcursor.so.1"),
    ),
    package("libxi6", Need::Window, Probe::Library("libXi.so.6")),
    package("libxrandr2", Need::Window, Probe::Library("libXrandr.so.2")),
    package(
        "libxkbcommon0",
        Need::Window,
        Probe::Library("libxkbcommon.so.0"),
    ),
    package(
        "libxkbcommon-x11-0",
        Need::Window,
        Probe::Library("libxkbcommon-x11.so.0"),
    ),
    package(
        "libwayland-client0",
        Need::Window,
        Probe::Library("libwayland-client.so.0"),
    ),
    package(
        "libdbus-1-3",
        Need::Window,
        Probe::Library("libdbus-1.so.3"),
    ),
];

/// What the window is drawn and opened with, by the names of Debian and Ubuntu.
pub fn of_the_window() -> Vec<&'static str> {
    let wanted = PACKAGES
        .iter()
        .filter(|package| matches!(package.need, Need::Drawing | Need::Window));
    wanted.map(|package| package.apt).collect()
}

/// Installs or names what is missing. Fails only when the goal cannot be reached without it.
pub fn prepare(goal: Goal, is_fetching: bool) -> Result<()> {
    let missing = missing(goal, is_fetching);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.apt).collect();
    let names = names.join(" ");
    if is_root() && on_path("apt-get") {
        return install(&missing, &names, goal, is_fetching);
    }
    let advice = if on_path("apt-get") {
        format!("install with\n\n    sudo apt-get install -y --no-install-recommends {names}\n")
    } else {
        format!("install, by its name in your distribution: {names}")
    };
    if let Some(package) = missing
        .iter()
        .find(|package| is_essential(package.need, goal))
    {
        return Err(Failure::new(format!(
            "This machine lacks {}, which is needed here; {advice}",
            package.apt
        )));
    }
    eprintln!("This machine lacks packages that Safelight uses and can start without; {advice}");
    Ok(())
}

fn missing(goal: Goal, is_fetching: bool) -> Vec<&'static Package> {
    let libraries = loader_libraries();
    let is_there = |package: &&Package| match package.probe {
        _ if !is_wanted(package.need, goal, is_fetching) => true,
        Probe::Tool(names) => names.iter().any(|name| on_path(name)),
        Probe::Library(name) => libraries.as_ref().is_none_or(|known| known.contains(name)),
        Probe::SoftwareVulkan => software_vulkan_driver().is_some(),
        Probe::Pip => libtorch::pip_is_there(),
    };
    PACKAGES
        .iter()
        .filter(|package| !is_there(package))
        .collect()
}

/// Whether the goal has any use for it.
fn is_wanted(need: Need, goal: Goal, is_fetching: bool) -> bool {
    match need {
        Need::Build | Need::Speed => true,
        Need::Fetch => is_fetching,
        Need::Packing => goal == Goal::Package,
        Need::Drawing | Need::Window => !matches!(goal, Goal::CommandLine | Goal::Package),
        Need::Display => matches!(goal, Goal::Tests | Goal::Everything),
    }
}

fn is_essential(need: Need, goal: Goal) -> bool {
    match need {
        Need::Build | Need::Fetch => true,
        Need::Packing => goal == Goal::Package,
        Need::Drawing | Need::Display => goal == Goal::Tests,
        // Which of them it takes depends on the display server, and the app says what it misses.
        Need::Window | Need::Speed => false,
    }
}

fn install(missing: &[&Package], names: &str, goal: Goal, is_fetching: bool) -> Result<()> {
    eprintln!("Installing with apt-get: {names}");
    let apt_get = |args: &[&str]| {
        Command::new("apt-get")
            .args([
                "-qq",
                "-o",
                "DPkg::Lock::Timeout=300",
                "-o",
                "Dpkg::Use-Pty=0",
            ])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Standard output belongs to the program that is started afterwards.
            .stdout(std::io::stderr())
            .status()
            .doing(|| "apt-get cannot be started".to_owned())
    };
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend(missing.iter().map(|package| package.apt));
    // The lists of a fresh machine are empty or old: then the first try fails at once.
    if !apt_get(&args)?.success() {
        apt_get(&["update"])?;
        apt_get(&args)?;
    }
    let still: Vec<_> = self::missing(goal, is_fetching);
    if let Some(package) = still
        .iter()
        .find(|package| is_essential(package.need, goal))
    {
        return Err(Failure::new(format!(
            "apt-get could not install {}: check the network and apt's sources, then run this again",
            package.apt
        )));
    }
    for package in still {
        eprintln!(
            "apt-get could not install {}; Safelight can start without it",
            package.apt
        );
    }
    Ok(())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn on_path(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()))
}

/// The names in the loader's cache, or none when it cannot be asked: then nothing is said to be missing.
fn loader_libraries() -> Option<HashSet<String>> {
    // Debian keeps it out of an ordinary user's path.
    ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"]
        .into_iter()
        .find_map(|ldconfig| {
            Command::new(ldconfig)
                .arg("-p")
                .output()
                .ok()
                .filter(|output| output.status.success())
        })
        .map(|output| library_names(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines such as `libXi.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libXi.so.6`.
fn library_names(listing: &str) -> HashSet<String> {
    listing
        .lines()
        .filter(|line| line.contains("x86-64"))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// The description of Mesa's software driver, which the tests draw with so that every machine draws the same.
pub fn software_vulkan_driver() -> Option<PathBuf> {
    [
        "/usr/share/vulkan/icd.d",
        "/usr/local/share/vulkan/icd.d",
        "/etc/vulkan/icd.d",
    ]
    .into_iter()
    .filter_map(|folder| Path::new(folder).read_dir().ok())
    .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
    .filter(|path| {
        path.file_name()
            .is_some_and(|name| is_software_driver(&name.to_string_lossy()))
    })
    .min()
}

fn is_software_driver(name: &str) -> bool {
    name.strip_suffix(".json")
        .is_some_and(|stem| stem == "lvp_icd" || stem == "lvp_icd.x86_64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_gives_the_libraries_of_this_processor() {
        let listing = "3 libs found in cache `/etc/ld.so.cache'\n\
                       \tlibXi.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libXi.so.6\n\
                       \tlibGL.so.1 (libc6) => /lib/i386-linux-gnu/libGL.so.1\n";
        let names = library_names(listing);
        assert!(names.contains("libXi.so.6"));
        assert!(!names.contains("libGL.so.1"));
    }

    #[test]
    fn only_mesas_software_driver_of_this_processor_counts() {
        assert!(is_software_driver("lvp_icd.x86_64.json"));
        assert!(is_software_driver("lvp_icd.json"));
        assert!(!is_software_driver("lvp_icd.i686.json"));
        assert!(!is_software_driver("radeon_icd.x86_64.json"));
    }

    #[test]
    fn tests_need_the_software_driver_and_the_app_does_not() {
        assert!(is_essential(Need::Drawing, Goal::Tests));
        assert!(!is_essential(Need::Drawing, Goal::Window));
        assert!(!is_essential(Need::Window, Goal::Window));
        assert!(is_essential(Need::Build, Goal::CommandLine));
    }

    #[test]
    fn nothing_is_asked_for_that_the_goal_has_no_use_for() {
        assert!(!is_wanted(Need::Window, Goal::CommandLine, true));
        assert!(is_wanted(Need::Window, Goal::Tests, true));
        assert!(is_wanted(Need::Display, Goal::Tests, true));
        assert!(!is_wanted(Need::Display, Goal::Window, true));
        assert!(is_essential(Need::Display, Goal::Tests));
        assert!(!is_wanted(Need::Fetch, Goal::Everything, false));
        assert!(is_wanted(Need::Drawing, Goal::Window, false));
    }

    #[test]
    fn every_package_is_named_once() {
        let names: HashSet<_> = PACKAGES.iter().map(|package| package.apt).collect();
        assert_eq!(names.len(), PACKAGES.len());
    }
}
