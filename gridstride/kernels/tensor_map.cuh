// Returns the tensor map of a row-major array of N axes, with which TMA copies boxes. The driver's function that fills
// in the map is looked up by name, so that the program need not link the driver's library.
template <class Map, class Elem, int N>
Map tensor_map(const Elem *x, const int (&sizes)[N], const int (&box_sizes)[N], int swizzle) {
    static void *encode = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (!encode) {
#if CUDART_VERSION >= 12050
        OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &result));
#else
        OK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &result));
#endif
    }
    CUtensorMap map;
    cuuint64_t dims[N], strides[N], size = sizeof(Elem);
    cuuint32_t box[N], element_strides[N];
    for (int i = 0; i < N; i++) {                      // the driver takes the innermost axis first
        dims[i] = sizes[N - 1 - i];
        box[i] = box_sizes[N - 1 - i];
        strides[i] = size *= dims[i];
        element_strides[i] = 1;
    }
    auto type = sizeof(Elem) == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : sizeof(Elem) == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                      : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    auto mode = swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
               : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
               : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                               : CU_TENSOR_MAP_SWIZZLE_NONE;
    auto code = ((decltype(&cuTensorMapEncodeTiled))encode)(&map, type, N, (void *)x, dims, strides, box,
                                                            element_strides,
                                                            CU_TENSOR_MAP_INTERLEAVE_NONE, mode,
                                                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    ok(code ? cudaErrorInvalidValue : cudaSuccess, "cuTensorMapEncodeTiled", __LINE__);
    Map res;
    memcpy(&res, &map, sizeof res);
    return res;
}

template <class Map, class Elem>
Map tensor_map(const Elem *x, int rows, int cols, int box_rows, int box_cols, int swizzle) {
    return tensor_map<Map>(x, {rows, cols}, {box_rows, box_cols}, swizzle);
}
