//! Safelight among the desktop's applications: its entry and its icon in the user's own folders, so that it is started,
//! and given files, without a terminal.

use std::io;
use std::path::{Path, PathBuf};

use safelight_core::files::write_atomically;

use super::APP_ID;

const ENTRY: &str = include_str!("../../../packaging/linux/org.safelight.Safelight.desktop");
const ICON: &[u8] = include_bytes!("../../../assets/icons/safelight-256.png");

/// The entry below the folder of all programs' data.
pub fn entry_file(data: &Path) -> PathBuf {
    data.join("applications").join(format!("{APP_ID}.desktop"))
}

fn icon_file(data: &Path) -> PathBuf {
    data.join("icons/hicolor/256x256/apps")
        .join(format!("{APP_ID}.png"))
}

/// Writes the entry that starts `executable`, in place of an older one, and the icon. Gives the entry's path.
pub fn add(data: &Path, executable: &Path) -> io::Result<PathBuf> {
    let program = executable.to_str().filter(|path| !path.contains('\n'));
    let program = program.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the name of the program's folder cannot stand in a menu entry",
        )
    })?;
    let entry: String = ENTRY
        .lines()
        .map(|line| match line.split_once('=') {
            Some(("Exec", _)) => ["Exec=", &quoted(program), " %F\n"].concat(),
            Some(("TryExec", _)) => format!("TryExec={}\n", program.replace('\\', r"\\")),
            _ => format!("{line}\n"),
        })
        .collect();
    write_in_folder(&icon_file(data), ICON)?;
    let path = entry_file(data);
    write_in_folder(&path, entry.as_bytes())?;
    Ok(path)
}

/// As the desktop entry specification wants an argument: quoted, and then escaped as any value.
fn quoted(program: &str) -> String {
    let mut argument = String::from('"');
    for letter in program.chars() {
        match letter {
            '"' | '`' | '$' | '\\' => argument.extend(['\\', letter]),
            '%' => argument.push_str("%%"),
            _ => argument.push(letter),
        }
    }
    argument.push('"');
    argument.replace('\\', r"\\")
}

fn write_in_folder(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomically(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_starts_this_very_program_wherever_it_lies() {
        let data = tempfile::tempdir().unwrap();
        let program = Path::new(r#"/opt/my $tools/100% "new"/safelight"#);
        let path = add(data.path(), program).unwrap();
        let entry = std::fs::read_to_string(&path).unwrap();
        let exec = r#"Exec="/opt/my \\$tools/100%% \\"new\\"/safelight" %F"#;
        assert!(entry.lines().any(|line| line == exec), "{entry}");
        assert_eq!(entry.lines().count(), ENTRY.lines().count());
        assert!(icon_file(data.path()).exists());
        // A newer place takes over.
        add(data.path(), Path::new("/usr/bin/safelight")).unwrap();
        let entry = std::fs::read_to_string(path).unwrap();
        assert!(entry.contains("Exec=\"/usr/bin/safelight\" %F\nTryExec=/usr/bin/safelight\n"));
    }
}
