//! Paths of the app's files on this machine.
//!
//! Creates no folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

use crate::enum_macros::file_paths;
use crate::files::{MAX_TEXT_BYTES, read_text_bounded};

/// The app's folders, after XDG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppPaths {
    /// `settings.toml`.
    pub config: PathBuf,
    /// Jobs and logs.
    pub data: PathBuf,
    /// The prepared libtorch.
    pub cache: PathBuf,
    /// Shipped files: a model, and tokenizers.
    pub assets: Option<PathBuf>,
    /// Hugging Face's download cache, where other programs may have put models.
    pub huggingface: Option<PathBuf>,
    /// Folders of other programs with models; `None`: not searched.
    pub programs: Option<ProgramPaths>,
    pub videos: PathBuf,
    pub images: PathBuf,
}

/// The folders of a user and of the machine that programs are put into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPaths {
    pub home: PathBuf,
    /// Of all programs' settings.
    pub config: PathBuf,
    /// Of all programs' data.
    pub data: PathBuf,
    /// Folders shared by all users.
    pub system: Vec<PathBuf>,
}

file_paths! {
    AppPaths.config {
        settings_file = "settings.toml";
        presets_file = "presets.toml";
        /// The user's own additions to the catalogue.
        models_file = "models.toml";
        /// Default folder of wildcard files.
        wildcards = "wildcards";
    }
    AppPaths.data {
        /// Default folder of models.
        models = "models";
        jobs = "jobs";
        /// The jobs that wait, and those that stopped: [`QueueFile`](crate::job::QueueFile).
        queue_file = "queue.json";
        /// Saved state of the window, such as the form.
        state_file = "state.json";
        telemetry = "telemetry";
        /// Reports of this machine.
        reports = "reports";
        /// Durations of the stages of earlier jobs.
        times_file = "times.json";
        /// Deviations of the plan's predictions on the devices of this machine.
        corrections_file = "memory.json";
        /// Counts of out-of-memory errors and of fallbacks that helped.
        memory_counters = "ladder.json";
        /// Index of the gallery; rebuilt when it is lost.
        gallery_index = "gallery.json";
        favourites_file = "favourites.json";
        log_file = "safelight.log";
        /// Secret of those who may use the server from other computers.
        server_token = "server-token";
        /// Images and videos that clients of the server sent.
        uploads = "uploads";
        /// Jobs that run here for other computers, with their files.
        remote_jobs = "remote";
        /// Stops of jobs on other computers that were not connected then.
        unsent_stops = "unsent_stops.json";
    }
    AppPaths.cache {
        /// Backends of convolutions on this machine's devices, found by probes:
        /// [`ConvBackendFile`](crate::compute::conv_backends::ConvBackendFile).
        conv_backends_file = "conv_backends.json";
        thumbnails = "thumbnails";
        /// Kernels compiled for this machine's GPU.
        kernels = "kernels";
    }
}

impl AppPaths {
    /// The folders of this user and this executable; `None` without a home folder.
    pub fn of_this_user() -> Option<Self> {
        let base = etcetera::choose_base_strategy().ok()?;
        let cache = cache_folder(std::env::var_os("SAFELIGHT_CACHE"), &base.cache_dir());
        Some(Self {
            config: base.config_dir().join("safelight"),
            data: base.data_dir().join("safelight"),
            cache,
            assets: find_assets(),
            huggingface: Some(huggingface_named_by(
                &variable,
                &base.cache_dir(),
                base.home_dir(),
            )),
            programs: Some(ProgramPaths {
                home: base.home_dir().to_owned(),
                config: base.config_dir(),
                data: base.data_dir(),
                system: ["/opt", "/srv", "/workspace"].map(PathBuf::from).to_vec(),
            }),
            videos: media_folder(&base, "XDG_VIDEOS_DIR", "Videos"),
            images: media_folder(&base, "XDG_PICTURES_DIR", "Pictures"),
        })
    }

    /// Everything under one folder, and nothing of this user's: for tests.
    pub fn under(root: &Path) -> Self {
        Self {
            config: root.join("config"),
            data: root.join("data"),
            cache: root.join("cache"),
            assets: None,
            huggingface: None,
            programs: None,
            videos: root.join("videos"),
            images: root.join("images"),
        }
    }

    pub fn trash(&self) -> PathBuf {
        self.data.with_file_name("Trash")
    }

    /// Folders that the app writes its own files into.
    pub fn written(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.telemetry(), self.thumbnails(), self.kernels()];
        folders.extend([&self.config, &self.data, &self.cache].map(Clone::clone));
        folders
    }
}

/// A variable of the environment; an empty one counts as none.
fn variable(name: &str) -> Option<OsString> {
    when_set(std::env::var_os(name))
}

fn when_set(value: Option<OsString>) -> Option<OsString> {
    value.filter(|value| !value.is_empty())
}

/// The app's own cache: the one that its variable names, else a folder among the user's caches.
fn cache_folder(named: Option<OsString>, caches: &Path) -> PathBuf {
    when_set(named).map_or_else(|| caches.join("safelight"), PathBuf::from)
}

/// A folder of the user's: by the environment, by the desktop's own file, else by its usual name.
fn media_folder(base: &impl etcetera::BaseStrategy, key: &str, usual: &str) -> PathBuf {
    let named_by_desktop = || {
        let text =
            read_text_bounded(&base.config_dir().join("user-dirs.dirs"), MAX_TEXT_BYTES).ok()?;
        folder_named_in(&text, key, base.home_dir())
    };
    variable(key)
        .map(PathBuf::from)
        .or_else(named_by_desktop)
        .unwrap_or_else(|| base.home_dir().join(usual))
}

/// A folder by the desktop's own file, where its name is in the user's language.
fn folder_named_in(text: &str, key: &str, home: &Path) -> Option<PathBuf> {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?
        .trim()
        .trim_matches('"');
    // The file allows nothing but these two forms.
    match value.strip_prefix("$HOME/") {
        Some(rest) if !rest.is_empty() => Some(home.join(rest)),
        _ => Some(PathBuf::from(value)).filter(|path| path.is_absolute()),
    }
}

fn huggingface_named_by(
    variable: &dyn Fn(&str) -> Option<OsString>,
    cache: &Path,
    home: &Path,
) -> PathBuf {
    // Those tools understand a `~` that no shell has replaced.
    let named = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        let expanded = path.strip_prefix("~").map(|rest| home.join(rest));
        Some(expanded.unwrap_or(path))
    };
    named("HF_HUB_CACHE")
        .or_else(|| named("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| named("HF_HOME").map(|home| home.join("hub")))
        .unwrap_or_else(|| cache.join("huggingface/hub"))
}

/// The assets folder: named outright, or near the executable as installed, unpacked or built.
pub(crate) fn find_assets() -> Option<PathBuf> {
    if let Some(named) = variable("SAFELIGHT_ASSETS") {
        return Some(PathBuf::from(named));
    }
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?;
    let is_ours = |candidate: &PathBuf| candidate.join("little-world").is_dir();
    let near = [
        folder.join("assets"),
        folder.join("../share/safelight/assets"),
    ];
    // A built executable is in target/debug, a test in target/debug/deps.
    let above = folder
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir: &Path| dir.join("assets"));
    near.into_iter().chain(above).find(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_for_the_cache_counts_as_none() {
        let folder = |named: Option<&str>| cache_folder(named.map(OsString::from), "/c".as_ref());
        assert_eq!(folder(Some("/here")), PathBuf::from("/here"));
        assert_eq!(folder(Some("")), PathBuf::from("/c/safelight"));
        assert_eq!(folder(None), PathBuf::from("/c/safelight"));
    }

    #[test]
    fn hugging_face_cache_follows_hf_home_and_hf_hub_cache() {
        let find = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            huggingface_named_by(&variable, "/c".as_ref(), "/home/me".as_ref())
        };
        assert_eq!(find(&[]), PathBuf::from("/c/huggingface/hub"));
        let home = ("HF_HOME", "~/hf");
        assert_eq!(find(&[home]), PathBuf::from("/home/me/hf/hub"));
        let hub = ("HF_HUB_CACHE", "/big/hub");
        assert_eq!(find(&[home, hub]), PathBuf::from("/big/hub"));
    }

    #[test]
    fn the_desktops_own_name_for_videos_is_understood() {
        let home = Path::new("/home/me");
        let named = |line: &str| folder_named_in(line, "XDG_VIDEOS_DIR", home);
        let text = "# a comment\nXDG_MUSIC_DIR=\"$HOME/M\"\nXDG_VIDEOS_DIR=\"$HOME/Vidéos\"\n";
        assert_eq!(named(text), Some("/home/me/Vidéos".into()));
        assert_eq!(named("XDG_VIDEOS_DIR=\"/data/v\""), Some("/data/v".into()));
        assert_eq!(named("XDG_VIDEOS_DIR=\"relative\""), None);
        assert_eq!(named("XDG_VIDEOS_DIR=\"$HOME/\""), None);
        assert_eq!(named(""), None);
    }
}
