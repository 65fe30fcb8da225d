//! The token of a cluster's REST endpoint: a request with it may do everything; without it only
//! YARN's web proxy gets an answer.

use super::application::WITHIN;
use super::client::{User, text_of};
use super::common::{bin, eventually, program, succeeded};
use hadoop::yarn::messages::ApplicationReport;
use rest::access::BearerToken;
use rest::client::{ClientTimeouts, RestClient};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An address of this machine at which no proxy is: all of the cluster's daemons are at 127.0.0.1.
const STRANGER: &str = "127.0.0.2";
const JSON: [&str; 2] = ["-H", "Content-Type: application/json"];

/// Status and body of an answer.
fn curl(url: &str, args: &[&str]) -> (String, String) {
    let out = Command::new("curl").args(["-sS", "-w", "\n%{http_code}", url]).args(args).output();
    let out = text_of(&out.unwrap().stdout);
    let (body, status) = out.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// A session of the real client.
struct Session {
    user: User,
    id: String,
    report: ApplicationReport,
    file: PathBuf,
    token: BearerToken,
}

impl Session {
    fn start() -> Self {
        let user = User::new();
        let start = ["yarn-session", "-d", "-jm", "512", "-tm", "512", "-s", "2"];
        let savepoints = user.folder.path().join("savepoints");
        let savepoints = format!("execution.checkpointing.savepoint-dir={}", savepoints.display());
        let started = succeeded(user.flott(&[&start[..], &["-D", &savepoints]].concat()));
        let id = user.alive().pop().unwrap();
        let report = user.runtime.block_on(user.yarn.report(id.parse().unwrap())).unwrap();
        let file = user.tokens().pop().unwrap();
        assert!(file.ends_with(format!("yarn-token-{id}")), "{}", file.display());
        let token = BearerToken::new(std::fs::read_to_string(&file).unwrap().trim()).unwrap();
        let said = text_of(&started.stdout) + &text_of(&started.stderr);
        assert!(said.contains(file.to_str().unwrap()) && !said.contains(token.expose()), "{said}");
        Self { user, id, report, file, token }
    }

    /// The JobManager's own address.
    fn own(&self, path: &str) -> String {
        format!("{}{path}", self.report.original_tracking_url().trim_end_matches('/'))
    }

    /// The same below the ResourceManager's proxy.
    fn proxied(&self, path: &str) -> String {
        let proxy = self.report.tracking_url().trim_end_matches('/').to_owned();
        assert!(proxy.contains(&format!("/proxy/{}", self.id)), "{proxy}");
        proxy + path
    }

    fn client(&self, token: Option<BearerToken>) -> RestClient {
        let own = self.own("");
        let (host, port) = own.trim_start_matches("http://").split_once(':').unwrap();
        RestClient::new(host, port.parse().unwrap(), ClientTimeouts::default()).with_token(token)
    }

    /// A command about this session by its id, as from a machine with another session file.
    fn flott(&self, words: &[&str]) -> (Option<i32>, String) {
        let named = format!("yarn.application.id={}", self.id);
        let head = [words[0], "-t", "yarn-session", "-D", &named];
        let output = self.user.flott(&[&head, &words[1..]].concat());
        (output.status.code(), text_of(&output.stdout) + &text_of(&output.stderr))
    }

    /// An unbounded job.
    fn run_job(&self) -> String {
        let (program, count) = (program("sequence_sum"), "1000000");
        let out = self.user.folder.path().join("sums");
        let words = ["run", "-d", &program, "--count", count, "--rate", "1000"];
        let more = ["--keys", "7", "--output", out.to_str().unwrap()];
        let (code, said) = self.flott(&[&words[..], &more].concat());
        assert_eq!(code, Some(0), "{said}");
        let jobs =
            self.user.runtime.block_on(self.client(Some(self.token.clone())).jobs_overview());
        let ended = ["CANCELED", "FINISHED"];
        let mut jobs = jobs.unwrap().jobs.into_iter();
        let job = jobs.find(|job| !ended.contains(&job.state.as_str())).unwrap().jid;
        eventually(WITHIN, "its tasks run", || {
            let details = self.client(Some(self.token.clone()));
            let details = self.user.runtime.block_on(details.job(&job)).ok()?;
            details.vertices.iter().all(|v| v.status == "RUNNING").then_some(())
        });
        job
    }

    fn state(&self, job: &str) -> String {
        let client = self.client(Some(self.token.clone()));
        self.user.runtime.block_on(client.job_status(job)).unwrap().status
    }
}

/// Whether a file below the folder has the text.
fn is_in_file_below(folder: &Path, text: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let found = match path.is_dir() {
            true => is_in_file_below(&path, text),
            false => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(text).then_some(path)
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_session_answers_its_user_and_lets_others_read_through_yarns_proxy() {
    let session = Session::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&session.file), mode(session.file.parent().unwrap())), (0o600, 0o700));

    let stranger = ["--interface", STRANGER];
    for path in ["/overview", "/v1/jobs", "/jobmanager/config", "/jars"] {
        let (status, body) = curl(&session.own(path), &stranger);
        assert_eq!(status, "401", "{path}: {body}");
        assert!(body.contains("Authorization: Bearer"), "{body}");
        assert_eq!(curl(&session.proxied(path), &stranger).0, "200", "{path}");
    }
    // The proxy's cookie counts only in requests from the proxy.
    let cookie = ["-H", "Cookie: proxy-user=dr.who"];
    assert_eq!(curl(&session.own("/jobs"), &[&stranger[..], &cookie].concat()).0, "401");
    let rights = &session.user.runtime;
    let another = session.client(Some(BearerToken::new(&"x".repeat(43)).unwrap()));
    assert_eq!(rights.block_on(another.jobs_overview()).unwrap_err().status(), Some(401));
    // From the proxy's address, which everything is at here: no program comes in without the token.
    let refused = rights.block_on(session.client(None).upload(&bin("sequence_sum"), |_| ()));
    assert_eq!(refused.unwrap_err().status(), Some(401));

    let job = session.run_job();
    links_lead_to_log_files(&session, &job);
    let cancel = format!("/jobs/{job}/yarn-cancel");
    let (status, body) = curl(&session.proxied(&cancel), &[]);
    assert_eq!(status, "403", "{body}");
    assert!(body.contains("Content-Type: application/json"), "{body}");
    assert_eq!(session.state(&job), "RUNNING");
    let (status, body) = curl(&session.proxied(&cancel), &JSON);
    assert_eq!(status, "202", "{body}");
    eventually(WITHIN, "it is cancelled", || (session.state(&job) == "CANCELED").then_some(()));
    let stopped = session.run_job();
    let stop = format!("/jobs/{stopped}/yarn-stop");
    let (status, body) = curl(&session.proxied(&stop), &JSON);
    assert_eq!(status, "202", "{body}");
    eventually(WITHIN, "it has stopped", || (session.state(&stopped) == "FINISHED").then_some(()));
    nobody_sees_it(&session);

    let (code, said) = session.flott(&["list", "-a"]);
    assert!(code == Some(0) && said.contains(&job), "{said}");
    let away = session.file.with_extension("away");
    std::fs::rename(&session.file, &away).unwrap();
    let (code, said) = session.flott(&["list"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains(session.file.to_str().unwrap()), "{said}");
    std::fs::rename(&away, &session.file).unwrap();

    succeeded(session.user.flott(&["yarn-session", "--stop"]));
    assert!(session.user.tokens().is_empty());
    session.user.nothing_is_left();
}

/// The nodes show the log files of a job's processes where REST says that they do.
fn links_lead_to_log_files(session: &Session, job: &str) {
    let answer = |path: &str| {
        let (status, body) = curl(&session.proxied(path), &["-L"]);
        assert_eq!(status, "200", "{path}: {body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let manager = eventually(WITHIN, "a TaskManager", || {
        let managers = answer("/taskmanagers");
        managers["taskmanagers"][0]["id"].as_str().map(str::to_owned)
    });
    for (process, file) in
        [("jobmanager", "jobmanager.log"), (&format!("taskmanagers/{manager}"), "taskmanager.log")]
    {
        let link = answer(&format!("/jobs/{job}/{process}/log-url"));
        let (status, page) = curl(link["url"].as_str().unwrap(), &["-L"]);
        assert!(status == "200" && page.contains(file), "{link}: {page}");
    }
}

/// Checks that neither arguments nor environments nor logs, of the cluster's daemons and of the
/// containers, contain the token.
fn nobody_sees_it(session: &Session) {
    let token = session.token.expose();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(entry.path().join(file)).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains(token), "{:?}", entry.path());
        }
    }
    let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
    let cluster = conf.parent().unwrap();
    let nodes = std::fs::read_dir(cluster.join("nodes")).unwrap().flatten();
    let mut folders: Vec<PathBuf> = nodes.map(|node| node.path().join("logs")).collect();
    folders.push(cluster.join("logs"));
    for folder in folders {
        assert!(folder.is_dir(), "{}", folder.display());
        assert_eq!(is_in_file_below(&folder, token), None);
    }
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn the_token_of_an_application_that_yarn_has_killed_is_removed_by_the_next_command() {
    let session = Session::start();
    let job = session.run_job();
    let (code, said) = session.flott(&["cancel", &job]);
    assert_eq!(code, Some(0), "{said}");
    let id = session.id.parse().unwrap();
    session.user.runtime.block_on(session.user.yarn.kill(id, None)).unwrap();
    eventually(WITHIN, "it has ended", || session.user.alive().is_empty().then_some(()));
    assert!(session.file.exists());
    let (code, said) = session.flott(&["list"]);
    assert!(code != Some(0) && said.contains("has ended"), "{said}");
    assert!(!session.file.exists());
    // The ApplicationMaster could not remove what was staged.
    let named = format!("yarn.application.id={}", session.id);
    succeeded(session.user.flott(&["yarn-session", "--stop", "-D", &named]));
    session.user.nothing_is_left();
}
