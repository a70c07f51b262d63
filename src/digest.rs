//! SHA-256 as this crate writes it: hex, of texts and of files.

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Size of a file in bytes, and its hash in hex.
///
/// # Errors
/// The system's.
#[cfg(any(feature = "host", feature = "llama"))]
pub fn of_file(path: &std::path::Path) -> std::io::Result<(u64, String)> {
    use sha2::{Digest, Sha256};
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((size, hex(&hash.finalize())));
        }
        hash.update(&buffer[..n]);
        size += n as u64;
    }
}
