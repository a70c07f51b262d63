//! Node files as real drivers serve them: one file per driver family, one implementation for the in-process
//! twin and the mounted one.
//!
//! A driver is a table of attributes, each with a `show` and a `store`, as in the kernel. Failures are errno
//! values. Sources of the semantics: the driver sources named in each family's file.

mod bus_dcvs;
mod cgroup;
mod cooling;
mod core_ctl;
mod cpufreq;
mod devfreq;
mod ged;
mod gpex;
mod gpufreq_v1;
mod gpufreq_v2;
mod kgsl;
mod mif;
mod msm_performance;
mod pixel_mali;
mod plain;
mod platform;
mod power_supply;
mod thermal;
pub(super) mod tree;
pub(super) mod wiring;

use super::domain::Domain;
use super::soc::Soc;
use std::fmt::Write;

/// Text of a node, or an errno.
pub type Shown = Result<String, i32>;
/// A write that succeeded, or an errno.
pub type Stored = Result<(), i32>;

/// One driver instance behind a directory of nodes.
pub trait Driver: Send {
    /// Its attributes: path below the instance's directory, and mode.
    fn attrs(&self) -> Vec<(String, u16)>;
    /// Reads an attribute, by its index.
    fn show(&self, attr: usize, soc: &Soc) -> Shown;
    /// Writes an attribute, by its index.
    fn store(&mut self, attr: usize, soc: &mut Soc, text: &str) -> Stored;
    /// The domain it drives and the range that the requests made through it amount to.
    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        None
    }
    /// What a foreign tuning daemon does to a pin: opens the range again.
    fn meddle(&mut self, _soc: &Soc) {}
    /// Whether its directory cannot be removed now.
    fn busy(&self, _soc: &Soc) -> bool {
        false
    }
}

type Show<D> = fn(&D, &Soc) -> Shown;
type Store<D> = fn(&mut D, &mut Soc, &str) -> Stored;

/// One attribute of a family: name, and what reading and writing it do.
pub struct Attr<D> {
    name: &'static str,
    show: Option<Show<D>>,
    store: Option<Store<D>>,
}

const fn ro<D>(name: &'static str, show: Show<D>) -> Attr<D> {
    Attr { name, show: Some(show), store: None }
}

const fn rw<D>(name: &'static str, show: Show<D>, store: Store<D>) -> Attr<D> {
    Attr { name, show: Some(show), store: Some(store) }
}

impl<D> Attr<D> {
    fn mode(&self) -> u16 {
        match (self.show.is_some(), self.store.is_some()) {
            (true, true) => 0o644,
            (true, false) => 0o444,
            (false, _) => 0o200,
        }
    }
}

/// A family whose attributes are a fixed table.
trait Family: Send + Sized + 'static {
    /// The table.
    fn table(&self) -> &'static [Attr<Self>];
    /// Whether this instance has the attribute.
    fn has(&self, _name: &str) -> bool {
        true
    }
    /// As [`Driver::range`].
    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        None
    }
    /// As [`Driver::meddle`].
    fn meddle(&mut self, _soc: &Soc) {}
}

impl<F: Family> Driver for F {
    fn attrs(&self) -> Vec<(String, u16)> {
        // An attribute the instance does not have keeps its index, with a mode that is never served.
        let mode = |attr: &Attr<F>| if self.has(attr.name) { attr.mode() } else { 0 };
        self.table().iter().map(|attr| (attr.name.to_owned(), mode(attr))).collect()
    }

    fn show(&self, attr: usize, soc: &Soc) -> Shown {
        let attr = self.table().get(attr).ok_or(libc::ENOENT)?;
        attr.show.ok_or(libc::EACCES)?(self, soc)
    }

    fn store(&mut self, attr: usize, soc: &mut Soc, text: &str) -> Stored {
        let attr = self.table().get(attr).ok_or(libc::ENOENT)?;
        attr.store.ok_or(libc::EACCES)?(self, soc, text)
    }

    fn range(&self, soc: &Soc) -> Option<(usize, (u64, u64))> {
        Family::range(self, soc)
    }

    fn meddle(&mut self, soc: &Soc) {
        Family::meddle(self, soc);
    }
}

/// A number and a newline.
fn line(value: impl std::fmt::Display) -> Shown {
    // Room for any number: most reads of a trial are of clocks and bounds.
    let mut text = String::with_capacity(24);
    let _ = writeln!(text, "{value}");
    Ok(text)
}

/// Parses as `kstrtoull` does: a whole decimal number, a trailing newline allowed; all else is EINVAL.
fn whole<T: std::str::FromStr>(text: &str) -> Result<T, i32> {
    let digits = text.strip_suffix('\n').unwrap_or(text);
    digits.parse().map_err(|_| libc::EINVAL)
}

/// Parses as `sscanf("%lu")` does: leading digits, trailing junk ignored; no digits are EINVAL.
fn leading(text: &str) -> Result<u64, i32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().map_err(|_| libc::EINVAL)
}

/// Numbers with a space behind each, and a newline: as most drivers print their tables.
fn list<T: std::fmt::Display>(values: impl Iterator<Item = T>) -> Shown {
    let mut text = String::new();
    for value in values {
        let _ = write!(text, "{value} ");
    }
    text.push('\n');
    Ok(text)
}

/// `value ticks` lines over the operating points.
fn residency(domain: &Domain, tick_ns: u64) -> Shown {
    let mut text = String::with_capacity(domain.table.len() * 16);
    for (value, time) in domain.table.iter().zip(&domain.time_ns) {
        let _ = writeln!(text, "{value} {}", time / tick_ns);
    }
    Ok(text)
}

/// The word between brackets in a list of words, the others as they are: `always_on [adaptive]`.
fn bracketed(words: &[&str], active: usize) -> Shown {
    let show = |(index, word): (usize, &&str)| match index == active {
        true => format!("[{word}]"),
        false => (*word).to_owned(),
    };
    Ok(words.iter().enumerate().map(show).collect::<Vec<_>>().join(" ") + "\n")
}

/// Which of `words` the text is; EINVAL if none.
fn one_of(words: &[&str], text: &str) -> Result<usize, i32> {
    words.iter().position(|word| *word == text.trim_end()).ok_or(libc::EINVAL)
}

#[cfg(test)]
mod tests;
