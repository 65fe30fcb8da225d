//! Programs that read a text in HDFS, in every mode, alone and beside each other.

use super::application::WITHIN;
use super::client::{MODES, SIZES, User, text_of};
use super::common::{
    eventually, expected_counts, output_lines, program, repository_text, sorted_lines, succeeded,
};
use hdfs_native::WriteOptions;
use std::path::PathBuf;
use std::process::Stdio;

/// A text of some megabytes, here and in a folder of HDFS, where it is two files. The folder goes with this value.
struct Text<'a> {
    user: &'a User,
    local: PathBuf,
    folder: String,
    uri: String,
}

impl<'a> Text<'a> {
    fn put(user: &'a User) -> Self {
        let once = std::fs::read(repository_text()).unwrap();
        let half = once.repeat(1 + (4 << 20) / once.len());
        let local = user.folder.path().join("text");
        std::fs::write(&local, [&half[..], &half].concat()).unwrap();
        let folder = format!("{}-text-{}", user.staging, std::process::id());
        user.runtime.block_on(async {
            for name in ["a.txt", "deeper/b.txt"] {
                let options = WriteOptions::default().create_parent(true);
                let mut file =
                    user.hdfs.create(&format!("{folder}/{name}"), options).await.unwrap();
                file.write_bytes(half.clone().into()).await.unwrap();
                file.close().await.unwrap();
            }
        });
        let conf = hadoop::conf::Configuration::load().unwrap();
        let root = conf.require("fs.defaultFS", "files go there").unwrap();
        let uri = format!("{}{folder}", root.trim_end_matches('/'));
        Self { user, local, folder, uri }
    }

    fn counts(&self) -> Vec<String> {
        expected_counts(&self.local)
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        let _ = self.user.runtime.block_on(self.user.hdfs.delete(&self.folder, true));
    }
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn words_of_a_text_in_hdfs_are_counted_in_every_mode() {
    let user = User::new();
    let text = Text::put(&user);
    let expected = text.counts();
    let program = program("word_count");
    let job = ["-p", "4", &program, "--input", &text.uri];
    for mode in MODES {
        let run = user.flott(&[mode, &SIZES, &job].concat());
        assert!(run.status.success(), "{mode:?}: {}", text_of(&run.stderr));
        assert_eq!(sorted_lines(&run.stdout), expected, "{mode:?}");
        let out = user.folder.path().join(mode[0]);
        let to = ["--output", out.to_str().unwrap()];
        let detached = user.flott(&[mode, &["-d"], &SIZES, &job, &to].concat());
        assert!(detached.status.success(), "{mode:?}: {}", text_of(&detached.stderr));
        user.nothing_is_left();
        assert_eq!(output_lines(&out), expected, "{mode:?}, detached");
    }
    let absent = format!("{}/absent", text.uri);
    let job = [&*program, "--input", &absent];
    let none = ["-D", "restart-strategy.type=none"];
    let failed = user.flott(&[&["run", "-t", "yarn-per-job"][..], &SIZES, &none, &job].concat());
    assert_eq!(failed.status.code(), Some(3), "{}", text_of(&failed.stderr));
    assert!(text_of(&failed.stderr).contains(&format!("{absent} does not exist")));
    user.nothing_is_left();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn two_sessions_and_two_programs_in_one_do_not_meet() {
    let user = User::new();
    let text = Text::put(&user);
    let expected = text.counts();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let before = user.alive();
        let start = ["yarn-session", "-d", "-D", "yarn.containers.vcores=1"];
        succeeded(user.flott(&[&start[..], &SIZES].concat()));
        sessions.extend(user.alive().into_iter().filter(|id| !before.contains(id)));
    }
    assert_eq!(sessions.len(), 2);
    let run = |session: &str, parallelism: &str, job: &[&str]| {
        let id = format!("yarn.application.id={session}");
        let words =
            [&["run", "-t", "yarn-session", "-D", &id, "-p", parallelism][..], job].concat();
        let mut command = user.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let words = [&*program("word_count"), "--input", &text.uri];
    let numbers = [&*program("sequence_sum"), "--count", "10000", "--keys", "3"];
    let runs = [
        run(&sessions[0], "4", &words),
        run(&sessions[1], "4", &words),
        run(&sessions[0], "2", &numbers),
    ];
    let sums = ["0\t3334\t16668333", "1\t3333\t16661667", "2\t3333\t16665000"].map(str::to_owned);
    for (run, expected) in runs.into_iter().zip([&expected[..], &expected, &sums]) {
        let output = succeeded(run.wait_with_output().unwrap());
        assert_eq!(sorted_lines(&output.stdout), expected);
    }
    for session in &sessions {
        succeeded(user.flott(&["yarn-session", "--stop", "-id", session]));
        eventually(WITHIN, "the session ends", || (!user.alive().contains(session)).then_some(()));
    }
    user.nothing_is_left();
}
