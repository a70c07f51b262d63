//! Mounts a simulated device as a file system, so that the production agent runs on it unmodified, on real file
//! errors, and the device's state outlives the agent:
//!
//!     cargo run --example mount-twin -- twins/pixel-7 /mnt/twin --profile-out twin.toml
//!     opptune-agent --root /mnt/twin                       # with twin.toml as the profile, engine kind `spin`
//!     echo "fight cpu-big 50" > /mnt/twin/twin/control     # `cat` it for what else it can do
//!
//! The device lives in real time. It is unmounted by Ctrl-C, SIGTERM, or, with `--until-eof`, the end of standard
//! input. Needs /dev/fuse and the right to mount; no libfuse.

use anyhow::{Context, Result, bail};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use opptune::clock::Clock;
use opptune::profile::{self, Accuracy, Profile};
use opptune::twin::{Entry, Twin};
use opptune::units::BootNanos;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// Nothing is cached: every access sees the device as it is now.
const TTL: Duration = Duration::ZERO;

/// Paths by inode number and back. Numbers are never used again.
struct Inodes {
    paths: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Inodes {
    fn new() -> Self {
        // Number 1 is the root; 0 is none.
        Inodes { paths: vec![String::new(), String::new()], numbers: HashMap::from([(String::new(), 1)]) }
    }

    fn number(&mut self, path: &str) -> INodeNo {
        if let Some(&number) = self.numbers.get(path) {
            return INodeNo(number);
        }
        let number = self.paths.len() as u64;
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        INodeNo(number)
    }

    fn path(&self, number: INodeNo) -> Result<String, Errno> {
        self.paths.get(u64::from(number) as usize).cloned().ok_or(Errno::ENOENT)
    }
}

/// A twin as a file system.
struct Mounted {
    twin: Twin,
    clock: Arc<dyn Clock>,
    mounted: (Instant, BootNanos),
    inodes: Mutex<Inodes>,
    /// Text of a file that is being read, as it was at the first read of the open file.
    reading: Mutex<(u64, HashMap<u64, String>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(number: i32) -> Errno {
    Errno::from_i32(number)
}

impl Mounted {
    fn new(twin: Twin) -> Self {
        let clock = twin.device().clock;
        let mounted = (Instant::now(), clock.now());
        Mounted {
            twin,
            clock,
            mounted,
            inodes: Mutex::new(Inodes::new()),
            reading: Mutex::new((0, HashMap::new())),
        }
    }

    /// Lets the device live up to now.
    fn catch_up(&self) {
        let (then, booted) = self.mounted;
        let now = booted.plus(then.elapsed());
        self.clock.sleep(now.since(self.clock.now()));
    }

    fn path(&self, inode: INodeNo) -> Result<String, Errno> {
        lock(&self.inodes).path(inode)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<String, Errno> {
        let parent = self.path(parent)?;
        Ok(format!("{parent}/{}", name.to_str().ok_or(Errno::ENOENT)?))
    }

    fn attr(&self, path: &str) -> Result<FileAttr, Errno> {
        let (kind, perm) = match self.twin.entry(path).ok_or(Errno::ENOENT)? {
            Entry::Directory => (FileType::Directory, 0o755),
            Entry::File(mode) => (FileType::RegularFile, mode),
        };
        Ok(FileAttr {
            ino: lock(&self.inodes).number(path),
            // As in sysfs, the size says nothing about the text.
            size: 4096,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// sysfs refuses to open what an attribute does not offer, to root too.
    fn opened(&self, inode: INodeNo, flags: OpenFlags) -> Result<FileHandle, Errno> {
        let Entry::File(mode) = self.twin.entry(&self.path(inode)?).ok_or(Errno::ENOENT)? else {
            return Err(Errno::EISDIR);
        };
        let wanted = match flags.acc_mode() {
            OpenAccMode::O_RDONLY => 0o444,
            OpenAccMode::O_WRONLY => 0o222,
            OpenAccMode::O_RDWR => 0o666,
        };
        let offered = [0o444, 0o222].iter().all(|bits| wanted & bits == 0 || mode & bits != 0);
        if !offered {
            return Err(Errno::EACCES);
        }
        let (last, _) = &mut *lock(&self.reading);
        *last += 1;
        Ok(FileHandle(*last))
    }

    fn text(&self, inode: INodeNo, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let (_, texts) = &mut *lock(&self.reading);
        let number = u64::from(handle);
        if offset == 0 || !texts.contains_key(&number) {
            self.catch_up();
            texts.insert(number, self.twin.read(&self.path(inode)?).map_err(errno)?);
        }
        let bytes = texts.get(&number).map_or(&[][..], |text| text.as_bytes());
        let from = bytes.len().min(offset as usize);
        let to = bytes.len().min(from + size as usize);
        Ok(bytes[from..to].to_vec())
    }

    fn store(&self, inode: INodeNo, data: &[u8]) -> Result<u32, Errno> {
        self.catch_up();
        let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
        self.twin.write(&self.path(inode)?, text).map_err(errno)?;
        Ok(data.len() as u32)
    }

    fn entries(&self, inode: INodeNo) -> Result<Vec<(INodeNo, FileType, String)>, Errno> {
        let dir = self.path(inode)?;
        let mut all =
            vec![(inode, FileType::Directory, ".".into()), (inode, FileType::Directory, "..".into())];
        for name in self.twin.list(&dir).map_err(errno)? {
            let attr = self.attr(&format!("{dir}/{name}"))?;
            all.push((attr.ino, attr.kind, name));
        }
        Ok(all)
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.child(parent, name).and_then(|path| self.attr(&path)) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(ino).and_then(|path| self.attr(&path)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    /// Truncation, on opening for writing, and changed modes succeed and do nothing, as in sysfs.
    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(req, ino, fh, reply);
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino, flags) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.reading).1.remove(&u64::from(fh));
        reply.ok();
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.text(ino, fh, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.store(ino, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = match self.entries(ino) {
            Ok(entries) => entries,
            Err(error) => return reply.error(error),
        };
        for (at, (number, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(number, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn mkdir(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            self.twin.make_dir(&path).map_err(errno)?;
            self.attr(&path)
        });
        match made {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.child(parent, name).and_then(|path| self.twin.remove_dir(&path).map_err(errno)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

/// The command line.
#[derive(Debug, Default)]
struct Args {
    profile: String,
    mountpoint: PathBuf,
    profile_out: Option<PathBuf>,
    until_eof: bool,
}

fn args() -> Result<Args> {
    use lexopt::prelude::*;
    let mut args = Args::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("profile-out") => args.profile_out = Some(parser.value()?.into()),
            Long("until-eof") => args.until_eof = true,
            Value(value) if args.profile.is_empty() => args.profile = value.string()?,
            Value(value) if args.mountpoint.as_os_str().is_empty() => args.mountpoint = value.into(),
            other => return Err(other.unexpected().into()),
        }
    }
    if args.mountpoint.as_os_str().is_empty() {
        bail!("usage: mount-twin PROFILE MOUNTPOINT [--profile-out FILE] [--until-eof]");
    }
    Ok(args)
}

/// The profile of the mounted device: a device like any other, so that the agent reads its nodes.
fn without_twin(profile: &Profile) -> Profile {
    Profile { twin: None, accuracy: Accuracy::FromSources, ..profile.clone() }
}

async fn asked_to_end(until_eof: bool) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let end_of_input = async {
        let mut byte = [0];
        while until_eof && tokio::io::stdin().read(&mut byte).await.is_ok_and(|read| read > 0) {}
        if !until_eof {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        () = end_of_input => {}
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = args()?;
    let profile = profile::load(&args.profile)?;
    let twin = Twin::new(&profile, 1)?;
    if let Some(file) = &args.profile_out {
        std::fs::write(file, toml::to_string(&without_twin(&profile))?)?;
    }
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("opptune-twin".into())];
    let session = fuser::spawn_mount(Mounted::new(twin), &args.mountpoint, &config).with_context(|| {
        format!("cannot mount on {}; it needs /dev/fuse and root", args.mountpoint.display())
    })?;
    println!("{} is mounted on {}", args.profile, args.mountpoint.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(asked_to_end(args.until_eof));
    session.umount_and_join()?;
    // A read of standard input that waits would hold the runtime's end up.
    runtime.shutdown_background();
    asked
}
