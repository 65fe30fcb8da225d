//! A program that writes files to HDFS, which checkpoints commit in two phases.

use super::client::{SIZES, User, text_of};
use super::common::{program, succeeded, visits::write_visits};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A folder in HDFS, which goes with this value.
struct Folder<'a> {
    user: &'a User,
    path: String,
}

impl Folder<'_> {
    /// Returns the names of all files below, and their lines, sorted.
    fn files(&self, below: &str) -> (Vec<String>, Vec<String>) {
        let hdfs = &self.user.hdfs;
        let (mut names, mut lines) = (Vec::new(), Vec::new());
        self.user.runtime.block_on(async {
            let below = format!("{}/{below}", self.path);
            for file in hdfs.list_status(&below, true).await.unwrap() {
                let opened = hdfs.read(&file.path).await.unwrap();
                let bytes = opened.read_range(0, opened.file_length()).await.unwrap();
                lines.extend(text_of(&bytes).lines().map(str::to_owned));
                names.push(file.path.rsplit('/').next().unwrap().to_owned());
            }
        });
        lines.sort();
        (names, lines)
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        let _ = self.user.runtime.block_on(self.user.hdfs.delete(&self.path, true));
    }
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn files_in_hdfs_are_committed_by_checkpoints_in_hdfs_and_each_line_is_there_once() {
    let user = User::new();
    let folder =
        Folder { user: &user, path: format!("{}-output-{}", user.staging, std::process::id()) };
    let input = user.folder.path().join("visits");
    let expected = write_visits(&input, &mut ChaCha8Rng::seed_from_u64(1));
    let conf = hadoop::conf::Configuration::load().unwrap();
    let root = conf.require("fs.defaultFS", "files go there").unwrap();
    let root = format!("{}{}", root.trim_end_matches('/'), folder.path);
    let (out, checkpoints) =
        (format!("{root}/out"), format!("execution.checkpointing.dir={root}/checkpoints"));
    let options = ["-D", "execution.checkpointing.interval=200ms", "-D", &checkpoints, "-p", "2"];
    // The job lasts some checkpoints.
    let work = if cfg!(debug_assertions) { "2000" } else { "40000" };
    let job = [&*program("visits"), "--input", input.to_str().unwrap()];
    let to = ["--output", &out, "--work", work];
    let words = [&["run", "-t", "yarn-per-job"][..], &SIZES, &options, &job, &to].concat();
    succeeded(user.flott(&words));
    let (names, lines) = folder.files("out");
    assert_eq!(lines, expected);
    assert!(names.iter().all(|name| name.starts_with("part-")), "{names:?}");
    // A subtask's second part belongs to another checkpoint than its first one.
    assert!(names.iter().any(|name| name.contains("-00001-")), "{names:?}");
    user.nothing_is_left();
}
