//! `cargo xtask amd`: what is for AMD's GPUs, tried without one. Real HIPRTC compiles our kernels, and where a copy of
//! tinygrad's repository is named, its emulator runs them.
//!
//! This fetches the tools into the cache folder and reads from the engine what it compiles; `packaging/amd` does the rest.
//! Not part of `cargo xtask test`: it needs a network and Debian's packages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Doing as _, Failure, Result};
use crate::libtorch::cache_folder_of_the_user;
use crate::workspace::Workspace;

/// What our users have, by what AMD calls their instructions.
const TARGETS: [&str; 7] = [
    "gfx1030", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201",
];
const KERNELS: &str = "src/engine/kernels";
/// By pip, into an environment of their own.
const PYTHON_PACKAGES: [&str; 3] = ["numpy", "gguf", "msgpack"];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct AmdOptions {
    pub targets: Vec<String>,
    /// A copy of tinygrad's repository.
    pub tinygrad: Option<PathBuf>,
    /// Whether faults are planted rather than the kernels tried.
    pub plant: bool,
}

impl AmdOptions {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--tinygrad" => {
                    let folder = args.next().ok_or_else(|| {
                        Failure::usage("cargo xtask amd --tinygrad takes a folder")
                    })?;
                    options.tinygrad = Some(folder.into());
                }
                "--plant" => options.plant = true,
                target if target.starts_with("gfx") => options.targets.push(arg),
                other => {
                    return Err(Failure::usage(format!(
                        "cargo xtask amd takes --tinygrad DIR, --plant and targets such as gfx1151, not {other}"
                    )));
                }
            }
        }
        if options.plant && options.tinygrad.is_none() {
            let text = "cargo xtask amd --plant runs kernels: it needs --tinygrad DIR too";
            return Err(Failure::usage(text));
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

pub fn run(workspace: &Workspace, options: &AmdOptions) -> Result<()> {
    if let Some(tinygrad) = &options.tinygrad
        && !tinygrad.join("test/mockgpu/amd/emu.py").is_file()
    {
        return Err(Failure::new(format!(
            "{} has no test/mockgpu/amd/emu.py: name a copy of tinygrad's repository, which has the emulator; its \
             package for pip does not",
            tinygrad.display()
        )));
    }
    let tools = Tools::prepare(workspace)?;
    let engine = Engine::read(workspace.root())?;
    let source = tools.folder.join("out/kernels.cu");
    fs::create_dir_all(tools.folder.join("out"))
        .and_then(|()| fs::write(&source, engine.source))
        .doing(|| source.display().to_string())?;
    let mut python = Command::new(tools.folder.join("python/bin/python"));
    python
        .args(["-B", "-u"])
        .arg(workspace.root().join("packaging/amd/run.py"))
        .arg(&tools.folder);
    if let Some(tinygrad) = &options.tinygrad {
        python.arg("--tinygrad").arg(tinygrad);
    }
    if options.plant {
        python.arg("--plant");
    }
    python.args(
        engine
            .options
            .iter()
            .map(|option| format!("--option={option}")),
    );
    let status = python
        .args(&options.targets)
        .status()
        .doing(|| "Python cannot be started".to_owned())?;
    if status.success() {
        return Ok(());
    }
    Err(match status.code() {
        Some(1) => Failure::new(
            "The kernels are not as they must be: see the lines with WRONG or NOT FOUND",
        ),
        _ => Failure::new(format!(
            "Trying the kernels ended with {status}: the last line names the kernel that was run"
        )),
    })
}

/// What the engine compiles, read from its own source.
struct Engine {
    source: String,
    /// With `{architecture}` in the place of the target.
    options: Vec<String>,
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == ending)
}

impl Engine {
    fn read(root: &Path) -> Result<Self> {
        let folder = root.join(KERNELS);
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).doing(|| path.display().to_string())
        };
        let (loaded, driver) = (read("loaded.rs")?, read("driver.rs")?);
        let files = quoted_behind(&loaded, "include_str!(");
        let source: Result<Vec<String>> = files
            .filter(|name| has_ending(name, "cu"))
            .map(read)
            .collect();
        let source = source?.concat();
        let options: Vec<String> = driver
            .split_once("Devices::Hip { .. } => vec![")
            .and_then(|(_, rest)| rest.split_once(']'))
            .map(|(list, _)| list.split('"').skip(1).step_by(2).map(str::to_owned))
            .into_iter()
            .flatten()
            .collect();
        if source.is_empty() || !options.iter().any(|it| it.contains("{architecture}")) {
            return Err(Failure::new(format!(
                "{} does not say any more what is compiled how: mend packaging/xtask/amd.rs",
                folder.display()
            )));
        }
        Ok(Self { source, options })
    }
}

/// The strings in quotes that stand directly behind a word.
fn quoted_behind<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(word).skip(1).filter_map(|rest| {
        let (name, _) = rest.strip_prefix('"')?.split_once('"')?;
        Some(name)
    })
}

/// HIPRTC, a clang for the emulator, and Python with what the scripts import, in one folder.
struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Quick when all is there.
    fn prepare(workspace: &Workspace) -> Result<Self> {
        let folder = cache_folder_of_the_user()?.join("amd");
        fs::create_dir_all(&folder).doing(|| folder.display().to_string())?;
        let tools = Self { folder };
        tools.once("packages", Self::fetch_packages)?;
        tools.once("python", Self::fetch_python)?;
        let source = workspace.root().join("packaging/amd/hiprtc.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O1", "-o"])
            .arg(tools.folder.join("hiprtc"));
        succeed(compiler.arg(source).arg("-ldl"))?;
        Ok(tools)
    }

    /// Does what a stamp does not say to be done.
    fn once(&self, what: &str, work: fn(&Self) -> Result<()>) -> Result<()> {
        let stamp = self.folder.join(format!("{what}.done"));
        if stamp.exists() {
            return Ok(());
        }
        work(self)?;
        fs::write(&stamp, "").doing(|| stamp.display().to_string())
    }

    /// The newest HIPRTC of Debian's unstable suite, what it needs, and the clang of its LLVM, unpacked into a folder.
    fn fetch_packages(&self) -> Result<()> {
        let server = server()?;
        eprintln!(
            "Fetching HIPRTC and clang of Debian's unstable suite with apt into {} (100 MB, unpacked 450 MB); nothing \
             is installed into the system",
            self.folder.display()
        );
        for folder in ["apt/lists/partial", "apt/archives/partial", "root"] {
            let folder = self.folder.join(folder);
            fs::create_dir_all(&folder).doing(|| folder.display().to_string())?;
        }
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let list = format!("deb [signed-by={keys} arch=amd64] {server} sid main\n");
        for (name, text) in [("sources.list", list.as_str()), ("status", "")] {
            let path = self.folder.join("apt").join(name);
            fs::write(&path, text).doing(|| path.display().to_string())?;
        }
        succeed(self.apt("apt-get").arg("update"))?;
        let mut search = self.apt("apt-cache");
        let names = output(search.args(["search", "--names-only", "^libhiprtc[0-9]+$"]))?;
        let abi = newest(&names, "libhiprtc")
            .ok_or_else(|| Failure::new(format!("{server} has no libhiprtc")))?;
        // HIPRTC opens comgr by name, which the runtime's package asks for.
        let wanted = [format!("libhiprtc{abi}"), format!("libamdhip64-{abi}")];
        let mut install = self.apt("apt-get");
        succeed(
            install
                .args(["install", "-y", "--download-only"])
                .args(wanted),
        )?;
        let archives = self.folder.join("apt/archives");
        let llvm = newest(&listing(&archives)?, "libllvm")
            .ok_or_else(|| Failure::new("HIPRTC came without an LLVM"))?;
        let mut download = self.apt("apt-get");
        let clang = [format!("clang-{llvm}"), format!("libclang-cpp{llvm}")];
        succeed(download.current_dir(&archives).arg("download").args(clang))?;
        for name in listing(&archives)?
            .lines()
            .filter(|name| has_ending(name, "deb"))
        {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("--extract").arg(archives.join(name));
            succeed(unpack.arg(self.folder.join("root")))?;
        }
        self.write_clang(llvm)
    }

    /// They are built for a newer C library than this system may have, and bring it along.
    fn write_clang(&self, llvm: u32) -> Result<()> {
        let root = self.folder.join("root/usr/lib");
        let libraries = root.join("x86_64-linux-gnu");
        let (libraries, clang) = (
            libraries.display(),
            root.join(format!("llvm-{llvm}/bin/clang")),
        );
        let clang = clang.display();
        let script = format!(
            "#!/bin/sh\nexec \"{libraries}/ld-linux-x86-64.so.2\" --library-path \"{libraries}\" --argv0 \"{clang}\" \
             \"{clang}\" \"$@\"\n"
        );
        let path = self.folder.join("clang");
        fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .doing(|| path.display().to_string())
    }

    fn fetch_python(&self) -> Result<()> {
        let python = self.folder.join("python");
        let packages = PYTHON_PACKAGES.join(", ");
        eprintln!("Fetching {packages} with pip into {}", python.display());
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        let mut pip = Command::new(python.join("bin/pip"));
        succeed(
            pip.args(["install", "-q", "--disable-pip-version-check"])
                .args(PYTHON_PACKAGES),
        )
    }

    /// One of apt's programs, which knows nothing here but our own folder.
    fn apt(&self, program: &str) -> Command {
        let apt = self.folder.join("apt");
        let mut command = Command::new(program);
        command.args([
            "-q",
            "-o",
            "Acquire::Languages=none",
            "-o",
            "APT::Install-Recommends=false",
        ]);
        // Root may fetch into a folder that the user `_apt` cannot read.
        command.args(["-o", "APT::Sandbox::User=root"]);
        for place in ["SourceParts", "Preferences", "PreferencesParts"] {
            command.args(["-o", &format!("Dir::Etc::{place}=/dev/null")]);
        }
        for (place, path) in [
            ("Etc::SourceList", apt.join("sources.list")),
            ("State::Status", apt.join("status")),
            ("State", apt.clone()),
            ("Cache", apt),
        ] {
            command.args(["-o", &format!("Dir::{place}={}", path.display())]);
        }
        command
    }
}

/// Where apt fetches this system's packages from.
fn server() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    let servers =
        output(targets.args(["Identifier: Packages", "Component: main", "Origin: Debian"]));
    let first = servers
        .ok()
        .and_then(|servers| servers.lines().next().map(str::to_owned));
    first.ok_or_else(|| {
        Failure::new("cargo xtask amd needs a Debian whose apt has a server of packages: HIPRTC comes from there")
    })
}

/// The largest number directly behind a name, among lines.
fn newest(lines: &str, name: &str) -> Option<u32> {
    let numbers = lines.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    numbers.max()
}

fn listing(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).doing(|| folder.display().to_string())?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.collect::<Vec<_>>().join("\n"))
}

/// Runs a program that talks to the terminal.
fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdout(std::io::stderr())
        .status()
        .doing(|| format!("{name} cannot be started"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{name} ended with {status}: see above"
    )))
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .doing(|| format!("{name} cannot be started"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failure::new(format!(
        "{name} ended with {}: see above",
        output.status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_says_what_is_compiled_and_how() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let engine = Engine::read(&root).expect("the engine is there");
        assert_eq!(
            engine.options,
            ["--offload-arch={architecture}", "-std=c++17", "-O3"]
        );
        let at = |text: &str| engine.source.find(text).expect(text);
        assert!(at("KERNEL activate(") < at("KERNEL softmax("));
        assert!(at("KERNEL softmax(") < at("KERNEL expand_fp8("));
    }

    #[test]
    fn the_newest_of_several_releases_is_taken() {
        let names = "libhiprtc5 - old\nlibhiprtc12 - new\nlibhiprtc6 - now\nlibhip99";
        assert_eq!(newest(names, "libhiprtc"), Some(12));
        assert_eq!(
            newest("libllvm21_1%3a21.1.8-14_amd64.deb", "libllvm"),
            Some(21)
        );
        assert_eq!(newest("", "libllvm"), None);
    }

    #[test]
    fn options_are_targets_a_folder_and_a_flag() {
        let parsed = |line: &str| AmdOptions::parse(line.split_whitespace().map(str::to_owned));
        assert_eq!(parsed("").expect("valid").targets, TARGETS);
        let options = AmdOptions {
            targets: vec!["gfx1151".to_owned()],
            tinygrad: Some("tg".into()),
            plant: true,
        };
        assert_eq!(
            parsed("gfx1151 --tinygrad tg --plant").expect("valid"),
            options
        );
        for line in ["--tinygrad", "--plant", "1151", "--fast"] {
            assert_eq!(parsed(line).expect_err(line).code(), 2, "{line}");
        }
    }
}
