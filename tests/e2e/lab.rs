//! The lab's daemons, started for one test and stopped with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A port of 127.0.0.1 that is free and stays so: no other test takes it while this is kept, whichever process it
/// runs in, and it is below those that the kernel gives to outgoing connections.
struct Port {
    number: u16,
    _taken: File,
}

impl Port {
    fn free() -> Self {
        let dir = std::env::temp_dir().join(format!("opptune-test-ports-{}", nix::unistd::getuid()));
        std::fs::create_dir_all(&dir).unwrap();
        let take = |number: u16| {
            let taken = File::create(dir.join(number.to_string())).unwrap();
            let free = taken.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok();
            free.then_some(Port { number, _taken: taken })
        };
        (20_000..32_000).find_map(take).expect("a free port")
    }
}

/// A daemon of `scripts/lab` on ports of its own, stopped when dropped.
pub struct Daemon {
    script: &'static str,
    ports: Vec<(&'static str, Port)>,
    /// What `up` printed for its users.
    pub says: BTreeMap<String, String>,
}

impl Daemon {
    /// adbd, behind an adb server.
    pub fn adbd() -> Self {
        Daemon::up("adbd.sh", &["OPPTUNE_LAB_ADBD_PORT", "OPPTUNE_LAB_ADB_SERVER_PORT"])
    }

    /// sshd.
    #[cfg(feature = "ssh")]
    pub fn sshd() -> Self {
        Daemon::up("sshd.sh", &["OPPTUNE_LAB_SSHD_PORT"])
    }

    fn up(script: &'static str, ports: &[&'static str]) -> Self {
        let ports = ports.iter().map(|name| (*name, Port::free())).collect();
        let mut daemon = Daemon { script, ports, says: BTreeMap::new() };
        daemon.start();
        daemon
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.ports[0].1.number
    }

    /// Starts it, again after `kill`.
    pub fn start(&mut self) {
        let said = self.tell("up");
        let pairs = said.lines().filter_map(|line| line.split_once('='));
        self.says = pairs.map(|(k, v)| (k.into(), v.into())).collect();
    }

    /// Runs one command of its script.
    pub fn tell(&self, command: &str) -> String {
        let env: Vec<_> = self.ports.iter().map(|(name, port)| (*name, port.number.to_string())).collect();
        script(self.script, &[command], &env)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tell("down");
    }
}

/// A proxy in front of a port that can be told to break.
pub struct Proxy(Port);

impl Proxy {
    pub fn up(target: u16) -> Self {
        let proxy = Proxy(Port::free());
        proxy.tell("up", &[&target.to_string()]);
        proxy
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.0.number
    }

    /// Its target's serial for adb.
    pub fn serial(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    pub fn tell(&self, command: &str, rest: &[&str]) -> String {
        let port = self.port().to_string();
        script("cut.sh", &[&[command, port.as_str()], rest].concat(), &[])
    }

    /// Bytes that went to the target so far.
    pub fn bytes_up(&self) -> u64 {
        self.tell("count", &[]).split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tell("down", &[]);
    }
}

fn script(name: &str, args: &[&str], env: &[(&str, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/lab").join(name);
    let mut command = Command::new(&path);
    command.args(args).envs(env.iter().map(|(k, v)| (k, v))).stdin(Stdio::null());
    let out = command.output().unwrap_or_else(|e| panic!("cannot run {}: {e}", path.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "the lab's `{name} {}` failed: {}", args.join(" "), text(&out.stderr));
    text(&out.stdout)
}

/// A directory for one test, under a path that is plain enough for a device's shell.
pub fn scratch(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Waits for a condition.
pub async fn until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bytes that no shortcut can guess.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()
}
