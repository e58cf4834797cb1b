//! AMD's compiler in a child process, the engine's executable started once more: HIPRTC ends its process if it does not
//! know the GPU, and no job may end with it.
//!
//! NVIDIA's compiler returns an error and needs none of this.

use std::ffi::CString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::KernelError;
use super::compiler::KernelCompiler;
use super::loaded::SOURCE;
use super::vendor::{FunctionFinder, HIP, open};
use crate::error::ProcessError;
use crate::runtime::loaded_as;

/// The engine's first argument for this; then libraries, `--`, and the compiler's options.
pub(crate) const COMMAND: &str = "compile-kernels";

/// Compiles in another process; `None` where there is no such process, or the compiler refused: trying it here says why.
pub(super) fn compile(options: &[String]) -> Result<Option<Vec<u8>>, KernelError> {
    let Ok(engine) = std::env::current_exe() else {
        return Ok(None);
    };
    let mut command = Command::new(engine);
    command
        .arg(COMMAND)
        // HIPRTC looks for its helpers where the runtime has loaded them.
        .args(loaded_as("libamdhip64.so"))
        .args(loaded_as("libhiprtc.so"))
        .arg("--")
        .args(options);
    heard(&mut command)
}

fn heard(command: &mut Command) -> Result<Option<Vec<u8>>, KernelError> {
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return Ok(None);
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if let Some(signal) = output.status.signal() {
        tracing::debug!("AMD's compiler said: {}", said.trim());
        return Err(KernelError::CompilerEnded { signal });
    }
    let has_compiled = output.status.success() && !output.stdout.is_empty();
    Ok(has_compiled.then_some(output.stdout))
}

/// The other process: writes the binary to `out`. `false` where the compiler refused.
pub(crate) fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, ProcessError> {
    // It may hang for ever; the parent then does not wait for it.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let arguments: Vec<String> = arguments.collect();
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let libraries = parts.next().unwrap_or_default();
    let options = parts.next().unwrap_or_default();
    let libraries: Vec<_> = libraries
        .iter()
        .filter_map(|path| open(&PathBuf::from(path)))
        .collect();
    let failed = |err: KernelError| ProcessError::Failed(err.to_string());
    let compiler = KernelCompiler::find(&FunctionFinder(&libraries), &HIP).map_err(failed)?;
    let source = CString::new(SOURCE)
        .map_err(|_err| failed(KernelError::Nonsense { call: "the source" }))?;
    let binary = compiler.compile(&source, options).map_err(failed)?;
    out.write_all(&binary)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Option<Vec<u8>>, KernelError> {
        heard(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn compiler_crash_is_distinguished_from_a_compile_error() {
        assert_eq!(shell("printf code"), Ok(Some(b"code".to_vec())));
        let err = shell("kill -ABRT $$").unwrap_err();
        assert_eq!(err, KernelError::CompilerEnded { signal: 6 });
        assert_eq!(
            err.to_string(),
            "AMD's compiler ended by signal 6, as it does for a GPU that it does not know"
        );
        // It is tried here, which says why it refuses.
        for script in ["printf code; exit 1", "exit 0"] {
            assert_eq!(shell(script), Ok(None), "{script}");
        }
        let nowhere = heard(&mut Command::new("/no/such/engine"));
        assert_eq!(nowhere, Ok(None));
    }
}
