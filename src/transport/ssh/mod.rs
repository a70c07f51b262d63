//! Boards, Termux and lab hosts, over ssh (libssh2).

mod config;
mod login;
mod pump;

use super::root::Root;
use super::words::command_line;
use super::{AgentLog, AgentStream, LinkSpec, Output, Transport, TransportError};
use async_trait::async_trait;
use config::Target;
use login::Login;
use ssh2::{OpenFlags, OpenType, Session};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio::sync::mpsc;

/// For the host to answer something that needs no work.
const QUICK: Duration = Duration::from_secs(20);
/// Longest silence while a file is on its way.
const STALL: Duration = Duration::from_secs(30);
/// Wait before bytes are offered again that a server had no room for.
const FULL_WINDOW: Duration = Duration::from_millis(1);
/// Most a command may answer; a device cannot fill the host.
const MAX_OUTPUT: u64 = 1 << 20;
/// libssh2 sends as many packets at once as fit in one write.
const CHUNK: usize = 256 << 10;

/// One host. Commands and files share a session; every agent has one of its own.
pub struct Ssh {
    device: String,
    target: Target,
    session: Arc<Mutex<Option<Session>>>,
    root: OnceCell<Option<Root>>,
}

impl Ssh {
    /// The host a link names, as the user's ssh configuration says (`OPPTUNE_SSH_CONFIG` names another one).
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`TransportError::Refused`] when the configuration cannot be used, or `link` is of another kind.
    pub fn new(link: &LinkSpec) -> Result<Self, TransportError> {
        let file = std::env::var_os("OPPTUNE_SSH_CONFIG").map(PathBuf::from);
        Self::with_config(link, file.as_deref())
    }

    /// The same, as a certain configuration file says.
    ///
    /// # Errors
    /// As there.
    pub fn with_config(link: &LinkSpec, file: Option<&Path>) -> Result<Self, TransportError> {
        let device = link.to_string();
        let LinkSpec::Ssh { user, host, port } = link else {
            let next = "Give a link like ssh:HOST";
            return Err(TransportError::refused(&device, "connecting", "it is no ssh link", next));
        };
        let target = config::resolve(&device, file, host, user.as_deref(), *port)?;
        Ok(Ssh { device, target, session: Arc::default(), root: OnceCell::new() })
    }

    /// How commands become root there; `None`: not at all, which is for the agent to complain about if it
    /// matters.
    async fn root(&self) -> Result<Option<Root>, TransportError> {
        self.root.get_or_try_init(|| self.find_root()).await.copied()
    }

    async fn find_root(&self) -> Result<Option<Root>, TransportError> {
        for way in Root::UNIX {
            if Root::is_root(&self.exec(way.wrap("id -u"), QUICK).await?.stdout) {
                return Ok(Some(way));
            }
        }
        Ok(None)
    }

    fn line(&self, argv: &[&str]) -> Result<String, TransportError> {
        command_line(argv).ok_or_else(|| self.unspeakable(&argv.join(" ")))
    }

    async fn root_line(&self, argv: &[&str]) -> Result<String, TransportError> {
        let line = self.line(argv)?;
        Ok(match self.root().await? {
            Some(way) => way.wrap(&line),
            None => line,
        })
    }

    fn unspeakable(&self, line: &str) -> TransportError {
        let why = "it has characters that are not passed to a device's shell";
        let next = "Use paths of letters, digits and `._-/` only";
        TransportError::refused(&self.device, format!("running `{line}`"), why, next)
    }

    async fn exec(&self, line: String, deadline: Duration) -> Result<Output, TransportError> {
        let doing = format!("running `{line}`");
        self.work(doing, deadline, move |session| exec(session, &line)).await
    }

    /// Does blocking work with the shared session, which is dropped when the work fails or is late: nobody
    /// knows then what it would answer next.
    async fn work<T: Send + 'static>(
        &self,
        doing: String,
        deadline: Duration,
        work: impl FnOnce(&Session) -> io::Result<T> + Send + 'static,
    ) -> Result<T, TransportError> {
        let (shared, device, target) = (self.session.clone(), self.device.clone(), self.target.clone());
        let lost = |why: String| TransportError::lost(&self.device, doing, why);
        let task = tokio::task::spawn_blocking(move || {
            let mut slot = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let session = match slot.take() {
                Some(session) => session,
                None => login::log_in(&device, &target)?.session,
            };
            session.set_timeout(u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX));
            let answer = work(&session);
            *slot = answer.is_ok().then_some(session);
            Ok(answer)
        });
        match task.await {
            Ok(Ok(answer)) => answer.map_err(|e| lost(e.to_string())),
            Ok(Err(error)) => Err(error),
            Err(e) => Err(lost(e.to_string())),
        }
    }
}

fn exec(session: &Session, line: &str) -> io::Result<Output> {
    let mut channel = session.channel_session()?;
    channel.exec(line)?;
    channel.send_eof()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    channel.stream(0).take(MAX_OUTPUT).read_to_end(&mut stdout)?;
    channel.stderr().take(MAX_OUTPUT).read_to_end(&mut stderr)?;
    if stdout.len() as u64 == MAX_OUTPUT || stderr.len() as u64 == MAX_OUTPUT {
        return Err(io::Error::other("the command says more than it ever should"));
    }
    channel.wait_close()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Output { stdout: text(stdout), stderr: text(stderr), status: Some(channel.exit_status()?) })
}

fn start(login: Login, line: &str) -> io::Result<(UnixStream, AgentLog)> {
    let mut channel = login.session.channel_session()?;
    channel.exec(line)?;
    let (ours, theirs) = UnixStream::pair()?;
    let log = AgentLog::default();
    pump::Pump::start(login, channel, theirs, log.clone())?;
    ours.set_nonblocking(true)?;
    Ok((ours, log))
}

fn send(
    session: &Session,
    from: &Path,
    offset: u64,
    to: &Path,
    sent: &mpsc::UnboundedSender<u64>,
) -> io::Result<()> {
    let mut source = File::open(from)?;
    source.seek(SeekFrom::Start(offset))?;
    let mut flags = OpenFlags::WRITE | OpenFlags::CREATE;
    flags.set(OpenFlags::TRUNCATE, offset == 0);
    let mut target = session.sftp()?.open_mode(to, flags, 0o600, OpenType::File)?;
    target.seek(SeekFrom::Start(offset))?;
    let mut buffer = vec![0; CHUNK];
    let mut done = offset;
    loop {
        let n = source.read(&mut buffer)?;
        if n == 0 {
            return target.close().map_err(Into::into);
        }
        write_all(&mut target, &buffer[..n])?;
        done += n as u64;
        // Nobody listens any more when the push was given up.
        let _ = sent.send(done);
    }
}

/// Like [`Write::write_all`], but patient: libssh2 takes nothing while the server's window is full (dropbear's is
/// smaller than one packet) and wants to be given the same bytes again.
fn write_all(target: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let mut last = Instant::now();
    while !bytes.is_empty() {
        match target.write(bytes)? {
            0 if last.elapsed() > STALL => return Err(io::ErrorKind::TimedOut.into()),
            0 => std::thread::sleep(FULL_WINDOW),
            n => (bytes, last) = (&bytes[n..], Instant::now()),
        }
    }
    Ok(())
}

#[async_trait]
impl Transport for Ssh {
    fn device(&self) -> String {
        self.device.clone()
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        let words: Vec<_> = argv.iter().map(String::as_str).collect();
        let line = self.root_line(&words).await?;
        let (device, target) = (self.device.clone(), self.target.clone());
        let lost = |e: io::Error| TransportError::lost(&self.device, "starting the agent", e);
        let task = tokio::task::spawn_blocking(move || {
            login::log_in(&device, &target).map(|login| start(login, &line))
        });
        let (stream, log) = task.await.map_err(|e| lost(io::Error::other(e)))??.map_err(lost)?;
        let stream = tokio::net::UnixStream::from_std(stream).map_err(lost)?;
        Ok(AgentStream { stream: Box::new(stream), log, keep: Box::new(()) })
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        self.exec(self.line(argv)?, deadline).await
    }

    async fn run_as_agent(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        self.exec(self.root_line(argv).await?, deadline).await
    }

    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        let doing = format!("copying {} to {remote}", local.display());
        let (from, to) = (local.to_owned(), PathBuf::from(remote));
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut work =
            std::pin::pin!(self.work(doing, STALL, move |session| send(session, &from, offset, &to, &tell)));
        loop {
            tokio::select! {
                biased;
                Some(done) = told.recv() => sent(done),
                answer = &mut work => {
                    while let Ok(done) = told.try_recv() {
                        sent(done);
                    }
                    return answer;
                }
            }
        }
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        let doing = format!("copying {remote} to {}", local.display());
        let (from, to) = (PathBuf::from(remote), local.to_owned());
        let fetch = move |session: &Session| {
            let mut source = session.sftp()?.open(&from)?;
            io::copy(&mut source, &mut File::create(to)?).map(drop)
        };
        self.work(doing, STALL, fetch).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three bytes, then nothing for two calls, and so on.
    #[derive(Default)]
    struct Narrow {
        got: Vec<u8>,
        calls: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            let room = if self.calls % 3 == 1 { bytes.len().min(3) } else { 0 };
            self.got.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_server_without_room_is_waited_for() {
        let mut server = Narrow::default();
        write_all(&mut server, b"opptune-agent").unwrap();
        assert_eq!((&server.got[..], server.calls), (&b"opptune-agent"[..], 13));
    }
}
