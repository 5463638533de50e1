#pragma once
int backtrace(void **frames, int size);
