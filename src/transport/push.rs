//! Agent and model on the device: one place, by content hash, resumed when broken off, verified before use.
//!
//! `PLACE/SHA256/NAME` is complete and verified; `NAME.part` beside it is what has arrived so far.

use super::words::is_plain;
use super::{Output, Transport, TransportError};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Where Android lets its shell user keep programs.
const ANDROID_PLACE: &str = "/data/local/tmp/opptune";
/// Below the home directory of everything else.
const HOME_PLACE: &str = ".cache/opptune/device";
/// For users without a usable home directory.
const HOMELESS_PLACE: &str = "/var/tmp/opptune";
/// Left free beside a pushed file: journals and samples must still fit.
const SPARE_BYTES: u64 = 16 << 20;
/// Pushes that may break off one after the other without a byte arriving.
const FRUITLESS_TRIES: u32 = 4;
/// First wait after one; doubled each time.
const BACK_OFF: Duration = Duration::from_millis(500);
const QUICK: Duration = Duration::from_secs(20);
/// For the device to hash a whole model.
const HASHING: Duration = Duration::from_secs(600);

/// What the device says of itself before anything is pushed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// `uname -m`.
    pub arch: String,
    /// The one directory that things are pushed to.
    pub place: String,
    /// Where an agent may keep its lock and what is to be restored (see `agent::default_state_dir`).
    pub state_dirs: Vec<String>,
}

/// A file to push.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// Where it is here.
    pub file: &'a Path,
    /// Whether it is to be run.
    pub program: bool,
}

/// A file that is on the device, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its path there.
    pub path: String,
    /// SHA-256, hex.
    pub sha256: String,
    /// Bytes that had to be sent; 0 when it was there.
    pub sent: u64,
}

/// Told name, bytes on the device, and bytes in all: first before anything is sent. Not told of what was there.
pub type OnProgress<'a> = dyn Fn(&str, u64, u64) + Send + Sync + 'a;

/// Looks at the device.
///
/// # Errors
/// [`TransportError`] of the link.
pub async fn survey(link: &dyn Transport) -> Result<Survey, TransportError> {
    let script = "uname -m; test -d /data/local/tmp && echo android || echo unix; echo \"$HOME\"";
    let said = link.run(&["sh", "-c", script], QUICK).await?.stdout;
    let mut lines = said.lines().map(str::trim);
    let arch = lines.next().filter(|a| is_plain(a)).unwrap_or("unknown").to_owned();
    let android = lines.next() == Some("android");
    let home = lines.next().filter(|home| is_usable_home(home));
    Ok(Survey { arch, place: place_for(android, home), state_dirs: state_dirs_for(android, home) })
}

fn is_usable_home(home: &str) -> bool {
    home.len() > 1 && home.starts_with('/') && is_plain(home) && !home.contains("..")
}

fn place_for(android: bool, home: Option<&str>) -> String {
    match (android, home) {
        (true, _) => ANDROID_PLACE.into(),
        (false, Some(home)) => format!("{home}/{HOME_PLACE}"),
        (false, None) => HOMELESS_PLACE.into(),
    }
}

fn state_dirs_for(android: bool, home: Option<&str>) -> Vec<String> {
    if android {
        return vec![format!("{ANDROID_PLACE}/state")];
    }
    let of_user = home.map(|home| format!("{home}/.local/state/opptune"));
    std::iter::once("/var/lib/opptune".to_owned()).chain(of_user).collect()
}

/// Sees to it that the device has a file, sending only what is missing.
///
/// # Errors
/// [`TransportError::Refused`] when there is no room or no way to verify; [`TransportError::Lost`] when the link
/// broke [`FRUITLESS_TRIES`] times in a row without progress. What arrived stays for the next time.
pub async fn place(
    link: &dyn Transport,
    survey: &Survey,
    parcel: Parcel<'_>,
    progress: &OnProgress<'_>,
) -> Result<Placed, TransportError> {
    let push = Push::prepare(link, survey, parcel).await?;
    let mut sent = 0;
    let (mut fruitless, mut wait) = (0, BACK_OFF);
    loop {
        let before = sent;
        match push.attempt(&mut sent, progress).await {
            Ok(()) => return Ok(Placed { path: push.path, sha256: push.sha256, sent }),
            Err(e) if !e.may_pass() => return Err(e),
            Err(_) if sent > before => (fruitless, wait) = (0, BACK_OFF),
            Err(e) if fruitless + 1 == FRUITLESS_TRIES => return Err(e),
            Err(_) => (fruitless, wait) = (fruitless + 1, wait * 2),
        }
        tokio::time::sleep(wait).await;
    }
}

/// Removes everything. The caller has made sure that nobody uses it.
///
/// # Errors
/// [`TransportError`].
pub(super) async fn remove(link: &dyn Transport, survey: &Survey) -> Result<(), TransportError> {
    let ours = std::iter::once(&survey.place).chain(&survey.state_dirs).map(String::as_str);
    let argv: Vec<&str> = ["rm", "-rf"].into_iter().chain(ours).collect();
    succeeded(link, "removing its files", link.run_as_agent(&argv, HASHING).await?).map(drop)
}

/// One file on its way.
struct Push<'a> {
    link: &'a dyn Transport,
    parcel: Parcel<'a>,
    name: String,
    size: u64,
    sha256: String,
    dir: String,
    path: String,
}

impl<'a> Push<'a> {
    async fn prepare(
        link: &'a dyn Transport,
        survey: &Survey,
        parcel: Parcel<'a>,
    ) -> Result<Self, TransportError> {
        let file = parcel.file.to_owned();
        let (size, sha256) = tokio::task::spawn_blocking(move || hash_file(&file))
            .await
            .map_err(std::io::Error::other)
            .flatten()
            .map_err(|e| {
                let doing = format!("reading {}", parcel.file.display());
                TransportError::refused("this machine", doing, e, "Give the path of a file that can be read")
            })?;
        let name = parcel.file.file_name().and_then(|n| n.to_str()).filter(|n| is_plain(n)).unwrap_or("file");
        let dir = format!("{}/{sha256}", survey.place);
        let path = format!("{dir}/{name}");
        Ok(Push { link, parcel, name: name.into(), size, sha256, dir, path })
    }

    fn part(&self) -> String {
        format!("{}.part", self.path)
    }

    /// One try; adds the bytes it sent to `sent`.
    async fn attempt(&self, sent: &mut u64, progress: &OnProgress<'_>) -> Result<(), TransportError> {
        if self.hash_there(&self.path).await?.as_deref() == Some(&self.sha256) {
            return Ok(());
        }
        self.make_dir().await?;
        let offset = self.arrived().await?;
        self.check_space(self.size - offset).await?;
        self.send(offset, sent, progress).await?;
        self.accept().await
    }

    async fn send(
        &self,
        offset: u64,
        sent: &mut u64,
        progress: &OnProgress<'_>,
    ) -> Result<(), TransportError> {
        if offset == self.size && self.size > 0 {
            return Ok(());
        }
        progress(&self.name, offset, self.size);
        let reached = std::sync::atomic::AtomicU64::new(offset);
        let note = |at| {
            reached.store(at, std::sync::atomic::Ordering::Relaxed);
            progress(&self.name, at, self.size);
        };
        let answer = self.link.push(self.parcel.file, offset, &self.part(), &note).await;
        *sent += reached.into_inner() - offset;
        answer
    }

    /// Puts the part in its place if it is what it should be, and drops it if not.
    async fn accept(&self) -> Result<(), TransportError> {
        let part = self.part();
        let there = self.hash_there(&part).await?;
        if there.as_deref() != Some(&self.sha256) {
            self.shell("dropping a damaged copy", &["rm", "-f", &part]).await?;
            let why = "what arrived is not what was sent; it was dropped";
            return Err(TransportError::lost(&self.link.device(), format!("copying {}", self.name), why));
        }
        let mode = if self.parcel.program { "700" } else { "600" };
        self.shell("protecting a copy", &["chmod", mode, &part]).await?;
        self.shell("finishing a copy", &["mv", "-f", &part, &self.path]).await.map(drop)
    }

    async fn make_dir(&self) -> Result<(), TransportError> {
        let doing = "making a directory of its own";
        self.shell(doing, &["mkdir", "-p", &self.dir]).await?;
        // Fails when the place is somebody else's, who could then swap the program that is run from it.
        let place = self.dir.rsplit_once('/').map_or("", |(place, _)| place);
        self.shell(doing, &["chmod", "700", place, &self.dir]).await.map(drop)
    }

    /// Bytes of the part; one that is too long cannot be ours and is begun anew.
    async fn arrived(&self) -> Result<u64, TransportError> {
        let said = self.link.run(&["wc", "-c", &self.part()], QUICK).await?;
        let size = first_number(&said.stdout).filter(|_| said.status == Some(0));
        Ok(size.filter(|&n| n <= self.size).unwrap_or(0))
    }

    async fn check_space(&self, needed: u64) -> Result<(), TransportError> {
        let said = self.link.run(&["df", "-P", "-k", &self.dir], QUICK).await?;
        // A df that answers in another form (before Android 6) is not held against the device.
        let Some(free) = free_bytes(&said.stdout) else { return Ok(()) };
        if free >= needed + SPARE_BYTES {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let why = format!("{} MiB are free, {} MiB are needed", mib(free), mib(needed + SPARE_BYTES));
        let next = format!("Make room, for example: opptune clean --device {}", self.link.device());
        Err(TransportError::refused(&self.link.device(), format!("copying {}", self.name), why, next))
    }

    /// SHA-256 of a file on the device; `None` when it is not there.
    async fn hash_there(&self, path: &str) -> Result<Option<String>, TransportError> {
        if self.link.run(&["test", "-f", path], QUICK).await?.status != Some(0) {
            return Ok(None);
        }
        for tool in [&["sha256sum"][..], &["toybox", "sha256sum"], &["busybox", "sha256sum"]] {
            let said = self.link.run(&[tool, &[path]].concat(), HASHING).await?;
            if let Some(hash) = parse_hash(&said.stdout) {
                return Ok(Some(hash));
            }
        }
        let next = "Install toybox or busybox with sha256sum on it";
        Err(TransportError::refused(&self.link.device(), "verifying a copy", "it has no sha256sum", next))
    }

    async fn shell(&self, doing: &str, argv: &[&str]) -> Result<Output, TransportError> {
        succeeded(self.link, doing, self.link.run(argv, QUICK).await?)
    }
}

fn succeeded(link: &dyn Transport, doing: &str, output: Output) -> Result<Output, TransportError> {
    if output.status == Some(0) {
        return Ok(output);
    }
    let why = super::log::printable(format!("{} {}", output.stdout, output.stderr).trim().as_bytes());
    let next = format!("Look at the device with: opptune doctor --device {}", link.device());
    Err(TransportError::refused(&link.device(), doing, why, next))
}

fn hash_file(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((size, hash.finalize().iter().map(|b| format!("{b:02x}")).collect()));
        }
        hash.update(&buffer[..n]);
        size += n as u64;
    }
}

/// The hash in sha256sum's answer.
fn parse_hash(said: &str) -> Option<String> {
    let hash = said.split_whitespace().next()?;
    (hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())).then(|| hash.to_ascii_lowercase())
}

fn first_number(said: &str) -> Option<u64> {
    said.split_whitespace().next()?.parse().ok()
}

/// The fourth column of the last line of `df -P -k`.
fn free_bytes(said: &str) -> Option<u64> {
    let kib: u64 = said.lines().last()?.split_whitespace().nth(3)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_cannot_choose_a_place_that_is_not_ours() {
        assert_eq!(place_for(true, Some("/home/me")), "/data/local/tmp/opptune");
        assert_eq!(place_for(false, Some("/home/me")), "/home/me/.cache/opptune/device");
        assert_eq!(place_for(false, None), "/var/tmp/opptune");
        assert!(is_usable_home("/root"));
        for home in ["", "/", "relative", "/a b", "/a/../..", "/$(reboot)", "/a;b"] {
            assert!(!is_usable_home(home), "{home}");
        }
    }

    #[test]
    fn answers_of_every_userland_are_read() {
        let posix =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 100 40 60 40% /data\n";
        assert_eq!(free_bytes(posix), Some(60 * 1024));
        assert_eq!(free_bytes("Filesystem Size Used Free Blksize\n/data 5G 1G 4G 4096"), None);
        assert_eq!(first_number("  17 /a/b\n"), Some(17));
        let hash = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
        assert_eq!(parse_hash(&format!("{hash}  /a/b\n")).as_deref(), Some(hash));
        assert_eq!(parse_hash("sha256sum: not found"), None);
    }
}
