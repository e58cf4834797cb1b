//! A display: Xvfb, with xdotool as mouse and keyboard.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::Result;

pub(crate) struct Display {
    server: Child,
    pub(crate) name: String,
}

impl Display {
    pub(crate) fn start() -> Result<Self> {
        let mut server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1440x900x24",
                "-noreset",
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| format!("Xvfb: {err}"))?;
        let mut number = String::new();
        BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut number)?;
        let name = format!(":{}", number.trim());
        Ok(Self { server, name })
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("xdotool");
        let output = command.args(arguments).env("DISPLAY", &self.name).output();
        Ok(String::from_utf8(
            output.map_err(|err| format!("xdotool: {err}"))?.stdout,
        )?)
    }

    pub(crate) fn window(&self) -> Result<Option<String>> {
        let found = self.run(&["search", "--onlyvisible", "--name", "Safelight"])?;
        Ok(found.lines().next().map(str::to_owned))
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}
