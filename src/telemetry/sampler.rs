//! One look at the machine, cheap enough for ten a second: files stay open, numbers are read into a buffer on the
//! stack, and NVIDIA's library is opened once by whoever owns it.
//!
//! Keeps no history and knows no job. A file that is gone is looked for again once a second.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::{Device, Nvml};
use safelight_core::job::DeviceChoice;
use safelight_core::job_update::{MachineSample, MemorySample};
use safelight_core::memory::DeviceClass;

use super::SystemRoots;
use super::amdgpu::{self, AmdMemory, MOST_BYTES};
use super::device::{DeviceQuery, chosen_amd};
use super::host::{parse_meminfo, parse_number};

/// Number of samples after which a lost device is searched again.
const RETRY_AFTER: u32 = 10;

/// NVIDIA's library, opened when it is first needed and then kept; `None` where there is none.
pub type KeptNvml = OnceCell<Option<Nvml>>;

pub struct SensorSampler<'n> {
    meminfo: Option<File>,
    device: SampledDevice<'n>,
}

enum SampledDevice<'n> {
    Nothing,
    Amd(AmdFiles),
    Nvidia(Device<'n>),
}

impl<'n> SensorSampler<'n> {
    /// Main memory alone.
    pub fn of_host(roots: &SystemRoots) -> Self {
        Self {
            meminfo: File::open(roots.proc.join("meminfo")).ok(),
            device: SampledDevice::Nothing,
        }
    }

    /// Main memory and the device that is meant.
    pub fn open(roots: &SystemRoots, nvml: &'n KeptNvml, query: &DeviceQuery) -> Self {
        let device = match query.kind {
            "rocm" if query.is_gpu() => {
                let cards = amdgpu::cards(&roots.sysfs);
                chosen_amd(&cards, query).map_or(SampledDevice::Nothing, |card| {
                    SampledDevice::Amd(AmdFiles::open(card.class, &card.folder))
                })
            }
            "cuda" if query.is_gpu() => {
                let nvml = nvml.get_or_init(|| Nvml::init().ok()).as_ref();
                nvml.and_then(|nvml| nvidia_device(nvml, query))
                    .map_or(SampledDevice::Nothing, SampledDevice::Nvidia)
            }
            _ => SampledDevice::Nothing,
        };
        Self {
            device,
            ..Self::of_host(roots)
        }
    }

    /// Reads everything that there is. Allocates nothing.
    pub fn sample(&mut self) -> MachineSample {
        let mut sample = MachineSample::default();
        let mut buffer = [0; 8192];
        let host = self.meminfo.as_ref().and_then(|file| {
            let len = file.read_at(&mut buffer, 0).ok()?;
            parse_meminfo(&buffer[..len])
        });
        sample.host_available_bytes = host.map(|host| host.available_bytes);
        sample.page_cache_bytes = host.map(|host| host.page_cache_bytes);
        match &mut self.device {
            SampledDevice::Nothing => {}
            SampledDevice::Amd(files) => files.sample_into(&mut sample),
            SampledDevice::Nvidia(device) => nvidia_sample(device, &mut sample),
        }
        sample
    }

    /// The class of the watched device; of the host where none is.
    pub fn class(&self) -> DeviceClass {
        match &self.device {
            SampledDevice::Nothing => DeviceClass::Cpu,
            SampledDevice::Amd(files) => files.class,
            SampledDevice::Nvidia(_) => DeviceClass::Discrete,
        }
    }
}

/// Merges the engine's counts with the machine's. The highest use that any source reports counts: GTT counters are
/// known to stall while HIP allocates, and two counts of one pool are never added.
pub fn joined(class: DeviceClass, engine: MemorySample, machine: MachineSample) -> MemorySample {
    let memory = AmdMemory {
        vram_used_bytes: machine.vram_used_bytes,
        gtt_used_bytes: machine.gtt_used_bytes,
        ..AmdMemory::default()
    };
    let used = match class {
        DeviceClass::Cpu => engine.used_bytes,
        _ => engine
            .used_bytes
            .max(engine.reserved_bytes)
            .max(memory.used_bytes(class).unwrap_or(0)),
    };
    MemorySample {
        used_bytes: used,
        machine,
        ..engine
    }
}

/// The open files of one AMD card.
struct AmdFiles {
    class: DeviceClass,
    folder: PathBuf,
    vram_used: Option<File>,
    gtt_used: Option<File>,
    busy: Option<File>,
    temperature: Option<File>,
    power: Option<File>,
    /// Samples since the card was last there.
    lost_for: u32,
}

impl AmdFiles {
    fn open(class: DeviceClass, folder: &Path) -> Self {
        let of_device = |name: &str| File::open(folder.join(name)).ok();
        let sensors = fs::read_dir(folder.join("hwmon"))
            .ok()
            .and_then(|mut entries| Some(entries.next()?.ok()?.path()));
        let of_sensor = |name: &str| File::open(sensors.as_ref()?.join(name)).ok();
        Self {
            class,
            vram_used: of_device("mem_info_vram_used"),
            gtt_used: of_device("mem_info_gtt_used"),
            busy: of_device("gpu_busy_percent"),
            temperature: of_sensor("temp1_input"),
            // APUs tell the moment, cards the average.
            power: of_sensor("power1_average").or_else(|| of_sensor("power1_input")),
            folder: folder.to_owned(),
            lost_for: 0,
        }
    }

    fn sample_into(&mut self, sample: &mut MachineSample) {
        if self.lost_for > 0 {
            self.lost_for += 1;
            if self.lost_for <= RETRY_AFTER {
                return;
            }
            *self = Self::open(self.class, &self.folder);
        }
        let bytes = |file: &Option<File>| number(file.as_ref()?).filter(|&it| it < MOST_BYTES);
        sample.vram_used_bytes = bytes(&self.vram_used);
        sample.gtt_used_bytes = bytes(&self.gtt_used);
        let scaled = |file: &Option<File>, unit: f32, most: f32| {
            let value = number(file.as_ref()?)? as f32 / unit;
            (value <= most).then_some(value)
        };
        sample.busy_percent = scaled(&self.busy, 1.0, 100.0);
        sample.temperature_celsius = scaled(&self.temperature, 1000.0, 200.0);
        sample.power_watts = scaled(&self.power, 1e6, 5000.0);
        if sample.vram_used_bytes.is_none() && sample.gtt_used_bytes.is_none() {
            self.lost_for = 1;
        }
    }
}

/// Current value of an open kernel file: decimal digits and a line end.
fn number(file: &File) -> Option<u64> {
    let mut buffer = [0; 32];
    let len = file.read_at(&mut buffer, 0).ok()?;
    parse_number(buffer[..len].trim_ascii())
}

fn nvidia_device<'n>(nvml: &'n Nvml, query: &DeviceQuery) -> Option<Device<'n>> {
    if !query.pci.is_empty()
        && let Ok(device) = nvml.device_by_pci_bus_id(query.pci.as_str())
    {
        return Some(device);
    }
    let index = match query.device {
        DeviceChoice::Cuda(index) => u32::try_from(index).ok()?,
        _ => 0,
    };
    nvml.device_by_index(index).ok()
}

fn nvidia_sample(device: &Device<'_>, sample: &mut MachineSample) {
    sample.vram_used_bytes = device.memory_info().ok().map(|memory| memory.used);
    let temperature = device.temperature(TemperatureSensor::Gpu).ok();
    sample.temperature_celsius = temperature.map(|celsius| celsius as f32);
    let milliwatts = device.power_usage().ok();
    sample.power_watts = milliwatts.map(|milliwatts| milliwatts as f32 / 1000.0);
    let rates = device.utilization_rates().ok();
    sample.busy_percent = rates.map(|rates| rates.gpu as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::fake_tree::{lay_card, lay_meminfo, lay_node, lay_sensors};

    const GIB: u64 = 1 << 30;

    fn halo() -> (tempfile::TempDir, SystemRoots, DeviceQuery) {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 127, 90);
        let memory = [
            ("vram_total", GIB / 2),
            ("vram_used", 100),
            ("gtt_total", 120 * GIB),
            ("gtt_used", 2000),
        ];
        lay_card(&roots.sysfs, "card0", "0x1002", "0000:c4:00.0", &memory);
        let node = "gfx_target_version 110501\nlocation_id 50176\nsimd_count 80\n";
        lay_node(&roots.sysfs, 1, node);
        let sensors = [("temp1_input", "61000\n"), ("power1_input", "54000000\n")];
        lay_sensors(&roots.sysfs, "card0", &sensors);
        fs::write(device_file(&roots, "gpu_busy_percent"), "97\n").unwrap();
        let query = DeviceQuery {
            kind: "rocm",
            ..DeviceQuery::default()
        };
        (root, roots, query)
    }

    fn device_file(roots: &SystemRoots, name: &str) -> PathBuf {
        roots.sysfs.join("devices/card0").join(name)
    }

    #[test]
    fn open_sensor_files_give_a_new_reading_for_each_sample() {
        let (_root, roots, query) = halo();
        let nvml = KeptNvml::new();
        let mut sampler = SensorSampler::open(&roots, &nvml, &query);
        let first = sampler.sample();
        let expected = MachineSample {
            vram_used_bytes: Some(100),
            gtt_used_bytes: Some(2000),
            temperature_celsius: Some(61.0),
            power_watts: Some(54.0),
            busy_percent: Some(97.0),
            host_available_bytes: Some(90 * GIB),
            page_cache_bytes: Some(6144 << 10),
        };
        assert_eq!(first, expected);
        fs::write(device_file(&roots, "mem_info_gtt_used"), "5000\n").unwrap();
        lay_meminfo(&roots.proc, 127, 80);
        let second = sampler.sample();
        assert_eq!(second.gtt_used_bytes, Some(5000));
        assert_eq!(second.host_available_bytes, Some(80 * GIB));
        assert_eq!(sampler.class(), DeviceClass::Unified);
    }

    #[test]
    fn malformed_or_missing_sensor_files_are_unknown_and_others_are_still_read() {
        let (_root, roots, query) = halo();
        fs::write(device_file(&roots, "mem_info_vram_used"), "lots\n").unwrap();
        fs::write(device_file(&roots, "gpu_busy_percent"), "250\n").unwrap();
        let most = u64::MAX.to_string();
        let sensors = [("temp1_input", &*most), ("power1_input", "")];
        lay_sensors(&roots.sysfs, "card0", &sensors);
        let nvml = KeptNvml::new();
        let sample = SensorSampler::open(&roots, &nvml, &query).sample();
        let message = MachineSample {
            gtt_used_bytes: Some(2000),
            host_available_bytes: Some(90 * GIB),
            page_cache_bytes: Some(6144 << 10),
            ..MachineSample::default()
        };
        assert_eq!(sample, message);
        // Nothing at all is nothing, and no failure.
        let nowhere = SystemRoots::under(Path::new("/nonexistent"));
        let nothing = SensorSampler::open(&nowhere, &nvml, &query).sample();
        assert_eq!(nothing, MachineSample::default());
    }

    #[test]
    fn unplugged_gpu_gives_no_readings_until_it_is_reconnected() {
        let (_root, roots, query) = halo();
        let nvml = KeptNvml::new();
        let mut sampler = SensorSampler::open(&roots, &nvml, &query);
        assert!(sampler.sample().vram_used_bytes.is_some());
        // What an open file of a device that is gone does: reads fail, here as an empty file.
        for name in ["mem_info_vram_used", "mem_info_gtt_used"] {
            fs::write(device_file(&roots, name), "").unwrap();
        }
        let gone = sampler.sample();
        assert_eq!((gone.vram_used_bytes, gone.gtt_used_bytes), (None, None));
        assert_eq!(gone.host_available_bytes, Some(90 * GIB));
        for name in ["mem_info_vram_used", "mem_info_gtt_used"] {
            fs::remove_file(device_file(&roots, name)).unwrap();
            fs::write(device_file(&roots, name), "7\n").unwrap();
        }
        let back = (0..=RETRY_AFTER).map(|_| sampler.sample().vram_used_bytes);
        assert_eq!(back.last(), Some(Some(7)));
    }

    #[test]
    fn unified_memory_is_not_counted_twice_and_a_frozen_gtt_counter_is_ignored() {
        let engine = MemorySample {
            used_bytes: 30 * GIB,
            reserved_bytes: 40 * GIB,
            allocated_bytes: 38 * GIB,
            ..MemorySample::default()
        };
        let machine = |vram: u64, gtt: u64| MachineSample {
            vram_used_bytes: Some(vram * GIB),
            gtt_used_bytes: Some(gtt * GIB),
            ..MachineSample::default()
        };
        let used = |class, machine| joined(class, engine, machine).used_bytes / GIB;
        // GTT frozen at what it was before: the allocator holds more.
        assert_eq!(used(DeviceClass::Unified, machine(0, 1)), 40);
        assert_eq!(used(DeviceClass::Unified, machine(5, 50)), 55);
        // The host's part of a card is not the card's.
        assert_eq!(used(DeviceClass::Discrete, machine(41, 50)), 41);
        assert_eq!(used(DeviceClass::Cpu, machine(41, 50)), 30);
    }
}
