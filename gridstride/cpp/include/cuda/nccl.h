#pragma once
#error "the emulator has no nccl.h (communication between GPUs): it needs GPUs"
