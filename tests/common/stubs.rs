//! Shared libraries for tests of the loader: compiled with the C compiler that a build needs anyway.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Compiles a library that has `source` and needs `needed`, which it looks for in their own folders and nowhere else
/// when `finds_them`.
pub fn compile(path: &Path, source: &str, needed: &[&Path], finds_them: bool) {
    let folder = path.parent().expect("a library lies in a folder");
    fs::create_dir_all(folder).expect("a folder can be made");
    let name = path.file_name().expect("a library has a name");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o"])
        .arg(path)
        .arg(format!("-Wl,-soname,{}", name.display()))
        .args(["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all"])
        .args(needed);
    for library in needed.iter().filter(|_| finds_them) {
        let folder = library.parent().expect("a library lies in a folder");
        compiler.arg(format!("-Wl,-rpath,{}", folder.display()));
    }
    let mut child = compiler
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a C compiler");
    let mut input = child.stdin.take().expect("its input is a pipe");
    input
        .write_all(source.as_bytes())
        .expect("it reads its input");
    drop(input);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{} is not compiled", path.display());
}

/// The source of a HIP runtime with one made-up device, whose name says whose the runtime is. The numbers are those of
/// HIP 6.4's headers.
pub fn hip_of(owner: &str) -> String {
    format!(
        r#"
int hipDeviceGet(int *device, int index) {{ return *device = index, index ? 101 : 0; }}
int hipDeviceGetName(char *name, int size, int device) {{
  const char *text = "made-up Radeon of the {owner}";
  int at = 0;
  while (text[at] && at < size - 1) {{ name[at] = text[at]; at++; }}
  name[at] = 0;
  return device ? 101 : 0;
}}
int hipDeviceGetPCIBusId(char *place, int size, int device) {{
  const char *text = "0000:c4:00.0";
  int at = 0;
  while (text[at] && at < size - 1) {{ place[at] = text[at]; at++; }}
  place[at] = 0;
  return device ? 101 : 0;
}}
int hipDeviceGetAttribute(int *value, int attribute, int device) {{
  *value = attribute == 16;
  return device ? 101 : 0;
}}
"#
    )
}
