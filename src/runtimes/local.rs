//! A libtorch that is on this machine already, such as that of a Python environment: which of its files a native program
//! needs, and copying them.
//!
//! Links are followed, as package managers make them of whole stores; nothing there is changed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use safelight_core::job::CancelToken;
use safelight_core::settings::LibtorchRuntime;

use super::members::is_needed;
use super::table::{RuntimeBuild, RuntimeKind};

/// No package has deeper folders; links can go in circles.
const MAX_DEPTH: usize = 16;
/// Packages of a libtorch next to the package `torch`.
const PACKAGES: [&str; 5] = ["nvidia", "_rocm_sdk_", "torch-", "rocm", "amd_torch"];

/// One file of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalFile {
    /// As a wheel would have it, such as `torch/lib/libc10.so`.
    name: String,
    from: PathBuf,
    pub(super) bytes: u64,
    /// Target, if it is a link to a file next to it.
    link: Option<OsString>,
}

/// Name and purpose of a build made from this libtorch.
pub fn build_of(runtime: &LibtorchRuntime) -> Option<RuntimeBuild> {
    let kind = RuntimeKind::from_runtime(runtime);
    let version = runtime.version()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    let place = runtime.folder.display();
    version.chars().all(is_plain).then(|| RuntimeBuild {
        id: format!("{}-{version}", kind.name()),
        name: format!("libtorch {version} of {place}"),
        kind,
        version,
        index: String::new(),
        packages: Vec::new(),
        targets: Vec::new(),
        download_mb: 0,
        licences: "those of its makers".to_owned(),
        driver: None,
        kernel: None,
    })
}

/// The files that a build of this kind needs. An error names the folder that cannot be read.
pub(super) fn files(runtime: &LibtorchRuntime, kind: RuntimeKind) -> io::Result<Vec<LocalFile>> {
    let mut walk = FolderWalk {
        kind,
        found: Vec::new(),
    };
    let lib = &runtime.lib;
    let torch = lib.parent().unwrap_or(lib);
    walk.folder("torch/lib", lib, 0)?;
    walk.folder("torch/.kpack", &torch.join(".kpack"), 0)?;
    for name in ["version.py", "build-version"] {
        // A libtorch has it next to its folder `lib`, or in it.
        let places = [torch.join(name), lib.join(name)];
        if let Some(file) = places.into_iter().find(|file| file.is_file()) {
            walk.file(&format!("torch/{name}"), &file)?;
        }
    }
    if let Some(packages) = packages(runtime) {
        for entry in fs::read_dir(&packages)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if PACKAGES.iter().any(|start| name.starts_with(start)) && path.is_dir() {
                walk.folder(&name, &path, 0)?;
            }
        }
    }
    walk.found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(walk.found)
}

/// The folder with the package `torch` and those that it needs, where it is of a Python environment.
fn packages(runtime: &LibtorchRuntime) -> Option<PathBuf> {
    let of_library = runtime.extra.iter().find_map(|folder| {
        let packages = folder.ancestors().find(|above| {
            let name = above.file_name().unwrap_or_default().to_string_lossy();
            name == "nvidia" || name.starts_with("_rocm_sdk_")
        });
        packages?.parent().map(Path::to_path_buf)
    });
    let torch = runtime.lib.parent()?;
    let is_package = torch.join("version.py").is_file();
    of_library.or_else(|| torch.parent().filter(|_| is_package).map(Path::to_path_buf))
}

struct FolderWalk {
    kind: RuntimeKind,
    found: Vec<LocalFile>,
}

impl FolderWalk {
    fn folder(&mut self, name: &str, folder: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH || !folder.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            if path.is_dir() {
                self.folder(&name, &path, depth + 1)?;
            } else if is_needed(self.kind, &name) {
                self.file(&name, &path)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        if !is_needed(self.kind, name) {
            return Ok(());
        }
        // Another name of a file in the same folder stays one; what leads elsewhere is copied.
        let link = fs::read_link(path).ok().map(PathBuf::into_os_string);
        let link = link.filter(|to| !to.to_string_lossy().contains('/'));
        let bytes = match &link {
            Some(_) => 0,
            None => fs::metadata(path)?.len(),
        };
        self.found.push(LocalFile {
            name: name.to_owned(),
            from: path.to_owned(),
            bytes,
            link,
        });
        Ok(())
    }
}

/// Copies them into a folder; `false` when cancelled. `report`: the bytes that are there.
pub(super) fn copy(
    files: &[LocalFile],
    tree: &Path,
    cancel: &CancelToken,
    report: &mut dyn FnMut(u64),
) -> io::Result<bool> {
    let mut done = 0;
    for file in files {
        if cancel.is_cancelled() {
            return Ok(false);
        }
        let to = tree.join(&file.name);
        fs::create_dir_all(to.parent().unwrap_or(tree))?;
        if let Some(link) = &file.link {
            symlink(link, &to)?;
        } else {
            let mut from = fs::File::open(&file.from)?;
            io::copy(&mut from, &mut fs::File::create(&to)?)?;
        }
        done += file.bytes;
        report(done);
    }
    Ok(true)
}
