//! What an engine of llama.cpp says of itself: build, model file, quantisation, cache.

use super::{EngineError, EngineInfo};
use crate::digest;
use llama_cpp_2::model::LlamaModel;
use std::io;
use std::path::Path;

/// The bindings, as Cargo.toml pins them; they carry the llama.cpp sources.
const BINDINGS: &str = "llama-cpp-2 0.1.160";

/// Bindings, devices and the CPU features that llama.cpp was compiled for.
pub fn build() -> String {
    let devices = llama_cpp_2::list_llama_ggml_backend_devices();
    let devices: Vec<_> = devices.iter().map(|d| format!("{} ({})", d.name, d.description.trim())).collect();
    format!("{BINDINGS}; {}; {}", devices.join(", "), cpu_features())
}

fn cpu_features() -> String {
    // SAFETY: the call has no preconditions; it returns a static, NUL-terminated buffer that the next call
    // rewrites with the same text, and the text is copied before anything else can call it.
    let text = unsafe { std::ffi::CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()) };
    let text = text.to_string_lossy();
    let on = text.split('|').filter_map(|pair| pair.trim().strip_suffix(" = 1"));
    on.map(|name| name.trim_start_matches("CPU : ")).collect::<Vec<_>>().join(" ")
}

pub fn model_file(file: &Path, model: &LlamaModel) -> Result<EngineInfo, EngineError> {
    let unreadable = |e: io::Error| EngineError::Rejected(format!("cannot read {}: {e}", file.display()));
    let real = file.canonicalize().map_err(unreadable)?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
    let (model_bytes, model_sha256) = digest::of_file(&real).map_err(unreadable)?;
    Ok(EngineInfo {
        model: name.unwrap_or_default(),
        model_sha256,
        model_bytes,
        quantisation: quantisation(&model.meta_val_str("general.file_type").unwrap_or_default()),
        ..EngineInfo::default()
    })
}

/// Names of `general.file_type` (llama.h, `llama_ftype`).
fn quantisation(file_type: &str) -> String {
    let known = [
        ("0", "F32"),
        ("1", "F16"),
        ("2", "Q4_0"),
        ("3", "Q4_1"),
        ("7", "Q8_0"),
        ("8", "Q5_0"),
        ("9", "Q5_1"),
        ("10", "Q2_K"),
        ("11", "Q3_K_S"),
        ("12", "Q3_K_M"),
        ("13", "Q3_K_L"),
        ("14", "Q4_K_S"),
        ("15", "Q4_K_M"),
        ("16", "Q5_K_S"),
        ("17", "Q5_K_M"),
        ("18", "Q6_K"),
        ("25", "IQ4_NL"),
        ("30", "IQ4_XS"),
        ("32", "BF16"),
    ];
    let name = known.iter().find(|(number, _)| *number == file_type);
    name.map_or_else(|| format!("file type {file_type}"), |(_, name)| (*name).into())
}

/// Keys and values of every layer, 16 bits each (llama.cpp's default cache type).
pub fn kv_cache_bytes(model: &LlamaModel, context: u32) -> u64 {
    let heads = u64::from(model.n_head().max(1));
    let width = model.n_embd() as u64 / heads * u64::from(model.n_head_kv());
    2 * 2 * u64::from(context) * u64::from(model.n_layer()) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_types_have_their_names() {
        assert_eq!(quantisation("3"), "Q4_1");
        assert_eq!(quantisation("99"), "file type 99");
    }
}
