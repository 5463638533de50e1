// The tensor map of an array of `rows` x `cols`, of which TMA copies boxes. The driver makes it; it is asked for by
// name, so that nothing has to be linked with it.
template <class Map, class Number>
Map tensor_map(const Number *x, int rows, int cols, int box_rows, int box_cols, int swizzle) {
    static void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (!encode) {
#if CUDART_VERSION >= 12050
        OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
#else
        OK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &found));
#endif
    }
    CUtensorMap map;
    cuuint64_t dims[] = {(cuuint64_t)cols, (cuuint64_t)rows}, step[] = {cols * sizeof(Number)};
    cuuint32_t box[] = {(cuuint32_t)box_cols, (cuuint32_t)box_rows}, ones[] = {1, 1};
    auto kind = sizeof(Number) == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : sizeof(Number) == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                      : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    auto how = swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
               : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
               : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                               : CU_TENSOR_MAP_SWIZZLE_NONE;
    auto code = ((decltype(&cuTensorMapEncodeTiled))encode)(&map, kind, 2, (void *)x, dims, step, box, ones,
                                                            CU_TENSOR_MAP_INTERLEAVE_NONE, how,
                                                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    ok(code ? cudaErrorInvalidValue : cudaSuccess, "cuTensorMapEncodeTiled", __LINE__);
    Map res;
    memcpy(&res, &map, sizeof res);
    return res;
}
