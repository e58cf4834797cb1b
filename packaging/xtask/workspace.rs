//! The folders of the repository and of its build.

use std::path::{Path, PathBuf};

use crate::failure::{Doing as _, Failure, Result};

pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// From cargo's variable of this package's folder; this executable is in the build folder.
    pub fn find() -> Result<Self> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file())
            .ok_or_else(|| Failure::new(format!("No Cargo.lock above {}", here.display())))?;
        let exe =
            std::env::current_exe().doing(|| "Where this program is cannot be told".to_owned())?;
        let target = exe
            .parent()
            .and_then(Path::parent)
            .unwrap_or(root)
            .to_owned();
        Ok(Self {
            root: root.to_owned(),
            target,
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder of this tool's scripts and lists.
    pub fn tool(&self) -> PathBuf {
        self.root.join("packaging/xtask")
    }
}
