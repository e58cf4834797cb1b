//! Wheels of AMD's layout with nothing real in them, and what an index of them answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use safelight_core::uri;
use safelight_wheels::record_letters;
use sha2::{Digest as _, Sha256};

use super::server::{Answer, Request, good};

pub const VERSION: &str = "2.11.0+rocm7.14.1";

pub struct Entry {
    pub name: String,
    pub content: Vec<u8>,
    /// What the table of contents says of its length, where it lies.
    pub claimed: Option<u32>,
    /// What the list of checksums says, where it lies.
    pub listed: Option<Vec<u8>>,
}

pub fn entry(name: &str, bytes: usize) -> Entry {
    let seed = name.len() as u32;
    let content =
        (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) ^ seed).to_le_bytes()[3]);
    Entry {
        name: name.to_owned(),
        content: content.collect(),
        claimed: None,
        listed: None,
    }
}

/// A zip file of members that are not packed, with the list of their checksums.
pub fn wheel(package: &str, mut entries: Vec<Entry>) -> Vec<u8> {
    let mut record = String::new();
    for it in &entries {
        let sum = Sha256::digest(it.listed.as_ref().unwrap_or(&it.content));
        let (name, letters) = (&it.name, record_letters(&sum));
        // Writing to a string cannot fail.
        writeln!(record, "{name},sha256={letters},{}", it.content.len()).ok();
    }
    entries.push(Entry {
        name: format!("{package}.dist-info/RECORD"),
        content: record.into_bytes(),
        claimed: None,
        listed: None,
    });
    let (mut out, mut table) = (Vec::new(), Vec::new());
    let num_entries = entries.len() as u16;
    for Entry {
        name,
        content,
        claimed,
        ..
    } in entries
    {
        let start = out.len() as u32;
        let (len, name_len) = (content.len() as u32, name.len() as u16);
        // Version, flags, method, time, date, checksum (which nobody reads), lengths.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(len.to_le_bytes());
        common.extend(claimed.unwrap_or(len).to_le_bytes());
        common.extend(name_len.to_le_bytes());
        common.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(content);
        table.extend(b"PK\x01\x02\x14\x00");
        table.extend(&common);
        table.extend([0; 10]);
        table.extend(start.to_le_bytes());
        table.extend(name.as_bytes());
    }
    let (at, len) = (out.len() as u32, table.len() as u32);
    out.extend(table);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(num_entries.to_le_bytes());
    out.extend(num_entries.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

pub type Wheels = BTreeMap<String, Vec<u8>>;

/// AMD's four kinds of wheels, with more that is not needed than what is.
pub fn wheels() -> Wheels {
    wheels_of(1)
}

/// The same, so many times as large.
pub fn wheels_of(scale: usize) -> Wheels {
    let entry = |name: &str, bytes: usize| entry(name, bytes * scale);
    let torch = vec![
        entry("torch/lib/libtorch_cpu.so", 30_000),
        entry("torch/include/torch/all.h", 90_000),
        entry("torch/lib/libtorch_hip.so", 20_000),
        entry("torch/version.py", 40),
        entry("torch/test/data", 60_000),
    ];
    let device = vec![entry("torch/.kpack/torch_gfx1151.kpack", 9_000)];
    let core = vec![
        entry("_rocm_sdk_core/bin/clang", 150_000),
        entry("_rocm_sdk_core/lib/libamdhip64.so.7", 25_000),
        entry(
            "_rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1",
            500,
        ),
        entry("_rocm_sdk_core/include/hip.h", 80_000),
    ];
    let libraries = vec![entry("_rocm_sdk_libraries/lib/libhipblas.so.3", 35_000)];
    let cp = format!("torch-{VERSION}-cp312-cp312-linux_x86_64.whl");
    Wheels::from([
        (cp, wheel("torch-2.11.0", torch)),
        (
            format!("amd_torch_device_gfx1151-{VERSION}-py3-none-linux_x86_64.whl"),
            wheel("amd_torch_device_gfx1151-2.11.0", device),
        ),
        (
            "rocm_sdk_core-7.14.1-py3-none-linux_x86_64.whl".to_owned(),
            wheel("rocm_sdk_core-7.14.1", core),
        ),
        (
            "rocm_sdk_libraries-7.14.1-py3-none-linux_x86_64.whl".to_owned(),
            wheel("rocm_sdk_libraries-7.14.1", libraries),
        ),
    ])
}

/// What an index answers: pages, and files as a good server gives them.
pub fn index(wheels: &Wheels, request: &Request) -> Answer {
    let path = uri::decoded(&request.path).to_string_lossy().into_owned();
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some(file) = wheels.get(name) {
        return good(request, file);
    }
    let package = path
        .trim_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let links = wheels.keys().filter(|name| {
        let of = name.split('-').next().unwrap_or_default().replace('_', "-");
        of == package
    });
    let link = |name: &String| {
        format!(
            "<a href=\"/files/{}\">x</a>\n",
            uri::encoded(Path::new(name))
        )
    };
    let body = links.map(link).collect::<String>().into_bytes();
    if body.is_empty() {
        return Answer::of(404);
    }
    let answer = Answer {
        body,
        ..Answer::of(200)
    };
    let len = answer.body.len();
    answer.with("content-length", len)
}
