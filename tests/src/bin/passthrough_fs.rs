//! `passthrough_fs DIR MOUNTPOINT`: a FUSE file system that passes every operation on MOUNTPOINT through to DIR.
//!
//! Tests put it between a process and its storage directory: while this program is stopped by `SIGSTOP`,
//! every operation on MOUNTPOINT hangs, and `SIGCONT` lets them go on. The kernel must therefore never answer
//! anything by itself: names and attributes are valid for no time, and file contents are not cached.

#![expect(clippy::print_stdout, reason = "whoever started the program waits for its line")]

use anyhow::{Context, Result};
use clap::Parser;
use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::passthrough::{CachePolicy, Config, PassthroughFs};
use fuse_backend_rs::transport::{FuseChannel, FuseSession};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tracing::{Level, warn};

/// Number of threads that answer the kernel, so that one slow operation (an fsync) does not hold up all others.
const THREADS: usize = 4;

#[derive(Debug, Parser)]
#[command(about = "Mounts a directory a second time, through this process")]
struct Args {
    /// The directory whose files are shown
    dir: PathBuf,
    /// An empty directory, on which DIR is mounted until SIGTERM, SIGHUP or the end of standard input
    mountpoint: PathBuf,
}

fn main() -> Result<()> {
    tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(std::io::stderr).init();
    let args = Args::parse();
    // The signals are blocked before the first thread starts, because threads inherit the mask.
    let ends: SigSet = [Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    ends.thread_block().context("cannot block SIGTERM")?;
    let mut session = mount(&args)?;
    println!("mounted");
    end_with_standard_input()?;
    ends.wait().context("cannot wait for SIGTERM")?;
    session.umount().with_context(|| format!("cannot unmount {}", args.mountpoint.display()))
}

/// Mounts the file system and starts its threads.
fn mount(args: &Args) -> Result<FuseSession> {
    let dir = args.dir.canonicalize();
    let dir = dir.with_context(|| format!("cannot open {}", args.dir.display()))?;
    let config = Config {
        root_dir: dir.to_str().context("DIR is not UTF-8")?.to_owned(),
        entry_timeout: Duration::ZERO,
        attr_timeout: Duration::ZERO,
        cache_policy: CachePolicy::Never,
        ..Config::default()
    };
    let files = PassthroughFs::<()>::new(config)
        .with_context(|| format!("cannot pass {} through", dir.display()))?;
    let server = Arc::new(Server::new(files));
    let mut session = FuseSession::new(&args.mountpoint, "passthrough", "flott-tests", false)?;
    session.mount().with_context(|| {
        format!("cannot mount on {}: FUSE needs /dev/fuse and root", args.mountpoint.display())
    })?;
    for _ in 0..THREADS {
        let (server, channel) = (Arc::clone(&server), session.new_channel()?);
        thread::Builder::new().name("fuse".into()).spawn(move || serve(&server, channel))?;
    }
    Ok(session)
}

/// Answers the kernel's requests until the file system is unmounted.
fn serve(server: &Server<PassthroughFs>, mut channel: FuseChannel) {
    loop {
        match channel.get_request() {
            Ok(Some((request, answer))) => {
                if let Err(error) = server.handle_message(request, answer.into(), None, None) {
                    warn!(%error, "a request was not answered");
                }
            }
            Ok(None) => return,
            Err(error) => {
                warn!(%error, "cannot read requests");
                return;
            }
        }
    }
}

/// Sends this process SIGTERM when standard input ends, so that a test that was killed leaves no mount behind.
fn end_with_standard_input() -> Result<()> {
    let wait = || {
        let read = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        if let Err(error) = read {
            warn!(%error, "cannot read standard input");
        }
        if let Err(error) = kill(Pid::this(), Signal::SIGTERM) {
            warn!(%error, "cannot send SIGTERM to this process");
        }
    };
    thread::Builder::new().name("stdin".into()).spawn(wait)?;
    Ok(())
}
