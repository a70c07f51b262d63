//! Files through adbd's sync service (AOSP `SYNC.TXT`): whole files, chunk by chunk.

use super::server::send_request;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Largest chunk of the protocol.
const MAX_CHUNK: usize = 64 << 10;
/// Longest silence while a file is on its way; slow links are allowed, stalled ones are not.
const STALL: Duration = Duration::from_secs(30);

/// Writes `source` to `remote`, replacing it. `progress` is told the bytes sent.
pub(super) async fn send(
    mut socket: TcpStream,
    remote: &str,
    mut source: impl AsyncRead + Unpin,
    progress: impl Fn(u64),
) -> io::Result<()> {
    alive(send_request(&mut socket, "sync:")).await?;
    // A regular file, readable by its owner only.
    let target = format!("{remote},{}", 0o100_600);
    block(&mut socket, b"SEND", target.as_bytes()).await?;
    let mut buffer = vec![0; MAX_CHUNK];
    let mut sent = 0;
    loop {
        let n = source.read(&mut buffer).await?;
        if n == 0 {
            break;
        }
        alive(block(&mut socket, b"DATA", &buffer[..n])).await?;
        sent += n as u64;
        progress(sent);
    }
    socket.write_all(&header(b"DONE", 0)).await?;
    match alive(read_header(&mut socket)).await? {
        (id, _) if &id == b"OKAY" => Ok(()),
        other => Err(refusal(&mut socket, other).await),
    }
}

/// Reads `remote` into `target`.
pub(super) async fn receive(
    mut socket: TcpStream,
    remote: &str,
    target: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    alive(send_request(&mut socket, "sync:")).await?;
    block(&mut socket, b"RECV", remote.as_bytes()).await?;
    let mut buffer = vec![0; MAX_CHUNK];
    loop {
        match alive(read_header(&mut socket)).await? {
            (id, length) if &id == b"DATA" && length <= MAX_CHUNK => {
                alive(async { socket.read_exact(&mut buffer[..length]).await.map(drop) }).await?;
                target.write_all(&buffer[..length]).await?;
            }
            (id, _) if &id == b"DONE" => return target.flush().await,
            other => return Err(refusal(&mut socket, other).await),
        }
    }
}

fn header(id: &[u8; 4], length: u32) -> [u8; 8] {
    let [a, b, c, d] = length.to_le_bytes();
    [id[0], id[1], id[2], id[3], a, b, c, d]
}

async fn block(socket: &mut TcpStream, id: &[u8; 4], body: &[u8]) -> io::Result<()> {
    socket.write_all(&[&header(id, body.len() as u32)[..], body].concat()).await
}

async fn read_header(socket: &mut TcpStream) -> io::Result<([u8; 4], usize)> {
    let mut id = [0; 4];
    socket.read_exact(&mut id).await?;
    Ok((id, socket.read_u32_le().await? as usize))
}

/// The message of a `FAIL`, or what else is wrong with the answer.
async fn refusal(socket: &mut TcpStream, (id, length): ([u8; 4], usize)) -> io::Error {
    let mut message = vec![0; length.min(1024)];
    if &id != b"FAIL" || alive(async { socket.read_exact(&mut message).await.map(drop) }).await.is_err() {
        return io::Error::new(io::ErrorKind::InvalidData, "not an answer of adb's sync service");
    }
    io::Error::other(crate::transport::log::printable(&message))
}

async fn alive<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let stalled = |_| io::Error::new(io::ErrorKind::TimedOut, format!("nothing moved for {STALL:?}"));
    tokio::time::timeout(STALL, step).await.map_err(stalled)?
}
