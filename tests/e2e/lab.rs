//! The lab's daemons, started for one test and stopped with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon of `scripts/lab`, stopped when dropped.
pub struct Daemon {
    script: &'static str,
    ports: Vec<(&'static str, String)>,
    /// What `up` printed for its users.
    pub says: BTreeMap<String, String>,
}

impl Daemon {
    /// adbd on `port` behind an adb server on the port after it. Each test has ports of its own.
    pub fn adbd(port: u16) -> Self {
        let server = (port + 1).to_string();
        let ports =
            vec![("OPPTUNE_LAB_ADBD_PORT", port.to_string()), ("OPPTUNE_LAB_ADB_SERVER_PORT", server)];
        Daemon::up("adbd.sh", ports)
    }

    /// sshd on `port`.
    #[cfg(feature = "ssh")]
    pub fn sshd(port: u16) -> Self {
        Daemon::up("sshd.sh", vec![("OPPTUNE_LAB_SSHD_PORT", port.to_string())])
    }

    fn up(script: &'static str, ports: Vec<(&'static str, String)>) -> Self {
        let mut daemon = Daemon { script, ports, says: BTreeMap::new() };
        daemon.start();
        daemon
    }

    /// Starts it, again after `kill`.
    pub fn start(&mut self) {
        let said = self.tell("up");
        let pairs = said.lines().filter_map(|line| line.split_once('='));
        self.says = pairs.map(|(k, v)| (k.into(), v.into())).collect();
    }

    /// Runs one command of its script.
    pub fn tell(&self, command: &str) -> String {
        script(self.script, &[command], &self.ports)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.tell("down");
    }
}

/// A proxy in front of `target` that can be told to break.
pub struct Proxy(pub u16);

impl Proxy {
    pub fn up(listen: u16, target: u16) -> Self {
        script("cut.sh", &["up", &listen.to_string(), &target.to_string()], &[]);
        Proxy(listen)
    }

    pub fn tell(&self, command: &str, rest: &[&str]) -> String {
        let port = self.0.to_string();
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
