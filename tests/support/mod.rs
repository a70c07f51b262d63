//! A simulated device, mounted, for tests that want the production agent on real file errors and state that
//! outlives it. The device is a process of its own (examples/mount-twin.rs).

use opptune::profile::Profile;
use opptune::sysfs::RootedNodes;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest wait for anything; reached only when something is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A twin of every driver family.
pub const TWINS: [&str; 8] = [
    "twins/pixel-7",
    "twins/snapdragon-8-gen-2",
    "twins/mediatek-gpufreqv2",
    "twins/mediatek-gpufreqv1",
    "twins/exynos-2400",
    "twins/exynos-gpex",
    "twins/legacy-qualcomm",
    "twins/linux-host",
];

/// Whether this machine can mount one. Tests that cannot run say so and pass, but not where all have to run
/// (scripts/test.sh): there they fail.
pub fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists() && nix::unistd::geteuid().is_root();
    if !can {
        let why = "mounting a simulated device needs /dev/fuse and root";
        assert!(std::env::var_os("OPPTUNE_TEST_ALL").is_none(), "{why}");
        eprintln!("skipped: {why}");
    }
    can
}

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "waited {DEADLINE:?} until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A mounted device. Unmounted when dropped; if this process is killed, the device sees the end of its standard
/// input and unmounts itself.
pub struct Mounted {
    server: Child,
    dir: tempfile::TempDir,
}

impl Mounted {
    /// Mounts the device of a twin's profile (`twins/pixel-7`).
    pub fn new(profile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let mut server = Command::new(server())
            .arg(profile)
            .arg(dir.path().join("root"))
            .arg("--profile-out")
            .arg(dir.path().join("profile.toml"))
            .arg("--until-eof")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let mounted = Mounted { server, dir };
        assert!(ready.contains("is mounted on"), "{profile}: the device did not come up: {ready:?}");
        mounted
    }

    /// Where its node files are.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Its profile, as that of a device like any other.
    pub fn profile_file(&self) -> PathBuf {
        self.dir.path().join("profile.toml")
    }

    /// Its profile, read.
    pub fn profile(&self) -> Profile {
        opptune::profile::load(self.profile_file().to_str().unwrap()).unwrap()
    }

    /// Arguments that put an agent on it.
    pub fn agent_args(&self) -> [String; 2] {
        let state = self.dir.path().join("state");
        [format!("--root={}", self.root().display()), format!("--state-dir={}", state.display())]
    }

    /// Its node files, as the agent accesses them.
    pub fn nodes(&self) -> RootedNodes {
        RootedNodes::new(self.root(), Duration::from_secs(5))
    }

    /// Makes it misbehave; see `src/twin/control.rs` for the commands.
    pub fn tell(&self, command: &str) {
        fs::write(self.root().join("twin/control"), command).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.server.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        // A server that hangs or died without unmounting must not leave a mount behind.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(self.root()).stderr(Stdio::null()).status();
    }
}

/// The server's program, built once per test run: cargo does not build examples for a single test target.
fn server() -> &'static Path {
    static SERVER: OnceLock<PathBuf> = OnceLock::new();
    SERVER.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "mount-twin"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        // This program is target/PROFILE/deps/NAME.
        let own = std::env::current_exe().unwrap();
        own.parent().unwrap().parent().unwrap().join("examples/mount-twin")
    })
}
