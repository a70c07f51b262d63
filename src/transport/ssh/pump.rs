//! One exec channel held open for a whole run, bridged to an async stream by a thread.
//!
//! libssh2 has one lock per session: a blocking read would keep every write out. So the channel does not
//! block, and the thread waits for the session's socket and the caller's pipe at the same time.

use super::login::Login;
use crate::transport::AgentLog;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ssh2::{BlockDirections, Channel};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long an agent may take to restore after its input was closed.
const GRACE: Duration = Duration::from_secs(20);
/// How often the keepalive is looked after, milliseconds.
const LOOK_MS: u16 = 1000;
const CHUNK: usize = 64 << 10;

/// Bytes taken from one side and not yet given to the other.
#[derive(Default)]
struct Parked {
    bytes: Vec<u8>,
    done: usize,
}

impl Parked {
    fn is_empty(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// Takes what `from` has, if there is room. `Some(0)`: it has ended.
    fn fill(&mut self, from: &mut impl Read) -> io::Result<Option<usize>> {
        if !self.is_empty() {
            return Ok(None);
        }
        self.bytes.resize(CHUNK, 0);
        let n = unless_blocked(from.read(&mut self.bytes))?;
        self.bytes.truncate(n.unwrap_or(0));
        self.done = 0;
        Ok(n)
    }

    fn drain(&mut self, to: &mut impl Write) -> io::Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let n = unless_blocked(to.write(&self.bytes[self.done..]))?.unwrap_or(0);
        self.done += n;
        Ok(n > 0)
    }
}

fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

pub(super) struct Pump {
    login: Login,
    channel: Channel,
    caller: UnixStream,
    log: AgentLog,
    to_caller: Parked,
    to_device: Parked,
    /// Nobody reads what the agent says any more.
    unheard: bool,
    caller_ended: bool,
    /// Set when the agent's input was closed.
    until: Option<Instant>,
}

impl Pump {
    /// Makes the channel non-blocking and starts the thread.
    pub fn start(login: Login, channel: Channel, caller: UnixStream, log: AgentLog) -> io::Result<()> {
        login.session.set_blocking(false);
        caller.set_nonblocking(true)?;
        let mut pump = Pump {
            login,
            channel,
            caller,
            log,
            to_caller: Parked::default(),
            to_device: Parked::default(),
            unheard: false,
            caller_ended: false,
            until: None,
        };
        // A link that breaks shows at the caller's end of the pipe, which closes with this thread.
        std::thread::Builder::new().name("ssh".into()).spawn(move || drop(pump.run()))?;
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        while !self.over() {
            let moved = self.hear_device()? | self.hear_caller()?;
            if !moved {
                self.wait()?;
            }
        }
        Ok(())
    }

    fn over(&self) -> bool {
        let ended = self.channel.eof() && (self.to_caller.is_empty() || self.unheard);
        ended || self.until.is_some_and(|until| Instant::now() > until)
    }

    fn hear_device(&mut self) -> io::Result<bool> {
        let mut moved = self.to_caller.fill(&mut self.channel)?.is_some_and(|n| n > 0);
        let mut said = [0; 4096];
        if let Some(n @ 1..) = unless_blocked(self.channel.stderr().read(&mut said))? {
            self.log.add(&said[..n]);
            moved = true;
        }
        // The agent is heard out even when the caller has gone.
        if self.unheard {
            self.to_caller = Parked::default();
        } else {
            match self.to_caller.drain(&mut self.caller) {
                Ok(n) => moved |= n,
                Err(_) => self.unheard = true,
            }
        }
        Ok(moved)
    }

    fn hear_caller(&mut self) -> io::Result<bool> {
        let mut moved = false;
        if !self.caller_ended {
            // A caller that was dropped has ended too.
            match self.to_device.fill(&mut self.caller).unwrap_or(Some(0)) {
                Some(0) => self.caller_ended = true,
                some => moved = some.is_some(),
            }
        }
        moved |= self.to_device.drain(&mut self.channel)?;
        if self.caller_ended && self.to_device.is_empty() && self.until.is_none() {
            match self.channel.send_eof().map_err(io::Error::from) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => (),
                sent => {
                    sent?;
                    self.until = Some(Instant::now() + GRACE);
                }
            }
        }
        Ok(moved)
    }

    /// Waits until either side can go on, looking after the keepalive meanwhile.
    fn wait(&self) -> io::Result<()> {
        let outbound = matches!(
            self.login.session.block_directions(),
            BlockDirections::Outbound | BlockDirections::Both
        );
        let mut device = PollFlags::POLLIN;
        device.set(PollFlags::POLLOUT, outbound);
        let mut caller = PollFlags::empty();
        caller.set(PollFlags::POLLIN, self.to_device.is_empty() && !self.caller_ended);
        caller.set(PollFlags::POLLOUT, !self.to_caller.is_empty() && !self.unheard);
        let mut fds = vec![PollFd::new(self.login.socket.as_fd(), device)];
        if !caller.is_empty() {
            fds.push(PollFd::new(self.caller.as_fd(), caller));
        }
        poll(&mut fds, PollTimeout::from(LOOK_MS))?;
        match self.login.session.keepalive_send().map_err(io::Error::from) {
            Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
            _ => Ok(()),
        }
    }
}
