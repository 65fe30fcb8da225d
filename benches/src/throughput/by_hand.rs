//! The shuffle between two processes, written by hand: one thread per process, one connection, 8 bytes a record in writes
//! of 64 KiB; every second record stays in its process. The second process is a child of the first.

use super::loops::{Checksum, first_map, is_kept, last_map};
use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    env,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::fd::AsFd,
    process::{Command, Stdio},
};

/// The first argument that makes the benchmark's binary run the hand-written side of a workload and end.
pub const BY_HAND: &str = "by-hand";
/// The first argument that makes the benchmark's binary the second process of the hand-written shuffle; [`shuffle_tcp`] starts it.
pub const SECOND_HALF: &str = "second-half";
/// Bytes of one write.
const BLOCK: usize = 64 << 10;
const RECORD: usize = size_of::<u64>();

/// Runs the hand-written shuffle of the numbers below `records`: one half here, the other in a second process of this binary, over one
/// connection. Returns the sum of both checksums once the second process has ended. Waits without a time limit for the second process
/// to connect, also if it has ended before.
///
/// # Errors
/// When the second process cannot be started, fails once it is connected, or prints no checksum, or the connection fails.
pub fn shuffle_tcp(records: u64) -> Result<Checksum> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let mut second = Command::new(env::current_exe()?);
    second.args([SECOND_HALF, records.to_string().as_str(), port.as_str()]).stdout(Stdio::piped());
    let second = second.spawn().context("the second process can't be started")?;
    let (stream, _) = listener.accept()?;
    let own = half(0, records, stream)?;
    let output = second.wait_with_output()?;
    ensure!(output.status.success(), "the second process failed: {}", output.status);
    Ok(own + String::from_utf8_lossy(&output.stdout).parse()?)
}

/// Does the work of the second process of [`shuffle_tcp`], connected to the first one's loopback `port`. Returns the checksum of the
/// records that it received or kept, which the process has to print.
///
/// # Errors
/// When the connection fails.
pub fn second_half(records: u64, port: u16) -> Result<Checksum> {
    half(1, records, TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)
}

/// Makes the first or the second half of the numbers, sends every second one, and receives until the other side ends.
fn half(process: u64, records: u64, stream: TcpStream) -> Result<Checksum> {
    let numbers = records * process / 2..records * (process + 1) / 2;
    let mut link = Link::new(stream)?;
    for number in numbers {
        let mapped = first_map(number);
        if number & 1 == process {
            take(mapped, &mut link.checksum);
        } else {
            link.out.extend_from_slice(&mapped.to_le_bytes());
            if link.out.len() == BLOCK {
                link.send()?;
            }
        }
    }
    link.send()?;
    link.end()
}

#[inline]
fn take(mapped: u64, checksum: &mut Checksum) {
    if is_kept(mapped) {
        checksum.add_record(&last_map(mapped));
    }
}

struct Link {
    stream: TcpStream,
    out: Vec<u8>,
    received: Box<[u8]>,
    /// Bytes at the start of `received` that belong to a record whose rest has not come.
    partial: usize,
    /// True once the other side sends nothing more.
    ended: bool,
    checksum: Checksum,
}

impl Link {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            out: Vec::with_capacity(BLOCK),
            received: vec![0; BLOCK].into(),
            partial: 0,
            ended: false,
            checksum: Checksum::default(),
        })
    }

    /// Writes all of `out`. It receives in between: two sides that only write would wait for each other.
    fn send(&mut self) -> Result<()> {
        let mut written = 0;
        while let Some(rest) = self.out.get(written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.receive()? {
                        self.wait(PollFlags::POLLOUT)?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.receive()?;
        Ok(())
    }

    /// Takes what has come. Returns true if that was anything.
    fn receive(&mut self) -> Result<bool> {
        let mut any = false;
        while !self.ended {
            let room = self.received.get_mut(self.partial..).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => self.ended = true,
                Ok(bytes) => {
                    any = true;
                    self.take_received(self.partial + bytes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(any)
    }

    fn take_received(&mut self, filled: usize) {
        let whole = filled / RECORD * RECORD;
        let (records, _) = self.received.get(..whole).unwrap_or_default().as_chunks();
        for record in records {
            take(u64::from_le_bytes(*record), &mut self.checksum);
        }
        self.received.copy_within(whole..filled, 0);
        self.partial = filled - whole;
    }

    /// Sleeps until the connection can be read, or is ready for `also`.
    fn wait(&self, also: PollFlags) -> Result<()> {
        let reads = if self.ended { PollFlags::empty() } else { PollFlags::POLLIN };
        match poll(&mut [PollFd::new(self.stream.as_fd(), reads | also)], PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn end(mut self) -> Result<Checksum> {
        self.stream.shutdown(Shutdown::Write)?;
        while !self.ended {
            if !self.receive()? && !self.ended {
                self.wait(PollFlags::empty())?;
            }
        }
        ensure!(self.partial == 0, "the last record came in part");
        Ok(self.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::loops;
    use std::thread;

    #[test]
    fn both_halves_together_have_the_checksum_of_the_chain() {
        for records in [0, 1, 7, 300_001] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let (first, second) = thread::scope(|scope| {
                let second = scope.spawn(move || second_half(records, port).unwrap());
                let (stream, _) = listener.accept().unwrap();
                (half(0, records, stream).unwrap(), second.join().unwrap())
            });
            assert_eq!(first + second, loops::chain(records), "{records}");
        }
    }
}
