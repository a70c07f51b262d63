//! What host and agent say to each other. Wire types without logic, and the framing.
//!
//! Each message is one frame: a big-endian u32 length and that many bytes of JSON. The first frame each way is
//! a hello; a mismatch of versions is refused with both versions named.

mod frame;
mod message;
mod report;

pub use frame::{Duplex, FrameError, Link, LinkReader, LinkWriter, MAX_FRAME_BYTES};
pub use message::*;
pub use report::*;

/// The protocol version of this build. Raised with every change that an older peer could misread.
pub const PROTOCOL_VERSION: u32 = 1;
