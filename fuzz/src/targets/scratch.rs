//! A folder of each thread's own, on a file system in memory where there is one.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

thread_local! {
    static FOLDER: RefCell<Option<Folder>> = const { RefCell::new(None) };
}

struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, String> {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let path = root.join(format!("flott-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `work` with this thread's folder; it is removed when the thread ends.
pub(super) fn with<T>(work: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
    FOLDER.with(|folder| {
        let mut folder = folder.borrow_mut();
        if folder.is_none() {
            *folder = Some(Folder::make()?);
        }
        match &*folder {
            Some(folder) => work(&folder.0),
            None => Err("no folder".to_owned()),
        }
    })
}
