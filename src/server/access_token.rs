//! The token of clients on other computers.

use std::fs;
use std::io;
use std::path::Path;

use safelight_core::files::{make_private_folder, write_private};
use safelight_wheels::hex;

const TOKEN_BYTES: usize = 24;

/// The token in a file, which is made at the first call and readable by its owner alone.
pub fn keep_token(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) if text.trim().len() >= TOKEN_BYTES => return Ok(text.trim().to_owned()),
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut bytes = [0; TOKEN_BYTES];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    let token = hex(&bytes);
    if let Some(folder) = file.parent() {
        make_private_folder(folder)?;
    }
    write_private(file, token.as_bytes())?;
    Ok(token)
}
