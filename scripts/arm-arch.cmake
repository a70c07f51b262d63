# Read by llama.cpp's build through CMAKE_PROJECT_INCLUDE (see build-agent.sh). Its Rust wrapper pins aarch64 Linux
# builds to armv8-a, without the dot-product instructions that most of the work is done with.
set(GGML_CPU_ARM_ARCH "$ENV{OPPTUNE_ARM_ARCH}" CACHE STRING "" FORCE)
