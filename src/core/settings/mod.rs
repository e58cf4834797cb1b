//! The settings file: what the user chose, as TOML in the user's configuration folder.
//!
//! Knows no widget; the window's place and other things that may be lost live elsewhere.

mod edit;
mod engines;
mod file;
mod installation;
mod keys;
mod libraries;
mod live;
mod paths;
mod runtime;
pub mod table;
mod watch;

pub use engines::{ENGINES, EngineBuild, LIBTORCH_VERSION, engine_of, libtorch_versions};
pub use file::{LoadedSettings, SettingsError};
pub use installation::InstallationKind;
pub use libraries::loader_complaint;
pub use live::LiveSettings;
pub(crate) use paths::find_assets;
pub use paths::{AppPaths, ProgramPaths};
pub use runtime::{
    LibtorchRuntime, RuntimeMissing, RuntimeProblem, default_runtime, kind_of, own_runtime,
    rocm_of, version_of,
};
pub use table::default_file;
pub use watch::{SettingsFile, SettingsNews, SettingsWatch};

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::compute::conv_backends::ConvBackendChoice;
use crate::compute::{AttentionChoice, ComputeOptions, DecodeChunk, MatrixLibrary};
use crate::enum_macros::{named, with_defaults};
use crate::job::prompt::{PromptWeights, WildcardFolders};
use crate::job::{DeviceChoice, DtypeChoice, JobOptions, PreviewChoice};
use crate::media::{DEFAULT_VIDEO_ENDING, HAS_H264};
use crate::memory::MemoryOptions;
use crate::units::from_gib;
use crate::uri::is_address;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub runtime: RuntimeSettings,
    pub memory: MemorySettings,
    pub output: OutputSettings,
    pub models: ModelSettings,
    pub server: ServerSettings,
    pub computers: ComputerSettings,
    pub interface: InterfaceSettings,
}

impl Settings {
    /// Options of a job with the values of the settings in place of their own; prompt weights as the job says, if it does.
    #[must_use]
    pub fn options_over(&self, options: JobOptions) -> JobOptions {
        JobOptions {
            memory: self.memory.choice(),
            preview: self.interface.preview,
            dtype: self.runtime.dtype,
            sidecar: self.output.sidecar,
            prompt_weights: options.prompt_weights.or(Some(self.models.prompt_weights)),
            ..options
        }
    }

    /// Ending of a result's file: an image's, or that of videos.
    pub fn extension(&self, is_image: bool) -> &str {
        if is_image { "png" } else { &self.output.format }
    }

    /// Folders of wildcard files.
    pub fn wildcard_folders(&self, paths: &AppPaths) -> WildcardFolders {
        let own = std::iter::once(paths.wildcards());
        WildcardFolders::new(own.chain(self.models.wildcards.iter().cloned()))
    }

    /// Result folders: the one for videos, and the one for images if it differs.
    pub fn result_folders(&self, paths: &AppPaths) -> Vec<PathBuf> {
        let mut folders = vec![self.output.folder_or_default(paths)];
        let images = self.output.images_folder_or_default(paths);
        if !folders.contains(&images) {
            folders.push(images);
        }
        folders
    }
}

with_defaults! {
    /// Choice of libtorch and device, and time limits of the engine.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct RuntimeSettings {
        /// A folder with libtorch 2.11.0 or 2.13.0 (CPU, CUDA or ROCm); empty: the one that set-up prepared.
        #[serde(deserialize_with = "none_when_empty")]
        pub libtorch: Option<PathBuf> = None,
        /// An index of wheels to take libtorch from, in place of each build's own; empty: those.
        #[serde(deserialize_with = "address_or_empty")]
        pub mirror: Option<String> = None,
        pub device: DeviceChoice = DeviceChoice::Auto,
        /// Devices that run jobs side by side, in place of `device`; one that is listed twice runs two jobs.
        pub devices: Vec<DeviceChoice> = Vec::new(),
        pub dtype: DtypeChoice = DtypeChoice::Auto,
        /// Backend of the convolutions of autoencoders.
        pub convolution: ConvBackendChoice = ConvBackendChoice::Auto,
        pub attention: AttentionChoice = AttentionChoice::Auto,
        pub matrices: MatrixLibrary = MatrixLibrary::Auto,
        pub chunk: DecodeChunk = DecodeChunk::Auto,
        /// Seconds without any progress after which the engine counts as hung and is restarted.
        pub stall_limit_secs: u64 = 600,
        /// Seconds that a cancelled stage gets before its engine is ended.
        pub cancel_grace_secs: u64 = 5,
        pub allocator: AllocatorChoice = AllocatorChoice::Default,
        /// MIOpen tells what it does in the engine's log.
        pub verbose_miopen: bool = false,
        /// Additional environment variables of the engine, which override Safelight's; an empty value removes one.
        pub environment: BTreeMap<String, String> = BTreeMap::new(),
    }
}

impl RuntimeSettings {
    /// Device of commands and checks, which use one: the first of the chosen ones.
    pub fn first_device(&self) -> DeviceChoice {
        self.devices.first().copied().unwrap_or(self.device)
    }

    /// The device of a new job: any where several are listed.
    pub fn job_device(&self) -> DeviceChoice {
        match self.devices[..] {
            [] => self.device,
            _ => DeviceChoice::Auto,
        }
    }

    /// Devices that run jobs side by side. `gpus`: those of the runtime, which are all used where nothing is chosen.
    pub fn job_devices(&self, gpus: Vec<DeviceChoice>) -> Vec<DeviceChoice> {
        match (&self.devices[..], self.device) {
            ([], DeviceChoice::Auto) if gpus.len() > 1 => gpus,
            ([], device) => vec![device],
            (devices, _) => devices.to_vec(),
        }
    }

    pub fn compute_options(&self) -> ComputeOptions {
        ComputeOptions {
            attention: self.attention,
            matrices: self.matrices,
            chunk: self.chunk,
        }
    }
}

named! {
    /// Memory allocator of libtorch on GPUs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum AllocatorChoice {
        /// libtorch's default.
        #[default]
        Default = "", "Default of libtorch";
        /// In segments that grow: less is lost between tensors, and a few drivers hang at it.
        Expandable = "expandable", "Growing segments";
        /// Tighter, for cards of up to 24 GiB: more calls of the driver.
        SmallCard = "small-card", "Tight, for cards of up to 24 GiB";
    }
}

with_defaults! {
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct MemorySettings {
        /// GiB kept free on the device for activations; absent: computed for each job.
        #[serde(deserialize_with = "number_or_empty")]
        pub preserved_gib: Option<f64> = None,
        /// GiB of the device that are never gone beyond; absent: by the class of the device.
        #[serde(deserialize_with = "number_or_empty")]
        pub cap_gib: Option<f64> = None,
        /// Keep models loaded where they fit together, instead of unloading each before the next.
        pub keep_loaded: bool = false,
        /// GPUs that share the steps of one job; 0: all where that helps.
        pub devices: u32 = 1,
        /// Pause a job while other programs need the memory that it has.
        pub yields: bool = true,
    }
}

impl MemorySettings {
    /// Memory options in bytes.
    pub fn choice(self) -> MemoryOptions {
        MemoryOptions {
            preserved_bytes: self.preserved_gib.map(from_gib),
            cap_bytes: self.cap_gib.map(from_gib),
            keep_loaded: self.keep_loaded,
            devices: NonZeroU32::new(self.devices).filter(|devices| devices.get() > 1),
        }
    }
}

with_defaults! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct OutputSettings {
        /// For videos. Empty: the folder `Safelight` in the user's videos folder.
        #[serde(deserialize_with = "none_when_empty")]
        pub folder: Option<PathBuf> = None,
        /// For images. Empty: the folder `Safelight` in the user's images folder.
        #[serde(deserialize_with = "none_when_empty")]
        pub images_folder: Option<PathBuf> = None,
        /// One of [`Self::FORMATS`].
        pub format: String = DEFAULT_VIDEO_ENDING.to_owned(),
        /// Quality of the lossy formats on the scale of x264's constant rate factor: 0 is best, 51 worst.
        pub crf: u8 = 16,
        /// Also writes the settings of each result next to it, as `.json`.
        pub sidecar: bool = false,
    }
}

impl OutputSettings {
    pub const FORMATS: &[&str] = if HAS_H264 {
        &["mp4", "gif", "webp", "png"]
    } else {
        &["gif", "webp", "png"]
    };
    /// The end of the scale of rate factors.
    pub const WORST_CRF: u8 = 51;

    /// The folder for videos: the chosen one, else `Safelight` among the user's videos.
    pub fn folder_or_default(&self, paths: &AppPaths) -> PathBuf {
        self.folder
            .clone()
            .unwrap_or_else(|| paths.videos.join("Safelight"))
    }

    /// The folder for images: the chosen one, else `Safelight` among the user's images.
    pub fn images_folder_or_default(&self, paths: &AppPaths) -> PathBuf {
        self.images_folder
            .clone()
            .unwrap_or_else(|| paths.images.join("Safelight"))
    }
}

with_defaults! {
    /// Folders searched for models, in addition to the one shipped with the app, and reading of prompts.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ModelSettings {
        /// Folders of models, folders of programs with models, and lists such as ComfyUI's
        /// `extra_model_paths.yaml`.
        pub folders: Vec<PathBuf> = Vec::new(),
        /// Also searches other programs' folders in their usual places.
        pub search_installs: bool = true,
        /// Folders of wildcard files, in addition to `wildcards` next to the settings.
        pub wildcards: Vec<PathBuf> = Vec::new(),
        /// Weights in prompts where the form does not say.
        pub prompt_weights: PromptWeights = PromptWeights::Comfy,
    }
}

named! {
    /// Reach of the server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ServerReach {
        #[default]
        Off = "off", "Off";
        Local = "local", "Programs on this computer";
        Network = "network", "Other computers too, with a token";
    }
}

with_defaults! {
    /// Server for other programs, while the window is open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ServerSettings {
        pub reach: ServerReach = ServerReach::Off,
        pub port: u16 = 7860,
    }
}

impl ServerSettings {
    /// `None` where it is off.
    pub fn address(self) -> Option<SocketAddr> {
        let ip = match self.reach {
            ServerReach::Off => return None,
            ServerReach::Local => Ipv4Addr::LOCALHOST,
            ServerReach::Network => Ipv4Addr::UNSPECIFIED,
        };
        Some((ip, self.port).into())
    }
}

with_defaults! {
    /// Other computers that run jobs.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ComputerSettings {
        /// Names for `ssh`, such as `user@host`.
        pub hosts: Vec<String> = Vec::new(),
    }
}

impl ComputerSettings {
    /// `None` for a name that `ssh` can take, else a sentence.
    pub fn host_problem(host: &str) -> Option<String> {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "'\"\\$`;&|<>".contains(c);
        let is_name = !host.is_empty() && !host.starts_with('-') && !host.contains(is_odd);
        (!is_name)
            .then(|| format!("a computer is named as ssh takes it, such as me@box, not {host:?}"))
    }
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ThemeChoice {
        #[default]
        Dark = "dark", "Darkroom";
        Light = "light", "Daylight";
        System = "system", "As the desktop";
    }
}

with_defaults! {
    /// Appearance of the window, and notifications.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct InterfaceSettings {
        pub theme: ThemeChoice = ThemeChoice::Dark,
        /// 1.0 is 100 %.
        pub scale: f32 = 1.0,
        /// Preview of running jobs.
        pub preview: PreviewChoice = PreviewChoice::Auto,
        /// The desktop tells when a job has failed or long work is done and the window is not looked at.
        pub notifications: bool = true,
    }
}

/// As [`none_when_empty`], for addresses.
fn address_or_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.is_empty() && !is_address(&text) {
        return Err(serde::de::Error::custom(format!(
            "expected an address that begins with https://, or \"\", found {text:?}"
        )));
    }
    Ok((!text.is_empty()).then_some(text))
}

/// As [`none_when_empty`], for numbers of 0 and more.
fn number_or_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum FoundValue {
        Number(f64),
        Text(String),
    }
    match FoundValue::deserialize(deserializer)? {
        FoundValue::Number(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
        FoundValue::Text(text) if text.is_empty() => Ok(None),
        FoundValue::Number(number) => Err(wrong_number(&number.to_string())),
        FoundValue::Text(text) => Err(wrong_number(&format!("{text:?}"))),
    }
}

fn wrong_number<E: serde::de::Error>(found: &str) -> E {
    E::custom(format!(
        "expected a number of 0 or more, or \"\", found {found}"
    ))
}

/// TOML has no null: a path that is not set is written as an empty string.
fn none_when_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}
