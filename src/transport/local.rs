//! The machine opptune itself runs on: the agent is a child process, files are copied.

use super::{AgentLog, AgentStream, Output, Transport, TransportError};
use async_trait::async_trait;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Stdio};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

const DEVICE: &str = "local";
/// How long an agent may take to restore after its input was closed before it is killed. Its restorer would
/// then finish the work; the agent itself is quicker and says what it did.
const GRACE: Duration = Duration::from_secs(20);
/// How often a leaving child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes copied between two reports of progress.
const CHUNK: usize = 256 << 10;

/// This machine.
#[derive(Clone, Debug, Default)]
pub struct Local;

#[async_trait]
impl Transport for Local {
    fn device(&self) -> String {
        DEVICE.into()
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        let program = argv.first().map_or("", String::as_str);
        start(argv).map_err(|e| {
            let next = "Give the path of an agent this machine can run with --agent";
            TransportError::refused(DEVICE, format!("starting the agent {program}"), e, next)
        })
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        let doing = || format!("running {}", argv.join(" "));
        let (program, rest) = argv.split_first().ok_or_else(|| lost(doing(), "no command"))?;
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).kill_on_drop(true);
        match tokio::time::timeout(deadline, command.output()).await {
            Err(_) => Err(lost(doing(), format!("no answer within {deadline:?}"))),
            Ok(Ok(answer)) => Ok(output(answer)),
            Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => Ok(not_found(program)),
            Ok(Err(e)) => Err(lost(doing(), e)),
        }
    }

    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        copy(local, offset, Path::new(remote), sent)
            .await
            .map_err(|e| lost(format!("copying {} to {remote}", local.display()), e))
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        copy(Path::new(remote), 0, local, &|_| ())
            .await
            .map_err(|e| lost(format!("copying {remote} to {}", local.display()), e))
    }
}

fn lost(doing: String, why: impl ToString) -> TransportError {
    TransportError::lost(DEVICE, doing, why)
}

fn output(from: std::process::Output) -> Output {
    Output {
        stdout: String::from_utf8_lossy(&from.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&from.stderr).into_owned(),
        status: from.status.code(),
    }
}

/// What a shell would answer.
fn not_found(program: &str) -> Output {
    Output { stdout: String::new(), stderr: format!("{program}: not found"), status: Some(127) }
}

async fn copy(from: &Path, offset: u64, to: &Path, sent: &(dyn Fn(u64) + Send + Sync)) -> io::Result<()> {
    let mut source = tokio::fs::File::open(from).await?;
    source.seek(io::SeekFrom::Start(offset)).await?;
    let mut options = tokio::fs::OpenOptions::new();
    options.create(true).mode(0o600);
    let fresh = offset == 0;
    let mut target = options.write(true).truncate(fresh).append(!fresh).open(to).await?;
    let mut buffer = vec![0; CHUNK];
    let mut done = offset;
    loop {
        let n = source.read(&mut buffer).await?;
        if n == 0 {
            return target.sync_all().await;
        }
        target.write_all(&buffer[..n]).await?;
        done += n as u64;
        sent(done);
    }
}

fn start(argv: &[String]) -> io::Result<AgentStream> {
    let (program, rest) = argv.split_first().ok_or_else(|| io::Error::other("no program given"))?;
    let mut command = std::process::Command::new(program);
    command.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let missing = || io::Error::other("the child has no pipes");
    let stdin = ChildStdin::from_std(child.stdin.take().ok_or_else(missing)?)?;
    let stdout = ChildStdout::from_std(child.stdout.take().ok_or_else(missing)?)?;
    let stderr = ChildStderr::from_std(child.stderr.take().ok_or_else(missing)?)?;
    let log = AgentLog::default();
    tokio::spawn(listen(stderr, log.clone()));
    Ok(AgentStream { stream: Box::new(Pipes { stdin, stdout }), log, keep: Box::new(Reaper(Some(child))) })
}

async fn listen(mut stderr: ChildStderr, log: AgentLog) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        log.add(&buffer[..n]);
    }
}

/// Standard input and output of a child as one stream.
struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl AsyncRead for Pipes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(cx, into)
    }
}

impl AsyncWrite for Pipes {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stdin).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_shutdown(cx)
    }
}

/// Waits for a child whose pipes are being closed, and kills it when its [`GRACE`] is over. On a thread: it
/// must outlive the runtime. When this process ends first, the child has seen its input close all the same.
struct Reaper(Option<Child>);

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            std::thread::spawn(move || reap(child));
        }
    }
}

fn reap(mut child: Child) {
    let end = Instant::now() + GRACE;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK);
    }
    // Either may fail only because the child ended in the meantime.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(argv: &[&str]) -> Vec<String> {
        argv.iter().map(ToString::to_string).collect()
    }

    async fn until(mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(Instant::now() < end, "not within 10 s");
            tokio::time::sleep(LOOK).await;
        }
    }

    #[tokio::test]
    async fn a_child_echoes_and_is_given_time_to_restore_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("restored");
        let script = format!("echo up >&2; cat; sleep 0.3; echo done > {}", mark.display());
        let mut agent = Local.open_agent(&words(&["sh", "-c", &script])).await.unwrap();
        agent.stream.write_all(b"a\0\r\nb").await.unwrap();
        let mut back = [0; 5];
        agent.stream.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"a\0\r\nb");
        until(|| agent.log.text() == "up").await;
        drop(agent);
        until(|| mark.exists()).await;
    }

    #[tokio::test]
    async fn commands_have_a_status_and_a_deadline() {
        let second = Duration::from_secs(1);
        let out = Local.run(&["sh", "-c", "echo a; echo b >&2; exit 7"], 10 * second).await.unwrap();
        assert_eq!(out, Output { stdout: "a\n".into(), stderr: "b\n".into(), status: Some(7) });
        let late = Local.run(&["sleep", "60"], second / 10).await.unwrap_err();
        assert!(late.may_pass() && late.to_string().contains("within 100ms"), "{late}");
        assert!(Local.open_agent(&words(&["/no/such/agent"])).await.is_err_and(|e| !e.may_pass()));
    }

    #[tokio::test]
    async fn a_push_goes_on_where_it_broke_off() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, b"0123456789").unwrap();
        std::fs::write(&to, b"0123").unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let remote = to.to_str().unwrap();
        Local.push(&from, 4, remote, &|n| seen.lock().unwrap().push(n)).await.unwrap();
        assert_eq!(
            (std::fs::read(&to).unwrap(), seen.into_inner().unwrap()),
            (b"0123456789".to_vec(), vec![10])
        );
        Local.push(&from, 0, remote, &|_| ()).await.unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"0123456789");
    }
}
