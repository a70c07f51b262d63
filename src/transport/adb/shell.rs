//! Commands and streams on the device, through whichever of adbd's shell services it has.
//!
//! `shell,v2,raw` (Android 7 and later) keeps streams apart, is binary-safe and tells exit codes. Older daemons
//! have `exec`, a raw stream without either, and before that only a terminal, which is told to be raw. Exit
//! codes of both are echoed by the device's shell, never taken from adb. Formats: AOSP `shell_protocol.h`.

use super::server::send_request;
use crate::protocol::Duplex;
use crate::transport::{AgentLog, AgentStream, Output};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// Most a command may answer; a device cannot fill the host.
const MAX_OUTPUT: usize = 1 << 20;
/// Largest packet of shell v2 that is believed; adbd sends at most its own buffer, which is smaller.
const MAX_PACKET: usize = 1 << 20;
/// Bytes sent in one packet.
const CHUNK: usize = 32 << 10;
/// How long an agent may take to restore after its input was closed; closing the socket then hangs it up.
const GRACE: Duration = Duration::from_secs(20);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
const CLOSE_STDIN: u8 = 4;

const STATUS: &str = "opptune-status:";
const READY: &str = "opptune-ready";

/// A shell service of adbd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Framed, binary-safe, with exit codes.
    V2,
    /// Raw bytes, standard error among them.
    Exec,
    /// A terminal.
    Terminal,
}

impl Service {
    /// The services, best first.
    pub(super) const ALL: [Service; 3] = [Service::V2, Service::Exec, Service::Terminal];

    fn request(self, line: &str) -> String {
        match self {
            Service::V2 => format!("shell,v2,raw:{line}"),
            Service::Exec => format!("exec:{line}"),
            Service::Terminal => format!("shell:{line}"),
        }
    }

    /// Runs a command line to its end. `socket` is connected to the device.
    pub(super) async fn run(self, mut socket: TcpStream, line: &str) -> io::Result<Output> {
        if self == Service::V2 {
            send_request(&mut socket, &self.request(line)).await?;
            return collect(socket).await;
        }
        let line = format!("{line}; echo {STATUS}$?");
        send_request(&mut socket, &self.request(&line)).await?;
        let mut said = Vec::new();
        socket.take(MAX_OUTPUT as u64).read_to_end(&mut said).await?;
        echoed(&String::from_utf8_lossy(&said))
    }

    /// Starts a command line and connects to its standard input and output.
    pub(super) async fn open(self, mut socket: TcpStream, line: &str) -> io::Result<AgentStream> {
        let log = AgentLog::default();
        if self == Service::V2 {
            send_request(&mut socket, &self.request(line)).await?;
            let (near, far) = tokio::io::duplex(CHUNK * 2);
            tokio::spawn(pump(socket, far, log.clone()));
            return Ok(AgentStream { stream: Box::new(near), log, keep: Box::new(()) });
        }
        // Without a channel of its own, standard error would end up among the frames.
        let raw = if self == Service::Terminal { "stty raw -echo && " } else { "" };
        let line = format!("{raw}echo {READY} && exec {line} 2>/dev/null");
        send_request(&mut socket, &self.request(&line)).await?;
        await_ready(&mut socket).await?;
        let stream: Box<dyn Duplex> = Box::new(socket);
        Ok(AgentStream { stream, log, keep: Box::new(()) })
    }
}

/// The standard input of a command that is running over shell v2.
pub(super) struct Stdin(TcpStream);

impl Stdin {
    /// Starts a command line.
    pub(super) async fn open(mut socket: TcpStream, line: &str) -> io::Result<Self> {
        send_request(&mut socket, &Service::V2.request(line)).await?;
        Ok(Stdin(socket))
    }

    /// Gives it all that `source` has, and waits for its end. `progress` is told the bytes given.
    pub(super) async fn feed(
        &mut self,
        source: impl AsyncRead + Unpin,
        progress: impl Fn(u64),
    ) -> io::Result<Output> {
        let (read, mut write) = self.0.split();
        let send = async {
            match forward(source, &mut write, progress).await {
                // The answer comes on the other half.
                Ok(()) => std::future::pending().await,
                Err(e) => Err(e),
            }
        };
        tokio::select! { answer = collect(read) => answer, failed = send => failed }
    }
}

/// Reads packets to the exit code.
async fn collect(mut from: impl AsyncRead + Unpin) -> io::Result<Output> {
    let (mut stdout, mut stderr, mut packet) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match read_packet(&mut from, &mut packet).await? {
            STDOUT => stdout.append(&mut packet),
            STDERR => stderr.append(&mut packet),
            EXIT => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let status = packet.first().map(|&b| b.into());
                return Ok(Output { stdout: text(&stdout), stderr: text(&stderr), status });
            }
            _ => (),
        }
        if stdout.len() + stderr.len() > MAX_OUTPUT {
            return Err(invalid("the command says more than it ever should"));
        }
    }
}

/// Splits the echoed exit status from what an old daemon's command said.
fn echoed(said: &str) -> io::Result<Output> {
    let said = said.replace('\r', "");
    let status = said.rsplit_once(STATUS).and_then(|(out, code)| Some((out, code.trim().parse().ok()?)));
    let (stdout, status) = status.ok_or_else(|| invalid("the command did not come to its end"))?;
    Ok(Output { stdout: stdout.into(), stderr: String::new(), status: Some(status) })
}

async fn await_ready(socket: &mut TcpStream) -> io::Result<()> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        if line.len() > 256 {
            return Err(invalid("its shell says something else than it was told to"));
        }
        line.push(socket.read_u8().await?);
    }
    match String::from_utf8_lossy(&line).trim() {
        READY => Ok(()),
        other => {
            Err(invalid(format!("its shell answers: {}", crate::transport::log::printable(other.as_bytes()))))
        }
    }
}

/// Carries bytes between the caller's pipe and the device until the command ends, or until its grace is over
/// after the caller has closed the pipe.
async fn pump(socket: TcpStream, pipe: DuplexStream, log: AgentLog) {
    let (from_device, mut to_device) = socket.into_split();
    let (from_caller, to_caller) = tokio::io::split(pipe);
    let send = async {
        // A device that is gone shows on the receiving side.
        let _ = forward(from_caller, &mut to_device, |_| ()).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! { () = receive(from_device, to_caller, log) => (), () = send => () }
}

/// Sends packets of standard input, and then its end.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    progress: impl Fn(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut sent = 0;
    loop {
        let n = from.read(&mut buffer).await?;
        if n == 0 {
            return write_packet(to, CLOSE_STDIN, &[]).await;
        }
        write_packet(to, STDIN, &buffer[..n]).await?;
        sent += n as u64;
        progress(sent);
    }
}

/// Hands packets on until the command ends. The agent is heard out even when nobody listens any more.
async fn receive(mut from: OwnedReadHalf, mut to: WriteHalf<DuplexStream>, log: AgentLog) {
    let mut packet = Vec::new();
    let mut listening = true;
    while let Ok(kind) = read_packet(&mut from, &mut packet).await {
        match kind {
            STDOUT if listening => listening = to.write_all(&packet).await.is_ok(),
            STDERR => log.add(&packet),
            EXIT => break,
            _ => (),
        }
    }
}

async fn read_packet(from: &mut (impl AsyncRead + Unpin), packet: &mut Vec<u8>) -> io::Result<u8> {
    let kind = from.read_u8().await?;
    let length = from.read_u32_le().await? as usize;
    if length > MAX_PACKET {
        return Err(invalid(format!("a packet of {length} bytes")));
    }
    packet.resize(length, 0);
    from.read_exact(packet).await?;
    Ok(kind)
}

async fn write_packet(to: &mut (impl AsyncWrite + Unpin), kind: u8, body: &[u8]) -> io::Result<()> {
    let mut packet = Vec::with_capacity(5 + body.len());
    packet.push(kind);
    packet.extend((body.len() as u32).to_le_bytes());
    packet.extend(body);
    to.write_all(&packet).await
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_are_collected_and_bounded() {
        let mut bytes = Vec::new();
        for (kind, body) in [(STDOUT, &b"a\0\r\n"[..]), (STDERR, b"e"), (STDOUT, b"b"), (EXIT, &[7])] {
            write_packet(&mut bytes, kind, body).await.unwrap();
        }
        let output = collect(&bytes[..]).await.unwrap();
        assert_eq!(output, Output { stdout: "a\0\r\nb".into(), stderr: "e".into(), status: Some(7) });
        let cut = collect(&bytes[..bytes.len() - 1]).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert!(collect(&b"\x01\xff\xff\xff\xff"[..]).await.unwrap_err().to_string().contains("4294967295"));
        let endless = tokio::io::repeat(1);
        assert!(collect(endless).await.is_err());
    }

    #[test]
    fn echoed_statuses_are_the_last_thing_said() {
        let output = echoed("opptune-status:9\r\nx\r\nopptune-status:127\r\n").unwrap();
        assert_eq!(output.status, Some(127));
        assert_eq!(output.stdout, "opptune-status:9\nx\n");
        assert!(echoed("cut off in the middle").is_err());
        assert!(echoed("opptune-status:").is_err());
    }
}
