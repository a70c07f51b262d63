//! Android devices, through the adb server.

mod devices;
mod files;
mod server;
mod shell;
mod sync;

pub use super::root::Root;
pub use devices::{Listed, State};
pub use server::Server;
pub use shell::Service;

use super::words::command_line;
use super::{AgentStream, Output, Transport, TransportError};
use async_trait::async_trait;
use server::{send_request, within};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

/// For adbd to answer something that needs no work.
const QUICK: Duration = Duration::from_secs(15);
/// For a device that is there to run `true`.
const ALIVE: Duration = Duration::from_secs(5);
/// For a person to allow root on the phone's screen.
const ASK: Duration = Duration::from_secs(30);
/// For adbd to be back after it was asked to restart as root.
const RESTART: Duration = Duration::from_secs(30);

/// One device behind an adb server. What was found out about it is remembered.
pub struct Adb {
    server: Server,
    serial: String,
    service: OnceCell<Service>,
    root: OnceCell<Root>,
}

impl Adb {
    /// The device with this serial, or the only one there is. `ANDROID_SERIAL` counts as naming it.
    ///
    /// # Errors
    /// [`TransportError`] when there is no server, no device, or more than one.
    pub async fn find(server: Server, serial: Option<&str>) -> Result<Self, TransportError> {
        let from_env = std::env::var("ANDROID_SERIAL").ok();
        let wanted = serial.or(from_env.as_deref());
        let listed = if wanted.is_some() { Vec::new() } else { server.devices().await? };
        let serial = devices::choose(&listed, wanted)?;
        Ok(Adb { server, serial, service: OnceCell::new(), root: OnceCell::new() })
    }

    /// The same, with a shell service that is already known instead of the best the device has.
    #[must_use]
    pub fn with_service(self, service: Service) -> Self {
        Adb { service: OnceCell::new_with(Some(service)), ..self }
    }

    /// How to become root on it.
    ///
    /// # Errors
    /// [`TransportError::Refused`] when no way works; [`TransportError`] when the link fails.
    pub async fn root(&self) -> Result<Root, TransportError> {
        self.root.get_or_try_init(|| self.find_root()).await.copied()
    }

    async fn find_root(&self) -> Result<Root, TransportError> {
        for way in Root::ANDROID {
            if self.is_root_by(way).await? {
                return Ok(way);
            }
        }
        self.restart_as_root().await?;
        if self.is_root_by(Root::Already).await? {
            return Ok(Root::Already);
        }
        let why = "neither adbd itself, su -c, su 0, su root nor `adb root` gives root";
        let next = "Root the device (Magisk) or use a userdebug build, and allow the shell root when it asks";
        Err(TransportError::refused(&self.device(), "becoming root", why, next))
    }

    async fn is_root_by(&self, way: Root) -> Result<bool, TransportError> {
        match self.shell(&way.wrap("id -u"), ASK).await {
            Ok(output) => Ok(Root::is_root(&output.stdout)),
            // A `su` that waits for a person who is not there.
            Err(TransportError::Lost { .. }) if way != Root::Already => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// `adb root`. A production build answers that it cannot; that is not an error here.
    async fn restart_as_root(&self) -> Result<(), TransportError> {
        let mut socket = self.device_socket().await?;
        let device = self.device();
        let answer = within(&device, QUICK, || "asking adbd to be root".into(), async {
            send_request(&mut socket, "root:").await?;
            let mut text = String::new();
            socket.take(1024).read_to_string(&mut text).await?;
            Ok(text)
        });
        match answer.await {
            Ok(text) if text.contains("restarting") => self.wait_until_back().await,
            _ => Ok(()),
        }
    }

    async fn wait_until_back(&self) -> Result<(), TransportError> {
        let end = Instant::now() + RESTART;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            match self.shell("id -u", QUICK).await {
                Ok(output) if Root::is_root(&output.stdout) => return Ok(()),
                Ok(_) | Err(_) if Instant::now() < end => (),
                answer => return answer.map(drop),
            }
        }
    }

    /// The best shell service adbd has.
    async fn service(&self) -> Result<Service, TransportError> {
        self.service.get_or_try_init(|| self.find_service()).await.copied()
    }

    async fn find_service(&self) -> Result<Service, TransportError> {
        self.device_socket().await?;
        let features = self.server.ask(&format!("host-serial:{}:features", self.serial)).await?;
        if features.split(',').any(|f| f.trim() == "shell_v2") {
            return Ok(Service::V2);
        }
        for service in &Service::ALL[1..] {
            let socket = self.device_socket().await?;
            if let Ok(Ok(output)) = tokio::time::timeout(QUICK, service.run(socket, "echo works")).await
                && output.stdout.trim() == "works"
            {
                return Ok(*service);
            }
        }
        let next = "Restart it: adb kill-server; adb devices";
        Err(TransportError::refused(&self.device(), "opening a shell", "adbd has none that works", next))
    }

    /// A connection to adbd. A device on the network is connected again when the server has lost it.
    async fn device_socket(&self) -> Result<TcpStream, TransportError> {
        let first = self.try_device_socket().await;
        if first.is_ok() || !self.serial.contains(':') {
            return first;
        }
        self.server.reconnect(&self.serial).await?;
        self.try_device_socket().await
    }

    async fn try_device_socket(&self) -> Result<TcpStream, TransportError> {
        let mut socket = self.server.connect().await?;
        let request = format!("host:transport:{}", self.serial);
        let answer = tokio::time::timeout(QUICK, send_request(&mut socket, &request)).await;
        match answer {
            Ok(Ok(())) => Ok(socket),
            Ok(Err(e)) => Err(self.why_not(&e).await),
            Err(_) => {
                Err(TransportError::lost(&self.device(), "reaching it", format!("silent for {QUICK:?}")))
            }
        }
    }

    /// Why the server does not connect to the device: by its state, else by what the server says.
    async fn why_not(&self, said: &io::Error) -> TransportError {
        let state = match self.server.state(&self.serial).await {
            Ok(state) => state,
            Err(e) => return e,
        };
        let (why, next) = state.as_ref().and_then(State::problem).unwrap_or_else(|| {
            let next = if self.serial.contains(':') {
                "Look whether it is on and reachable; then: adb devices"
            } else {
                "Plug it in and turn on USB debugging; then: adb devices"
            };
            (said.to_string(), next)
        });
        TransportError::unavailable(&self.device(), why, next)
    }

    async fn shell(&self, line: &str, deadline: Duration) -> Result<Output, TransportError> {
        let answer = self.command(line, deadline).await;
        if matches!(answer, Err(TransportError::Lost { .. })) && self.serial.contains(':') {
            self.drop_if_dead(deadline.min(ALIVE)).await;
        }
        answer
    }

    async fn command(&self, line: &str, deadline: Duration) -> Result<Output, TransportError> {
        let service = self.service().await?;
        let socket = self.device_socket().await?;
        within(&self.device(), deadline, || format!("running `{line}`"), service.run(socket, line)).await
    }

    /// A device on the network that was reset says nothing: the server keeps the old connection for minutes and lets
    /// every request wait on it. One that is merely slow answers `true` and is left alone.
    async fn drop_if_dead(&self, limit: Duration) {
        if let Err(TransportError::Lost { .. }) = self.command("true", limit).await {
            // The next request says what is wrong if this does not help.
            let _ = self.server.reconnect(&self.serial).await;
        }
    }

    fn line(&self, argv: &[&str]) -> Result<String, TransportError> {
        command_line(argv).ok_or_else(|| self.unspeakable(&argv.join(" ")))
    }

    async fn root_line(&self, argv: &[&str]) -> Result<String, TransportError> {
        let line = self.line(argv)?;
        Ok(self.root().await?.wrap(&line))
    }

    fn unspeakable(&self, line: &str) -> TransportError {
        let why = "it has characters that are not passed to a device's shell";
        let next = "Use paths of letters, digits and `._-/` only";
        TransportError::refused(&self.device(), format!("running `{line}`"), why, next)
    }
}

#[async_trait]
impl Transport for Adb {
    fn device(&self) -> String {
        format!("adb:{}", self.serial)
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        let words: Vec<_> = argv.iter().map(String::as_str).collect();
        let line = self.root_line(&words).await?;
        let service = self.service().await?;
        let socket = self.device_socket().await?;
        within(&self.device(), QUICK, || "starting the agent".into(), service.open(socket, &line)).await
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        self.shell(&self.line(argv)?, deadline).await
    }

    async fn run_as_agent(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        let line = self.root_line(argv).await?;
        self.shell(&line, deadline).await
    }

    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        self.push_file(local, offset, remote, sent).await
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        self.pull_file(remote, local).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// An adb server whose connection to the device is dead until it is told to connect again.
    async fn server_with_a_dead_connection() -> (Server, Arc<AtomicBool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
        let connected = Arc::new(AtomicBool::new(false));
        let shared = connected.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, shared.clone()));
            }
        });
        (server, connected)
    }

    async fn serve(mut socket: TcpStream, connected: Arc<AtomicBool>) {
        while let Some(request) = request(&mut socket).await {
            if request.starts_with("shell") && !connected.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            socket.write_all(b"OKAY").await.unwrap();
            if request.starts_with("shell") {
                // Exit code 0: packet 3 of one byte.
                return socket.write_all(&[3, 1, 0, 0, 0, 0]).await.unwrap();
            }
            if request.contains("connect:") {
                connected.store(request.starts_with("host:connect"), SeqCst);
                socket.write_all(b"0000").await.unwrap();
            }
        }
    }

    async fn request(socket: &mut TcpStream) -> Option<String> {
        let mut digits = [0; 4];
        socket.read_exact(&mut digits).await.ok()?;
        let length = usize::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
        let mut text = vec![0; length];
        socket.read_exact(&mut text).await.ok()?;
        String::from_utf8(text).ok()
    }

    #[tokio::test]
    async fn a_dead_connection_over_the_network_is_made_anew() {
        let (server, connected) = server_with_a_dead_connection().await;
        let adb = Adb::find(server, Some("10.0.0.9:5555")).await.unwrap().with_service(Service::V2);
        let late = adb.shell("id -u", Duration::from_millis(50)).await.unwrap_err();
        assert!(late.to_string().contains("no answer within 50ms"), "{late}");
        assert!(connected.load(SeqCst));
        assert_eq!(adb.shell("id -u", QUICK).await.unwrap().status, Some(0));
    }
}
