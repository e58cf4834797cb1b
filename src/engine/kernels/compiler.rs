//! The vendor's compiler, NVRTC or HIPRTC: source to a binary for one kind of device. It touches no device.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use super::KernelError;
use super::vendor::{
    CompileProgram, CreateProgram, DestroyProgram, FunctionFinder, ProgramBytes, ProgramSize,
    VendorNames, VersionFn,
};

type Result<T> = std::result::Result<T, KernelError>;

/// The compiler's functions. The library that has them stays for the life of the process.
pub(super) struct KernelCompiler {
    version: VersionFn,
    create: CreateProgram,
    compile: CompileProgram,
    log_size: ProgramSize,
    log: ProgramBytes,
    code_size: ProgramSize,
    code: ProgramBytes,
    destroy: DestroyProgram,
}

impl KernelCompiler {
    pub(super) fn find(find: &FunctionFinder<'_>, names: &VendorNames) -> Result<Self> {
        Ok(Self {
            version: find.function(names.version)?,
            create: find.function(names.create)?,
            compile: find.function(names.compile)?,
            log_size: find.function(names.log_size)?,
            log: find.function(names.log)?,
            code_size: find.function(names.code_size)?,
            code: find.function(names.code)?,
            destroy: find.function(names.destroy)?,
        })
    }

    /// Major and minor.
    pub(super) fn version(&self) -> Result<(c_int, c_int)> {
        let (mut major, mut minor) = (0, 0);
        #[expect(unsafe_code, reason = "calls into the compiler")]
        // SAFETY: the function fills two integers.
        let code = unsafe { (self.version)(&raw mut major, &raw mut minor) };
        succeeded("the compiler's version", code)?;
        Ok((major, minor))
    }

    /// Compiles `source` for the device that `options` name. HIPRTC ends the process where it does not know that one,
    /// see `apart.rs`.
    pub(super) fn compile(&self, source: &CStr, options: &[String]) -> Result<Vec<u8>> {
        let options: Vec<CString> = options
            .iter()
            .filter_map(|option| CString::new(option.as_str()).ok())
            .collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = ptr::null_mut();
        #[expect(unsafe_code, reason = "calls into the compiler")]
        // SAFETY: all strings end with a zero and outlive the calls; the program is destroyed once, last.
        unsafe {
            let code = (self.create)(
                &raw mut program,
                source.as_ptr(),
                c"rows.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            );
            succeeded("creating a program", code)?;
            let code = (self.compile)(program, options.len() as c_int, options.as_ptr());
            let result = if code == 0 {
                result_bytes(program, self.code_size, self.code)
            } else {
                let log = result_bytes(program, self.log_size, self.log);
                let log = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
                Err(KernelError::Compile {
                    log: first_lines(&log),
                })
            };
            (self.destroy)(&raw mut program);
            result
        }
    }
}

/// # Safety
/// `program` is alive, and the two functions belong together.
#[expect(unsafe_code, reason = "calls into the compiler")]
unsafe fn result_bytes(
    program: *mut c_void,
    size: ProgramSize,
    fill: ProgramBytes,
) -> Result<Vec<u8>> {
    let mut len = 0;
    // SAFETY: as the caller promises; the buffer has the length that the compiler requested.
    unsafe {
        succeeded("the size of a result", size(program, &raw mut len))?;
        let mut bytes = vec![0_u8; len];
        succeeded("reading a result", fill(program, bytes.as_mut_ptr().cast()))?;
        Ok(bytes)
    }
}

/// The part of a compiler's log that says what is wrong.
fn first_lines(log: &str) -> String {
    let lines: Vec<&str> = log.trim_end_matches('\0').lines().take(4).collect();
    lines.join(" | ")
}

pub(super) fn succeeded(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(KernelError::Call { call, code })
    }
}
