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
        let Some(line) = way.wrap("id -u") else { return Ok(false) };
        match self.shell(&line, ASK).await {
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
        let service = self.service().await?;
        let socket = self.device_socket().await?;
        within(&self.device(), deadline, || format!("running `{line}`"), service.run(socket, line)).await
    }

    fn line(&self, argv: &[&str]) -> Result<String, TransportError> {
        command_line(argv).ok_or_else(|| self.unspeakable(&argv.join(" ")))
    }

    async fn root_line(&self, argv: &[&str]) -> Result<String, TransportError> {
        let line = self.line(argv)?;
        self.root().await?.wrap(&line).ok_or_else(|| self.unspeakable(&line))
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
