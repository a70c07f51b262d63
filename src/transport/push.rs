//! Agent and model on the device: one place, by content hash, resumed when broken off, verified before use.
//!
//! `PLACE/SHA256/NAME` is complete and verified; `NAME.HOLDER.part` beside it is what has arrived so far of one push.
//! Every push has a part of its own, so that two at once cannot spoil each other's; one that goes on with what
//! another has left takes that part by renaming it.

use super::words::is_plain;
use super::{Output, Transport, TransportError, sha256};
use crate::digest;
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
/// A part that does not grow for this long was left by a push that is over.
const STILL: Duration = Duration::from_secs(1);

/// What the device says of itself before anything is pushed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// `uname -m`.
    pub arch: String,
    /// What its CPUs can do, as the kernel names it (arm64: `asimddp`, `i8mm`, ...).
    pub cpu_features: Vec<String>,
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
    let script = "uname -m; test -d /data/local/tmp && echo android || echo unix; echo \"$HOME\"; \
                  grep -m 1 Features /proc/cpuinfo";
    let said = link.run(&["sh", "-c", script], QUICK).await?.stdout;
    let mut lines = said.lines().map(str::trim);
    let arch = lines.next().filter(|a| is_plain(a)).unwrap_or("unknown").to_owned();
    let android = lines.next() == Some("android");
    let home = lines.next().filter(|home| is_usable_home(home));
    let cpu_features = lines.next().unwrap_or_default().split_whitespace().map(Into::into).collect();
    let (place, state_dirs) = (place_for(android, home), state_dirs_for(android, home));
    Ok(Survey { arch, cpu_features, place, state_dirs })
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
    let mut push = Push::prepare(link, survey, parcel).await?;
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
    link.run_as_agent(&argv, sha256::PATIENCE)
        .await?
        .succeeded(&link.device(), "removing its files")
        .map(drop)
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
    /// What has arrived of this push.
    part: String,
    /// Whether parts of earlier pushes were looked for.
    looked: bool,
}

impl<'a> Push<'a> {
    async fn prepare(
        link: &'a dyn Transport,
        survey: &Survey,
        parcel: Parcel<'a>,
    ) -> Result<Self, TransportError> {
        let file = parcel.file.to_owned();
        let (size, sha256) = tokio::task::spawn_blocking(move || digest::of_file(&file))
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
        let part = format!("{path}.{:016x}.part", rand::random::<u64>());
        Ok(Push { link, parcel, name: name.into(), size, sha256, dir, path, part, looked: false })
    }

    /// One try; adds the bytes it sent to `sent`.
    async fn attempt(&mut self, sent: &mut u64, progress: &OnProgress<'_>) -> Result<(), TransportError> {
        if self.is_whole(&self.path).await? {
            return Ok(());
        }
        self.make_dir().await?;
        if !self.looked {
            self.take_over().await?;
            self.looked = true;
        }
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
        let answer = self.link.push(self.parcel.file, offset, &self.part, &note).await;
        *sent += reached.into_inner() - offset;
        answer
    }

    /// Goes on with the longest part that another push has left, if nobody adds to it any more.
    async fn take_over(&self) -> Result<(), TransportError> {
        let Some(found) = self.longest_part().await? else { return Ok(()) };
        tokio::time::sleep(STILL).await;
        if self.longest_part().await?.as_ref() == Some(&found) {
            // Fails when another push was quicker; this one then begins anew.
            self.link.run(&["mv", "-f", &found.1, &self.part], QUICK).await?;
        }
        Ok(())
    }

    /// The longest part there is, with its size.
    async fn longest_part(&self) -> Result<Option<(u64, String)>, TransportError> {
        let script = format!("wc -c {}/*.part", self.dir);
        let said = self.link.run(&["sh", "-c", &script], QUICK).await?.stdout;
        Ok(said.lines().filter_map(|line| sized_part(line, &self.dir)).max())
    }

    /// Puts the part in its place if it is what it should be, and drops it if not.
    async fn accept(&self) -> Result<(), TransportError> {
        if !self.is_whole(&self.part).await? {
            self.shell("dropping a damaged copy", &["rm", "-f", &self.part]).await?;
            let why = "what arrived is not what was sent; it was dropped";
            return Err(TransportError::lost(&self.link.device(), format!("copying {}", self.name), why));
        }
        match self.finish().await {
            // Another push of the same file was quicker, and has removed this one's part.
            Err(TransportError::Refused { .. }) if self.is_whole(&self.path).await? => Ok(()),
            finished => finished,
        }
    }

    async fn finish(&self) -> Result<(), TransportError> {
        let mode = if self.parcel.program { "700" } else { "600" };
        self.shell("protecting a copy", &["chmod", mode, &self.part]).await?;
        self.shell("finishing a copy", &["mv", "-f", &self.part, &self.path]).await?;
        // Whoever still sends one of these finds the whole file when it is done.
        let rest = format!("rm -f {0}/*.part {0}/*.piece", self.dir);
        self.shell("removing parts", &["sh", "-c", &rest]).await.map(drop)
    }

    async fn is_whole(&self, path: &str) -> Result<bool, TransportError> {
        Ok(sha256::there(self.link, path).await?.as_deref() == Some(&self.sha256))
    }

    async fn make_dir(&self) -> Result<(), TransportError> {
        let place = self.dir.rsplit_once('/').map_or("", |(place, _)| place);
        // The second fails when the place is somebody else's, who could then swap the program that is run from it.
        for argv in [&["mkdir", "-p", &self.dir][..], &["chmod", "700", place, &self.dir]] {
            let said = self.link.run(argv, QUICK).await?;
            if said.status != Some(0) {
                return Err(self.not_ours(place, &said));
            }
        }
        Ok(())
    }

    /// After `adb root`, say, the place belongs to root; without it, it is out of reach.
    fn not_ours(&self, place: &str, said: &Output) -> TransportError {
        let device = self.link.device();
        let why = super::log::printable(format!("{} {}", said.stdout, said.stderr).trim().as_bytes());
        let next =
            format!("If an earlier session with other rights left {place}: opptune clean --device {device}");
        TransportError::refused(&device, "making a directory of its own", why, next)
    }

    /// Bytes of the part; one that is too long cannot be ours and is begun anew.
    async fn arrived(&self) -> Result<u64, TransportError> {
        let said = self.link.run(&["wc", "-c", &self.part], QUICK).await?;
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

    async fn shell(&self, doing: &str, argv: &[&str]) -> Result<Output, TransportError> {
        self.link.run(argv, QUICK).await?.succeeded(&self.link.device(), doing)
    }
}

/// Size and path in a line of `wc -c`, if it is about a part in `dir`.
fn sized_part(line: &str, dir: &str) -> Option<(u64, String)> {
    let (size, path) = line.trim().split_once(' ')?;
    let name = path.strip_prefix(dir)?.strip_prefix('/')?;
    let ours = name.ends_with(".part") && is_plain(name) && !name.contains('/');
    ours.then(|| Some((size.parse().ok()?, path.to_owned()))).flatten()
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
    }

    #[test]
    fn only_parts_are_taken_over() {
        let part = Some((17, "/p/h/agent.0f.part".to_owned()));
        assert_eq!(sized_part("  17 /p/h/agent.0f.part", "/p/h"), part);
        for line in [
            "",
            "total",
            "17 total",
            "x /p/h/a.part",
            "17 /p/h/agent",
            "17 /p/h/../x.part",
            "17 /p/h/a b.part",
        ] {
            assert_eq!(sized_part(line, "/p/h"), None, "{line}");
        }
    }
}
