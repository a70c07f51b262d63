//! The adb server's side of things: requests, the device list, starting the server.
//!
//! The wire protocol is `SERVICES.TXT` and `OVERVIEW.TXT` of AOSP's adb: four hex digits of length and the
//! request; `OKAY` or `FAIL` with a message come back. Own code because the crates tried either did not carry
//! exit codes and separate streams (`adb_client`) or block without deadlines (`mozdevice`, `forensic-adb`).

use super::devices::{Listed, State, parse_list};
use crate::transport::TransportError;
use std::env::{self, VarError};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// For anything the server answers by itself.
const QUICK: Duration = Duration::from_secs(10);
/// For starting the server and for reaching devices over the network.
const SLOW: Duration = Duration::from_secs(30);
const DEFAULT_PORT: u16 = 5037;

/// Where the adb server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
}

impl Default for Server {
    fn default() -> Self {
        Server::new("127.0.0.1", DEFAULT_PORT)
    }
}

impl Server {
    /// A server at an address.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Server { host: host.into(), port }
    }

    /// Where adb itself would look: `ADB_SERVER_SOCKET`, then `ANDROID_ADB_SERVER_ADDRESS` and
    /// `ANDROID_ADB_SERVER_PORT`, then 127.0.0.1:5037.
    ///
    /// # Errors
    /// [`TransportError::Refused`] when a variable is set to something that cannot be used.
    pub fn from_env() -> Result<Self, TransportError> {
        Self::from_variables(|name| env::var(name)).map_err(|(name, value)| {
            let next = "Set it to tcp:HOST:PORT (ADB_SERVER_SOCKET) or to a number (ANDROID_ADB_SERVER_PORT)";
            TransportError::refused("adb", "finding the adb server", format!("{name} is `{value}`"), next)
        })
    }

    fn from_variables(
        variable: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Self, (&'static str, String)> {
        let mut server = Server::default();
        if let Ok(socket) = variable("ADB_SERVER_SOCKET") {
            return parse_socket(&socket).ok_or(("ADB_SERVER_SOCKET", socket));
        }
        if let Ok(host) = variable("ANDROID_ADB_SERVER_ADDRESS") {
            server.host = host;
        }
        if let Ok(port) = variable("ANDROID_ADB_SERVER_PORT") {
            server.port = port.parse().map_err(|_| ("ANDROID_ADB_SERVER_PORT", port))?;
        }
        Ok(server)
    }

    /// Every device the server knows, with its state.
    ///
    /// # Errors
    /// [`TransportError`] when there is no server and none can be started.
    pub async fn devices(&self) -> Result<Vec<Listed>, TransportError> {
        let list = self.ask("host:devices-l").await?;
        Ok(parse_list(&list))
    }

    /// State of one device; `None` when the server does not know it.
    pub(super) async fn state(&self, serial: &str) -> Result<Option<State>, TransportError> {
        Ok(self.devices().await?.into_iter().find(|d| d.serial == serial).map(|d| d.state))
    }

    /// Makes the server connect (again) to a device on the network.
    pub(super) async fn reconnect(&self, serial: &str) -> Result<(), TransportError> {
        // The server holds on to a dead connection until it is told to drop it; there may be none to drop.
        let _ = self.ask(&format!("host:disconnect:{serial}")).await;
        self.ask_within(&format!("host:connect:{serial}"), SLOW).await.map(drop)
    }

    /// One request that the server answers with a text.
    pub(super) async fn ask(&self, request: &str) -> Result<String, TransportError> {
        self.ask_within(request, QUICK).await
    }

    async fn ask_within(&self, request: &str, limit: Duration) -> Result<String, TransportError> {
        let mut socket = self.connect().await?;
        let doing = || format!("asking the adb server for {request}");
        within("adb", limit, doing, async {
            send_request(&mut socket, request).await?;
            read_text(&mut socket).await
        })
        .await
    }

    /// A connection to the server, which is started when there is none.
    pub(super) async fn connect(&self) -> Result<TcpStream, TransportError> {
        match self.dial().await {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && self.is_here() => {
                self.start().await?;
                self.dial().await
            }
            answer => answer,
        }
        .map_err(|e| {
            let why = format!("no adb server answers at {}:{}: {e}", self.host, self.port);
            TransportError::unavailable("adb", why, "Start it with: adb start-server")
        })
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let socket =
            tokio::time::timeout(QUICK, TcpStream::connect((self.host.as_str(), self.port))).await??;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    fn is_here(&self) -> bool {
        matches!(self.host.as_str(), "127.0.0.1" | "localhost" | "::1")
    }

    async fn start(&self) -> Result<(), TransportError> {
        let mut command = tokio::process::Command::new("adb");
        command.args(["-P", &self.port.to_string(), "start-server"]).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match tokio::time::timeout(SLOW, command.status()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("`adb start-server` ended with {status}")),
            Ok(Err(e)) => Err(format!("`adb` cannot be run: {e}")),
            Err(_) => Err(format!("`adb start-server` did not end within {SLOW:?}")),
        }
        .map_err(|why| {
            TransportError::unavailable("adb", why, "Install adb (Android platform tools), then: adb devices")
        })
    }
}

fn parse_socket(socket: &str) -> Option<Server> {
    let place = socket.strip_prefix("tcp:")?;
    let (host, port) = place.rsplit_once(':').unwrap_or(("127.0.0.1", place));
    Some(Server::new(host, port.parse().ok()?))
}

/// Sends a request and reads `OKAY`; `FAIL` becomes an error of kind `Other` with the server's message.
pub(super) async fn send_request(socket: &mut TcpStream, request: &str) -> io::Result<()> {
    socket.write_all(format!("{:04x}{request}", request.len()).as_bytes()).await?;
    let mut status = [0; 4];
    socket.read_exact(&mut status).await?;
    match &status {
        b"OKAY" => Ok(()),
        b"FAIL" => Err(io::Error::other(read_text(socket).await?)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not the answer of an adb server")),
    }
}

/// A text of at most 65535 bytes, after its length in hex.
async fn read_text(socket: &mut TcpStream) -> io::Result<String> {
    let mut digits = [0; 4];
    socket.read_exact(&mut digits).await?;
    let length = std::str::from_utf8(&digits).ok().and_then(|d| u16::from_str_radix(d, 16).ok());
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "bad length from adb"))?;
    let mut text = vec![0; length.into()];
    socket.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs one exchange with a deadline; both failing and being late mean that the link is lost.
pub(super) async fn within<T>(
    device: &str,
    limit: Duration,
    doing: impl Fn() -> String,
    exchange: impl Future<Output = io::Result<T>>,
) -> Result<T, TransportError> {
    match tokio::time::timeout(limit, exchange).await {
        Ok(answer) => answer.map_err(|e| TransportError::lost(device, doing(), e)),
        Err(_) => Err(TransportError::lost(device, doing(), format!("no answer within {limit:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Server, (&'static str, String)> {
        Server::from_variables(|name| {
            let found = pairs.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| v.to_string()).ok_or(VarError::NotPresent)
        })
    }

    #[test]
    fn the_server_is_where_adb_would_look() {
        assert_eq!(with(&[]).unwrap(), Server::new("127.0.0.1", 5037));
        assert_eq!(with(&[("ANDROID_ADB_SERVER_PORT", "15037")]).unwrap(), Server::new("127.0.0.1", 15037));
        let socket = [("ADB_SERVER_SOCKET", "tcp:lab:99"), ("ANDROID_ADB_SERVER_PORT", "1")];
        assert_eq!(with(&socket).unwrap(), Server::new("lab", 99));
        assert_eq!(with(&[("ADB_SERVER_SOCKET", "tcp:7")]).unwrap(), Server::new("127.0.0.1", 7));
        assert!(with(&[("ADB_SERVER_SOCKET", "localabstract:x")]).is_err());
        assert!(with(&[("ANDROID_ADB_SERVER_PORT", "x")]).is_err());
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_or_nonsense_is_an_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let (silent, _) = listener.accept().await.unwrap();
            let (mut rude, _) = listener.accept().await.unwrap();
            rude.write_all(b"HTTP/1.1 400").await.unwrap();
            std::future::pending::<()>().await;
            drop(silent);
        });
        let limit = Duration::from_millis(50);
        let late = server.ask_within("host:version", limit).await.unwrap_err();
        assert!(late.may_pass() && late.to_string().contains("no answer within 50ms"), "{late}");
        let rude = server.ask("host:version").await.unwrap_err();
        assert!(rude.to_string().contains("not the answer of an adb server"), "{rude}");
    }
}
