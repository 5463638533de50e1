// a = x.packed_accessor32<float, 2>() passes the tensor x to a kernel by value; the kernel indexes it as a[i][j].
#pragma once
#include "tensor_class.h"

namespace torch {

// A view of N dimensions that does not own its sizes and strides
template <class T, size_t N, template <class> class Traits, class Index> class GenericAccessor {
protected:
    typename Traits<T>::PtrType pointer;
    const Index *sizes_, *strides_;
public:
    using PtrType = typename Traits<T>::PtrType;
    GRIDSTRIDE_HOST_DEVICE GenericAccessor(PtrType pointer, const Index *sizes, const Index *strides)
        : pointer(pointer), sizes_(sizes), strides_(strides) {}
    GRIDSTRIDE_HOST_DEVICE Index size(int d) const { return sizes_[d]; }
    GRIDSTRIDE_HOST_DEVICE Index stride(int d) const { return strides_[d]; }
    GRIDSTRIDE_HOST_DEVICE PtrType data() const { return pointer; }
    GRIDSTRIDE_HOST_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1) return (pointer[i * strides_[0]]);
        else return GenericAccessor<T, N - 1, Traits, Index>(pointer + i * strides_[0], sizes_ + 1, strides_ + 1);
    }
};
template <class T, size_t N> class TensorAccessor : public GenericAccessor<T, N, DefaultPtrTraits, int64_t> {
public:
    using GenericAccessor<T, N, DefaultPtrTraits, int64_t>::GenericAccessor;
    IntArrayRef sizes() const { return {this->sizes_, N}; }
    IntArrayRef strides() const { return {this->strides_, N}; }
};

template <class T, size_t N, template <class> class Traits, class Index> class GenericPackedTensorAccessor {
    typename Traits<T>::PtrType pointer;
    Index sizes_[N], strides_[N];
public:
    using PtrType = typename Traits<T>::PtrType;
    GenericPackedTensorAccessor(PtrType pointer, const int64_t *sizes, const int64_t *strides) : pointer(pointer) {
        for (size_t d = 0; d < N; d++) { sizes_[d] = Index(sizes[d]); strides_[d] = Index(strides[d]); }
    }
    GRIDSTRIDE_HOST_DEVICE Index size(int d) const { return sizes_[d]; }
    GRIDSTRIDE_HOST_DEVICE Index stride(int d) const { return strides_[d]; }
    GRIDSTRIDE_HOST_DEVICE PtrType data() const { return pointer; }
    GRIDSTRIDE_HOST_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1) return (pointer[i * strides_[0]]);
        else return GenericAccessor<T, N - 1, Traits, Index>(pointer + i * strides_[0], sizes_ + 1, strides_ + 1);
    }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;

template <class T, size_t N> TensorAccessor<T, N> Tensor::accessor() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
}
template <class T, size_t N, template <class> class Traits, class Index>
GenericPackedTensorAccessor<T, N, Traits, Index> Tensor::packed_accessor() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    TORCH_CHECK(sizeof(Index) == 8 || numel() <= INT32_MAX,
        "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return {data_ptr<T>(), sizes().data(), strides().data()};
}
}
