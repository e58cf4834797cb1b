//! Packages of the system: found by looking for what is used of them, installed with apt as root, else named.
//!
//! A tool counts as there when it is on the path, a library when the loader knows it, whoever installed it; so this works
//! on every distribution, and only the last step speaks of apt.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Doing as _, Failure, Result};

/// The purpose of the packages now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Everything,
    Window,
    CommandLine,
    Tests,
    Package,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageFootprint {
    /// Nothing builds without it.
    Build,
    /// The window is drawn with it; the tests draw it without a display.
    Drawing,
    /// The window opens with those of its display server.
    Window,
    /// A test opens the real window on a display without a screen.
    Display,
    /// It works without, slower.
    Speed,
    /// Packages of distributions are made with it.
    Packing,
}

impl StageFootprint {
    fn is_wanted(self, goal: Goal) -> bool {
        match self {
            Self::Build | Self::Speed => true,
            Self::Packing => goal == Goal::Package,
            Self::Drawing | Self::Window => !matches!(goal, Goal::CommandLine | Goal::Package),
            Self::Display => matches!(goal, Goal::Tests | Goal::Everything),
        }
    }

    fn is_essential(self, goal: Goal) -> bool {
        match self {
            Self::Build => true,
            Self::Packing => goal == Goal::Package,
            Self::Drawing | Self::Display => goal == Goal::Tests,
            // The app says which of them it misses on its display server.
            Self::Window | Self::Speed => false,
        }
    }
}

/// By the names of Debian and Ubuntu: a program on the path, a library of the loader, or else a Vulkan driver that draws
/// on the CPU.
const PACKAGES: [(StageFootprint, &str, &str); 22] = [
    (StageFootprint::Build, "g++", "c++"),
    (StageFootprint::Display, "xvfb", "Xvfb"),
    (StageFootprint::Packing, "dpkg", "dpkg-deb"),
    (StageFootprint::Packing, "rpm", "rpmbuild"),
    (StageFootprint::Display, "sway", "sway"),
    (StageFootprint::Display, "wtype", "wtype"),
    (StageFootprint::Display, "wl-clipboard", "wl-copy"),
    (StageFootprint::Speed, "nasm", "nasm"),
    (StageFootprint::Drawing, "mesa-vulkan-drivers", ""),
    (StageFootprint::Drawing, "libvulkan1", "libvulkan.so.1"),
    (
        StageFootprint::Window,
        "libfontconfig1",
        "libfontconfig.so.1",
    ),
    (StageFootprint::Window, "libgl1", "libGL.so.1"),
    (StageFootprint::Window, "libegl1", "libEGL.so.1"),
    (StageFootprint::Window, "libx11-6", "libX11.so.6"),
    (StageFootprint::Window, "libx11-xcb1", "libX11-xcb.so.1"),
    (StageFootprint::Window, "libxcursor1", "libXcursor.so.1"),
    (StageFootprint::Window, "libxi6", "libXi.so.6"),
    (StageFootprint::Window, "libxrandr2", "libXrandr.so.2"),
    (StageFootprint::Window, "libxkbcommon0", "libxkbcommon.so.0"),
    (
        StageFootprint::Window,
        "libxkbcommon-x11-0",
        "libxkbcommon-x11.so.0",
    ),
    (
        StageFootprint::Window,
        "libwayland-client0",
        "libwayland-client.so.0",
    ),
    (StageFootprint::Window, "libdbus-1-3", "libdbus-1.so.3"),
];

/// The packages that the window is drawn and opened with, by the names of Debian and Ubuntu.
pub fn of_the_window() -> String {
    let wanted = PACKAGES
        .iter()
        .filter(|(need, ..)| matches!(need, StageFootprint::Drawing | StageFootprint::Window));
    let names: Vec<_> = wanted.map(|(_, name, _)| *name).collect();
    names.join(", ")
}

/// Installs or names missing packages. Fails only when the goal cannot be reached without one.
pub fn prepare(goal: Goal) -> Result<()> {
    let missing = missing(goal);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(_, name)| *name).collect();
    let has_apt = on_path("apt-get");
    if has_apt && std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return install(&names, goal);
    }
    let names = names.join(" ");
    let advice = if has_apt {
        format!("install with\n\n    sudo apt-get install -y --no-install-recommends {names}\n")
    } else {
        format!("install, by its name in your distribution: {names}")
    };
    if let Some((_, name)) = missing.iter().find(|(need, _)| need.is_essential(goal)) {
        let sentence = format!("This machine lacks {name}, which is needed here; {advice}");
        return Err(Failure::new(sentence));
    }
    eprintln!("This machine lacks packages that Safelight uses and can start without; {advice}");
    Ok(())
}

fn missing(goal: Goal) -> Vec<(StageFootprint, &'static str)> {
    let libraries = loader_libraries();
    let is_there = |used: &str| match used {
        "" => software_vulkan_driver().is_some(),
        library if library.contains(".so.") => libraries
            .as_ref()
            .is_none_or(|known| known.contains(library)),
        tool => on_path(tool),
    };
    let missing = PACKAGES
        .iter()
        .filter(|(need, _, used)| need.is_wanted(goal) && !is_there(used));
    missing.map(|(need, name, _)| (*need, *name)).collect()
}

fn install(names: &[&str], goal: Goal) -> Result<()> {
    eprintln!("Installing with apt-get: {}", names.join(" "));
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
    let args = [&["install", "-y", "--no-install-recommends"], names].concat();
    // The lists of a fresh machine are empty or old: then the first try fails at once.
    if !apt_get(&args)?.success() {
        apt_get(&["update"])?;
        apt_get(&args)?;
    }
    for (need, name) in missing(goal) {
        if need.is_essential(goal) {
            return Err(Failure::new(format!(
                "apt-get could not install {name}: check the network and apt's sources, then run this again"
            )));
        }
        eprintln!("apt-get could not install {name}; Safelight can start without it");
    }
    Ok(())
}

fn on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// The names in the loader's cache, or none when it cannot be read: then nothing is said to be missing.
fn loader_libraries() -> Option<HashSet<String>> {
    // Debian keeps it out of an ordinary user's path.
    let mut programs = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"].into_iter();
    programs.find_map(|ldconfig| {
        let output = Command::new(ldconfig).arg("-p").output().ok()?;
        let listing = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| library_names(&listing))
    })
}

/// Names in lines such as `libXi.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libXi.so.6`.
fn library_names(listing: &str) -> HashSet<String> {
    let lines = listing.lines().filter(|line| line.contains("x86-64"));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// The description of Mesa's software driver, which the tests draw with so that every machine draws the same.
pub fn software_vulkan_driver() -> Option<PathBuf> {
    let shared = ["/usr/share", "/usr/local/share", "/etc"];
    let folders = shared.map(|folder| Path::new(folder).join("vulkan/icd.d"));
    let names = ["lvp_icd.json", "lvp_icd.x86_64.json"];
    let mut paths = folders
        .iter()
        .flat_map(|folder| names.map(|name| folder.join(name)));
    paths.find(|path| path.is_file())
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
    fn tests_need_the_software_driver_and_the_app_does_not() {
        assert!(StageFootprint::Drawing.is_essential(Goal::Tests));
        assert!(!StageFootprint::Drawing.is_essential(Goal::Window));
        assert!(!StageFootprint::Window.is_essential(Goal::Window));
        assert!(StageFootprint::Build.is_essential(Goal::CommandLine));
        assert!(StageFootprint::Display.is_essential(Goal::Tests));
    }

    #[test]
    fn nothing_is_installed_that_the_goal_has_no_use_for() {
        assert!(!StageFootprint::Window.is_wanted(Goal::CommandLine));
        assert!(StageFootprint::Window.is_wanted(Goal::Tests));
        assert!(StageFootprint::Display.is_wanted(Goal::Tests));
        assert!(!StageFootprint::Display.is_wanted(Goal::Window));
        assert!(StageFootprint::Drawing.is_wanted(Goal::Window));
    }

    #[test]
    fn every_package_is_named_once() {
        let names: HashSet<_> = PACKAGES.iter().map(|(_, name, _)| name).collect();
        assert_eq!(names.len(), PACKAGES.len());
    }
}
