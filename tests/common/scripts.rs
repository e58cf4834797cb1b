//! Shell scripts in the place of programs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run at once. Another process writes it: what this one has open for writing, a command
/// that another test starts may hold for a moment, and the system runs no file that anybody has open for writing.
pub fn write_script(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let mut input = writer.stdin.take().expect("its input is a pipe");
    input
        .write_all(text.as_bytes())
        .expect("it reads its input");
    drop(input);
    let status = writer.wait().expect("it ends");
    assert!(status.success(), "{} is not written", path.display());
}
