#pragma once
#error "the emulator has no cuda_device_runtime_api.h (kernels that launch kernels): launch them from the host"
