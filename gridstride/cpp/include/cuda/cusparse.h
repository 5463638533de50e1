#pragma once
#error "the emulator has no cusparse.h (the sparse matrix library): call torch.sparse from Python, or run on a GPU"
